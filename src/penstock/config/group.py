"""The configs of a group (resource type GROUP, KIP-848): what it may have otherwise than the broker's settings say.

A group need not exist to have configs. They are checked against the broker's bounds when they are set; a broker with
other bounds holds them within its own. Those of share and streams groups are checked, kept and shown as Kafka does it;
they mean nothing until such groups are served.
Source: GroupConfig of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.checks import share_offset_reset
from penstock.config.server import Settings, value_of
from penstock.config.setting import Group, Setting
from penstock.config.values import BOOLEAN, INT, SECOND_MS, STRING
from penstock.errors import ConfigError

NOT_YET = " Kept, and without meaning as long as there are no {} groups."
SHARE, STREAMS = NOT_YET.format("share"), NOT_YET.format("streams")


def timed(name: str, default: int, *, at_least: int = 1) -> Setting[int]:
    """A number whose default is the broker's setting of the same name after `group.`."""
    return Setting(name, INT, default=default, at_least=at_least, broker=((f"group.{name}", 1),))


class GroupConfigs(Group):
    """The configs of one group; make them with `resolve`."""

    consumer_session_timeout_ms = timed("consumer.session.timeout.ms", 45 * SECOND_MS).documented(
        "After this long without a heartbeat a member of the group is taken for dead."
    )
    consumer_heartbeat_interval_ms = timed("consumer.heartbeat.interval.ms", 5 * SECOND_MS).documented(
        "Time between two heartbeats of a member while the group is stable."
    )
    consumer_assignment_interval_ms = timed("consumer.assignment.interval.ms", 1 * SECOND_MS, at_least=0).documented(
        "Shortest time between two assignments of the group."
    )
    share_session_timeout_ms = timed("share.session.timeout.ms", 45 * SECOND_MS).documented(
        "After this long without a heartbeat a member of the share group is taken for dead." + SHARE
    )
    share_heartbeat_interval_ms = timed("share.heartbeat.interval.ms", 5 * SECOND_MS).documented(
        "Time between two heartbeats of a member of the share group." + SHARE
    )
    share_record_lock_duration_ms = timed(
        "share.record.lock.duration.ms", 30 * SECOND_MS, at_least=SECOND_MS
    ).documented("How long a member has a record for itself before it is delivered again." + SHARE)
    share_delivery_count_limit = timed("share.delivery.count.limit", 5, at_least=2).documented(
        "How often a record is delivered at most." + SHARE
    )
    share_partition_max_record_locks = timed("share.partition.max.record.locks", 2000, at_least=100).documented(
        "How many records of a partition members may have at a time." + SHARE
    )
    share_auto_offset_reset = Setting(
        "share.auto.offset.reset", STRING, default="latest", check=share_offset_reset
    ).documented(
        "Where a share group begins in a partition: `earliest`, `latest`, or `by_duration:` and a time of ISO 8601 "
        "to go back." + SHARE
    )
    share_isolation_level = Setting(
        "share.isolation.level", STRING, default="read_uncommitted", one_of=("read_committed", "read_uncommitted")
    ).documented("Whether a share group gets records of transactions that are open or aborted." + SHARE)
    share_renew_acknowledge_enable = Setting("share.renew.acknowledge.enable", BOOLEAN, default=True).documented(
        "Whether members may keep a record for themselves for longer." + SHARE
    )
    share_assignment_interval_ms = timed("share.assignment.interval.ms", 1 * SECOND_MS, at_least=0).documented(
        "Shortest time between two assignments of the share group." + SHARE
    )
    streams_session_timeout_ms = timed("streams.session.timeout.ms", 45 * SECOND_MS).documented(
        "After this long without a heartbeat a member of the streams group is taken for dead." + STREAMS
    )
    streams_heartbeat_interval_ms = timed("streams.heartbeat.interval.ms", 5 * SECOND_MS).documented(
        "Time between two heartbeats of a member of the streams group." + STREAMS
    )
    streams_num_standby_replicas = timed("streams.num.standby.replicas", 0, at_least=0).documented(
        "Standby copies of each task's state." + STREAMS
    )
    streams_initial_rebalance_delay_ms = timed(
        "streams.initial.rebalance.delay.ms", 3 * SECOND_MS, at_least=0
    ).documented("How long an empty streams group waits for more members after the first one has joined." + STREAMS)
    streams_assignment_interval_ms = timed("streams.assignment.interval.ms", 1 * SECOND_MS, at_least=0).documented(
        "Shortest time between two assignments of the streams group." + STREAMS
    )

    @classmethod
    def resolve(cls, settings: Settings, overrides: Mapping[str, str]) -> GroupConfigs:
        """The configs of a group with `overrides` (name to text) on a broker with `settings`.

        Raises ConfigError for an unknown name or a value out of the config's own bounds; see `check` for the broker's.
        """
        values: dict[str, Any] = {
            setting.attribute: value_of(settings, setting.broker[0][0]) if setting.broker else setting.default
            for setting in cls.declared()
        }
        for name, text in overrides.items():
            setting = GROUP_SETTINGS.get(name)
            if setting is None:
                raise ConfigError(f"Unknown group config name: {name}")
            values[setting.attribute] = setting.parse(text)
        return cls(values)

    @classmethod
    def effective(cls, settings: Settings, overrides: Mapping[str, str]) -> GroupConfigs:
        """What a broker goes by, whoever has let the `overrides` pass: what is unknown or malformed is as the broker's
        settings say, and every value is within their bounds.
        """
        values = dict(vars(cls.resolve(settings, {})))
        bounds = {name: (least, most) for name, least, most in BOUNDS}
        for name, text in overrides.items():
            setting = GROUP_SETTINGS.get(name)
            if setting is None:
                continue
            try:
                value = setting.type.parse(text)
            except ValueError:
                continue
            if name in bounds:
                least, most = bounds[name]
                value = min(max(value, value_of(settings, least) if least else value), value_of(settings, most))
            values[setting.attribute] = value
        return cls(values)

    def check(self, settings: Settings, given: Mapping[str, str]) -> None:
        """Raises ConfigError when a value is not within the broker's bounds, or values contradict each other.

        `given`: the overrides; what the broker's settings say is within its bounds.
        """
        for name, least, most in BOUNDS:
            if name not in given:
                continue
            value = getattr(self, GROUP_SETTINGS[name].attribute)
            if least and value < value_of(settings, least):
                raise ConfigError(f"{name} must be greater than or equal to {least}")
            if value > value_of(settings, most):
                raise ConfigError(f"{name} must be less than or equal to {most}")
        for kind in ("consumer", "share", "streams"):
            if getattr(self, f"{kind}_session_timeout_ms") <= getattr(self, f"{kind}_heartbeat_interval_ms"):
                raise ConfigError(f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms")


def bounds(kind: str, *whats: str) -> list[tuple[str, str, str]]:
    """Configs with the broker's settings that are their bounds."""
    return [(f"{kind}.{what}", f"group.{kind}.min.{what}", f"group.{kind}.max.{what}") for what in whats]


GROUP_SETTINGS: Mapping[str, Setting[Any]] = GroupConfigs.by_name()
TIMES = ("heartbeat.interval.ms", "session.timeout.ms")
LOCKS = ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
BOUNDS = (
    *bounds("consumer", *TIMES, "assignment.interval.ms"),
    *bounds("share", *TIMES, *LOCKS, "assignment.interval.ms"),
    *bounds("streams", *TIMES),
    ("streams.num.standby.replicas", "", "group.streams.max.standby.replicas"),
    *bounds("streams", "assignment.interval.ms"),
)
"""A config, the broker's setting that it must not be below (if there is one), and the one that it must not be above, in
the order in which Kafka looks at them."""
