"""Which batch of a producer a pass of the cleaner keeps, though all of its records may go."""

from __future__ import annotations

from support.compaction import OUT, History, batches_in, compacted, records_in
from support.logs import NAME, NOW_MS, topic_config

from penstock.log.compaction.passes import LastRecord, LogState, last_records, plan_pass


def test_the_last_batch_that_cannot_be_truncated_stays() -> None:
    history = History.empty()
    for number in range(3):
        history.append([(b"k", b"%d" % number)], producer_id=7)
    producers = history.one.log.producers
    assert dict(last_records(producers, 3)) == {7: LastRecord(2, 0)}
    assert dict(last_records(producers, 2)) == {7: LastRecord(1, 0)}
    assert dict(last_records(producers, 0)) == {7: LastRecord(2, 0, all_stay=True)}


def test_all_batches_of_a_producer_stay_of_which_only_one_is_known_that_can_be_truncated() -> None:
    history = History.empty()
    history.append([(b"k", b"0")], producer_id=7)
    history.append([(b"k", b"1")], producer_id=8)
    history.roll()
    history.append([(b"k", b"2")])
    history.roll()
    history.append([(b"k", b"3")], producer_id=7)
    history.append([(b"k", b"4")], producer_id=8)
    one = history.one
    loaded = LogState(one.log.segments.all, 5, one.log.producers)
    only = loaded.producers.producers[7]
    loaded.producers.producers[7] = only._replace(batches=only.batches[-1:])  # as a snapshot has it
    one.close()
    options = {"log_start_offset": 0, "high_watermark": 3, "clean_offset": None, "now_ms": NOW_MS}
    work = plan_pass(one.disk, NAME, loaded, topic_config(index_interval_bytes=100), **options)
    compacted(one.disk, work)
    assert [header.base_offset for header, _ in batches_in(one.disk, OUT)] == [0, 1, 2, 3, 4]
    assert [each.offset for each in records_in(one.disk, OUT)] == [2, 3, 4]
