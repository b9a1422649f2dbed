"""Dynamic configs of brokers: which settings may change while a broker runs, and for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.config.known import KNOWN
from penstock.config.nearest import did_you_mean
from penstock.config.prefixed import PREFIX
from penstock.config.server import SETTINGS, Settings
from penstock.config.setting import CLUSTER, PER_BROKER, READ_ONLY, Setting
from penstock.config.values import LONG, LONG_MAX
from penstock.errors import ConfigError

DYNAMIC_ONLY: dict[str, Setting[Any]] = {
    name: Setting(name, LONG, default=LONG_MAX, at_least=0, dynamic=CLUSTER, doc=doc)
    for name, doc in (
        ("leader.replication.throttled.rate", "Bytes a second that the leaders' throttled replicas may send."),
        ("follower.replication.throttled.rate", "Bytes a second that the followers' throttled replicas may fetch."),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "Bytes a second for moving replicas between directories."),
    )
}
"""Configs that exist as dynamic ones only; a properties file cannot set them."""


LISTENER_PREFIX = PREFIX
"""Begins the configs of one listener: `listener.name.NAME.` and the setting; with SASL the mechanism in between."""
OF_MECHANISMS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
OF_ALL_BROKERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")
"""What may be set for a listener of all brokers together."""
OF_A_LISTENER = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""What may change for a listener only (Kafka's SslConfigs.RECONFIGURABLE_CONFIGS)."""


def check_dynamic(configs: Mapping[str, str], *, per_broker: bool) -> None:
    """Checks dynamic configs of one broker (`per_broker`) or of the whole cluster before they are stored.

    Raises ConfigError for names that are read-only, are settings of a listener, or differ from broker to broker, in
    Kafka's sentences; for a name that is unknown, or a bad value.
    """
    refuse("Cannot update these configs dynamically", [name for name in configs if is_read_only(name)])
    refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name in configs if name in OF_A_LISTENER],
    )
    for name, text in configs.items():
        setting = dynamic_setting(name)
        if setting is None:
            raise ConfigError(f"unknown setting {name}{did_you_mean(name, [*SETTINGS, *KNOWN, *DYNAMIC_ONLY])}")
        setting.parse_remote(text)
    if not per_broker:
        refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name in configs if differs_by_broker(name)],
        )


def refuse(sentence: str, names: Sequence[str]) -> None:
    """Raises ConfigError about all names together, if there are any."""
    if names:
        raise ConfigError(f"{sentence}: [{', '.join(names)}]")


def is_read_only(name: str) -> bool:
    setting = SETTINGS.get(name) or KNOWN.get(name)
    return setting is not None and setting.dynamic is READ_ONLY


def differs_by_broker(name: str) -> bool:
    if name.startswith(LISTENER_PREFIX):
        return base_name(name) not in OF_ALL_BROKERS
    setting = dynamic_setting(name)
    return setting is not None and setting.dynamic is PER_BROKER


def base_name(name: str) -> str:
    """The setting that a config of one listener is about."""
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    return next((each for each in OF_MECHANISMS if base.endswith(f".{each}")), base)


def dynamic_setting(name: str) -> Setting[Any] | None:
    """The declaration behind a dynamic config, also one of a listener; None if there is none."""
    if not name.startswith(LISTENER_PREFIX):
        return SETTINGS.get(name) or KNOWN.get(name) or DYNAMIC_ONLY.get(name)
    base = base_name(name)
    setting = SETTINGS.get(base) or KNOWN.get(base)
    may_change = setting is not None and (setting.dynamic is not READ_ONLY or base in OF_MECHANISMS)
    return setting if may_change else None


def dynamic_only(settings: Settings, name: str) -> int:
    """The value of one of `DYNAMIC_ONLY`: this broker's, else the cluster's, else the default."""
    setting = DYNAMIC_ONLY[name]
    for layer in (settings.dynamic_broker, settings.dynamic_default):
        if name in layer:
            try:
                return int(setting.parse(layer[name]))
            except ConfigError:  # from another broker's metadata: refused where it is set
                continue
    return int(setting.default)
