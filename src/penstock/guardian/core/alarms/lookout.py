"""The lookout of one cluster: its detectors, how long each anomaly has been seen, and what that comes to.

`look` is a function of what has been seen, of the cluster's alarms, and of what it remembers of earlier looks. It
changes no alarm: it returns the alarms that are to be written, and the one that is to be healed is among them as an
intent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from penstock.guardian.core.alarms.alarm import ACTING, Alarm, AlarmKey, Alarms
from penstock.guardian.core.alarms.census import Census
from penstock.guardian.core.alarms.dead_brokers import DeadBrokers
from penstock.guardian.core.alarms.dead_disks import DeadDisks
from penstock.guardian.core.alarms.filling_disks import FillingDisks
from penstock.guardian.core.alarms.finding import (
    DEAD_BROKER,
    DEAD_DISK,
    Detector,
    Finding,
    Subject,
    Verdicts,
)
from penstock.guardian.core.alarms.lifecycle import Case, Circumstances, Times, is_over, next_alarm, raised
from penstock.guardian.core.alarms.skewed_leaders import SkewedLeaders
from penstock.guardian.core.alarms.streaks import Streak
from penstock.guardian.core.alarms.under_replication import UnderReplication
from penstock.guardian.core.limits import GUARDIAN_ALARMS_MAX, GUARDIAN_ALARMS_PER_LOOK
from penstock.guardian.core.sight import ClusterSight, Suspicion
from penstock.guardian.core.state import OBSERVE, Cluster

Key = tuple[str, Subject]


@dataclass(slots=True)
class Look:
    """What a look comes to: alarms that are to be written as they are here, and how many there was no room for."""

    changed: list[Alarm] = field(default_factory=list)
    left_out: int = 0


class Lookout:
    """See the module's head. `horizon_ms`: how soon a disk must be full to be told of."""

    def __init__(self, cluster: Cluster, times: Times, horizon_ms: int, can_heal: frozenset[str]) -> None:
        self.cluster = cluster
        self._times = times
        self._can_heal = can_heal
        self._detectors: tuple[Detector, ...] = (
            DeadBrokers(),
            DeadDisks(),
            UnderReplication(),
            FillingDisks(horizon_ms),
            SkewedLeaders(),
        )
        self._streaks: dict[Key, Streak] = {}
        self._circumstances_now: Circumstances | None = None

    def may_act(self, alarm: Alarm) -> bool:
        """Whether an act that was meant may be begun after the last look: it has been seen for long enough by this
        leader too, and nothing speaks against healing in this cluster.
        """
        now = self._circumstances_now
        streak = self._streaks.get((alarm.kind, Subject(alarm.broker, alarm.path)))
        if now is None or streak is None or now.mode == OBSERVE or now.many or not now.dead_known:
            return False
        return streak.present and streak.lasted(self._times.confirm_ms)

    def look(
        self, seen: ClusterSight, census: Census, alarms: Alarms, wall_ms: int, new_id: Callable[[], UUID]
    ) -> Look:
        """Looks at everything; also leaves in `seen` what is suspected, and the evidence as it is now."""
        known = {key: each for key, each in alarms.by_key.items() if key[0] == self.cluster.id}
        verdicts = {each.kind: each.look(seen, census, wall_ms) for each in self._detectors}
        circumstances = self._circumstances_now = self._circumstances(census, verdicts, known, wall_ms)
        result = Look()
        suspected: dict[tuple[str, int, str], Suspicion] = {}
        for kind, verdict in verdicts.items():
            for subject in self._subjects(kind, verdict, known):
                finding = verdict.findings.get(subject)
                streak = self._sample(kind, subject, finding, verdict)
                alarm = known.get(self._key(kind, subject))
                if finding is not None:
                    began_ms = streak.since_ms if streak is not None else finding.stamp_ms
                    suspected[kind, *subject] = Suspicion(began_ms, finding.evidence)
                if streak is None:
                    continue
                if len(result.changed) >= GUARDIAN_ALARMS_PER_LOOK:
                    continue
                after = self._after(Case(kind, subject, finding, streak), alarm, circumstances, new_id)
                if after is None:
                    continue
                if alarm is None and alarms_open(alarms) + len(result.changed) >= GUARDIAN_ALARMS_MAX:
                    result.left_out += 1
                    continue
                if after.state == ACTING:
                    circumstances = replace(circumstances, busy=True)
                result.changed.append(after)
        seen.suspected = suspected
        return result

    def _circumstances(
        self, census: Census, verdicts: Mapping[str, Verdicts], known: Mapping[AlarmKey, Alarm], wall_ms: int
    ) -> Circumstances:
        brokers, disks = verdicts[DEAD_BROKER], verdicts[DEAD_DISK]
        dead = {each.broker for each in (*brokers.findings, *disks.findings)}
        return Circumstances(
            wall_ms,
            self.cluster.mode("heal"),
            dead=len(dead),
            brokers=len(census.brokers | census.missing.keys()),
            dead_known=brokers.well_ms(Subject(-1)) is not None,
            busy=any(each.state == ACTING for each in known.values()),
            can_heal=self._can_heal,
        )

    def _subjects(self, kind: str, verdict: Verdicts, known: Mapping[AlarmKey, Alarm]) -> Iterator[Subject]:
        """All subjects of a kind that anything is known of, in order."""
        found = dict.fromkeys(verdict.findings)
        found.update({subject: None for each, subject in self._streaks if each == kind})
        found.update({Subject(each.broker, each.path): None for each in known.values() if each.kind == kind})
        return iter(sorted(found))

    def _sample(self, kind: str, subject: Subject, finding: Finding | None, verdict: Verdicts) -> Streak | None:
        """Adds the look to the streak of a subject; None if it shows nothing new or the subject is and was well."""
        stamp_ms = finding.stamp_ms if finding is not None else verdict.well_ms(subject)
        if stamp_ms is None:
            return None
        streak = self._streaks.get((kind, subject))
        if streak is None:
            streak = self._streaks[kind, subject] = Streak(finding is not None, stamp_ms, stamp_ms)
        else:
            streak.sample(finding is not None, stamp_ms)
        return streak

    def _after(
        self, case: Case, alarm: Alarm | None, circumstances: Circumstances, new_id: Callable[[], UUID]
    ) -> Alarm | None:
        """The alarm as it is to be written; None where nothing changes."""
        times, wall_ms = self._times, circumstances.wall_ms
        if alarm is not None and not is_over(alarm, times, wall_ms):
            if not alarm.is_open and case.finding is None:
                return None
            return next_alarm(alarm, case, times, circumstances)
        if case.finding is None:
            del self._streaks[case.kind, case.subject]
        elif case.confirms(times):
            return raised(self.cluster.id, case, wall_ms, new_id())
        return None

    def _key(self, kind: str, subject: Subject) -> AlarmKey:
        return (self.cluster.id, kind, *subject)


def alarms_open(alarms: Alarms) -> int:
    """How many alarms are open."""
    return sum(each.is_open for each in alarms.by_id.values())
