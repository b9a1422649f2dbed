"""The settings of a broker or controller, read from `server.properties` under Kafka's names.

    settings = Settings.from_properties(properties.parse(data, "conf/server.properties"))
    settings.log_segment_bytes                     # 1073741824
    Settings.log_segment_bytes.doc                 # what it means

Values come in layers, the later wins: the declared default, the properties file, the cluster-wide dynamic configs, this
broker's dynamic configs. `with_dynamic` makes the Settings with the upper two; `describe` (in config.describe) tells
which layer a value comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.broker.cluster import ClusterSettings
from penstock.config.broker.groups import GroupSettings
from penstock.config.broker.log import LogSettings
from penstock.config.broker.network import NetworkSettings
from penstock.config.broker.node import MetadataSettings, NodeSettings
from penstock.config.broker.own import OwnSettings
from penstock.config.broker.quorum import QuorumSettings
from penstock.config.broker.replication import ReplicationSettings
from penstock.config.crosscheck import cross_check
from penstock.config.known import KNOWN
from penstock.config.listeners import Endpoint, Voter
from penstock.config.nearest import did_you_mean
from penstock.config.properties import Properties, where
from penstock.config.setting import Setting
from penstock.config.topic import TopicConfig
from penstock.errors import ConfigError

OWN_PREFIX = "penstock."
FREE_PREFIXES = ("rsm.config.", "rlmm.config.", "config.providers.", "listener.name.")
"""Names under these are free in Kafka: they belong to a plug-in, or override another setting for one listener."""
NOT_SUPPORTED_YET: dict[str, object] = {
    "remote.log.storage.system.enable": True,
    "transaction.two.phase.commit.enable": True,
}
"""What must not be ignored in silence when it is asked for."""


class Settings(
    NodeSettings,
    MetadataSettings,
    QuorumSettings,
    ClusterSettings,
    GroupSettings,
    NetworkSettings,
    LogSettings,
    ReplicationSettings,
    OwnSettings,
):
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

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, strict: bool = False) -> Settings:
        """Reads and cross-checks the entries of a properties file (or any mapping of names to text).

        An unknown name is a warning with the nearest known one; with `strict`, and under `penstock.`, it is an error.
        Raises ConfigError, with the file and line when `properties` knows them.
        """
        return cls.build(properties, {}, {}, strict=strict)

    @classmethod
    def for_node(cls, node_id: int = 1, **values: Any) -> Settings:
        """Settings of one node that is broker and controller, listening on loopback at free ports: for tests and `dev`.

        `values`: attribute names with parsed values or text, such as `log_dirs=("/data",)` or `num_partitions=3`.
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
        """Settings from all layers of text. Raises ConfigError."""
        values: dict[str, Any] = {setting.attribute: setting.default for setting in SETTINGS.values()}
        warnings, ignored = [], []
        for name, text in given.items():
            try:
                setting = SETTINGS.get(name)
                if setting is not None:
                    values[setting.attribute] = setting.parse(text)
                elif name in KNOWN:
                    check_ignored(KNOWN[name], text)
                    ignored.append(name)
                elif not name.startswith(FREE_PREFIXES):
                    warnings.append(unknown(name, strict=strict))
            except ConfigError as wrong:
                raise located(wrong, given, name) from None
        for layer in (dynamic_default, dynamic_broker):
            for name, text in layer.items():
                setting = SETTINGS.get(name)
                if setting is None:
                    continue
                try:
                    values[setting.attribute] = setting.parse(text)
                except ConfigError as wrong:
                    warnings.append(f"dynamic config left out: {wrong}")
        settings = cls(values)
        settings.__dict__.update(
            given=dict(given),
            dynamic_default=dict(dynamic_default),
            dynamic_broker=dict(dynamic_broker),
            warnings=tuple(warnings),
            ignored=tuple(sorted(ignored)),
        )
        settings.__dict__.update(cross_check(settings, given))
        settings.__dict__["topic_defaults"] = TopicConfig.from_broker(settings)
        settings.topic_defaults.cross_check()
        return settings

    def with_dynamic(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> Settings:
        """The same settings under other dynamic configs: cluster-wide, and this broker's own.

        They come from the metadata log, so a value that is malformed is left out with a warning. Raises ConfigError
        when settings contradict each other: keep the old ones then.
        """
        return type(self).build(self.given, dynamic_default, dynamic_broker)

    @property
    def directories(self) -> tuple[str, ...]:
        """The log directories: log.dirs, else log.dir."""
        return self.log_dir if self.log_dirs is None else self.log_dirs

    @property
    def metadata_directory(self) -> str:
        """The directory of the metadata log: metadata.log.dir, else the first log directory."""
        return self.metadata_log_dir or self.directories[0]

    @property
    def is_broker(self) -> bool:
        """Whether this node is a broker."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether this node is a controller."""
        return "controller" in self.process_roles


SETTINGS: dict[str, Setting[Any]] = Settings.by_name()


def value_of(settings: Settings, name: str) -> Any:
    """The value of a broker setting by its name; also of one that means nothing here."""
    if name in SETTINGS:
        return getattr(settings, SETTINGS[name].attribute)
    setting = KNOWN[name]
    for layer in (settings.dynamic_broker, settings.dynamic_default, settings.given):
        if name in layer:
            return setting.parse(layer[name])
    return setting.default


def check_ignored(setting: Setting[object], text: str) -> None:
    """Checks a setting that means nothing here. Raises ConfigError also where ignoring it would betray what it asks."""
    value = setting.parse(text)
    if setting.name.endswith((".class", ".class.name")) and value not in ("", setting.default):
        raise ConfigError(f"{setting.name} = {text}: Java classes cannot be loaded here; leave it out")
    if NOT_SUPPORTED_YET.get(setting.name) == value or (setting.name == "config.providers" and value):
        raise ConfigError(f"{setting.name} = {text} is not supported yet: leave it out")


def unknown(name: str, *, strict: bool) -> str:
    """The warning about an unknown name. Raises ConfigError where it is an error."""
    sentence = f"unknown setting {name}{did_you_mean(name, [*SETTINGS, *KNOWN])}"
    if strict or name.startswith(OWN_PREFIX):
        raise ConfigError(sentence)
    return sentence


def located(wrong: ConfigError, given: Mapping[str, str], name: str) -> ConfigError:
    """The same error with the file and line of the entry, when they are known."""
    if not isinstance(given, Properties):
        return wrong
    return ConfigError(f"{wrong}{where(given.source, given.line_of(name))}")
