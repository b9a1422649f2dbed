"""The order of rows within a table's files, by which readers pass over what a query cannot want.

A load sorts the rows of each row group that it writes; compaction sorts those of the whole file that it makes. By
several columns rows are sorted by the first, then the next; in Z-order each column counts alike: the bits of a row's
rank in each column are interleaved, and rows are sorted by that number. Nulls come last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError

PROPERTY = "penstock.cluster.by"
"""A table's property: how the rows of its files are sorted."""
Z_ORDER = re.compile(r"zorder\((.*)\)")
Z_BITS = 63
"""Bits of a row's place on the Z-curve."""
Places = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """By which columns rows are sorted; `z_order`: by all of them alike."""

    columns: tuple[str, ...]
    z_order: bool = False

    @classmethod
    def parse(cls, text: str) -> Cluster | None:
        """What `str` gives; None for an empty text."""
        found = Z_ORDER.fullmatch(text.strip())
        names = tuple(name.strip() for name in (found[1] if found else text).split(",") if name.strip())
        return cls(names, found is not None) if names else None

    def __str__(self) -> str:
        names = ", ".join(self.columns)
        return f"zorder({names})" if self.z_order else names

    def check(self, columns: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        """Raises ConfigError if rows with these columns cannot be sorted so."""
        for name in self.columns:
            if name not in columns.names:
                raise ConfigError(f"files cannot be clustered by {name}: the table has no such column")
            if name in partition_by:
                raise ConfigError(f"files cannot be clustered by {name}: each file has one value of it")
            if pa.types.is_nested(columns.field(name).type):
                raise ConfigError(f"files cannot be clustered by {name}: it is {columns.field(name).type}")

    def sorted(self, rows: pa.Table) -> pa.Table:
        """The rows in this order; equal ones stay in theirs."""
        return rows.take(pa.array(self.order(rows)))

    def order(self, rows: pa.Table) -> Places:
        """Which row comes first, which next."""
        if not self.z_order:
            return np.asarray(pc.sort_indices(rows, [(name, "ascending") for name in self.columns]), np.int64)
        return np.argsort(z_places([rows[name] for name in self.columns]), kind="stable")


def z_places(columns: Sequence[Any]) -> Places:
    """The place of each row on the Z-curve through the ranks of its values."""
    bits = Z_BITS // len(columns)
    places = np.zeros(len(columns[0]), np.int64)
    for at, column in enumerate(columns):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        ranks = np.asarray(pc.rank(whole, tiebreaker="dense"), np.int64) - 1
        spread = max(0, bits - int(ranks.max(initial=0)).bit_length())
        ranks = ranks << spread if spread else ranks >> max(0, int(ranks.max(initial=0)).bit_length() - bits)
        for bit in range(bits):
            places |= ((ranks >> bit) & 1) << (bit * len(columns) + len(columns) - 1 - at)
    return places
