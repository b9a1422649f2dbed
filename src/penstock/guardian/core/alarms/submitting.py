"""Plans that heal, on their way to whoever carries out plans (`guardian.core.work`).

A plan is held against the cluster like one that a person brings, and is approved in the same batch of records: the mode
of `heal`, or the person who has asked for it, has said so already. It bears the id of its alarm as who brought it. So
there is one plan for a heal, whichever leader finds the intent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from uuid import UUID

from penstock.guardian.core import calls
from penstock.guardian.core.alarms.alarm import Alarm
from penstock.guardian.core.alarms.evacuation import evacuation, moving
from penstock.guardian.core.alarms.finding import Subject
from penstock.guardian.core.calls import Call, Known, Refused, Reply
from penstock.guardian.core.leader import Leader
from penstock.guardian.core.resources.plans import Plans
from penstock.guardian.core.sight import ClusterSight, Sight
from penstock.guardian.core.state import Cluster, GuardianState
from penstock.guardian.core.work.plans import APPROVED, CANCELLING, HEAL, Plan
from penstock.guardian.core.work.replaying import state_record
from penstock.protocol.messages.guardian.guardian_plan_record import GuardianPlanRecord

RATE = "auto"
"""Copies go as fast as does not hold up others."""

Submitted = Callable[[bool | None, str, int], None]
"""`submitted(taken, said, now_ms)`: what became of a plan, in a sentence; None: it may be taken a little later."""


class Quorum(Protocol):
    """What is used of Guardian's quorum."""

    leader: Leader


def principal_of(alarm: Alarm) -> str:
    """Who brings the plan of an alarm; a heal that was asked for again has another one."""
    return f"Guardian, alarm {alarm.id}, heal {alarm.heals}"


def plan_of(state: GuardianState, alarm: Alarm) -> Plan | None:
    """The plan of an alarm's last heal; None if there is none, or it is forgotten."""
    name = principal_of(alarm)
    return next((each for each in state.work.plans.values() if each.principal == name), None)


class PlanSubmission:
    """See the module's head."""

    def __init__(self, quorum: Callable[[], Quorum], sight: Sight) -> None:
        self._quorum = quorum
        self._sight = sight

    def submit(
        self, cluster: Cluster, alarm: Alarm, seen: ClusterSight, wall_ms: int, now_ms: int, *, submitted: Submitted
    ) -> None:
        """Has what is dead evacuated; `submitted` is called once."""
        leader = self._quorum().leader
        state = leader.state
        there = plan_of(state, alarm)
        if there is not None:
            submitted(True, said_of(there.id), now_ms)
            return
        plan = evacuation(seen, Subject(alarm.broker, alarm.path), moving(state, cluster))
        if not plan["moves"]:
            submitted(False, why_nothing(plan), now_ms)
            return
        try:
            records = Plans().decide(self._known(state, wall_ms), call_of(cluster, alarm, plan), "", no_id).records
        except Refused as refused:
            for_now = refused.reply.status == calls.UNAVAILABLE
            submitted(None if for_now else False, f"its plan is refused: {refused.reply.body['error']}", now_ms)
            return
        plan_id = next(each.plan_id for each in records if isinstance(each, GuardianPlanRecord))
        new = Plan(plan_id, cluster.id, HEAL, principal_of(alarm), wall_ms)
        approval = state_record(new, APPROVED, f"alarm {alarm.id}", wall_ms)

        def written(reply: Reply, at_ms: int) -> None:
            taken = reply.status == calls.OK
            submitted(taken, said_of(plan_id) if taken else f"its plan was lost: {reply.body['error']}", at_ms)

        leader.write([*records, approval], written, now_ms)

    def cancel(self, alarm: Alarm, why: str, wall_ms: int, now_ms: int) -> None:
        """Ends the plan of an alarm that needs it no more, if it has not ended."""
        leader = self._quorum().leader
        plan = plan_of(leader.state, alarm)
        if plan is not None and plan.worked and plan.state != CANCELLING:
            leader.write([state_record(plan, CANCELLING, why, wall_ms)], lambda reply, at_ms: None, now_ms)

    def _known(self, state: GuardianState, wall_ms: int) -> Known:
        return Known(state, self._sight, wall_ms)


def call_of(cluster: Cluster, alarm: Alarm, plan: Mapping[str, Any]) -> Call:
    """The plan as a person would bring it. A replica that is dead is none to spare: `thin` says that this is meant."""
    body = {"cluster": cluster.name, "action": HEAL, "rate_bytes": RATE, "thin": True, "plan": plan}
    return Call("POST", Plans.path, json.dumps(body).encode(), alarm.id, principal_of(alarm))


def no_id() -> UUID:
    """Plans have numbers."""
    raise AssertionError("a plan needs no id")


def said_of(plan_id: int) -> str:
    return f"carried out by plan {plan_id}"


def why_nothing(plan: Mapping[str, Any]) -> str:
    """Why a plan moves nothing."""
    reasons = plan["violations"]
    return f"nothing of it can be moved: {reasons[0]['text']}" if reasons else "there is nothing left to move"
