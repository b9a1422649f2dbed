"""What DescribeConfigs tells of a setting: its value, where that comes from, and the layers below.

Follows Kafka's ConfigHelper, quirks included: the synonyms of a setting are listed layer by layer (this broker's
dynamic configs, the cluster's, the properties file, the defaults), and those before the first with the setting's own
name are dropped. So a topic's `retention.ms` that comes from `log.retention.hours` has no synonyms.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from penstock.config.client_metrics import CLIENT_METRICS_SETTINGS
from penstock.config.dynamic import DYNAMIC_ONLY, LISTENER_PREFIX, dynamic_only, dynamic_setting
from penstock.config.group import GROUP_SETTINGS, GroupConfigs
from penstock.config.known import KNOWN
from penstock.config.server import SETTINGS, Settings, value_of
from penstock.config.setting import READ_ONLY, Setting, Source
from penstock.config.topic import TOPIC_SETTINGS, TopicConfig

SYNONYMS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Broker settings that say the same in other units; the first that is set wins."""
SYNONYMS_OF = {name: names for names in SYNONYMS for name in names if name != "log.flush.scheduler.interval.ms"}


class Synonym(NamedTuple):
    """A layer's value; None for a secret."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """One setting as DescribeConfigs answers it. `type_id` and `source` are numbered as there; 0 is an unknown type."""

    name: str
    value: str | None
    source: Source
    sensitive: bool
    read_only: bool
    type_id: int
    doc: str | None
    synonyms: tuple[Synonym, ...]


def describe_topic(
    settings: Settings, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Described]:
    """The configs of a topic with these overrides, all of them or those in `names`. Raises ConfigError."""
    config = TopicConfig.resolve(settings, overrides)
    described = []
    for setting in TOPIC_SETTINGS.values():
        given = setting.name in overrides
        if (setting.internal and not given) or (names and setting.name not in names):
            continue
        value = setting.type.print(getattr(config, setting.attribute))
        synonyms = broker_synonyms(settings, setting.broker[0][0]) if setting.broker else []
        if given:
            synonyms.insert(0, Synonym(setting.name, value, Source.DYNAMIC_TOPIC_CONFIG))
        described.append(answer(setting, value, synonyms, read_only=False))
    return described


def describe_group(
    settings: Settings, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Described]:
    """The configs of a group with these overrides, all of them or those in `names`. Raises ConfigError."""
    config = GroupConfigs.resolve(settings, overrides)
    described = []
    for setting in GROUP_SETTINGS.values():
        if names and setting.name not in names:
            continue
        value = setting.type.print(getattr(config, setting.attribute))
        if setting.broker:
            synonyms = broker_synonyms(settings, setting.broker[0][0])
        else:
            synonyms = [Synonym(setting.name, setting.type.print(setting.default), Source.DEFAULT_CONFIG)]
        if setting.name in overrides:
            synonyms.insert(0, Synonym(setting.name, value, Source.GROUP_CONFIG))
        described.append(answer(setting, value, synonyms, read_only=False))
    return described


def describe_client_metrics(overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Described]:
    """The configs of a client metrics subscription with these overrides, all of them or those in `names`. As in Kafka
    one that is not set has no synonyms. Raises ConfigError.
    """
    described = []
    for setting in CLIENT_METRICS_SETTINGS.values():
        if names and setting.name not in names:
            continue
        given = setting.name in overrides
        value = setting.type.print(setting.parse(overrides[setting.name]) if given else setting.default)
        synonyms = [Synonym(setting.name, value, Source.CLIENT_METRICS_CONFIG)] if given else []
        described.append(answer(setting, value, synonyms, read_only=False))
    return described


def describe_broker(settings: Settings, names: Collection[str] | None = None) -> list[Described]:
    """The settings of this node, all of them or those in `names`, and what its properties file has beyond. Those that
    are dynamic configs only are there when they are set."""
    described = []
    throttles = [
        each
        for name, each in DYNAMIC_ONLY.items()
        if name in settings.dynamic_broker or name in settings.dynamic_default
    ]
    for setting in (*SETTINGS.values(), *KNOWN.values(), *throttles):
        given = setting.name in settings.given
        if (setting.internal and not given) or (names and setting.name not in names):
            continue
        synonyms = broker_synonyms(settings, setting.name)
        read = dynamic_only if setting.name in DYNAMIC_ONLY else value_of
        value = setting.type.print(read(settings, setting.name))
        described.append(answer(setting, value, synonyms, read_only=setting.dynamic is READ_ONLY))
    for name in settings.given:
        if name not in SETTINGS and name not in KNOWN and not (names and name not in names):
            synonym = Synonym(name, None, Source.STATIC_BROKER_CONFIG)  # it may be a secret of something we do not know
            described.append(Described(name, None, synonym.source, True, True, 0, None, (synonym,)))
    described += [each for each in of_listeners(settings) if not names or each.name in names]
    return described


def describe_cluster(settings: Settings, names: Collection[str] | None = None) -> list[Described]:
    """The dynamic configs of all brokers together, which is what the broker resource without a name stands for."""
    described = []
    for name, text in settings.dynamic_default.items():
        if names and name not in names:
            continue
        described.append(dynamic_config(name, text, Source.DYNAMIC_DEFAULT_BROKER_CONFIG))
    return described


def of_listeners(settings: Settings) -> list[Described]:
    """The dynamic configs of single listeners; this broker's own come before the cluster's."""
    layers = (
        (settings.dynamic_broker, Source.DYNAMIC_BROKER_CONFIG),
        (settings.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
    )
    found: dict[str, Described] = {}
    for layer, source in layers:
        for name, text in layer.items():
            if name.startswith(LISTENER_PREFIX):
                found.setdefault(name, dynamic_config(name, text, source))
    return list(found.values())


def dynamic_config(name: str, text: str, source: Source) -> Described:
    """A dynamic config by itself. One that is not known, from another broker's metadata, may be a secret."""
    setting = dynamic_setting(name)
    sensitive = setting is None or setting.type.sensitive
    synonym = Synonym(name, None if sensitive else text, source)
    if setting is None:
        return Described(name, None, source, True, True, 0, None, (synonym,))
    one = answer(setting, synonym.value, [synonym], read_only=setting.dynamic is READ_ONLY)
    return one._replace(name=name)


