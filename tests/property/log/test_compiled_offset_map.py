"""The compiled map and its plain twin say the same of every batch, whole or broken, empty or full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="needs penstock[kernels]")

from penstock.errors import InvalidRecordError
from penstock.log.compaction.compiled_offset_map import CompiledOffsetMap
from penstock.log.compaction.offset_map import ENTRY_BYTES, LatestOffsets, OffsetMap
from penstock.records import kernels, key_kernels
from penstock.records.batch import HEADER_BYTES, BatchHeader, read_header
from penstock.records.builder import BatchBuilder

HASH_KEY = bytes(range(16))
KEYS = st.sampled_from(
    [b"a", b"b", b"ab", b"", None, b"01234567", b"01234567x", b"0123456789abcdef", b"0123456789abcdeg"]
)
VALUES = st.one_of(st.none(), st.binary(max_size=12), st.just(b"v" * 70))
HEADERS = st.one_of(
    st.just(()), st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=3)
)
RECORDS = st.lists(st.tuples(KEYS, VALUES, HEADERS, st.integers(-70, 2**40), st.integers(1, 3)), max_size=8)
EDITS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3)
LENGTHS = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
"""Bytes that mean something at the start of a number: none, -1, the longest of one byte, and one that goes on."""
BATCHES = st.fixed_dictionaries(
    {
        "base_offset": st.sampled_from([0, 7, 1000, 2**32 - 2, 2**63 - 2**31]),
        "records": RECORDS,
        "edits": st.one_of(st.just([]), EDITS, st.lists(st.tuples(st.integers(0, 400), LENGTHS), max_size=3)),
        "cut": st.sampled_from([0, 0, 0, 0, 1, 5, -1, -3]),
        "more_records": st.sampled_from([0, 0, 0, 0, 1, -1, -1000, 2**30]),
        "less_last_delta": st.sampled_from([0, 0, 0, 0, 1, -1, 1000]),
        "from_record": st.integers(-2, 9),
        "drop_tombstones": st.booleans(),
    }
)
Batch = dict[str, Any]
SEQUENCES = st.tuples(st.lists(BATCHES, min_size=1, max_size=3), st.sampled_from([2, 3, 5, 7, 101]))


def built(batch: Batch) -> tuple[bytes, BatchHeader]:
    """The records of a batch, and its header, after all that is to be broken in them."""
    builder = BatchBuilder(base_offset=batch["base_offset"])
    offset = batch["base_offset"] - 1
    for key, value, pairs, timestamp_ms, step in batch["records"]:
        offset += step
        builder.append(timestamp_ms, key, value, pairs, offset=offset)
    whole = bytes(builder.build())
    header, data = read_header(whole), bytearray(whole[HEADER_BYTES:])
    for position, byte in batch["edits"]:
        if position < len(data):
            data[position] = byte
    cut = batch["cut"]
    data = data[: len(data) - cut] if cut > 0 else data + bytes(-cut)
    return bytes(data), header._replace(
        record_count=header.record_count + batch["more_records"],
        last_offset_delta=header.last_offset_delta - batch["less_last_delta"],
    )


def answer(call: Callable[[], Any]) -> Any:
    """What a call answers, an error included."""
    try:
        return call()
    except InvalidRecordError as error:
        return type(error), str(error)


def answers(offsets: LatestOffsets, batches: list[Batch]) -> list[Any]:
    """All that a map says: of each batch when it is added, then when the records are selected."""
    found: list[Any] = [offsets.limit]
    made = [(*built(batch), batch) for batch in batches]
    for data, header, batch in made:
        start = header.base_offset + batch["from_record"]
        found += [answer(lambda: offsets.add(data, header, start)), offsets.size]  # noqa: B023 called at once
    for data, header, batch in made:
        latest = header.base_offset + batch["from_record"] + 3
        for known_to in (latest, -1, 2**63):
            select = lambda: offsets.select(data, header, known_to, drop_tombstones=batch["drop_tombstones"])  # noqa: B023, E731
            found.append(answer(select))
    return found


def check(batches: list[Batch], entries: int, load_factor: float) -> None:
    size = entries * ENTRY_BYTES
    compiled = answers(CompiledOffsetMap(size, load_factor, HASH_KEY), batches)
    assert compiled == answers(OffsetMap(size, load_factor, HASH_KEY), batches)


@settings(deadline=None, max_examples=500)
@given(case=SEQUENCES, load_factor=st.sampled_from([0.9, 1.0]))
def test_both_maps_say_the_same(case: tuple[list[Batch], int], load_factor: float) -> None:
    check(*case, load_factor)


def test_a_batch_with_many_records_is_selected_as_by_the_plain_map() -> None:
    """More than the scratch arrays hold at first, and numbers of two and three bytes."""
    records = [(b"%d" % (number * 7 % 900), b"v" * (number % 200), (), number, 1) for number in range(20_000)]
    batch = {"base_offset": 5, "records": records, "edits": [], "cut": 0, "more_records": 0, "less_last_delta": 0}
    batch |= {"from_record": 12_000, "drop_tombstones": False}
    check([batch], 2000, 0.9)


# Planted faults in the kernels


def with_arguments(change: Callable[[list[Any]], None]) -> Callable[[Any], Any]:
    """A fault that changes what a kernel is given."""

    def planted(kernel: Any) -> Any:
        def faulty(*arguments: Any) -> Any:
            changed = list(arguments)
            change(changed)
            return kernel(*changed)

        return faulty

    return planted


def with_results(change: Callable[[tuple[Any, ...]], None]) -> Callable[[Any], Any]:
    """A fault that changes what a kernel has written into its arrays."""

    def planted(kernel: Any) -> Any:
        def faulty(*arguments: Any) -> Any:
            answer = kernel(*arguments)
            change(arguments)
            return answer

        return faulty

    return planted


def later(position: int, by: int = 1) -> Callable[[list[Any]], None]:
    def change(arguments: list[Any]) -> None:
        arguments[position] = type(arguments[position])(max(int(arguments[position]) + by, 0))

    return change


def keys_cut_short(arguments: tuple[Any, ...]) -> None:
    lengths = arguments[-1][:, kernels.KEY_LENGTH]
    lengths[:] = lengths.clip(-1, 1)


def null_keys_empty(arguments: tuple[Any, ...]) -> None:
    lengths = arguments[-1][:, kernels.KEY_LENGTH]
    lengths[:] = lengths.clip(0)


def first_byte_wrong(arguments: tuple[Any, ...]) -> None:
    arguments[-2][:1] ^= 1


def one_more(entry: int) -> Callable[[tuple[Any, ...]], None]:
    def change(arguments: tuple[Any, ...]) -> None:
        arguments[-1][entry] += 1

    return change


FAULTS = {
    "a record too late in the batch is taken": (kernels, "find_records", with_arguments(later(2))),
    "keys are cut short": (kernels, "find_records", with_results(keys_cut_short)),
    "a null key is an empty one": (kernels, "find_records", with_results(null_keys_empty)),
    "the first offset is not noted": (key_kernels, "add", with_arguments(later(4))),
    "offsets are off by one": (key_kernels, "add", with_arguments(later(3))),
    "the map holds one key less": (key_kernels, "add", with_arguments(later(-1, -1))),
    "the last offset that is known is not": (key_kernels, "select", with_arguments(later(4, -1))),
    "an offset more is known": (key_kernels, "select", with_arguments(later(4))),
    "the payload is another": (key_kernels, "select", with_results(first_byte_wrong)),
    "a delete marker more": (key_kernels, "select", with_results(one_more(key_kernels.KEPT_TOMBSTONES))),
    "a later timestamp": (key_kernels, "select", with_results(one_more(key_kernels.LARGEST_TIMESTAMP_DELTA))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, planted = FAULTS[fault]
    monkeypatch.setattr(module, name, planted(getattr(module, name)))

    @settings(deadline=None, max_examples=2_000, derandomize=True, database=None, phases=[Phase.generate])
    @given(case=SEQUENCES)
    def both_say_the_same(case: tuple[list[Batch], int]) -> None:
        check(*case, 0.9)

    with pytest.raises(AssertionError):
        both_say_the_same()
