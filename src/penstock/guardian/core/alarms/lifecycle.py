"""What becomes of an alarm after a look: a function from the alarm, what the looks show, and the circumstances.

    (none) ──confirmed──> confirmed ──intent──> acting ──not seen any more──> recovered
                 │             │                  │                              │
                 └─────────────┴── escalated <────┴──────── seen again ──────────┘

- It is confirmed, or recovered, by looks that follow each other for the confirming time.
- It is healed once, when the mode of `heal` is `act` or a person asks for it: after the delay, within which most
  brokers come back by themselves, and only while the last look is fresh and shows it. Nothing else depends on when it
  was confirmed, so what came while healing was off is taken up when it is on.
- Nothing is healed in a cluster of whose brokers more than max(1, 10 %) are dead: such a thing has one cause that
  moving data does not remove. It is escalated, and goes on when fewer are dead.
- What comes back soon after it was gone is the same alarm. If it was healed before, or has come back RETURNS_MAX times,
  it is not healed again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from penstock.guardian.core.alarms.alarm import ACTING, CONFIRMED, ESCALATED, RECOVERED, Alarm
from penstock.guardian.core.alarms.finding import (
    DEAD_BROKER,
    DEAD_DISK,
    SKEWED_LEADERS,
    UNDER_REPLICATED,
    Finding,
    Subject,
)
from penstock.guardian.core.alarms.streaks import Streak
from penstock.guardian.core.state import ACT, OBSERVE

RETURNS_MAX = 3
"""An alarm that comes back so often is no longer healed."""
MANY_SHARE = 0.1
PATIENCE = {SKEWED_LEADERS: 60_000, DEAD_BROKER: 24 * 3_600_000, DEAD_DISK: 24 * 3_600_000}
"""How long a heal may take to show, in ms: an election is quick, copies take hours."""
MANY = "more of the brokers are dead at once than may be healed by moving data"
AGAIN = "it came back after it was healed"
FLAPS = f"it has come back {RETURNS_MAX} times"
NO_HELP = "healing has not helped in time"


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take, in ms: until an alarm is confirmed or recovered; from there until it is healed; and how
    long after it was gone it is still the same one.
    """

    confirm_ms: int
    delay_ms: int
    calm_ms: int

    def confirm_of(self, kind: str) -> int:
        """How long an anomaly of a kind must be seen. Replicas fall behind and catch up all the time."""
        return max(self.confirm_ms, self.delay_ms) if kind == UNDER_REPLICATED else self.confirm_ms


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What else counts.

    Attributes:
        mode: that of `heal` in the cluster. dead: its brokers that are dead or have a dead directory; brokers: all.
        dead_known: whether that was seen lately. busy: another alarm of the cluster is being healed.
        can_heal: kinds for which there is an act.
    """

    wall_ms: int
    mode: str
    dead: int
    brokers: int
    dead_known: bool = True
    busy: bool = False
    can_heal: frozenset[str] = frozenset()

    @property
    def many(self) -> bool:
        """Whether too many are dead for anything to be healed."""
        return self.dead > max(1, self.brokers * MANY_SHARE)


@dataclass(frozen=True, slots=True)
class Case:
    """What looks show of one subject. `finding`: what the last one shows, None for nothing; `streak`: all in a row."""

    kind: str
    subject: Subject
    finding: Finding | None
    streak: Streak

    def confirms(self, times: Times) -> bool:
        """Whether it is certain enough for an alarm."""
        finding, streak = self.finding, self.streak
        return finding is not None and finding.agreed and streak.present and streak.lasted(times.confirm_of(self.kind))

    @property
    def evidence(self) -> tuple[str, ...]:
        """What the last look shows, in sentences."""
        return self.finding.evidence if self.finding is not None else ()


def raised(cluster_id: UUID, case: Case, wall_ms: int, alarm_id: UUID) -> Alarm:
    """A new alarm, confirmed."""
    broker, path = case.subject
    began_ms = case.streak.since_ms
    return Alarm(alarm_id, cluster_id, case.kind, broker, path, CONFIRMED, wall_ms, began_ms, case.evidence)


def next_alarm(alarm: Alarm, case: Case, times: Times, circumstances: Circumstances) -> Alarm | None:
    """The alarm as it is after a fresh look; None where nothing changes. One that is ACTING then is an intent."""
    streak = case.streak
    if case.finding is None:
        gone = alarm.is_open and not streak.present and streak.lasted(times.confirm_ms)
        return changed(alarm, RECOVERED, circumstances, asked=False) if gone else None
    if alarm.state == ACTING:
        late = circumstances.wall_ms - alarm.since_ms >= PATIENCE.get(alarm.kind, 0)
        return changed(alarm, ESCALATED, circumstances, reason=NO_HELP, asked=False) if late else None
    if not case.confirms(times):
        return None
    if alarm.state == RECOVERED:
        return returned(alarm, case, circumstances)
    if may_heal(alarm, streak, times, circumstances):
        return changed(
            alarm, ACTING, circumstances, evidence=case.evidence, heals=alarm.heals + 1, asked=False, reason=""
        )
    crowd = circumstances.many and alarm.kind in (DEAD_BROKER, DEAD_DISK)
    if alarm.state == CONFIRMED and crowd:
        return changed(alarm, ESCALATED, circumstances, reason=MANY)
    if alarm.state == ESCALATED and alarm.reason == MANY and not circumstances.many and circumstances.dead_known:
        return changed(alarm, CONFIRMED, circumstances, reason="")
    return None


def may_heal(alarm: Alarm, streak: Streak, times: Times, circumstances: Circumstances) -> bool:
    """Whether an alarm that a fresh look shows may be healed now."""
    if alarm.kind not in circumstances.can_heal or circumstances.mode == OBSERVE or circumstances.busy:
        return False
    if circumstances.many or not circumstances.dead_known:
        return False
    if alarm.asked:
        return True
    begun_ms = max(alarm.since_ms, streak.gone_ms or 0)
    waited = circumstances.wall_ms - begun_ms >= times.delay_ms
    return circumstances.mode == ACT and alarm.state == CONFIRMED and alarm.heals == 0 and waited


def returned(alarm: Alarm, case: Case, circumstances: Circumstances) -> Alarm:
    """An alarm that was gone and has come back."""
    returns = alarm.returns + 1
    reason = AGAIN if alarm.heals else FLAPS if returns >= RETURNS_MAX else ""
    state = ESCALATED if reason else CONFIRMED
    return changed(alarm, state, circumstances, evidence=case.evidence, returns=returns, reason=reason)


def is_over(alarm: Alarm, times: Times, wall_ms: int) -> bool:
    """Whether an alarm has been gone for so long that what comes now is another one."""
    return alarm.state == RECOVERED and wall_ms - alarm.since_ms >= times.calm_ms


def changed(alarm: Alarm, state: str, circumstances: Circumstances, **more: Any) -> Alarm:
    """The alarm in another state."""
    keeps = alarm.acknowledged if state != CONFIRMED else ""
    return replace(alarm, state=state, since_ms=circumstances.wall_ms, acknowledged=keeps, **more)
