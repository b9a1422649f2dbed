"""Messages of the formats 0 and 1 as entries of a log: their headers, their records, and the batches made of them."""

from __future__ import annotations

from itertools import product
from random import Random
from struct import pack

import pytest
from support.legacy import GZIP, LZ4, NONE, SNAPPY, Kept, compressed, message, message_set
from support.logs import batch
from support.upgraded import LIBRARIES, content, decoded, kept, upgraded

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.batch import (
    OLD_HEADER_BYTES,
    TimestampType,
    check_crc,
    entries,
    headers,
    read_entry,
    read_header,
    read_old_header,
)
from penstock.records.compression import Codec, Contexts, DecompressionLimitError
from penstock.records.legacy import message_records
from penstock.records.legacy.up_conversion import GROWTH_BYTES, as_batches, converted
from penstock.records.reader import bounded, counted, keys_and_values, records

ZSTD = 4
APPEND_TIME = 8
FEW = [Kept(7, 1_000, b"k", b"first"), Kept(8, 3_000, None, b"second"), Kept(9, 2_000, b"k", None)]


def timeless(some: list[Kept]) -> list[Kept]:
    return [each._replace(timestamp_ms=-1) for each in some]


def wrapper(inside: bytes, *, offset: int, magic: int = 1, codec: int = GZIP, flags: int = 0) -> bytes:
    return message(offset, None, compressed(codec, inside), magic=magic, timestamp_ms=5_000, attributes=codec | flags)


@pytest.mark.parametrize("magic", [0, 1])
def test_the_header_of_a_message_says_where_it_ends_its_offset_and_its_time(magic: int) -> None:
    data = message(12, b"key", b"value", magic=magic, timestamp_ms=1_234)
    header = read_entry(data)
    assert (header.size_bytes, header.magic, header.is_old) == (len(data), magic, True)
    assert (header.base_offset, header.last_offset, header.next_offset) == (12, 12, 13)
    assert header.max_timestamp_ms == (1_234 if magic else -1)
    assert (header.leader_epoch, header.has_producer_id, header.record_count) == (-1, False, -1)
    assert not header.is_control
    assert not header.is_transactional
    assert header.delete_horizon_ms is None
    check_crc(data, 0, header)
    with pytest.raises(InvalidRecordError, match=f"format v{magic}"):
        read_header(data + bytes(61))


def test_a_batch_has_the_same_header_as_ever() -> None:
    data = bytes(batch(b"a", b"b", producer=(5, 0, 0)))
    assert read_entry(data) == read_header(data)
    assert list(entries(data)) == list(headers(data))
    assert not read_entry(data).is_old


@pytest.mark.parametrize("cut", range(1, 60))
def test_what_is_cut_off_ends_a_walk(cut: int) -> None:
    old, new = message(0, None, b"v" * 20), bytes(batch(b"b", base_offset=1))
    shortest = message(2, None, None, magic=0)
    assert len(shortest) == OLD_HEADER_BYTES
    for last in (old, new, shortest):
        data = old + new + last[: max(0, len(last) - cut)]
        assert [position for position, _ in entries(data)] == [0, len(old)]
    assert [position for position, _ in entries(old + new + shortest)] == [0, len(old), len(old) + len(new)]


@pytest.mark.parametrize("bit", range(128, 8 * OLD_HEADER_BYTES))
def test_a_flipped_bit_under_the_checksum_is_noticed(bit: int) -> None:
    data = bytearray(message(0, b"key", b"value"))
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises((CorruptRecordError, InvalidRecordError)):
        check_crc(data, 0, read_entry(data))


@pytest.mark.parametrize(
    ("library", "magic", "codec"),
    [
        each
        for each in product(LIBRARIES, (0, 1), (NONE, GZIP, SNAPPY, LZ4))
        if each != ("aiokafka", 0, LZ4)  # which it does not write
    ],
)
def test_what_a_library_wrote_is_read_and_made_a_batch(library: str, magic: int, codec: int) -> None:
    some = FEW if magic else timeless(FEW)
    data = message_set(library, magic, codec, some, absolute=not magic)
    assert decoded(data) == some
    fields = [(each.offset, each.key, each.value) for each in some]
    found = [each for position, header in entries(data) for each in keys_and_values(data, header, position)]
    assert found == fields
    made = as_batches(memoryview(data))
    assert decoded(bytes(made)) == some
    for position, header in headers(made):
        check_crc(made, position, header)
        assert header.compression == Codec(codec)
        assert header.timestamp_type is TimestampType.CREATE_TIME
    assert sum(header.record_count for _, header in headers(made)) == len(some)
    if codec == NONE:
        assert len(made) <= len(data) + 3 * GROWTH_BYTES


def test_a_log_that_was_upgraded_is_read_to_its_end_and_made_batches() -> None:
    some = upgraded(seed=5)
    data = content(some)
    assert decoded(data) == kept(some)
    assert decoded(bytes(as_batches(memoryview(data)))) == kept(some)
    new = memoryview(bytes(batch(b"a")))
    assert as_batches(new) is new


