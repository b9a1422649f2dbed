"""Random histories, cleaned in parts: together they leave what one pass leaves, and each leaves a sound log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property.log.test_compaction_model import HISTORIES, Step, history_of
from support import compaction
from support.compaction import (
    DAY_MS,
    OUT,
    History,
    Written,
    batches_in,
    compacted,
    compacted_in_parts,
    planned,
    producers,
    records_in,
)
from support.logs import NOW_MS, topic_config

from penstock.log.compaction.offset_map import ENTRY_BYTES
from penstock.log.compaction.parts import part_of
from penstock.log.compaction.passes import Pass, Rest
from penstock.log.compaction.transactions import NOTHING_MET
from penstock.log.damaged_index import DamagedIndexError
from penstock.log.loading import load
from penstock.records.batch import HEADER_BYTES
from simulator.world.disk import SimulatedDisk

LENGTH_BYTE = 8
"""The first byte of a batch's length."""


def aborted_in(disk: SimulatedDisk, name: str) -> list[tuple[int, int, int, int]]:
    segments = load(disk, name, log_start_offset=0, wall_ms=NOW_MS).segments
    return [entry for segment in segments for entry in segment.aborted_index.all(disk)]


def check_parts(
    history: History, *, segment_bytes: int = 200, keys_max: int = 1000, part_bytes: int = 0, dirty_share: float = 1.0
) -> int:
    """Cleans a closed log, and again two days later, in parts and at once; returns the number of parts.

    In the second pass delete horizons have passed; what was written after the first one is in its dirty range.
    """
    disk, config = history.one.disk, topic_config(index_interval_bytes=100, segment_bytes=segment_bytes)
    buffer_bytes = (2 * keys_max + 3) * ENTRY_BYTES
    count = 0
    name, now_ms, clean_offset = history.one.name, NOW_MS, 0
    for number in range(2):
        planning = {"config": config, "now_ms": now_ms, "clean_offset": clean_offset}
        whole = f"whole.{number}-0"
        at_once = compacted(disk, planned(disk, name, **planning), whole, buffer_bytes=buffer_bytes)
        wanted = records_in(disk, whole)
        parts = compacted_in_parts(
            disk, name, f"part.{number}", part_bytes=part_bytes, buffer_bytes=buffer_bytes, **planning
        )
        for part, report in parts:
            assert {each.offset for each in wanted} <= {each.offset for each in records_in(disk, part)}
            assert producers(disk, part) == producers(disk, name)
            assert report.end_offset == at_once.end_offset, "no part's map goes further than another's"
        last = parts[-1][0]
        assert batches_in(disk, last) == batches_in(disk, whole)
        assert aborted_in(disk, last) == aborted_in(disk, whole)
        assert sum(len(report.groups) for _, report in parts) == len(at_once.groups)
        count += len(parts)
        name, now_ms = last, now_ms + 2 * DAY_MS
        clean_offset = round(at_once.end_offset * (1 - dirty_share))
    return count


@settings(deadline=None, max_examples=100)
@given(
    steps=HISTORIES,
    segment_bytes=st.sampled_from([200, 700]),
    keys_max=st.sampled_from([1, 3, 1000]),
    part_bytes=st.sampled_from([0, 500, 2000]),
    dirty_share=st.sampled_from([0.3, 1.0]),
)
def test_parts_leave_what_one_pass_leaves(
    steps: list[Step], segment_bytes: int, keys_max: int, part_bytes: int, dirty_share: float
) -> None:
    check_parts(
        history_of(steps),
        segment_bytes=segment_bytes,
        keys_max=keys_max,
        part_bytes=part_bytes,
        dirty_share=dirty_share,
    )


@settings(deadline=None, max_examples=60)
@given(steps=HISTORIES, stopped_after=st.integers(1, 3), keys_max=st.sampled_from([2, 1000]))
def test_a_pass_that_begins_anew_after_some_parts_ends_where_one_pass_ends(
    steps: list[Step], stopped_after: int, keys_max: int
) -> None:
    """As after a stop: where the last pass ended was not moved, so all is dirty that was dirty before."""
    history = history_of(steps)
    disk, config = history.one.disk, topic_config(index_interval_bytes=100, segment_bytes=200)
    buffer_bytes = (2 * keys_max + 3) * ENTRY_BYTES
    at_once = compacted(disk, planned(disk, config=config), buffer_bytes=buffer_bytes)
    parts = compacted_in_parts(disk, config=config, buffer_bytes=buffer_bytes)
    name, _ = parts[:stopped_after][-1]
    compacted(disk, planned(disk, name, config=config), "again-0", buffer_bytes=buffer_bytes)
    after = [each for each in records_in(disk, "again-0") if each.offset < at_once.end_offset]
    assert {each.offset for each in after} <= {each.offset for each in records_in(disk, OUT)}
    assert latest(disk, "again-0") == latest(disk, OUT)
    assert producers(disk, "again-0") == producers(disk, history.one.name)


