"""What becomes of rows that no record was found for, and of records without a row."""

from __future__ import annotations

from uuid import UUID

import pytest

np = pytest.importorskip("numpy", reason="needs penstock[spark]")
pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

from penstock.spark.lake.broker import BrokerVerdict, everything  # noqa: E402
from penstock.spark.lake.offsets import Held  # noqa: E402
from penstock.spark.lake.records import Claim, Gap, Progress, Sealed, TopicPartition  # noqa: E402
from penstock.spark.load.values import ELSEWHERE, Mine, Tally, covered, note, told_absent  # noqa: E402

CLICKS = TopicPartition("clicks", UUID(int=1), 0)


def verdict(*, compacted: bool = False) -> BrokerVerdict:
    return BrokerVerdict(0, 100, 0, 0, 0, compacted)


def mine(*offsets: int) -> Mine:
    """Rows of the table, of which the brokers have shown no record."""
    return Mine(np.array(offsets), pa.table({"offset": list(offsets)}), np.zeros(len(offsets), bool))


def test_a_row_without_a_record_is_a_fault_unless_the_topic_is_compacted() -> None:
    for compacted in (False, True):
        found = verdict(compacted=compacted)
        note(found, Tally(), mine(4, 5), [(0, 10)])
        assert (found.gone_rows, found.gone, found.clean) == (2, [4, 5], compacted)


def test_rows_of_aborted_transactions_and_of_broken_batches_are_told_apart_from_rows_that_were_added() -> None:
    found = verdict()
    note(found, Tally(aborted=[(0, 3)], corrupt=[(5, 7)]), mine(1, 2, 6), [(0, 10)])
    assert (found.aborted, found.unreadable, found.gone_rows, found.clean) == (2, 1, 0, False)
    found = verdict()
    note(found, Tally(aborted=[(0, 3)]), mine(1, 2), [(0, 10)])
    assert found.clean


def test_rows_that_retention_overtook_meanwhile_are_no_fault() -> None:
    found = verdict()
    note(found, Tally(), mine(1, 2), [(5, 10)])
    assert found.clean


def test_all_that_is_held_are_the_claims_within_the_log() -> None:
    progress = Progress(0, 100, [], claims=[Claim("load", 50, 100), Claim("load/reload-1", 0, 30)])
    assert everything({CLICKS: progress}, {CLICKS: BrokerVerdict(10, 80, 0, 0, 0)}) == {CLICKS: [(10, 30), (50, 80)]}
    assert everything({CLICKS: progress}, {CLICKS: BrokerVerdict(200, 300, 0, 0, 0)}) == {}


def test_what_is_elsewhere_by_the_tables_own_word() -> None:
    gaps = [Gap(CLICKS, 40, 42, "quarantined"), Gap(CLICKS, 44, 45, "control"), Gap(CLICKS, 50, 60, "loaded")]
    sealed = [Sealed(0, 10, 0, {"control": 3}), Sealed(10, 20, 0, {"control": 1, "quarantined": 1})]
    assert told_absent(Progress(0, 100, gaps, sealed), ELSEWHERE) == [(10, 20), (40, 42), (50, 60)]


def test_runs_that_overlap_cover_what_they_cover() -> None:
    held = Held(9, np.array([[0, 5], [2, 3], [4, 8], [9, 10]]))
    assert covered(held).tolist() == [[0, 8], [9, 10]]
