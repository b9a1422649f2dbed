"""The leader looks at the clusters: a duty of each Guardian node that fills its `Sight` as long as it leads.

Every registered cluster has a `Watch`, and that its looks: at the metadata, at the disks of each broker, at the
settings of topics. Each is done by itself every `penstock.guardian.sample.interval.ms`, so a broker that stalls or
vanishes holds up nothing but the look at itself. A new leader, and a cluster that has just been registered, begin at
once. Whoever does not lead any more forgets what it has seen; whoever leads without the lease begins no look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import UUID

from penstock.guardian.core.looks import Looks
from penstock.guardian.core.reach import Reach
from penstock.guardian.core.sight import ClusterSight, Sight
from penstock.guardian.core.state import Cluster, GuardianState
from penstock.guardian.core.watch import Watch
from penstock.records.wall import WallTime

LEASE_RETRY_MS = 100
"""When a leader without the lease finds out again whether it holds it."""


class Sampler:
    """See the module's head.

    Args:
        state: what is committed. leads, may_act: whether this node leads, and whether it holds the lease at a time.
        do: adds long work, which is done in steps. interval_ms: between two looks at the same thing.
    """

    def __init__(
        self,
        sight: Sight,
        reach: Reach,
        wall: WallTime,
        *,
        state: Callable[[], GuardianState],
        leads: Callable[[], bool],
        may_act: Callable[[int], bool],
        do: Callable[[Iterator[None]], None],
        interval_ms: int,
    ) -> None:
        self._sight = sight
        self._reach = reach
        self._wall = wall
        self._state = state
        self._leads = leads
        self._may_act = may_act
        self._do = do
        self._interval_ms = interval_ms
        self._looks = Looks()
        self._watches: dict[UUID, Watch] = {}
        self._followed: Mapping[UUID, Cluster] | None = None
        self._again_ms = 0

    def tick(self, now_ms: int) -> None:
        """Does what is due."""
        if not self._leads():
            self._forget()
            return
        clusters = self._state().clusters
        if clusters is not self._followed:
            self._follow(clusters, now_ms)
        if now_ms < self._again_ms:
            return
        due_ms = self._looks.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return
        if self._may_act(now_ms):
            self._looks.proceed(now_ms)
        else:
            self._again_ms = now_ms + LEASE_RETRY_MS

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called."""
        if not self._leads():
            return None if self._followed is None else 0
        if self._state().clusters is not self._followed:
            return 0
        due_ms = self._looks.next_due_ms()
        return None if due_ms is None else max(due_ms, self._again_ms)

    def _follow(self, clusters: Mapping[UUID, Cluster], now_ms: int) -> None:
        """The registered clusters have changed, or this node has just begun to lead."""
        for cluster_id in [each for each in self._watches if each not in clusters]:
            self._watches.pop(cluster_id).stop()
            self._sight.clusters.pop(cluster_id, None)
        for cluster_id, cluster in clusters.items():
            if cluster_id in self._watches:
                self._watches[cluster_id].registered_as(cluster)
                continue
            seen = self._sight.clusters[cluster_id] = ClusterSight()
            watch = Watch(
                cluster,
                seen,
                self._reach,
                self._looks,
                self._wall,
                do=self._do,
                interval_ms=self._interval_ms,
                other_with=self._other_with,
            )
            self._watches[cluster_id] = watch
            watch.begin(now_ms)
        self._followed = clusters

    def _other_with(self, kafka_id: str, cluster: Cluster) -> str | None:
        """The name of a cluster that was registered before this one and has the same id of Kafka's."""
        for cluster_id, other in (self._followed or {}).items():
            if cluster_id == cluster.id:
                return None
            seen = self._sight.clusters.get(cluster_id)
            if seen is not None and seen.kafka_id == kafka_id:
                return other.name
        return None

    def _forget(self) -> None:
        """This node does not lead: what it has seen grows old."""
        if self._followed is None:
            return
        for watch in self._watches.values():
            watch.stop()
        self._watches.clear()
        self._looks.clear()
        self._sight.clusters.clear()
        self._followed = None
        self._again_ms = 0
