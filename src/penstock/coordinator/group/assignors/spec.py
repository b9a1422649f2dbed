"""What an assignor is given, and how long its steps are."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

R = TypeVar("R")

Partitions = Mapping[UUID, tuple[int, ...]]
"""Partitions by topic, ascending and without empty topics. Never changed once made."""

NO_PARTITIONS: Partitions = {}

Steps = Generator[None, None, R]
"""Work that comes to an end in steps, each of what a `Pace` allows."""

SIGN_BITS = 1 << 127 | 1 << 63
"""Kafka compares ids as two signed numbers of 64 bits."""


def topic_order(topic_id: UUID) -> int:
    """The sort key of topic ids, as Kafka orders them."""
    return topic_id.int ^ SIGN_BITS


def in_order(partitions: Mapping[UUID, Iterable[int]]) -> Partitions:
    """The same partitions with topics and numbers ascending, and without empty topics."""
    ordered = ((topic, tuple(sorted(partitions[topic]))) for topic in sorted(partitions, key=topic_order))
    return {topic: numbers for topic, numbers in ordered if numbers}


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member.

    Attributes:
        topics: what it subscribes to, of the topics that exist, ascending by `topic_order`.
        assigned: what it should have according to the last assignment.
        instance_id: of a static member.
    """

    topics: tuple[UUID, ...]
    assigned: Partitions = field(default_factory=lambda: NO_PARTITIONS)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group.

    Attributes:
        members: by member id, in the order in which they are served.
        homogeneous: whether all members subscribe to the same topics.
        partition_counts: of every topic that a member subscribes to.
    """

    members: Mapping[str, MemberSpec]
    homogeneous: bool
    partition_counts: Mapping[UUID, int]


class Pace:
    """Says when a step is over: `if pace.is_over(): yield` after each member or partition that was looked at."""

    __slots__ = ("_left", "_per_step")

    def __init__(self, per_step: int) -> None:
        self._per_step = self._left = per_step

    def is_over(self, work: int = 1) -> bool:
        """Counts work that was done; returns whether the step is over."""
        self._left -= work
        if self._left > 0:
            return False
        self._left = self._per_step
        return True


def at_once(steps: Steps[R]) -> R:
    """Runs all steps one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
