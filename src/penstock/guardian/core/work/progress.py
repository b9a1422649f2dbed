"""How far a look finds each move: the next stage that it has come to, and what must be asked for.

A partition is found in one of these places. Everything follows from the move's stage and the place, not from what this
leader remembers: a new leader, which looks for itself, comes to the same.

| place | means |
|---|---|
| gone | the topic is not there, or another one of its name |
| ours | it is being reassigned to what the move wants |
| foreign | it is being reassigned to something else |
| there | its replicas are those that the move wants |
| before | its replicas are those of before, or in another order: nothing has been done |
| elsewhere | none of these |
| unseen | it was not told |
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from penstock.guardian.core.work.admission import named, state_obstacle
from penstock.guardian.core.work.looks import Look
from penstock.guardian.core.work.plans import (
    CANCELLED,
    CANCELLING,
    CAUGHT_UP,
    COPYING,
    LEADER_SET,
    SUBMITTED,
    SUPERSEDED,
    VERIFIED,
    WAITING,
    WAITING_MOVES,
    Move,
    Plan,
)

GONE, OURS, FOREIGN, THERE, BEFORE, ELSEWHERE, UNSEEN = (
    "gone", "ours", "foreign", "there", "before", "elsewhere", "unseen"
)  # fmt: skip


class Next(NamedTuple):
    """The stage that a move comes to, and why. `lasting`: only if it is found so for a while, since brokers tell of
    changes later than the controller makes them.
    """

    state: str
    reason: str = ""
    lasting: bool = False


def place_of(move: Move, look: Look) -> str:
    """Where a look finds a partition, see the module's head."""
    if move.topic in look.missing:
        return GONE
    topic_id, placed = look.topics.get(move.topic), look.partitions.get(move.key)
    if topic_id is not None and topic_id != move.topic_id and topic_id.int and move.topic_id.int:
        return GONE
    reassigned = look.reassigned.get(move.key)
    if reassigned is not None:
        return OURS if sorted(reassigned.target) == sorted(move.target) else FOREIGN
    if placed is None:
        return UNSEEN
    if placed.replicas == move.target:
        return THERE
    if sorted(placed.replicas) in (sorted(move.before), sorted(move.target)):
        return BEFORE
    return ELSEWHERE


def directories_reached(move: Move, look: Look) -> bool:
    """Whether every replica lies where the move wants it."""
    return all(
        look.directories.get((move.topic, move.partition, broker), (None, None))[0] == path
        for broker, path in move.wanted_directories
    )


def directories_copied(move: Move, look: Look) -> bool:
    """Whether a replica is being copied to where the move wants it."""
    return any(
        look.directories.get((move.topic, move.partition, broker), (None, None))[1] == path
        for broker, path in move.wanted_directories
    )


def next_of(plan: Plan, move: Move, look: Look, dead: Collection[int]) -> Next | None:
    """What a move comes to; None: it stays at its stage. `dead`: brokers that have not been there for long."""
    place = place_of(move, look)
    if place == GONE:
        return Next(SUPERSEDED, f"topic {move.topic} has been deleted", lasting=move.state not in WAITING_MOVES)
    if move.state in WAITING_MOVES:
        return next_of_waiting(plan, move, look)
    if move.state in (SUBMITTED, COPYING):
        return next_of_copying(plan, move, look, place, dead)
    if move.state == CANCELLING:
        return next_of_cancelling(move, look, place)
    return next_of_led(plan, move, look, place, dead)


def next_of_waiting(plan: Plan, move: Move, look: Look) -> Next | None:
    """A move that has not begun."""
    if plan.state == CANCELLING:
        return Next(CANCELLED, "the plan was cancelled")
    count = look.counts.get(move.topic, move.partitions)
    if count != move.partitions:
        grown = f"topic {move.topic} has {count} partitions now, and had {move.partitions} when it was planned"
        return Next(SUPERSEDED, grown)
    return None