@pytest.mark.parametrize("damaged", [False, True])
def test_delete_markers_stay_where_an_earlier_part_has_met_what_it_cannot_read(damaged: bool) -> None:
    history = History.empty()
    history.append([(b"k", b"1")])
    history.roll()
    history.append([(b"j", None)])
    history.roll()
    history.append([(b"the end", b"")])
    history.roll()
    history.append([(b"the active segment", b"")])
    history.one.close()
    disk, config = history.one.disk, topic_config(index_interval_bytes=100, segment_bytes=100)
    compacted(disk, planned(disk, config=config), "first-0")
    if damaged:
        disk.flip_bit(f"first-0/{0:020d}.log", HEADER_BYTES + 3)
    parts = compacted_in_parts(disk, "first-0", config=config, now_ms=NOW_MS + 2 * DAY_MS)
    assert len(parts) == 3
    assert [header.base_offset for header, _ in batches_in(disk, parts[-1][0])] == (
        [0, 1, 2, 3] if damaged else [0, 2, 3]
    )


def test_delete_markers_stay_where_an_earlier_part_has_left_a_whole_segment_alone() -> None:
    history = History.empty()
    for pairs in ([(b"h", b"1")], [(b"k", b"1")], [(b"k" * 100, None)], [(b"the end", b"")]):
        history.append(pairs)
        history.roll()
    history.append([(b"the active segment", b"")])
    history.one.close()
    disk, config = history.one.disk, topic_config(index_interval_bytes=100, segment_bytes=100)
    compacted(disk, planned(disk, config=config), "first-0")
    disk.flip_bit(f"first-0/{1:020d}.log", LENGTH_BYTE)
    options = {"config": config, "part_bytes": 150, "now_ms": NOW_MS + 2 * DAY_MS, "clean_offset": 3}
    first, *others = compacted_in_parts(disk, "first-0", **options)
    assert first[1].left_alone == [1]
    assert [group.base_offsets for group in first[1].groups] == [[0]]
    assert disk.content(f"{others[-1][0]}/{2:020d}.log"), "the delete marker may be about a record in there"


def latest(disk: SimulatedDisk, name: str) -> dict[bytes, Written]:
    return {each.key: each for each in records_in(disk, name) if each.key is not None}


# Planted faults, each of which the checks above must see


def across_parts() -> History:
    """Transactions and keys that go over several segments."""
    history = History.empty()
    for number in range(6):
        history.append([(b"a", b"%d" % number), (b"%d" % number, b"")], producer_id=11, transactional=True)
        history.append([(b"b", b"%d" % number)], producer_id=12, transactional=True)
        history.roll()
        history.append([(b"c", b"%d" % number)] * 2)
        history.end(11, commit=number % 2 == 0)
        history.end(12, commit=number % 2 == 1)
        history.roll()
    history.append([(b"a", b""), (b"b", b""), (b"c", b"")])
    history.roll()
    history.append([(b"the active segment", b"")])
    history.one.close()
    return history


def check_all() -> None:
    assert check_parts(across_parts()) > 10
    for keys_max in (2, 3, 4, 5):
        assert check_parts(across_parts(), keys_max=keys_max) > 2


def test_the_checks_pass_without_a_fault() -> None:
    check_all()


def test_a_part_ends_before_its_segments_take_more_than_it_may() -> None:
    disk, config = across_parts().one.disk, topic_config(index_interval_bytes=100, segment_bytes=200)
    parts = compacted_in_parts(disk, config=config, part_bytes=500)
    written = [[group.after.bytes for group in report.groups] for _, report in parts]
    assert [len(each) for each in written] == [4, 4, 3, 2], "as many as there may be, by what they take when written"
    assert all(sum(each) <= 500 for each in written)


def forgetting_transactions(work: Pass, rest: Rest) -> Pass | None:
    return part_of(work, rest._replace(transactions=NOTHING_MET))


def with_an_end_of_its_own(work: Pass, rest: Rest) -> Pass | None:
    return part_of(work, rest._replace(end_offset=rest.first_uncleanable_offset))


def skipping_a_segment(work: Pass, rest: Rest) -> Pass | None:
    return part_of(work, rest._replace(from_offset=rest.from_offset + 1))


def with_a_smaller_map(work: Pass, rest: Rest) -> Pass | None:
    return part_of(replace(work, first_dirty_offset=rest.end_offset - 1), rest)


@pytest.mark.parametrize(
    "fault", [forgetting_transactions, with_an_end_of_its_own, skipping_a_segment, with_a_smaller_map]
)
def test_a_fault_in_what_parts_hand_on_is_caught(
    fault: Callable[[Pass, Rest], Pass | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "part_of", fault)
    with pytest.raises((AssertionError, DamagedIndexError)):
        check_all()
