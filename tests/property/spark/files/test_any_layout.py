"""However a log is cut into segments and whatever is in it: files, broker and the plain decoder give the same rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from hypothesis import given, settings
from hypothesis import strategies as st
from random_batches import RandomBatches
from support.partition_files import Leader, Rows, batch

from penstock.client.client import READ_COMMITTED, READ_UNCOMMITTED
from penstock.records import arrow_plain
from penstock.records.batch import HEADER_BYTES, read_header
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.records.isolation import AbortedTransactions
from penstock.spark.read import files_segments

MARKER_TYPES = (ControlType.ABORT, ControlType.COMMIT)


class RandomLog:
    """A log with gaps, all codecs, headers, nulls, and transactions of two producers, all decided at its end."""

    def __init__(self, random: Random, batches: int) -> None:
        self.random = random
        self.source = RandomBatches(random)
        self.batches: list[bytes] = []
        self.aborted: list[tuple[int, int, int]] = []
        self.open: dict[int, int] = {}
        self.offset = random.choice((0, 3, 2**33))
        self.start = self.offset
        for _ in range(batches):
            random.choice((self.plain, self.plain, self.plain, self.transactional, self.decide))()
            self.offset += random.choice((0, 0, 0, 1, 7))
        while self.open:
            self.decide()

    def plain(self) -> None:
        drawn, self.offset = self.source.batch(self.offset)
        self.batches.append(bytes(drawn.encoded(drawn.plain[HEADER_BYTES:], self.source.contexts)))

    def transactional(self) -> None:
        producer_id, count = self.random.choice((7, 8)), self.random.randint(1, 4)
        options: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "is_transactional": True}
        self.batches.append(batch(self.offset, count, **options))
        self.open.setdefault(producer_id, self.offset)
        self.offset += count

    def decide(self) -> None:
        """The marker of an open transaction, if there is one."""
        if not self.open:
            return
        producer_id, first = self.open.popitem()
        kind = self.random.choice(MARKER_TYPES)
        marker = end_transaction_marker(
            EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, wall_ms=1, base_offset=self.offset
        )
        self.batches.append(bytes(marker))
        if kind is ControlType.ABORT:
            self.aborted.append((producer_id, first, self.offset))
        self.offset += 1

    def segments(self) -> list[int]:
        """Where files begin: at some batches, or in the gap before them."""
        bases, end = [self.start], self.start
        for data in self.batches:
            header = read_header(data)
            if header.base_offset > bases[-1] and self.random.random() < 0.4:
                bases.append(self.random.randint(max(end, bases[-1] + 1), header.base_offset))
            end = header.next_offset
        return bases

    def reference(self, start: int, end: int, isolation: int) -> Rows:
        """The range by the plain decoder, in one go."""
        aborted = AbortedTransactions([each[:2] for each in self.aborted]) if isolation == READ_COMMITTED else None
        rows = Rows()
        rows.add(
            arrow_plain.to_arrow(
                b"".join(self.batches), start_offset=start, end_offset=end, isolation=aborted, include_headers=True
            )
        )
        return rows


@settings(max_examples=150)
@given(
    st.integers(0, 2**32),
    st.integers(1, 16),
    st.sampled_from((70, 200, 1000, 100_000)),
    st.sampled_from((READ_UNCOMMITTED, READ_COMMITTED)),
)
def test_files_and_broker_and_reference_give_the_same(seed: int, count: int, read_bytes: int, isolation: int) -> None:
    random = Random(seed)
    log = RandomLog(random, count)
    if not log.batches:
        return
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files_segments, "SPARK_FILE_READ_BYTES", read_bytes)
        leader = Leader(Path(directory), log.batches)
        leader.start, leader.aborted = log.start, log.aborted
        leader.write_segments(log.segments(), indexed=random.random() < 0.7)
        end = leader.end
        for _ in range(3):
            start = random.randint(log.start, end)
            bounds = (start, random.randint(start, end))
            expected = log.reference(*bounds, isolation)
            assert leader.read(*bounds, isolation=isolation) == expected
            assert leader.read(*bounds, isolation=isolation, read="broker") == expected
            covered = sorted(expected.offsets + [offset for offset, _ in expected.missing])
            assert covered == list(range(*bounds)), "every offset is a record or a gap with a reason"
