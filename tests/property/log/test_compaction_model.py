"""Random histories, cleaned: what is left is what a dict says, wherever the pass ended and whatever came again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.compaction import (
    DAY_MS,
    OUT,
    History,
    batches_in,
    check_first_pass,
    check_horizon,
    compacted,
    planned,
    records_in,
)

from penstock.log.compaction.offset_map import ENTRY_BYTES
from penstock.records.batch import BatchHeader
from penstock.records.compression import Codec

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"", b"a longer key", None])
VALUES = st.one_of(st.none(), st.binary(max_size=12), st.just(b"v" * 200))
APPEND = st.tuples(
    st.just("append"),
    st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=8),
    st.sampled_from(Codec),
    st.sampled_from([-1, -1, 1, 2]),
)
TRANSACTION = st.tuples(
    st.just("write in a transaction"),
    st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4),
    st.sampled_from([Codec.NONE, Codec.LZ4]),
    st.sampled_from([11, 12]),
)
END = st.tuples(st.just("end"), st.sampled_from([11, 12]), st.booleans())
ROLL = st.tuples(st.just("roll"))
HISTORIES = st.lists(st.one_of(APPEND, APPEND, TRANSACTION, END, ROLL), min_size=1, max_size=30)
Step = tuple[object, ...]


def history_of(steps: list[Step]) -> History:
    history = History.empty()
    for step in steps:
        match step:
            case ("append", pairs, codec, producer_id):
                history.append(pairs, codec=codec, producer_id=producer_id)  # type: ignore[arg-type]
            case ("write in a transaction", pairs, codec, producer_id):
                history.append(pairs, codec=codec, producer_id=producer_id, transactional=True)  # type: ignore[arg-type]
            case ("end", producer_id, commit) if producer_id in history.open:
                history.end(producer_id, commit=bool(commit))  # type: ignore[arg-type]
            case ("roll",):
                history.roll()
    history.roll()
    history.append([(b"the active segment", b"")])
    history.one.close()
    return history


@settings(deadline=None, max_examples=150)
@given(steps=HISTORIES, segment_bytes=st.sampled_from([200, 700, 1 << 20]), keys_max=st.sampled_from([1, 2, 4, 1000]))
def test_what_is_left_is_what_a_dict_says(steps: list[Step], segment_bytes: int, keys_max: int) -> None:
    check_first_pass(history_of(steps), segment_bytes=segment_bytes, keys_max=keys_max)


@settings(deadline=None, max_examples=60)
@given(steps=HISTORIES)
def test_a_second_pass_removes_nothing_more(steps: list[Step]) -> None:
    history = history_of(steps)
    disk = history.one.disk
    compacted(disk, planned(disk))
    again = compacted(disk, planned(disk, OUT), "again-0")
    assert records_in(disk, "again-0") == records_in(disk, OUT)
    assert counts(batches_in(disk, "again-0")) == counts(batches_in(disk, OUT))
    assert sum(group.removed for group in again.groups) == 0


def counts(batches: list[tuple[BatchHeader, bytes]]) -> list[tuple[int, int]]:
    """Offsets and records; a marker whose data went in the first pass gets its delete horizon in the second."""
    return [(header.base_offset, header.record_count) for header, _ in batches]


@settings(deadline=None, max_examples=60)
@given(steps=HISTORIES, keys_max=st.sampled_from([1, 2, 4]))
def test_passes_with_a_small_map_end_where_one_with_a_large_map_ends(steps: list[Step], keys_max: int) -> None:
    history = history_of(steps)
    disk = history.one.disk
    whole = compacted(disk, planned(disk))
    clean_offset, name = 0, history.one.name
    for number in range(300):
        work = planned(disk, name, clean_offset=clean_offset)
        if clean_offset >= whole.end_offset:
            break
        name = f"part.{number}-0"
        report = compacted(disk, work, name, buffer_bytes=(2 * keys_max + 3) * ENTRY_BYTES)
        assert report.end_offset > clean_offset, "every pass gets further"
        clean_offset = report.end_offset
    assert clean_offset == whole.end_offset
    assert records_in(disk, name) == records_in(disk, OUT)


@settings(deadline=None, max_examples=60)
@given(steps=HISTORIES, waited_ms=st.sampled_from([0, DAY_MS - 1, DAY_MS, 2 * DAY_MS]))
def test_delete_markers_stay_until_their_horizon(steps: list[Step], waited_ms: int) -> None:
    check_horizon(history_of(steps), waited_ms)
