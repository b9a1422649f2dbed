"""What groups use of the settings, in the units that they use."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.config.server import Settings
from penstock.config.values import INT_MAX, MINUTE_MS, SECOND_MS, KiB


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of groups; the defaults are Kafka's. Each name is that of its setting, less the word `group`.

    Attributes:
        max_size ... max_session_timeout_ms: of classic groups.
        consumer_...: of consumer groups (KIP-848). `consumer_assignors`: the first is the default.
        consumer_migration_policy: `disabled`, `downgrade`, `upgrade` or `bidirectional`.
        consumer_reconcile_heartbeat_interval_ms: between heartbeats while an assignment changes.
        consumer_stable_heartbeats_per_second: up to so many, stable members may come before their interval is over.
        offset_metadata_max_bytes: of the text kept with an offset; counted in UTF-16 units, as Kafka does.
        offsets_retention_ms, offsets_retention_check_interval_ms: when offsets expire, and how often that is looked at.
    """

    max_size: int = INT_MAX
    initial_rebalance_delay_ms: int = 3 * SECOND_MS
    min_session_timeout_ms: int = 6 * SECOND_MS
    max_session_timeout_ms: int = 30 * MINUTE_MS

    consumer_max_size: int = INT_MAX
    consumer_session_timeout_ms: int = 45 * SECOND_MS
    consumer_min_session_timeout_ms: int = 45 * SECOND_MS
    consumer_max_session_timeout_ms: int = MINUTE_MS
    consumer_heartbeat_interval_ms: int = 5 * SECOND_MS
    consumer_min_heartbeat_interval_ms: int = 5 * SECOND_MS
    consumer_max_heartbeat_interval_ms: int = 15 * SECOND_MS
    consumer_reconcile_heartbeat_interval_ms: int = 300
    consumer_stable_heartbeats_per_second: int = 0
    consumer_assignment_interval_ms: int = SECOND_MS
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15 * SECOND_MS
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 10 * MINUTE_MS

    offset_metadata_max_bytes: int = 4 * KiB
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS

    @staticmethod
    def of(settings: Settings) -> GroupConfig:
        """What the settings of a broker say."""
        return GroupConfig(
            max_size=settings.group_max_size,
            initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=settings.group_min_session_timeout_ms,
            max_session_timeout_ms=settings.group_max_session_timeout_ms,
            consumer_max_size=settings.group_consumer_max_size,
            consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
            consumer_min_session_timeout_ms=settings.group_consumer_min_session_timeout_ms,
            consumer_max_session_timeout_ms=settings.group_consumer_max_session_timeout_ms,
            consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            consumer_min_heartbeat_interval_ms=settings.group_consumer_min_heartbeat_interval_ms,
            consumer_max_heartbeat_interval_ms=settings.group_consumer_max_heartbeat_interval_ms,
            consumer_reconcile_heartbeat_interval_ms=settings.penstock_group_consumer_reconcile_heartbeat_interval_ms,
            consumer_stable_heartbeats_per_second=settings.penstock_group_consumer_stable_heartbeats_per_second,
            consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
            consumer_min_assignment_interval_ms=settings.group_consumer_min_assignment_interval_ms,
            consumer_max_assignment_interval_ms=settings.group_consumer_max_assignment_interval_ms,
            consumer_assignors=tuple(settings.group_consumer_assignors),
            consumer_migration_policy=settings.group_consumer_migration_policy.lower(),
            consumer_regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            offsets_retention_ms=settings.offsets_retention_minutes * MINUTE_MS,
            offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        )