def next_of_copying(plan: Plan, move: Move, look: Look, place: str, dead: Collection[int]) -> Next | None:
    """A move that was asked for, and may be under way."""
    if plan.state == CANCELLING:
        return Next(CANCELLING, "the plan was cancelled")
    needed = (*move.adding, *(broker for broker, _ in move.shifting), *((move.leader,) if move.leader >= 0 else ()))
    dying = [each for each in dict.fromkeys(needed) if each in dead]
    if dying:
        return Next(CANCELLING, f"{named(dying)} is dead" if len(dying) == 1 else f"{named(dying)} are dead")
    if place == OURS:
        return Next(COPYING) if move.state == SUBMITTED else None
    if place == FOREIGN:
        other = look.reassigned[move.key].target
        return Next(CANCELLED, f"somebody else reassigns {move.name} to {named(other)}")
    if place == THERE:
        return next_of_there(move, look, dead)
    if place == ELSEWHERE:
        where = named(look.partitions[move.key].replicas)
        return Next(CANCELLED, f"{move.name} is on {where} now: somebody else has moved it", lasting=True)
    if place == BEFORE and move.state == COPYING and (move.adding or move.removing):
        return Next(CANCELLED, f"somebody else has cancelled the reassignment of {move.name}", lasting=True)
    if place == BEFORE and move.state == SUBMITTED:
        in_the_way = state_obstacle(plan, move, look)
        return Next(WAITING, in_the_way.sentence, lasting=True) if in_the_way is not None else None
    return None


def next_of_there(move: Move, look: Look, dead: Collection[int]) -> Next | None:
    """A move whose replicas are at the right brokers. One that was there before, and is dead, is not waited for."""
    if not directories_reached(move, look):
        return Next(COPYING) if move.state == SUBMITTED and directories_copied(move, look) else None
    placed = look.partitions[move.key]
    behind = [each for each in move.target if each not in placed.in_sync and (each not in dead or each in move.adding)]
    return Next(CAUGHT_UP) if not move.copies or not behind else None


def next_of_cancelling(move: Move, look: Look, place: str) -> Next | None:
    """A move that is to be undone."""
    reason = move.reason
    if place == BEFORE:
        return None if directories_copied(move, look) else Next(CANCELLED, reason, lasting=True)
    if place == THERE:
        if move.shifting and directories_copied(move, look):
            return None
        done = "" if not move.copies else ", when its copies were complete"
        return Next(CANCELLED, f"{reason}{done}", lasting=True)
    if place == FOREIGN:
        return Next(CANCELLED, f"{reason}; somebody else reassigns it")
    if place == ELSEWHERE:
        return Next(CANCELLED, f"{reason}; it is on {named(look.partitions[move.key].replicas)} now", lasting=True)
    return None


def next_of_led(plan: Plan, move: Move, look: Look, place: str, dead: Collection[int]) -> Next | None:
    """A move whose replicas have caught up, and that needs its leader, or a last look."""
    if place == FOREIGN:
        return Next(SUPERSEDED, f"its replicas have moved; somebody else reassigns {move.name} by now")
    if place in (BEFORE, ELSEWHERE):
        return Next(SUPERSEDED, f"its replicas had moved; somebody else has moved {move.name} by now", lasting=True)
    if place != THERE:
        return None
    leader = look.partitions[move.key].leader
    if move.state == CAUGHT_UP and move.leader >= 0:
        if leader == move.leader:
            return Next(LEADER_SET)
        if plan.state == CANCELLING or move.leader in dead:
            why = "the plan was cancelled" if plan.state == CANCELLING else f"broker {move.leader} is dead"
            return Next(CANCELLED, f"{why}; its replicas have moved, its leader was not set")
        return None
    if not directories_reached(move, look):
        return next_of_elsewhere_on_disk(plan, move, look, dead)
    turned = f"broker {leader} leads it by now" if move.leader >= 0 and leader != move.leader else ""
    return Next(VERIFIED, turned)


def next_of_elsewhere_on_disk(plan: Plan, move: Move, look: Look, dead: Collection[int]) -> Next | None:
    """A move whose replicas have been in the right directories, and are not found there, or not at all."""
    brokers = [broker for broker, _ in move.wanted_directories]
    silent = [each for each in brokers if each in dead]
    if silent:
        return Next(SUPERSEDED, f"its replicas have moved; {named(silent)} cannot tell any more in which directories")
    if all(each in look.described for each in brokers):
        return Next(
            SUPERSEDED, "its replicas had moved; somebody else has moved them to other directories", lasting=True
        )
    if plan.state == CANCELLING:
        return Next(CANCELLED, "the plan was cancelled; its replicas have moved", lasting=True)
    return None
