"""The settings of a broker or controller, read from `server.properties` under Kafka's names.

    settings = Settings.from_properties(properties.parse(data, "conf/server.properties"))
    settings.log_segment_bytes                     # 1073741824
    Settings.log_segment_bytes.doc                 # what it means

Values come in layers, the later wins: the declared default, the properties file, the cluster-wide dynamic configs, this
broker's dynamic configs. `with_dynamic` makes the Settings with the upper two; `describe` (in config.describe) tells
which layer a value comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.config.broker.quotas import DROPPED
from penstock.config.broker.settings import BrokerSettings
from penstock.config.crosscheck import cross_check
from penstock.config.known import KNOWN
from penstock.config.listeners import Endpoint, Voter
from penstock.config.nearest import did_you_mean
from penstock.config.prefixed import PREFIX, Prefixed, read_prefixed
from penstock.config.principal_builder import KAFKA_BUILDER
from penstock.config.properties import Properties, where
from penstock.config.sasl import Sasl, SaslReader
from penstock.config.setting import Setting
from penstock.config.topic import TopicConfig
from penstock.config.without_meaning import check_ignored
from penstock.errors import ConfigError, ConfigErrors

SETTING_NAME = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)+|^listeners\b")
OWN_PREFIX = "penstock."
FREE_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.")
"""Names under these are free in Kafka: they belong to a plug-in."""


class Settings(BrokerSettings):
    """All settings of a node, resolved and checked. Immutable; attributes are named as the properties, with `_`.

    `given` holds the text of every entry of the properties file, `dynamic_default` and `dynamic_broker` those of the
    dynamic configs. `warnings` are sentences to log once at start. `ignored` are the names known to Kafka that mean
    nothing here, to be listed once at start.
    """

    given: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    dynamic_broker: Mapping[str, str]
    warnings: tuple[str, ...]
    ignored: tuple[str, ...]
    topic_defaults: TopicConfig
    listener_endpoints: tuple[Endpoint, ...]
    advertised_endpoints: tuple[Endpoint, ...]
    controller_endpoints: tuple[Endpoint, ...]
    inter_broker_listener: str | None
    voters: tuple[Voter, ...]
    security_protocols: Mapping[str, str]
    prefixed: Prefixed
    sasl: Sasl
    dialled_listeners: tuple[str, ...] = ()
    """Listeners of others that this node dials, besides those of its own cluster."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, strict: bool = False) -> Settings:
        """Reads and cross-checks the entries of a properties file (or any mapping of names to text).

        An unknown name is a warning with the nearest known one; with `strict`, and under `penstock.`, it is an error.
        Raises ConfigError, with the file and line when `properties` knows them; ConfigErrors when several are wrong.
        """
        return cls.build(properties, {}, {}, strict=strict)

    @classmethod
    def for_node(cls, node_id: int = 1, **values: Any) -> Settings:
        """Settings of one node that is broker and controller, listening on loopback at free ports: for tests and `dev`.

        `values`: attribute names with parsed values or text, such as `log_dirs=("/data",)` or `num_partitions=3`. What
        has dots is the name of a property, with its text.
        """
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "127.0.0.1:0",
        }
        names = {setting.attribute: setting for setting in cls.declared()}
        for attribute, value in values.items():
            if "." in attribute:
                properties[attribute] = value
                continue
            if attribute not in names:
                raise ConfigError(f"unknown setting {attribute}{did_you_mean(attribute, names)}")
            setting = names[attribute]
            text = value if isinstance(value, str) else setting.type.print(value)
            if text is not None:
                properties[setting.name] = text
        return cls.from_properties(properties, strict=True)

    @classmethod
    def build(
        cls,
        given: Mapping[str, str],
        dynamic_default: Mapping[str, str],
        dynamic_broker: Mapping[str, str],
        *,
        strict: bool = False,
    ) -> Settings:
        """Settings from all layers of text. Raises ConfigError, or ConfigErrors with all that is wrong."""
        read = Entries(given, strict=strict)
        for layer in (dynamic_default, dynamic_broker):
            read.add_dynamic(layer)
        settings = cls(read.values)
        settings.__dict__.update(
            given=dict(given),
            dynamic_default=dict(dynamic_default),
            dynamic_broker=dict(dynamic_broker),
        )
        topic_defaults = settings.__dict__["topic_defaults"] = TopicConfig.from_broker(settings)
        derived, contradictions = cross_check(settings, given, topic_defaults)
        layers = (given, dynamic_default, dynamic_broker)
        prefixed = read_prefixed(layers, derived.get("security_protocols", ()), SETTINGS, strict=strict)
        if "security_protocols" in derived:
            for name, wrong in prefixed.problems.items():
                read.problems[name] = located(wrong, given, [name])
            try:
                sasl = SaslReader(settings, prefixed, derived, given).read({**given, **dynamic_broker})
                derived["sasl"] = sasl
                read.warnings.extend(sasl.warnings)
            except ConfigError as wrong:
                contradictions.append(wrong)
        problems = [*read.problems.values(), *read.located(contradictions)]
        if problems:
            raise problems[0] if len(problems) == 1 else ConfigErrors(problems)
        settings.__dict__.update(
            derived,
            prefixed=prefixed,
            warnings=(*read.warnings, *prefixed.warnings),
            ignored=tuple(sorted([*read.ignored, *prefixed.ignored])),
        )
        return settings

    def of_listener(self, listener: str, mechanism: str | None = None) -> BrokerSettings:
        """The settings as they are for one listener, or for one SASL mechanism of it: those with the prefix
        `listener.name.NAME.` (and `MECHANISM.`) over the others. The names of both may have any case.
        """
        values = {setting.attribute: getattr(self, setting.attribute) for setting in SETTINGS.values()}
        return BrokerSettings({**values, **self.prefixed.of(listener, mechanism)})

    def principal_builder(self, listener: str) -> str | None:
        """The function that names the principals of a listener, as MODULE:FUNCTION; None: Kafka's builder does."""
        name = str(self.prefixed.of(listener).get("principal_builder_class", self.principal_builder_class))
        return None if name == KAFKA_BUILDER else name

    def with_dynamic(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> Settings:
        """The same settings under other dynamic configs: cluster-wide, and this broker's own.

        They come from the metadata log, so a value that is malformed is left out with a warning. Raises ConfigError
        when settings contradict each other: keep the old ones then.
        """
        return type(self).build(self.given, dynamic_default, dynamic_broker)


SETTINGS: dict[str, Setting[Any]] = Settings.by_name()


class Entries:
    """The entries of a properties file, parsed one by one; dynamic configs may override them.

    Attributes:
        values: by attribute, the default where nothing was given.
        problems: what is wrong with an entry, by its name.
    """

    def __init__(self, given: Mapping[str, str], *, strict: bool) -> None:
        self._given = given
        self.values: dict[str, Any] = {setting.attribute: setting.default for setting in SETTINGS.values()}
        self.warnings: list[str] = []
        self.ignored: list[str] = []
        self.problems: dict[str, ConfigError] = {}
        for name, text in given.items():
            try:
                self._add(name, text, strict=strict)
            except ConfigError as wrong:
                self.problems[name] = located(wrong, given, [name])

    def _add(self, name: str, text: str, *, strict: bool) -> None:
        setting = SETTINGS.get(name)
        if setting is not None:
            self.values[setting.attribute] = setting.parse(text)
            if name in DROPPED:
                self.warnings.append(DROPPED[name])
        elif name in KNOWN:
            check_ignored(KNOWN[name], text)
            self.ignored.append(name)
        elif not name.startswith((*FREE_PREFIXES, PREFIX)):
            self.warnings.append(unknown(name, strict=strict))

    def add_dynamic(self, layer: Mapping[str, str]) -> None:
        """Lays dynamic configs over the values; malformed ones are left out with a warning."""
        for name, text in layer.items():
            setting = SETTINGS.get(name)
            if setting is None:
                continue
            try:
                self.values[setting.attribute] = setting.parse_remote(text)
            except ConfigError as wrong:
                self.warnings.append(f"dynamic config left out: {wrong}")

    def located(self, contradictions: Iterable[ConfigError]) -> Iterator[ConfigError]:
        """Contradictions with the lines of what contradicts. Those that concern a malformed entry are left out: they
        are about the default that stands in for it.
        """
        for wrong in contradictions:
            names = named_in(str(wrong), self._given)
            if self.problems.keys().isdisjoint(names):
                yield located(wrong, self._given, names)


def value_of(settings: Settings, name: str) -> Any:
    """The value of a broker setting by its name; also of one that means nothing here."""
    if name in SETTINGS:
        return getattr(settings, SETTINGS[name].attribute)
    setting = KNOWN[name]
    for layer in (settings.dynamic_broker, settings.dynamic_default, settings.given):
        if name in layer:
            return setting.parse(layer[name])
    return setting.default


def unknown(name: str, *, strict: bool) -> str:
    """The warning about an unknown name. Raises ConfigError where it is an error."""
    sentence = f"unknown setting {name}{did_you_mean(name, [*SETTINGS, *KNOWN])}"
    if strict or name.startswith(OWN_PREFIX):
        raise ConfigError(sentence)
    return sentence


def named_in(sentence: str, given: Mapping[str, str]) -> list[str]:
    """The settings that a sentence is about, of those that were given, as they come in it."""
    return list(dict.fromkeys(word for word in SETTING_NAME.findall(sentence) if word in given))


def located(wrong: ConfigError, given: Mapping[str, str], names: Sequence[str]) -> ConfigError:
    """The same error with the file and lines of the entries, when they are known."""
    if not isinstance(given, Properties):
        return wrong
    lines = [given.line_of(name) for name in names]
    source = given.beside if lines and lines == [None] * len(lines) else given.source
    return ConfigError(f"{wrong}{where(source, *lines)}")
