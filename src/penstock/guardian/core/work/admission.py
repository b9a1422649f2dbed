"""Which waiting moves may begin now, and of the others why not, in a sentence.

A move begins only where all replicas are in sync, and where those that it leaves are more than min.insync.replicas asks
for: then a broker may die meanwhile, and producers with acks=all go on. (A plan that heals takes a replica away because
it is dead, so that one is not waited for.) Nobody else may be reassigning the partition. And there must be room under
the caps: of the disks and brokers that it copies to and from, of the cluster, of all.

The same function tells people why a move waits, from what the sampler has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from penstock.guardian.core.state import OBSERVE, Cluster
from penstock.guardian.core.work.looks import Look
from penstock.guardian.core.work.plans import CANCELLING, COPYING_MOVES, RUNNING, WAITING_MOVES, Move, Plan, Work


class Obstacle(NamedTuple):
    """Why a move cannot begin. `blocks`: not by waiting alone will it be able to."""

    sentence: str
    blocks: bool = False


@dataclass(slots=True)
class InFlight:
    """Moves that copy now: in all, in this cluster, to and from its brokers, to its disks."""

    fleet: int = 0
    cluster: int = 0
    coming: Counter[int] = field(default_factory=Counter)
    leaving: Counter[int] = field(default_factory=Counter)
    disks: Counter[tuple[int, str]] = field(default_factory=Counter)
    partitions: set[tuple[str, int]] = field(default_factory=set)

    @classmethod
    def of(cls, work: Work, cluster: UUID, look: Look) -> InFlight:
        """What is in flight by the log."""
        found = cls()
        for plan in work.worked_plans():
            for move in plan.moves:
                if move.state in COPYING_MOVES:
                    if plan.cluster == cluster:
                        found.add(move, look)
                    else:
                        found.fleet += 1
        return found

    def add(self, move: Move, look: Look) -> None:
        """One more move of this cluster."""
        self.fleet += 1
        self.cluster += 1
        self.partitions.add(move.key)
        self.coming.update(move.adding)
        self.leaving.update(sources(move, look))
        self.disks.update(move.wanted_directories)


def sources(move: Move, look: Look) -> tuple[int, ...]:
    """The brokers that copies of a move are read from: the partition's leader."""
    placed = look.partitions.get(move.key)
    return (placed.leader,) if move.adding and placed is not None and placed.leader >= 0 else ()


def beginning(
    work: Work, cluster: Cluster, look: Look, passed_over: frozenset[tuple[int, int]]
) -> list[tuple[Plan, Move]]:
    """The moves that may begin now, all of them together. `passed_over`: plan and number of moves that shall not."""
    flying = InFlight.of(work, cluster.id, look)
    found = []
    for plan in work.worked_plans(cluster.id):
        if plan_obstacle(plan, cluster) is not None:
            continue
        for move in plan.moves:
            if flying.cluster >= plan.cap("cluster") or flying.fleet >= plan.cap("fleet"):
                break
            if move.state not in WAITING_MOVES or (plan.id, move.number) in passed_over:
                continue
            if obstacle(plan, move, look, flying) is None:
                flying.add(move, look)
                found.append((plan, move))
    return found


def plan_obstacle(plan: Plan, cluster: Cluster) -> Obstacle | None:
    """Why nothing of a plan begins."""
    if plan.state != RUNNING:
        because = f", since {plan.reason}" if plan.reason and plan.state != CANCELLING else ""
        return Obstacle(f"plan {plan.id} is {plan.state}{because}")
    if cluster.mode(plan.action) == OBSERVE:
        return Obstacle(f"the mode of {plan.action} in {cluster.name} is {OBSERVE}")
    return None


def obstacle(plan: Plan, move: Move, look: Look, flying: InFlight) -> Obstacle | None:
    """Why a move cannot begin; None if it can."""
    return state_obstacle(plan, move, look) or cap_obstacle(plan, move, look, flying)


def state_obstacle(plan: Plan, move: Move, look: Look) -> Obstacle | None:
    """What of the partition, and of the brokers, is in the way."""
    placed = look.partitions.get(move.key)
    if placed is None:
        return Obstacle(f"{move.name} has not been seen lately")
    if move.key in look.reassigned:
        return Obstacle(f"{move.name} is being reassigned by somebody else")
    if sorted(placed.replicas) not in (sorted(move.before), sorted(move.target)):
        where = f"{named(placed.replicas)}, not on {named(move.before)} as when it was planned"
        return Obstacle(f"{move.name} is on {where}", blocks=True)
    for broker in dict.fromkeys((*move.adding, *(each for each, _ in move.shifting))):
        if broker not in look.alive:
            return Obstacle(f"broker {broker} is not there")
    if move.leader >= 0 and move.leader not in look.alive:
        return Obstacle(f"broker {move.leader}, which is to lead, is not there")
    behind = [each for each in placed.replicas if each not in placed.in_sync and not plan.gives_up(move, each)]
    if behind:
        return Obstacle(f"the replicas on {named(behind)} are not in sync")
    return margin_obstacle(plan, move, look) if move.adding or move.removing else None


def margin_obstacle(plan: Plan, move: Move, look: Look) -> Obstacle | None:
    """Whether a broker could die when the move is done, and producers go on."""
    least = look.min_isr.get(move.topic)
    if least is None:
        return Obstacle(f"min.insync.replicas of {move.topic} has not been seen")
    kept = len(move.target)
    if kept < least or (kept == least and not plan.thin):
        left = f"{kept} replicas are left, and min.insync.replicas asks for {least}"
        return Obstacle(f"{left}: only a plan that is `thin` moves what has none to spare", blocks=True)
    return None


def cap_obstacle(plan: Plan, move: Move, look: Look, flying: InFlight) -> Obstacle | None:
    """Which cap is reached."""
    if flying.fleet >= plan.cap("fleet"):
        return Obstacle(f"{flying.fleet} moves are in flight in all clusters, as many as may be")
    if flying.cluster >= plan.cap("cluster"):
        return Obstacle(f"{flying.cluster} moves are in flight in this cluster, as many as may be")
    for broker in move.adding:
        if flying.coming[broker] >= plan.cap("broker_in"):
            return Obstacle(f"{flying.coming[broker]} moves to broker {broker} are in flight, as many as may be")
    for broker in sources(move, look):
        if flying.leaving[broker] >= plan.cap("broker_out"):
            return Obstacle(f"{flying.leaving[broker]} moves from broker {broker} are in flight, as many as may be")
    for disk in move.wanted_directories:
        if flying.disks[disk] >= plan.cap("disk"):
            return Obstacle(
                f"{flying.disks[disk]} moves to {disk[1]} of broker {disk[0]} are in flight, as many as may be"
            )
    return None


def named(brokers: Iterable[int]) -> str:
    """Brokers, for a sentence."""
    found = [str(each) for each in brokers]
    if not found:
        return "no broker"
    if len(found) == 1:
        return f"broker {found[0]}"
    return f"brokers {', '.join(found[:-1])} and {found[-1]}"
