"""The configs of a group (resource type GROUP, KIP-848): what it may have otherwise than the broker's settings say.

A group need not exist to have configs. They are checked against the broker's bounds when they are set; a broker with
other bounds holds them within its own. Those of share and streams groups come with these.
Source: GroupConfig of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.server import Settings
from penstock.config.setting import Group, Setting
from penstock.config.values import INT, SECOND_MS
from penstock.errors import ConfigError


class ConsumerGroupConfig(Group):
    """Configs of consumer groups. The broker's setting of each is its name after `group.`."""

    consumer_session_timeout_ms = Setting(
        "consumer.session.timeout.ms",
        INT,
        default=45 * SECOND_MS,
        at_least=1,
        broker=(("group.consumer.session.timeout.ms", 1),),
        doc="After this long without a heartbeat a member of the group is taken for dead.",
    )
    consumer_heartbeat_interval_ms = Setting(
        "consumer.heartbeat.interval.ms",
        INT,
        default=5 * SECOND_MS,
        at_least=1,
        broker=(("group.consumer.heartbeat.interval.ms", 1),),
        doc="Time between two heartbeats of a member while the group is stable.",
    )
    consumer_assignment_interval_ms = Setting(
        "consumer.assignment.interval.ms",
        INT,
        default=1 * SECOND_MS,
        at_least=0,
        broker=(("group.consumer.assignment.interval.ms", 1),),
        doc="Shortest time between two assignments of the group.",
    )

    @classmethod
    def resolve(cls, settings: Settings, overrides: Mapping[str, str]) -> ConsumerGroupConfig:
        """The configs of a group with `overrides` (name to text) on a broker with `settings`.

        Raises ConfigError for an unknown name or a value out of the setting's own bounds; see `check` for the broker's.
        """
        values: dict[str, Any] = {
            setting.attribute: getattr(settings, setting.broker[0][0].replace(".", "_")) for setting in cls.declared()
        }
        for name, text in overrides.items():
            setting = GROUP_SETTINGS.get(name)
            if setting is None:
                raise ConfigError(f"Unknown group config name: {name}")
            values[setting.attribute] = setting.parse(text)
        return cls(values)

    def check(self, settings: Settings, given: Mapping[str, str]) -> None:
        """Raises ConfigError when a value is not within the broker's bounds, or values contradict each other.

        `given`: the overrides; the interval of assignments is checked only if it is one of them.
        """
        bounded = [
            (ConsumerGroupConfig.consumer_heartbeat_interval_ms, "heartbeat.interval.ms"),
            (ConsumerGroupConfig.consumer_session_timeout_ms, "session.timeout.ms"),
            (ConsumerGroupConfig.consumer_assignment_interval_ms, "assignment.interval.ms"),
        ]
        for setting, what in bounded:
            if what == "assignment.interval.ms" and setting.name not in given:
                continue
            value = getattr(self, setting.attribute)
            least, most = f"group.consumer.min.{what}", f"group.consumer.max.{what}"
            if value < getattr(settings, least.replace(".", "_")):
                raise ConfigError(f"{setting.name} must be greater than or equal to {least}")
            if value > getattr(settings, most.replace(".", "_")):
                raise ConfigError(f"{setting.name} must be less than or equal to {most}")
        if self.consumer_session_timeout_ms <= self.consumer_heartbeat_interval_ms:
            raise ConfigError("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")


GROUP_SETTINGS: Mapping[str, Setting[Any]] = ConsumerGroupConfig.by_name()
