"""The duty of the leader that raises alarms and heals: a lookout for each registered cluster.

Every LOOK_EVERY_MS, while this node leads and holds the lease, each cluster that has been seen is looked at. When its
metadata was seen anew, a census is taken first. Alarms that have changed are appended to the log. The act of an intent
begins when its record is committed and this node may still act. Who leads after that finds the intent, and begins the
act again if it is still seen to be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol
from uuid import UUID

from penstock.config.guardian import GuardianSettings
from penstock.events import events
from penstock.guardian.core.alarms.alarm import ACTING, ESCALATED, RECOVERED, Alarm, alarm_record
from penstock.guardian.core.alarms.census import Census, take_census
from penstock.guardian.core.alarms.finding import fresh
from penstock.guardian.core.alarms.healing import Healing, Submission
from penstock.guardian.core.alarms.lifecycle import Times
from penstock.guardian.core.alarms.lookout import Lookout
from penstock.guardian.core.alarms.submitting import plan_of
from penstock.guardian.core.alarms.vantage import Vantage
from penstock.guardian.core.calls import Reply
from penstock.guardian.core.leader import Leader
from penstock.guardian.core.limits import GUARDIAN_FRESH_MS
from penstock.guardian.core.reach import Reach
from penstock.guardian.core.sight import METADATA, ClusterSight, Sight
from penstock.guardian.core.state import Cluster
from penstock.records.wall import WallTime

LOOK_EVERY_MS = 1_000

logger = events("guardian.alarms")


class Quorum(Protocol):
    """What the duty uses of Guardian's quorum."""

    leader: Leader

    @property
    def leads(self) -> bool: ...

    def may_act(self, now_ms: int) -> bool: ...


@dataclass(slots=True)
class Guarded:
    """One cluster as it is looked after.

    Attributes: `census`, the last complete one; `counting`, whether another is being taken. `begun`: alarms whose act
    this leader has begun, and which of their heals that was. `full_told`: that there is no room for further alarms has
    been said.
    """

    lookout: Lookout
    vantage: Vantage
    seen: ClusterSight
    census: Census = field(default_factory=Census)
    counting: bool = False
    begun: dict[UUID, int] = field(default_factory=dict)
    full_told: bool = False


