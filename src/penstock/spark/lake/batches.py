"""Batches of a query that a table takes once each, whoever offers them again.

Spark numbers the batches of a streaming query and runs one again, with the same rows, when it does not know whether it
was done. So a commit sets the number of the query's newest batch in the table, atomically with the files, and a batch
that is no newer is left alone. A query is its checkpoint: that has an id, and the numbers begin anew with another one.

A name that the query was given guards that. The table keeps which checkpoint wrote under the name, and which name wrote
from the checkpoint: a query of that name with another checkpoint would write all its rows again, and another query with
a copy of the checkpoint would find its batches done. Either is refused.

Delta keeps such numbers as application transactions, Iceberg as properties of the table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import PenstockError

KEY_APPLICATION = "penstock/key"
"""Under which a table keeps the mark of its rows' key, once rows were upserted by one."""


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """What one commit adds.

    Attributes:
        query: id of the query, or None for rows that are added whether or not they are there.
        number: which of its batches; they only grow.
        name: the query's name, or None if it has none.
        record: number of the record of what the query has kept with this batch (see `kept`), or None.
    """

    query: str | None = None
    number: int = 0
    name: str | None = None
    record: int | None = None

    @property
    def key(self) -> str:
        """Under which a table keeps the number of the query's newest batch."""
        assert self.query is not None
        return f"penstock/query/{self.query}"

    def numbers(self) -> dict[str, int]:
        """What the table keeps with the batch."""
        if self.query is None:
            return {}
        record = {} if self.record is None else {record_key(self.query): self.record}
        return {self.key: self.number, **record, **self._guards()}

    def is_in(self, number_of: Callable[[str], int | None]) -> bool:
        """Whether a table that keeps these numbers has the batch.

        Raises PenstockError if the name wrote to it from another checkpoint, or the checkpoint under another name.
        """
        if self.query is None:
            return False
        self._check(number_of)
        newest = number_of(self.key)
        return newest is not None and self.number <= newest

    def to_json(self) -> str:
        """For people who read the table's history."""
        return json.dumps({"query": self.query, "batch": self.number, "name": self.name}, separators=(",", ":"))

    def _guards(self) -> dict[str, int]:
        if self.name is None:
            return {}
        return {f"penstock/query-name/{self.name}": _mark(str(self.query)), f"{self.key}/name": _mark(self.name)}

    def _check(self, number_of: Callable[[str], int | None]) -> None:
        of_name, of_query = self._guards() or ("", "")
        if not of_name:
            return
        if number_of(of_name) not in (None, _mark(str(self.query))):
            raise PenstockError(
                f"query {self.name!r} wrote to this table from another checkpoint than its present one, {self.query}, "
                "and would write its rows again\n"
                "  go on from the other checkpoint, or give a query that is new another name"
            )
        if number_of(of_query) not in (None, _mark(str(self.name))):
            raise PenstockError(
                f"checkpoint {self.query} is of another query: under another name than {self.name!r} it wrote to this "
                "table\n  give each query a checkpoint of its own, or this one its former name"
            )


def record_key(query: str) -> str:
    """Under which a table keeps the number of the newest record of what a query has kept (see `kept`)."""
    return f"penstock/kept/{query}"


def key_mark(names: Sequence[str]) -> int:
    """A key, in whatever order its columns are named, as a number that a table can keep."""
    return _mark(json.dumps(sorted(names)))


def _mark(text: str) -> int:
    """A text as a number that a table can keep."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
