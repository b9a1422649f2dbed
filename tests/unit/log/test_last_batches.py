"""Which batch of a producer a pass of the cleaner keeps, though all of its records may go."""

from __future__ import annotations

from support.compaction import History

from penstock.log.compaction.passes import LastRecord, last_records


def test_the_last_batch_that_cannot_be_truncated_stays() -> None:
    history = History.empty()
    for number in range(3):
        history.append([(b"k", b"%d" % number)], producer_id=7)
    producers = history.one.log.producers
    assert dict(last_records(producers, 3)) == {7: LastRecord(2, 0)}
    assert dict(last_records(producers, 2)) == {7: LastRecord(1, 0)}
    assert dict(last_records(producers, 0)) == {7: LastRecord(2, 0)}
