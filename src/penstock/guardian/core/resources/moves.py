"""`/v1/moves`: the moves of plans; one of them is told in sentences.

| call | meaning |
|---|---|
| `GET /v1/moves?plan=ID` | those of a plan; `cluster=NAME`, `state=STATE`, `after=PLAN-NUMBER` for the next page |
| `GET /v1/moves/PLAN-NUMBER` | one of them, with `sentences`: what it is, why, how far, what it waits for |

Why a move waits is told from what the leader has seen of the cluster, so the leader answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.config.nearest import did_you_mean
from penstock.guardian.core.calls import BAD_REQUEST, NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.limits import GUARDIAN_MOVES_SHOWN_MAX, GUARDIAN_TEXT_MAX
from penstock.guardian.core.resources import operations as described
from penstock.guardian.core.resources.clusters import cluster_named
from penstock.guardian.core.resources.plans import plan_named
from penstock.guardian.core.state import GuardianState
from penstock.guardian.core.work.plans import WAITING, Move, Part, Plan, Work
from penstock.guardian.core.work.telling import STAGES, sentences_of

STATES = (WAITING, *STAGES)


class Moves(Resource):
    """See the module's head."""

    path = "/v1/moves"
    operations = described.MOVES
    live = True

    def read(self, known: Known, call: Call, name: str) -> Reply:
        state = known.state
        if name:
            plan, move = move_named(state.work, name)
            told = {**shown(state, plan, move), "stages": stages(move), "sentences": sentences_of(known, plan, move)}
            return Reply(OK, told)
        query = call.query(("plan", "cluster", "state", "after"))
        wanted = query.get("state", WAITING)
        if wanted not in STATES:
            near = did_you_mean(wanted, STATES)
            raise Refused(BAD_REQUEST, f"state: {wanted[:GUARDIAN_TEXT_MAX]} is none of {', '.join(STATES)}{near}")
        found: list[dict[str, Any]] = []
        more = False
        for plan, move in chosen(state, query):
            if "state" in query and move.state != query["state"]:
                continue
            if len(found) == GUARDIAN_MOVES_SHOWN_MAX:
                more = True
                break
            found.append(shown(state, plan, move))
        return Reply(OK, {"moves": found, "more": more})


def chosen(state: GuardianState, query: dict[str, str]) -> Iterator[tuple[Plan, Move]]:
    """The moves that a query asks for. Raises Refused."""
    plans = list(state.work.plans.values())
    if "plan" in query:
        plans = [plan_named(state.work, query["plan"])]
    if "cluster" in query:
        cluster = cluster_named(state, query["cluster"])
        plans = [each for each in plans if each.cluster == cluster.id]
    after = (0, 0)
    if "after" in query:
        plan, move = move_named(state.work, query["after"])
        after = plan.id, move.number
    for each in plans:
        for move in each.moves:
            if (each.id, move.number) > after:
                yield each, move


def move_named(work: Work, name: str) -> tuple[Plan, Move]:
    """The move PLAN-NUMBER. Raises Refused."""
    first, dash, last = name.partition("-")
    if not dash or not (last.isascii() and last.isdecimal() and len(last) < 10):
        raise Refused(BAD_REQUEST, f"{name[:GUARDIAN_TEXT_MAX]} is no move: it is PLAN-NUMBER, like 3-17")
    plan = plan_named(work, first)
    move = plan.move(int(last))
    if move is None:
        raise Refused(NOT_FOUND, f"plan {plan.id} has moves 1 to {len(plan.moves)}, and no {last}")
    return plan, move


def shown(state: GuardianState, plan: Plan, move: Move) -> dict[str, Any]:
    """A move as answers have it."""
    cluster = state.clusters.get(plan.cluster)
    return {
        "id": plan.name_of(move),
        "plan": plan.id,
        "cluster": cluster.name if cluster is not None else "",
        "topic": move.topic,
        "partition": move.partition,
        "state": move.state,
        "reason": move.reason,
        "changed_ms": move.stages[-1].wall_ms,
        "before": list(move.before),
        "replicas": list(move.target),
        "log_dirs": list(move.directories),
        "leader": move.leader,
        "bytes": move.size_bytes,
        "parts": [part_shown(each) for each in move.parts],
    }


def part_shown(part: Part) -> dict[str, Any]:
    """A move of the plan's own."""
    ends = [(part.from_broker, part.from_directory), (part.to_broker, part.to_directory)]
    begin, end = ({"broker": broker} | ({"dir": path} if path else {}) for broker, path in ends)
    return {"id": part.id, "kind": part.kind, "from": begin, "to": end, "bytes": part.size_bytes, "why": part.why}


def stages(move: Move) -> list[dict[str, Any]]:
    """How a move has come to its state."""
    return [{"state": each.state, "wall_ms": each.wall_ms, "reason": each.reason} for each in move.stages]
