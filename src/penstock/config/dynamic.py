"""Dynamic configs of brokers: which settings may change while a broker runs, and for whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.known import KNOWN
from penstock.config.nearest import did_you_mean
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


def check_dynamic(configs: Mapping[str, str], *, per_broker: bool) -> None:
    """Checks dynamic configs of one broker (`per_broker`) or of the whole cluster before they are stored.

    Raises ConfigError for a name that is unknown or read-only, one that only a single broker can have, or a bad value.
    """
    for name, text in configs.items():
        setting = SETTINGS.get(name) or KNOWN.get(name) or DYNAMIC_ONLY.get(name)
        if setting is None:
            raise ConfigError(f"unknown setting {name}{did_you_mean(name, [*SETTINGS, *KNOWN, *DYNAMIC_ONLY])}")
        if setting.dynamic is READ_ONLY:
            raise ConfigError(
                f"{name} cannot be changed while the broker runs: set it in server.properties and restart"
            )
        if setting.dynamic is PER_BROKER and not per_broker:
            raise ConfigError(
                f"{name} differs from broker to broker: it must be set for one broker, not for the cluster"
            )
        setting.parse(text)


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