def test_the_time_that_a_broker_had_set_is_that_of_all_inside() -> None:
    inside = message(0, None, b"a", timestamp_ms=1) + message(1, None, b"b", timestamp_ms=2)
    data = wrapper(inside, offset=9, flags=APPEND_TIME)
    assert [(each.offset, each.timestamp_ms) for each in decoded(data)] == [(8, 5_000), (9, 5_000)]
    (_, header), made = next(headers(as_batches(memoryview(data)))), as_batches(memoryview(data))
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [each.timestamp_ms for each in decoded(bytes(made))] == [5_000, 5_000]


def test_offsets_inside_count_as_they_are_where_the_wrapper_has_offset_0() -> None:
    inside = message(0, None, b"a") + message(1, None, b"b")
    assert [each.offset for each in decoded(wrapper(inside, offset=0))] == [0, 1]
    with pytest.raises(InvalidRecordError, match="offsets 0 to 1 in the message at offset 0"):
        counted(wrapper(inside, offset=0), read_entry(wrapper(inside, offset=0)))


def test_a_wrapper_that_compaction_has_left_holes_in_keeps_its_offsets() -> None:
    inside = message(1, None, b"b") + message(4, None, b"e")
    data = wrapper(inside, offset=14)
    assert [each.offset for each in decoded(data)] == [11, 14]
    header = counted(data, read_entry(data))
    assert (header.base_offset, header.last_offset, header.record_count) == (11, 14, 2)
    assert [each.offset for each in decoded(bytes(as_batches(memoryview(data))))] == [11, 14]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (wrapper(message(5, None, b"a"), offset=4), "offset 4, and 5 inside"),
        (wrapper(b"", offset=4), "nothing inside"),
        (wrapper(message(0, None, b"a") + b"\0" * 9, offset=4), "no message begins at byte 35"),
        (wrapper(message(0, None, b"abcdef")[:-1], offset=4), "no message begins at byte 0"),
        (wrapper(wrapper(message(0, None, b"a"), offset=0), offset=4), "inside another one"),
        (message(4, None, None, attributes=GZIP), "without a value"),
        (message(4, None, b"zstd", attributes=ZSTD), "compression type 4"),
        (message(4, None, b"zstd", attributes=7), "compression type 7"),
        (message(4, None, b"no gzip", attributes=GZIP), "gzip"),
        (message(4, None, b"no lz4", attributes=LZ4, magic=0), "lz4"),
        (message(4, None, None, magic=0)[:16] + b"\x01" + bytes(9), "in 26 bytes"),
        (message(4, b"key", b"v" * 9)[:33] + pack(">i", 99) + bytes(9), "key or value of 99 bytes"),
    ],
)
def test_a_message_that_is_broken_inside_is_refused(data: bytes, why: str) -> None:
    header = read_entry(data)
    with pytest.raises((CorruptRecordError, InvalidRecordError), match=why):
        list(records(data, header))
    with pytest.raises((CorruptRecordError, InvalidRecordError)):
        converted(data, header, 0, Contexts(), 1 << 20)


def test_what_a_wrapper_unpacks_to_and_how_many_are_inside_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = wrapper(b"".join(message(number, None, b"v" * 1000) for number in range(5)), offset=4)
    with pytest.raises(DecompressionLimitError):
        list(records(data, read_entry(data), 0, bounded(Contexts(), 5_000)))
    assert len(list(records(data, read_entry(data), 0, bounded(Contexts(), 6_000)))) == 5
    monkeypatch.setattr(message_records, "LEGACY_INNER_MESSAGES_MAX", 4)
    with pytest.raises(InvalidRecordError, match="more than 4"):
        list(records(data, read_entry(data)))


def test_times_that_no_batch_can_hold_together_are_refused() -> None:
    inside = message(0, None, b"a", timestamp_ms=-(2**63)) + message(1, None, b"b", timestamp_ms=2**63 - 1)
    data = wrapper(inside, offset=1)
    with pytest.raises(InvalidRecordError, match="too far apart"):
        converted(data, read_entry(data), 0, Contexts(), 1 << 20)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_bytes_are_they_are_read_or_refused(seed: int) -> None:
    random = Random(seed)
    for entry in upgraded(seed, messages=6, batches=0):
        data = bytearray(entry.data)
        for _ in range(random.randrange(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        for cut in (len(data), random.randrange(len(data) + 1)):
            try:
                header = read_entry(data[:cut])
                found = list(records(bytes(data[:cut]), header)) if header.is_old else []
                made = converted(data[:cut], header, 0, Contexts(), 1 << 20) if header.is_old else b""
            except (CorruptRecordError, InvalidRecordError):
                continue
            assert not header.is_old or [tuple(each) for each in records(made, read_header(made))] == found


def test_no_old_message_is_where_bytes_are_few_or_others() -> None:
    data = message(0, None, b"v")
    assert read_old_header(data[:25]) is None
    assert read_old_header(b"") is None
    for magic in (2, 3, 127, 128, 255):
        assert read_old_header(data[:16] + bytes([magic]) + data[17:]) is None
    assert read_old_header(data[:8] + pack(">i", 13) + data[12:]) is None
    assert read_old_header(data[:8] + pack(">i", -1) + data[12:]) is None