def answer(setting: Setting[Any], value: str | None, synonyms: list[Synonym], *, read_only: bool) -> Described:
    """A setting with its value and layers; the topmost layer is the source."""
    return Described(
        setting.name,
        None if setting.type.sensitive else value,
        synonyms[0].source if synonyms else Source.DEFAULT_CONFIG,
        setting.type.sensitive,
        read_only,
        setting.type.describe_id,
        setting.doc,
        tuple(synonyms),
    )


def broker_synonyms(settings: Settings, name: str) -> list[Synonym]:
    """Every layer that says something about a broker setting, the one that wins first."""
    names = SYNONYMS_OF.get(name, (name,))
    layers = (
        (settings.dynamic_broker, Source.DYNAMIC_BROKER_CONFIG),
        (settings.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (static_layer(settings), Source.STATIC_BROKER_CONFIG),
        (DEFAULT_TEXTS, Source.DEFAULT_CONFIG),
    )
    found = [
        Synonym(each, None if sensitive(each) else layer[each], source)
        for layer, source in layers
        for each in names
        if each in layer
    ]
    while found and found[0].name != name:
        found.pop(0)
    return found


def static_layer(settings: Settings) -> Mapping[str, str]:
    """The values in the properties file; node.id and broker.id stand for each other."""
    node_id = str(settings.node_id)
    return {"node.id": node_id, "broker.id": node_id, **settings.given}


def sensitive(name: str) -> bool:
    """Whether a broker setting is a secret; an unknown one may be."""
    setting = SETTINGS.get(name) or KNOWN.get(name) or DYNAMIC_ONLY.get(name)
    return setting is None or setting.type.sensitive


DEFAULT_TEXTS: dict[str, str] = {
    setting.name: text
    for setting in (*SETTINGS.values(), *KNOWN.values())
    if not setting.required and (text := setting.type.print(setting.default)) is not None
}
