"""The rows of one block as they were told last, and at which sequence each has changed.

A look at the node brings the present rows, some at a time. Looks have even numbers, which are the sequences of their
frames. They may overlap, since each goes in steps: what one finds while a later one is under way counts as of a number
of its own, so that a caller sees a change twice rather than never; and the frame of a look that did not end as the
latest has the odd number after its own, since it may tell of what came later. Who has the frame of any other look knows
exactly what was found up to its number, and can be told changes as differences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import Final

from penstock.node.limits import TELEMETRY_REMOVALS_MAX, TELEMETRY_ROWS_PER_STEP
from penstock.protocol.telemetry import FULL, Block, is_exact

Name = tuple[str, ...]
Values = tuple[int, ...]
OTHERS_KEY: Final = object()
"""The key of the row of OTHERS, which comes after all others."""


class Row:
    """One row. `named_at` and `changed_at` are sequences; `seen` is the last look that has found it.

    `before`: the values before the last change, and `before_at` the sequence of the one before.
    """

    __slots__ = ("before", "before_at", "changed_at", "id", "name", "named_at", "seen", "values")

    def __init__(self, number: int, name: Name, at: int) -> None:
        self.id = number
        self.name = name
        self.values: Values = ()
        self.before: Values = ()
        self.before_at = self.named_at = self.changed_at = at
        self.seen = at


class Sequences:
    """Numbers looks and changes. `latest`: the last number."""

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest = 0

    def next(self) -> int:
        """Begins a look."""
        self.latest += 2
        return self.latest

    def of_change(self, look: int) -> int:
        """What a change counts as that a look has found: the look's own number, unless there are later ones."""
        return look if look == self.latest else self.next()

    def of_frame(self, look: int) -> int:
        """The sequence of the frame of a look that has just ended."""
        return look if look == self.latest else look + 1


class Changes:
    """What a caller is told of some rows: those with a name that is news; those with values that are, by `differences`
    from what it knows or as a whole.
    """

    __slots__ = ("differences", "named", "whole")

    def __init__(self) -> None:
        self.named: list[Row] = []
        self.whole: list[Row] = []
        self.differences: list[Row] = []


class Table:
    """See the module's head. `forgotten_at`: callers of before may have missed the end of rows."""

    __slots__ = ("_next_id", "_removed", "_rows", "_sequences", "block", "forgotten_at")

    def __init__(self, block: Block, sequences: Sequences) -> None:
        self.block = block
        self.forgotten_at = FULL
        self._sequences = sequences
        self._rows: dict[Hashable, Row] = {}
        self._removed: deque[tuple[int, int]] = deque()
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._rows)

    def found(
        self,
        keys: Sequence[Hashable],
        values: Sequence[Values],
        name_of: Callable[[int], Name],
        look: int,
        since: int,
        *,
        renamed: bool = False,
    ) -> Changes:
        """Takes in some rows that a look has found, and returns what a caller who knows `since` is to be told.

        Args:
            keys: who they are, unlike others for the life of the process.
            name_of: the name of the row at an index; asked for new rows only, or with `renamed` for all.
        """
        at = self._sequences.of_change(look)
        rows, changes = self._rows, Changes()
        named, whole, differences = changes.named, changes.whole, changes.differences
        exact = since if is_exact(since) else FULL
        for index, (key, present) in enumerate(zip(keys, values, strict=True)):
            row = rows.get(key)
            if row is None:
                row = rows[key] = Row(self._next_id, name_of(index), at)
                self._next_id += 1
            elif renamed and row.name != (name := name_of(index)):
                row.name, row.named_at = name, at
            if row.values != present:
                row.before, row.before_at = row.values, row.changed_at
                row.values, row.changed_at = present, at
            if row.seen < look:  # noqa: PLR1730 - a call would cost more than all else here
                row.seen = look
            if row.changed_at > since:
                (differences if row.before and row.before_at <= exact else whole).append(row)
            if row.named_at > since:
                named.append(row)
        return changes

    def forget_unseen(self, look: int) -> Iterator[list[Hashable]]:
        """Removes what a look that is over has not found, nor a later one, but for the row of OTHERS; some rows a step.
        Yields the keys of those that are gone.
        """
        keys = iter(list(self._rows))
        while some := list(islice(keys, TELEMETRY_ROWS_PER_STEP)):
            gone = [key for key in some if (row := self._rows.get(key)) is not None and row.seen < look]
            if OTHERS_KEY in gone:
                gone.remove(OTHERS_KEY)
            for key in gone:
                self._removed.append((self._sequences.of_change(look), self._rows.pop(key).id))
            while len(self._removed) > TELEMETRY_REMOVALS_MAX:
                self.forgotten_at = self._removed.popleft()[0]
            yield gone

    def removed_since(self, since: int) -> list[int]:
        """The ids of rows that have ended, for a caller who knows `since`."""
        return [number for at, number in self._removed if at > since]
