"""A target assignment that is under way, in steps. How it is made is in `target_run`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.coordinator.runtime.result import CoordinatorRecord

Part = Sequence[CoordinatorRecord]


@dataclass(frozen=True, slots=True, eq=False)
class TargetRun:
    """See the module's head.

    Attributes:
        group_epoch: that it is made for. last_epoch: of the assignment that it replaces.
        assignor: who makes it. member_count: how many members it is made for.
        steps: what is left of it. Each gives the records that are to be written now, perhaps none; the last one None.
    """

    group_epoch: int
    last_epoch: int
    assignor: str
    member_count: int
    steps: Iterator[Part | None]
