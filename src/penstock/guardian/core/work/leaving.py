"""A cluster is removed while plans or throttles are there: what is left behind in it, for whoever can still reach it.

That is for a cluster, or a broker of it, that will never answer again. Nothing is sent to it any more. Its plans end at
once; their moves stay as they were last known. What may still be at work in the cluster (reassignments, throttles with
the values of before) is told, and kept as a decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.guardian.core.limits import GUARDIAN_LEFT_NAMED_MAX, GUARDIAN_TEXT_MAX
from penstock.guardian.core.state import Cluster, GuardianState
from penstock.guardian.core.work.plans import (
    CANCELLED,
    CAUGHT_UP,
    COPYING_MOVES,
    LEADER_SET,
    Decision,
    Limit,
    Move,
    Plan,
)
from penstock.guardian.core.work.replaying import WorkRecord, decision_record, state_record

LEAVE = "leave behind"
"""The kind of the decision."""
BEGUN = (*COPYING_MOVES, CAUGHT_UP, LEADER_SET)
"""Moves that may have changed something, and have not ended."""


def live_plans(state: GuardianState, cluster: Cluster) -> list[Plan]:
    """The plans of a cluster that have not ended."""
    return [each for each in state.work.plans.values() if each.cluster == cluster.id and not each.ended]


def left_in(state: GuardianState, cluster: Cluster) -> dict[str, Any]:
    """What a cluster would keep of Guardian's. The lists name so many, the numbers count all."""
    plans = live_plans(state, cluster)
    begun = [(plan, move) for plan in plans for move in plan.moves if move.state in BEGUN]
    limits = state.work.limits_of(cluster.id)
    return {
        "plans": [each.id for each in plans],
        "moves_under_way": len(begun),
        "throttles_left": len(limits),
        "moves": [shown_move(plan, move) for plan, move in begun[:GUARDIAN_LEFT_NAMED_MAX]],
        "throttles": [shown_limit(each) for each in limits[:GUARDIAN_LEFT_NAMED_MAX]],
    }


def leaving_records(
    state: GuardianState, cluster: Cluster, left: Mapping[str, Any], principal: str, wall_ms: int
) -> Iterator[WorkRecord]:
    """Ends the plans of a cluster that is removed by force, and keeps what is left there; nothing where nothing is."""
    plans = live_plans(state, cluster)
    if not plans and not left["throttles_left"]:
        return
    for plan in plans:
        yield state_record(plan, CANCELLED, f"{principal} has removed {cluster.name} by force", wall_ms)
    count, throttles = left["moves_under_way"], left["throttles_left"]
    text = (
        f"{principal} removes {cluster.name} by force. Left behind in it may be {count} moves under way and "
        f"{throttles} throttles: nobody takes them back."
    )
    detail = json.dumps({"cluster": cluster.name, "bootstrap": list(cluster.bootstrap), **left})
    about = plans[-1].id if plans else 0
    yield decision_record(Decision(state.work.next_decision, about, LEAVE, principal, wall_ms, text, detail))


def shown_move(plan: Plan, move: Move) -> dict[str, Any]:
    """A move that is left as it is."""
    return {
        "id": plan.name_of(move),
        "topic": move.topic,
        "partition": move.partition,
        "state": move.state,
        "before": list(move.before),
        "replicas": list(move.target),
    }


def shown_limit(limit: Limit) -> dict[str, Any]:
    """A throttle that is left: what Guardian has set, and what was there before."""
    before = None if limit.before is None else cut(limit.before)
    return {limit.kind: limit.name, "config": limit.setting, "value": cut(limit.value), "before": before}


def cut(value: str) -> str:
    """A value, or the first of a long one."""
    return value if len(value) <= GUARDIAN_TEXT_MAX else f"{value[:GUARDIAN_TEXT_MAX]}…"