class EarlyWarning:
    """See the module's head.

    Args:
        do: adds long work, which is done in steps. new_id: makes an id that no alarm has. submission: takes the plans
            that heal.
    """

    def __init__(
        self,
        quorum: Callable[[], Quorum],
        sight: Sight,
        reach: Reach,
        wall: WallTime,
        settings: GuardianSettings,
        *,
        do: Callable[[Iterator[None]], None],
        new_id: Callable[[], UUID],
        submission: Submission,
    ) -> None:
        self._quorum = quorum
        self._sight = sight
        self._reach = reach
        self._wall = wall
        self._do = do
        self._new_id = new_id
        self._healing = Healing(reach, wall, submission)
        self._times = Times(
            settings.penstock_guardian_alarm_confirm_ms,
            settings.penstock_guardian_heal_delay_ms,
            settings.penstock_guardian_heal_calm_ms,
        )
        self._horizon_ms = settings.penstock_guardian_alarm_disk_full_ms
        self._guarded: dict[UUID, Guarded] = {}
        self._pending: dict[UUID, int] = {}
        self._due_ms = 0

    def tick(self, now_ms: int) -> None:
        """Looks at all clusters when that is due."""
        quorum = self._quorum()
        if not quorum.leads:
            self._guarded.clear()
            return
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + LOOK_EVERY_MS
        clusters = quorum.leader.state.clusters
        for cluster_id in [each for each in self._guarded if each not in clusters]:
            del self._guarded[cluster_id]
        if quorum.may_act(now_ms):
            for cluster_id, cluster in clusters.items():
                seen = self._sight.clusters.get(cluster_id)
                if seen is not None:
                    self._look(quorum, cluster, seen, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called."""
        quorum = self._quorum()
        if not quorum.leads:
            return 0 if self._guarded else None
        return self._due_ms if self._sight.clusters else None

    def _look(self, quorum: Quorum, cluster: Cluster, seen: ClusterSight, now_ms: int) -> None:
        """Looks at one cluster."""
        found = self._guarded.get(cluster.id)
        if found is None or found.seen is not seen:
            lookout = Lookout(cluster, self._times, self._horizon_ms, self._healing.kinds)
            found = self._guarded[cluster.id] = Guarded(lookout, Vantage(self._reach, self._wall), seen)
        found.lookout.cluster = cluster
        if not found.counting and seen.seen_ms.get(METADATA) != found.census.stamp_ms:
            found.counting = True
            self._do(self._count(found))
        found.vantage.look(cluster, seen, found.census, now_ms)
        alarms, wall_ms = quorum.leader.state.alarms, self._wall.at(now_ms)
        result = found.lookout.look(seen, found.census, alarms, wall_ms, self._new_id)
        if result.left_out and not found.full_told:
            logger.warning("no room for further alarms", cluster=cluster.name, left_out=result.left_out)
        found.full_told = bool(result.left_out)
        for alarm in alarms.of(cluster.id):
            if alarm.state == ACTING and alarm.id not in self._pending:
                if found.begun.get(alarm.id) != alarm.heals:
                    self._take_up(found, cluster, alarm, now_ms)
                else:
                    self._follow(found, cluster, alarm, now_ms)
            elif alarm.state == RECOVERED and alarm.id not in self._pending:
                self._healing.over(alarm, seen, now_ms)  # whoever led when it ended may not have come to this
        if result.changed:
            self._write(quorum, cluster, result.changed, now_ms)

    def _count(self, found: Guarded) -> Iterator[None]:
        """A census, step by step."""
        census = Census()
        try:
            yield from take_census(found.seen, census)
            found.census = census
        finally:
            found.counting = False

    def _write(self, quorum: Quorum, cluster: Cluster, changed: list[Alarm], now_ms: int) -> None:
        """Appends alarms as they are now."""
        for each in changed:
            self._pending[each.id] = self._pending.get(each.id, 0) + 1
        written = partial(self._written, cluster, changed)
        quorum.leader.write([alarm_record(each) for each in changed], written, now_ms)

    def _written(self, cluster: Cluster, changed: list[Alarm], reply: Reply, now_ms: int) -> None:
        """The alarms are in the log, or will never be."""
        for each in changed:
            self._pending[each.id] -= 1
            if not self._pending[each.id]:
                del self._pending[each.id]
        if reply.status >= 400:
            return
        for alarm in changed:
            tell(cluster, alarm)
            found = self._guarded.get(cluster.id)
            if found is not None and alarm.state == ACTING:
                self._begin(found, cluster, alarm, now_ms)
            elif found is not None and alarm.state == RECOVERED:
                found.begun.pop(alarm.id, None)
                self._healing.over(alarm, found.seen, now_ms)

    def _take_up(self, found: Guarded, cluster: Cluster, alarm: Alarm, now_ms: int) -> None:
        """An intent of an earlier leader: what it has done is not known. The act is begun again if a look of this
        leader shows that it is needed; and nothing may speak against it that was not known then.
        """
        suspicion = found.seen.suspected.get((alarm.kind, alarm.broker, alarm.path))
        if suspicion is None or not fresh(found.census.stamp_ms, self._wall.at(now_ms)):
            return
        if found.lookout.may_act(alarm):
            self._begin(found, cluster, alarm, now_ms)

    def _begin(self, found: Guarded, cluster: Cluster, alarm: Alarm, now_ms: int) -> None:
        """Begins an act, if this node may still act."""
        if found.begun.get(alarm.id) == alarm.heals or not self._quorum().may_act(now_ms):
            return
        found.begun[alarm.id] = alarm.heals
        ended = partial(self._acted, cluster, alarm)
        self._healing.begin(cluster, alarm, found.seen, found.census, now_ms, ended=ended)

    def _acted(self, cluster: Cluster, alarm: Alarm, begun: bool | None, said: str, now_ms: int) -> None:
        """What came of an act. One that could not be done is for a person, one that cannot be begun yet for later."""
        if begun is None:
            if cluster.id in self._guarded:
                self._guarded[cluster.id].begun.pop(alarm.id, None)
            return
        quorum = self._quorum()
        present = quorum.leader.state.alarms.by_id.get(alarm.id)
        if not quorum.leads or present is None or (present.state, present.heals) != (ACTING, alarm.heals):
            return
        if not begun:
            failed = replace(present, state=ESCALATED, since_ms=self._wall.at(now_ms), reason=said)
            self._write(quorum, cluster, [failed], now_ms)
        elif present.reason != said:
            self._write(quorum, cluster, [replace(present, reason=said)], now_ms)

    def _follow(self, found: Guarded, cluster: Cluster, alarm: Alarm, now_ms: int) -> None:
        """An alarm whose plan has ended, and that is still seen a while after, is for a person."""
        quorum, wall_ms = self._quorum(), self._wall.at(now_ms)
        plan = plan_of(quorum.leader.state, alarm)
        if plan is None or not plan.ended or not found.lookout.may_act(alarm):
            return
        if wall_ms - plan.changed_ms >= self._times.confirm_ms + GUARDIAN_FRESH_MS:
            reason = f"plan {plan.id} is {plan.state}, and it is still seen"
            self._write(quorum, cluster, [replace(alarm, state=ESCALATED, since_ms=wall_ms, reason=reason)], now_ms)


def tell(cluster: Cluster, alarm: Alarm) -> None:
    """Says once what has become of an alarm."""
    if alarm.state == ACTING and alarm.reason:
        logger.info("healing has been begun", cluster=cluster.name, about=alarm.about, by=alarm.reason)
        return
    said = logger.info if alarm.state == RECOVERED else logger.warning
    fields = {"cluster": cluster.name, "kind": alarm.kind, "about": alarm.about, "id": str(alarm.id)}
    if alarm.state != RECOVERED:
        fields["evidence"] = "; ".join(alarm.evidence)
    if alarm.reason:
        fields["reason"] = alarm.reason
    said(f"alarm {alarm.state}", **fields)
