"""Settings of replication between brokers."""

from __future__ import annotations

from penstock.config.setting import Group, Setting
from penstock.config.values import INT, LONG, SECOND_MS


class ReplicationSettings(Group):
    """Followers and the in-sync replicas."""

    replica_lag_time_max_ms = Setting(
        "replica.lag.time.max.ms",
        LONG,
        default=30 * SECOND_MS,
        doc="How long a follower may be behind the leader's end before it leaves the in-sync replicas.",
    )
    replica_socket_timeout_ms = Setting(
        "replica.socket.timeout.ms",
        INT,
        default=30 * SECOND_MS,
        doc="How long a follower waits for an answer of the leader; at least replica.fetch.wait.max.ms.",
    )
    replica_fetch_wait_max_ms = Setting(
        "replica.fetch.wait.max.ms",
        INT,
        default=500,
        doc="How long the leader may hold a follower's fetch that finds too little.",
    )
    replica_high_watermark_checkpoint_interval_ms = Setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        default=5 * SECOND_MS,
        doc="Time between two writes of the high watermarks.",
    )
