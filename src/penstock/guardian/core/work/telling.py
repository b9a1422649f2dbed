"""A move in sentences: what it is, why the plan wants it, how far it is, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.guardian.core.calls import Known
from penstock.guardian.core.sight import ClusterSight, SeenTopic
from penstock.guardian.core.work.admission import InFlight, named, obstacle, plan_obstacle
from penstock.guardian.core.work.looks import Look
from penstock.guardian.core.work.plans import (
    BLOCKED,
    CANCELLED,
    CANCELLING,
    CAUGHT_UP,
    COPYING,
    LEADER_SET,
    SUBMITTED,
    SUPERSEDED,
    VERIFIED,
    WAITING_MOVES,
    Move,
    Part,
    Plan,
)

STAGES = {
    SUBMITTED: "It has been asked for.",
    COPYING: "Its copies are under way.",
    CAUGHT_UP: "Its copies are in sync.",
    LEADER_SET: "Its leader has been elected.",
    VERIFIED: "It is done, and was found as planned.",
    BLOCKED: "It cannot begin.",
    CANCELLING: "It is being undone.",
    CANCELLED: "It was cancelled.",
    SUPERSEDED: "It is not needed any more.",
}


def sentences_of(known: Known, plan: Plan, move: Move) -> list[str]:
    """The sentences about a move."""
    return [*what(plan, move), *why(move), *how_far(known, plan, move)]


def what(plan: Plan, move: Move) -> Iterator[str]:
    """What a move does."""
    cluster_part = f"Move {plan.name_of(move)} takes {move.name}"
    if move.adding or move.removing:
        yield f"{cluster_part} from {named(move.before)} to {named(move.target)}."
    elif move.shifting:
        where = " and ".join(f"{path} of broker {broker}" for broker, path in move.shifting)
        yield f"{cluster_part} to {where}."
    else:
        yield f"Move {plan.name_of(move)} changes who leads {move.name}; nothing is copied."
    if move.leader >= 0:
        yield f"Broker {move.leader} is to lead it."
    if move.size_bytes:
        yield f"It copies {move.size_bytes:,} bytes."


def why(move: Move) -> Iterator[str]:
    """Why the plan wants it."""
    for part in move.parts:
        if part.why:
            yield f"The plan's move {part.id} ({of_part(part)}): {part.why.rstrip('.')}."


def of_part(part: Part) -> str:
    return f"{part.kind}, from broker {part.from_broker} to broker {part.to_broker}"


def how_far(known: Known, plan: Plan, move: Move) -> Iterator[str]:
    """How far it is, and what is in its way."""
    if plan.ended and not move.ended:
        yield f"It was left as it was: plan {plan.id} is {plan.state}, since {plan.reason}."
        return
    if move.state in WAITING_MOVES:
        yield f"It waits: {waits_for(known, plan, move)}."
        return
    said = STAGES[move.state]
    yield f"{said.rstrip('.')}: {move.reason}." if move.reason else said
    begun = next((each for each in move.stages if each.state == SUBMITTED), None)
    if begun is not None and move.ended:
        yield f"That took {max(0, move.stages[-1].wall_ms - begun.wall_ms) / 1000:.1f} s."
    seen = known.sight.clusters.get(plan.cluster)
    if seen is not None and move.state == COPYING:
        yield from copied(seen, move)


def copied(seen: ClusterSight, move: Move) -> Iterator[str]:
    """How much of a copy is there, where that was seen."""
    for broker in move.adding:
        replica = seen.replicas.get((move.topic, move.partition, broker))
        if replica is not None and move.size_bytes:
            yield f"{replica.size_bytes:,} bytes are at broker {broker}."


def waits_for(known: Known, plan: Plan, move: Move) -> str:
    """What a move waits for, by what has been seen lately."""
    cluster = known.state.clusters.get(plan.cluster)
    seen = known.sight.clusters.get(plan.cluster)
    if cluster is None or seen is None:
        return move.reason or "its cluster has not been looked at yet"
    held = plan_obstacle(plan, cluster)
    if held is not None:
        return held.sentence
    if move.state == BLOCKED and move.reason:
        return move.reason
    look = look_at(seen, known, plan, move)
    found = obstacle(plan, move, look, InFlight.of(known.state.work, cluster.id, look))
    return found.sentence if found is not None else "it may begin, and is about to"


def look_at(seen: ClusterSight, known: Known, plan: Plan, move: Move) -> Look:
    """What has been seen of the move's topic, and of those in flight, as a look."""
    topics = {move.topic} | {
        each.topic for other in known.state.work.worked_plans(plan.cluster) for each in other.moves if not each.ended
    }
    found: dict[str, SeenTopic] = {name: seen.topics[name] for name in sorted(topics) if name in seen.topics}
    return Look.of(ClusterSight(brokers=seen.brokers, topics=found))
