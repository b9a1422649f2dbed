"""The records of compacted topics. Each has a key, and in a header the name by which its producer knows it.

A delete marker has no value, the cleaner leaves gaps, and a batch may be there without any record: so a record is told
by that name, and its key, value and timestamp have to be those that it was sent with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.records.batch import check_crc, headers
from penstock.records.reader import records
from simulator.cluster.history import WRITTEN
from simulator.world.checks import Violation

NAME = "name"
"""The key of the header."""


class Written(NamedTuple):
    """A record as it was sent. A delete marker has no value."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


class Kept(NamedTuple):
    """A record as it is found somewhere."""

    offset: int
    name: bytes
    written: Written


class Contents:
    """Reads the same batches again and again, in replicas and in answers, and remembers what is in each."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Kept, ...]] = {}

    def records(self, content: bytes, where: str) -> Iterator[Kept]:
        """All records, by their place. Raises Violation for a damaged batch."""
        try:
            for position, header in headers(content):
                batch = content[position : position + header.size_bytes]
                known = self._known.get(batch)
                if known is None:
                    check_crc(batch, 0, header)
                    known = self._known[batch] = tuple(
                        Kept(
                            each.offset, name_of(each.headers), Written(each.key or b"", each.value, each.timestamp_ms)
                        )
                        for each in records(batch, header)
                    )
                yield from known
        except PenstockError as error:
            raise Violation(f"{WRITTEN}: {where}: {error}") from error


def name_of(pairs: tuple[tuple[str, bytes | None], ...]) -> bytes:
    """The name of a record, by its headers; empty if it has none."""
    return next((value or b"" for key, value in pairs if key == NAME), b"")
