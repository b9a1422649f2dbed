"""Rejects values that are too long for the name of a partition's directory: their records go to the quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.limits import LAKE_DIRECTORY_NAME_BYTES
from penstock.spark.load.formats.format import Format, Parsed

QUOTED_BYTES = 3
"""What a byte may take in a directory's name."""


class Bounded:
    """A format of which rows with too long a value in a partition column are rejected.

    Args:
        format: that parses the values.
        names: the partition columns of text.
    """

    def __init__(self, format: Format, names: Sequence[str]) -> None:  # noqa: A002 - what it is called everywhere
        self._format = format
        self._names = names

    def parse(self, topic: str, values: pa.Array) -> Parsed:
        """As the format; rows with a partition value that is too long are rejected."""
        parsed = self._format.parse(topic, values)
        if parsed.unknown or parsed.unknown_schemas or not parsed.columns.num_rows:
            return parsed
        fit = np.ones(parsed.columns.num_rows, bool)
        kept = np.arange(len(fit)) if parsed.kept is None else parsed.kept.to_numpy()
        rejected = dict(parsed.rejected)
        for name in self._names:
            for at in _long(parsed.columns.column(name), LAKE_DIRECTORY_NAME_BYTES - len(name.encode()) - 1):
                fit[at] = False
                rejected[int(kept[at])] = f"{name} is too long for a column that the table is partitioned by"
        if fit.all():
            return parsed
        return Parsed(parsed.columns.filter(pa.array(fit)), pa.array(kept[fit], pa.int64()), rejected)


def _long(column: Any, most_bytes: int) -> Sequence[int]:
    """Which texts would take more bytes than that in a directory's name."""
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    suspects = np.flatnonzero(lengths * QUOTED_BYTES > most_bytes).tolist()
    return [at for at in suspects if len(quote(column[at].as_py(), safe="")) > most_bytes]
