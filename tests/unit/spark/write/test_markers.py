"""Which batch a sink has committed last, as the topic of markers says, and what follows from it."""

from __future__ import annotations

import pytest

from penstock.records.builder import BatchBuilder
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.spark.write.committed_values import CommittedValues
from penstock.spark.write.markers import Marker, decoded, is_new, last_of
from penstock.spark.write.rows import SinkError

SINK, OTHER = "counts", "sums"
EVERYTHING = 1 << 40


class Log:
    """The partition of markers."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.end = 0

    def record(self, producer_id: int, batch: int | None, sink: str = SINK) -> None:
        """A marker, or a tombstone, of a transaction; or of none where the producer is -1."""
        builder = BatchBuilder(base_offset=self.end, producer_id=producer_id, is_transactional=producer_id >= 0)
        if producer_id >= 0:
            builder.producer_epoch = builder.base_sequence = 0
        builder.append(0, sink.encode(), None if batch is None else Marker("q", batch).encode())
        self.content += builder.build()
        self.end += 1

    def ends(self, producer_id: int, how: ControlType = ControlType.COMMIT) -> None:
        """The end of the producer's transaction."""
        end = EndTransactionMarker(how, 0)
        self.content += end_transaction_marker(
            end, producer_id=producer_id, producer_epoch=0, wall_ms=0, base_offset=self.end
        )
        self.end += 1

    def last(self, stable: int = EVERYTHING, start: int = 0, *, others_write: bool = False) -> Marker | None:
        search = CommittedValues(SINK.encode().__eq__)
        search.add(memoryview(self.content), start)
        return last_of(*search.found(stable), SINK, others_write=others_write)


@pytest.fixture
def log() -> Log:
    return Log()


def test_an_empty_topic_has_none(log: Log) -> None:
    assert log.last() is None


def test_the_last_that_was_committed_counts(log: Log) -> None:
    for producer, batch, end in ((1, 3, ControlType.COMMIT), (1, 4, ControlType.COMMIT), (1, 5, ControlType.ABORT)):
        log.record(producer, batch)
        log.ends(producer, end)
    assert log.last() == Marker("q", 4)


def test_other_sinks_and_their_open_transactions_are_passed_over(log: Log) -> None:
    log.record(2, 9, OTHER)
    log.record(1, 3)
    log.ends(1)
    assert log.last(stable=0) == Marker("q", 3)


def test_the_end_of_another_transaction_is_not_that_of_the_marker(log: Log) -> None:
    log.record(1, 3)
    log.record(2, 9, OTHER)
    log.ends(2)
    log.ends(1, ControlType.ABORT)
    assert log.last() is None


def test_a_record_whose_end_the_cleaner_has_dropped_was_committed(log: Log) -> None:
    log.record(1, 3)
    assert log.last() == Marker("q", 3)


def test_one_that_nobody_ends_is_an_error(log: Log) -> None:
    log.record(1, 3)
    with pytest.raises(SinkError, match="a transaction of sink counts hangs in __penstock_sinks-0 at offset 0"):
        log.last(stable=0)


def test_one_that_another_writer_has_open_is_passed_over(log: Log) -> None:
    log.record(1, 3)
    log.ends(1)
    log.record(2, 4)
    assert log.last(stable=2, others_write=True) == Marker("q", 3)


def test_a_write_is_new_unless_another_was_committed_while_it_ran() -> None:
    before, mine, other = (Marker(name, None) for name in ("before", "mine", "other"))
    for last in (None, before):
        assert is_new(last, mine, SINK, None, last)
        assert not is_new(mine, mine, SINK, None, last), "its own end was lost, or it is written again"
        with pytest.raises(SinkError, match="write other has been committed to sink counts while this one ran"):
            is_new(other, mine, SINK, None, last)
    assert is_new(Marker("q", 3), mine, SINK, "q", Marker("q", 2)), "told to replace a query"


def test_what_was_read_already_is_not_read_again(log: Log) -> None:
    log.record(1, 3)
    log.ends(1)
    assert log.last(start=2) is None


def test_a_tombstone_forgets_a_sink(log: Log) -> None:
    log.record(1, 3)
    log.ends(1)
    log.record(-1, None)
    assert log.last() is None


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"version": 2, "query": "q", "batch": 1}', b'"x"', b"\xff"])
def test_what_is_no_marker_is_refused(value: bytes) -> None:
    with pytest.raises(SinkError, match="has a record of sink counts that this version cannot read"):
        decoded(value, SINK)


@pytest.mark.parametrize(
    ("marker", "batch", "replaces", "new"),
    [
        (None, Marker("q", 0), None, True),
        (None, Marker("q", 7), None, True),
        (Marker("q", 3), Marker("q", 4), None, True),
        (Marker("q", 3), Marker("q", 9), None, True),
        (Marker("q", 3), Marker("q", 3), None, False),
        (Marker("q", 3), Marker("q", 3), "q", False),
        (Marker("old", 3), Marker("q", 0), "old", True),
        (Marker("w", None), Marker("w", None), None, False),
    ],
)
def test_a_batch_is_written_unless_it_was(
    marker: Marker | None, batch: Marker, replaces: str | None, new: bool
) -> None:
    assert is_new(marker, batch, SINK, replaces) == new


@pytest.mark.parametrize(
    ("marker", "batch", "replaces", "message"),
    [
        (Marker("q", 3), Marker("q", 2), None, "sink counts has written batch 3 of query q, and the checkpoint begins"),
        (Marker("old", 3), Marker("q", 0), None, "belongs to another query: batch 3 of query old .*replaces = old"),
        (Marker("old", 3), Marker("q", 0), "older", "belongs to another query"),
        (Marker("w", None), Marker("q", 0), None, "belongs to another query: write w was the last"),
        (Marker("q", 3), Marker("w", None), None, "belongs to another query: batch 3 of query q"),
    ],
)
def test_what_would_be_lost_or_doubled_is_refused(
    marker: Marker, batch: Marker, replaces: str | None, message: str
) -> None:
    with pytest.raises(SinkError, match=message):
        is_new(marker, batch, SINK, replaces)
