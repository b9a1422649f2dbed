"""Retention of a log that is compacted as well, by the age of its files: to be cleaned makes no record younger."""

from __future__ import annotations

import pytest
from support.compacted import MINUTE_MS, SECOND_MS, Compacted

from penstock.log.compaction.target import NewSegment
from penstock.log.events import LogCleaned, SegmentsRetired
from penstock.records.batch import NO_TIMESTAMP
from penstock.records.builder import BatchBuilder
from simulator.world.disk import SimulatedDisk


class Timeless(Compacted):
    """Records without timestamps, each with a key of its own, in a log that is compacted and loses what is an hour
    old."""

    def __init__(self) -> None:
        super().__init__(
            cleanup_policy="compact,delete", retention_ms=str(60 * MINUTE_MS), min_cleanable_dirty_ratio="0"
        )

    def append(self, count: int) -> None:
        for _ in range(count):
            builder = BatchBuilder()
            builder.append(NO_TIMESTAMP, b"key %d" % self.written, b"%d " % self.written + b"v" * 1000)
            records = bytearray(builder.build())
            self.use(lambda log, r=records: log.append_as_leader(r, 0, self.simulation.now_ms))
            self.written += 1
            self.wait(100)


def test_records_without_times_expire_however_often_they_are_cleaned() -> None:
    topic = Timeless()
    for _ in range(3):
        topic.append(11)
        topic.wait(25 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) >= 3
    assert topic.events(SegmentsRetired)
    assert min(topic.read()) >= 10
    topic.wait(20 * MINUTE_MS)
    assert min(topic.read()) == 22, "these are not an hour old"


def test_a_planted_cleaner_that_makes_them_young_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = NewSegment.finish

    def young(segment: NewSegment, modified_ms: int) -> None:
        disk = segment._target.disk
        assert isinstance(disk, SimulatedDisk)
        finish(segment, disk.clock())

    monkeypatch.setattr(NewSegment, "finish", young)
    with pytest.raises(AssertionError):
        test_records_without_times_expire_however_often_they_are_cleaned()


def test_the_age_of_a_cleaned_segment_outlives_a_start() -> None:
    topic = Timeless()
    topic.append(11)
    topic.wait(30 * MINUTE_MS)
    assert topic.events(LogCleaned)
    topic.node.stop()
    topic.wait(SECOND_MS)
    topic.node.start()
    topic.wait(20 * MINUTE_MS)
    assert not topic.events(SegmentsRetired)
    topic.wait(20 * MINUTE_MS)
    assert topic.events(SegmentsRetired)
