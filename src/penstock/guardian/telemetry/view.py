"""What a broker has told so far: the rows of each block, as its frames add up.

A frame that does not follow what is known, or does not add up to the totals that it tells, is refused with
ProtocolError; the view then knows nothing, and asks for everything (`incarnation`, `sequence` are what to ask with).
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ProtocolError
from penstock.guardian.telemetry.decode import Frame, Ids, Matrix, Part
from penstock.protocol.telemetry import BLOCKS, FULL, Block, Kind

NOBODY: Final = UUID(int=0)
NO_IDS: Final = np.empty(0, np.int64)


class BlockView:
    """The rows of a block. `ids` ascend; `names[i]` and `values[:, i]` are of the row with `ids[i]`."""

    __slots__ = ("block", "ids", "names", "values")

    def __init__(self, block: Block) -> None:
        self.block = block
        self.ids: Ids = NO_IDS
        self.names: list[tuple[str, ...]] = []
        self.values: Matrix = np.empty((len(block.columns), 0), np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> NDArray[np.int64]:
        """The values of a column, in the order of the rows."""
        found: NDArray[np.int64] = self.values[self.block.columns.index(name)]
        return found

    def row(self, *name: str) -> dict[str, int]:
        """The values of the row with this name, or whose name begins so. KeyError if there is none."""
        for index, found in enumerate(self.names):
            if found[: len(name)] == name:
                return dict(zip(self.block.columns, self.values[:, index].tolist(), strict=True))
        raise KeyError(name)

    def take(self, part: Part) -> None:
        """Adds what a section says. Raises ProtocolError."""
        if part.kind is Kind.NAMES:
            self._name(part)
        elif part.kind is Kind.VALUES:
            self.values[:, self._places(part.ids, "values")] = part.values
        elif part.kind is Kind.CHANGES:
            self.values[:, self._places(part.ids, "changes")] += part.values
        else:  # maybe of rows that came and went between two frames
            kept = ~np.isin(self.ids, part.ids)
            self.ids, self.values = self.ids[kept], self.values[:, kept]
            self.names = [name for name, stays in zip(self.names, kept.tolist(), strict=True) if stays]

    def _name(self, part: Part) -> None:
        """New rows, and new names of others."""
        known = np.isin(part.ids, self.ids)
        if known.any():
            places = self._places(part.ids[known], "a name").tolist()
            for place, index in zip(places, np.flatnonzero(known).tolist(), strict=True):
                self.names[place] = part.names[index]
        fresh = ~known
        if not fresh.any():
            return
        ids = np.concatenate([self.ids, part.ids[fresh]])
        names = [*self.names, *(name for name, new in zip(part.names, fresh.tolist(), strict=True) if new)]
        nothing = np.zeros((len(self.block.columns), int(fresh.sum())), np.int64)
        order = np.argsort(ids, kind="stable")
        self.ids = ids[order]
        self.names = [names[place] for place in order.tolist()]
        self.values = np.concatenate([self.values, nothing], axis=1)[:, order]

    def _places(self, ids: Ids, what: str) -> NDArray[np.intp]:
        """Where rows are. Raises ProtocolError for those that have no name."""
        places = np.searchsorted(self.ids, ids)
        if len(self.ids) < len(ids) or (places >= len(self.ids)).any() or (self.ids[places] != ids).any():
            raise ProtocolError(f"telemetry has {what} of a row of {self.block.name} that it has not named")
        return places


class View:
    """One broker. `incarnation`, `sequence`: of the last frame; FULL at first, and after a frame that was refused."""

    __slots__ = ("blocks", "incarnation", "node_id", "sequence")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew."""
        self.node_id = -1
        self.incarnation = NOBODY
        self.sequence = FULL
        self.blocks = {block.name: BlockView(block) for block in BLOCKS}

    def __getitem__(self, name: str) -> BlockView:
        return self.blocks[name]

    def take(self, frame: Frame) -> None:
        """Adds a frame. Raises ProtocolError, and has forgotten everything then."""
        try:
            if frame.since == FULL:
                self.forget()
            elif (frame.incarnation, frame.since) != (self.incarnation, self.sequence):
                raise ProtocolError(f"telemetry goes on from {frame.since}, and {self.sequence} is known")
            for part in frame.parts:
                self.blocks[part.block.name].take(part)
            for block in BLOCKS:
                have, told = len(self.blocks[block.name]), frame.totals[block.number]
                if have != told:
                    raise ProtocolError(f"telemetry has {told} rows of {block.name}, and they add up to {have}")
        except ProtocolError:
            self.forget()
            raise
        self.node_id, self.incarnation, self.sequence = frame.node_id, frame.incarnation, frame.sequence
