"""How plans begin and end by themselves: the records, each with the decision that it follows from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from penstock.guardian.core.state import ACT, OBSERVE, Cluster
from penstock.guardian.core.work.budget import GREENS, OPEN, Pace
from penstock.guardian.core.work.plans import (
    APPROVED,
    CANCELLED,
    CANCELLING,
    CHECKED,
    DONE,
    PAUSED,
    RUNNING,
    SUPERSEDED,
    VERIFIED,
    Decision,
    Plan,
    Work,
)
from penstock.guardian.core.work.replaying import WorkRecord, decision_record, state_record

HURTS = "copies hurt others: "
"""How the reason begins of a plan that Guardian has paused by itself."""
ITSELF = "Guardian"
"""Who decides what nobody has asked for."""


def started_records(work: Work, cluster: Cluster, wall_ms: int) -> Iterator[WorkRecord]:
    """Plans that run from now on: those that were approved, and where Guardian may act, those that are sound."""
    number = work.next_decision
    for plan in work.plans.values():
        if plan.cluster != cluster.id:
            continue
        mode = cluster.mode(plan.action)
        if plan.state == APPROVED and mode != OBSERVE:
            yield state_record(plan, RUNNING, "", wall_ms)
        elif plan.state == CHECKED and mode == ACT:
            yield state_record(plan, RUNNING, "", wall_ms)
            text = f"Plan {plan.id} runs without approval, since the mode of {plan.action} in {cluster.name} is {ACT}."
            yield decision_record(Decision(number, plan.id, "start", ITSELF, wall_ms, text))
            number += 1


def paced_records(work: Work, cluster: UUID, pace: Pace, wall_ms: int) -> Iterator[WorkRecord]:
    """Plans without a rate of their own that pause since copies hurt others, and go on when they do no more."""
    number = work.next_decision
    for plan in work.worked_plans(cluster):
        text = ""
        if plan.rate_bytes < 0 and plan.state == RUNNING and pace.state != OPEN:
            yield state_record(plan, PAUSED, f"{HURTS}{pace.why}", wall_ms)
            text = f"Plan {plan.id} pauses, since copies at the lowest rate hurt others: {pace.why}."
        elif plan.state == PAUSED and plan.reason.startswith(HURTS) and pace.state == OPEN and pace.greens >= GREENS:
            yield state_record(plan, RUNNING, "", wall_ms)
            text = f"Plan {plan.id} goes on, since copies hurt nobody any more."
        if text:
            yield decision_record(Decision(number, plan.id, "pace", ITSELF, wall_ms, text))
            number += 1


def ended_records(work: Work, cluster: UUID, wall_ms: int) -> Iterator[WorkRecord]:
    """Plans whose moves have all ended."""
    number = work.next_decision
    for plan in work.worked_plans(cluster):
        if all(move.ended for move in plan.moves):
            state, counts = end_of(plan), Counter(move.state for move in plan.moves)
            said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            yield state_record(plan, state, said, wall_ms)
            detail = json.dumps({"moves": dict(sorted(counts.items())), "duration_ms": max(0, wall_ms - plan.wall_ms)})
            text = f"Plan {plan.id} is {state}: of {len(plan.moves)} moves, {said}."
            yield decision_record(Decision(number, plan.id, "end", ITSELF, wall_ms, text, detail))
            number += 1


def end_of(plan: Plan) -> str:
    """The last state of a plan whose moves have all ended."""
    if plan.state == CANCELLING:
        return CANCELLED
    states = {move.state for move in plan.moves}
    if VERIFIED in states:
        return DONE
    return SUPERSEDED if SUPERSEDED in states else CANCELLED
