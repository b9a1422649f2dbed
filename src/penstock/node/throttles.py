"""Replication throttles: the rate in bytes per second at which partitions that are being moved may be copied (KIP-73).

A topic names the replicas (`{leader,follower}.replication.throttled.replicas`), brokers have the rates
(`{leader,follower}.replication.throttled.rate`, dynamic configs). A leader that exceeds its rate gives nothing of a
throttled partition, a follower that exceeds its own does not ask for it. This concerns only followers that are not in
sync, as in Kafka, but the rates count all bytes of throttled partitions.

Moves between log directories have a rate of their own (`replica.alter.log.dirs.io.max.bytes.per.second`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.dynamic import dynamic_only
from penstock.quota.throttle import Throttle, names_replica

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.replication.follower import Follower
    from penstock.replication.partition import Partition


class ReplicationThrottles:
    """The three throttles of a node."""

    def __init__(self, settings: Settings) -> None:
        windows = settings.replication_quota_window_num
        window_ms = settings.replication_quota_window_size_seconds * 1_000
        self._node_id = settings.node_id
        self.leader = Throttle(windows=windows, window_ms=window_ms)
        self.follower = Throttle(windows=windows, window_ms=window_ms)
        self.moves = Throttle(
            windows=settings.alter_log_dirs_replication_quota_window_num,
            window_ms=settings.alter_log_dirs_replication_quota_window_size_seconds * 1_000,
        )
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Applies the rates of the settings."""
        self.leader.bound = dynamic_only(settings, "leader.replication.throttled.rate")
        self.follower.bound = dynamic_only(settings, "follower.replication.throttled.rate")
        self.moves.bound = dynamic_only(settings, "replica.alter.log.dirs.io.max.bytes.per.second")

    def leads_throttled(self, partition: Partition) -> bool:
        """Whether bytes that followers read of a led partition count."""
        named = partition.log.config.leader_replication_throttled_replicas
        return bool(named) and names_replica(named, partition.index, self._node_id)

    def holds_back(self, partition: Partition, replica_id: int, now_ms: int) -> bool:
        """Whether a follower may not read a led partition now."""
        return (
            self.leads_throttled(partition)
            and replica_id not in partition.isr.committed
            and self.leader.exceeded(now_ms)
        )

    def follows_throttled(self, follower: Follower) -> bool:
        """Whether bytes that are fetched of a followed partition count."""
        if follower.log is None:
            return False
        named = follower.log.config.follower_replication_throttled_replicas
        return bool(named) and names_replica(named, follower.index, self._node_id)

    def waits(self, follower: Follower, now_ms: int) -> bool:
        """Whether a followed partition may not be fetched now."""
        return self.follows_throttled(follower) and follower.lag != 0 and self.follower.exceeded(now_ms)
