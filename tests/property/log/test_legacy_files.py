"""Old files, whole and broken in every way: what comes out is what was written, or lies in bytes that are reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.legacy import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    Kept,
    message,
    message_07,
    message_set,
    wrapper_07,
    write_log,
)

from penstock.log.legacy import LegacyRecords, find_logs
from penstock.records.compression import Contexts
from penstock.records.legacy.formats import Format, LegacyRecord
from penstock.records.legacy.kafka07 import KAFKA_07
from penstock.records.legacy.kafka08 import KAFKA_08
from penstock.records.legacy.scan import Found, Hole, PresentFormatError, Scan
from penstock.records.legacy.wrappers import Unwrapper
from penstock.server.disk import BlockingDisk

DATA = st.one_of(st.none(), st.binary(max_size=200))
TIMES = st.one_of(st.just(-1), st.integers(0, 2**63 - 1))
GAPS = st.sampled_from([0, 0, 0, 1, 7, 1000])


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Kept], list[tuple[int, bytes]]]:
    """Records of Kafka 0.8 to 0.10, and the files that they are in."""
    kept: list[Kept] = []
    segments: list[tuple[int, bytes]] = []
    offset = draw(st.integers(0, 10**6))
    for _ in range(draw(st.integers(1, 3))):
        base, data = offset, b""
        for _ in range(draw(st.integers(0, 4))):
            magic = draw(st.sampled_from([0, 1]))
            library, codec = draw(st.sampled_from(["kafka-python", "aiokafka"])), draw(st.integers(0, 3))
            if (library, magic, codec) == ("aiokafka", 0, LZ4):
                library = "kafka-python"
            records = []
            gaps = codec == NONE  # the encoders number what is inside a wrapper themselves
            for _ in range(draw(st.integers(1, 5))):
                time_ms = draw(TIMES) if magic else -1
                records.append(Kept(offset, time_ms, draw(DATA), draw(DATA)))
                offset += 1 + (draw(GAPS) if gaps else 0)
            data += message_set(library, magic, codec, records, absolute=magic == 0)
            kept += records
            offset += draw(GAPS)
        segments.append((base, data))
        offset = max(offset, base + 1)
    return kept, segments


@settings(max_examples=100)
@given(histories())
def test_any_history_comes_out_as_it_was_written(history: tuple[list[Kept], list[tuple[int, bytes]]]) -> None:
    kept, segments = history
    with TemporaryDirectory() as directory:
        log = write_log(Path(directory) / "clicks-0", segments)
        disk = BlockingDisk(0, str(log), writable=False)
        source = LegacyRecords(disk, find_logs(disk, log.name)[0])
        assert [Kept(*record[:4]) for record in source] == kept
        disk.close()
        assert source.report.is_clean
        assert source.report.read_bytes == sum(len(data) for _, data in segments)


def flip(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def cut(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def remove(data: bytearray, random: Random) -> None:
    start = random.randrange(len(data))
    del data[start : start + random.randrange(1, 100)]


def insert(data: bytearray, random: Random) -> None:
    start = random.randrange(len(data))
    data[start:start] = random.randbytes(random.randrange(1, 100))


def overwrite(data: bytearray, random: Random) -> None:
    start, count = random.randrange(len(data)), random.randrange(1, 60)
    data[start : start + count] = random.randbytes(len(data[start : start + count]))


def zero(data: bytearray, random: Random) -> None:
    start, count = random.randrange(len(data)), random.randrange(1, 200)
    data[start : start + count] = bytes(len(data[start : start + count]))


def lie(data: bytearray, random: Random) -> None:
    """Where a length may be, another one."""
    start = random.randrange(max(len(data) - 4, 1))
    data[start : start + 4] = random.choice([2**31 - 1, 2**27, 2**32 - 1, 0, 100, 17]).to_bytes(4, "big")


def repeat(data: bytearray, random: Random) -> None:
    start = random.randrange(len(data))
    part = data[start : start + random.randrange(1, 400)]
    data[start:start] = part


MUTATIONS: list[Callable[[bytearray, Random], None]] = [flip, cut, remove, insert, overwrite, zero, lie, repeat]


def file_08(random: Random) -> list[bytes]:
    """Messages of Kafka 0.8 to 0.10."""
    parts, offset = [], 0
    for _ in range(random.randrange(1, 8)):
        magic, codec = random.randrange(2), random.choice([NONE, NONE, GZIP, SNAPPY, LZ4])
        count = random.randrange(1, 4) if codec else 1
        records = [
            Kept(offset + n, random.randrange(2**41), random.randbytes(8), random.randbytes(random.randrange(120)))
            for n in range(count)
        ]
        offset += count
        parts.append(message_set("kafka-python", magic, codec, records))
    return parts


def file_07(random: Random) -> list[bytes]:
    """Messages of Kafka 0.7."""
    parts = []
    for _ in range(random.randrange(1, 8)):
        payloads = [random.randbytes(random.randrange(120)) for _ in range(3)]
        one = random.randrange(4)
        parts.append(wrapper_07(payloads, one) if one in (GZIP, SNAPPY) else message_07(payloads[0], magic=one % 2))
    return parts


FILES: dict[str, tuple[Format, Callable[[Random], list[bytes]]]] = {
    "0.7": (KAFKA_07, file_07),
    "0.8": (KAFKA_08, file_08),
}


def read(scan: Scan, old_format: Format) -> tuple[list[Found | Hole], list[Kept]]:
    """Messages and holes, and the records of the messages, without their offsets."""
    unwrapper = Unwrapper(old_format, Contexts(), limit_bytes=1 << 16)
    pieces, kept = [], []
    for piece in scan:
        pieces.append(piece)
        if isinstance(piece, Found):
            for record in unwrapper.records(piece.entry, max(piece.entry.offset, 0)):
                if isinstance(record, LegacyRecord):
                    kept.append(Kept(0, record.timestamp_ms, record.key, record.value))
    return pieces, kept


def scan_of(data: bytes, old_format: Format, **limits: int) -> Scan:
    return Scan(lambda at, length: data[at : at + length], len(data), old_format, **limits)


def check(version: str, seed: int) -> int:
    """Breaks a file and reads it; returns how many of its records were read."""
    old_format, make = FILES[version]
    random = Random(f"{version} {seed}")
    whole = b"".join(make(random))
    data = bytearray(whole)
    for _ in range(random.choice([1, 1, 2, 5])):
        if data:
            random.choice(MUTATIONS)(data, random)
    limits = {
        "searched_bytes_max": random.choice([1 << 20, 4096, 0]),
        "window_bytes": random.choice([64, 100, 1 << 16]),
    }
    pieces, kept = read(scan_of(bytes(data), old_format, **limits), old_format)
    end = 0
    for piece in pieces:
        assert piece.position == end
        assert piece.size_bytes > 0
        end += piece.size_bytes
    assert end == len(data), "messages and holes are the whole file"
    messages, written = read(scan_of(whole, old_format), old_format)
    if version == "0.7":  # whose attributes are under no checksum: a wrapper may be taken for a record
        written += [Kept(0, -1, None, each.entry.value) for each in messages if isinstance(each, Found)]
    assert set(kept) <= set(written), "only what was written is read"
    return len(kept)


@pytest.mark.parametrize("version", FILES)
def test_broken_files_raise_nothing_and_every_byte_is_accounted_for(version: str) -> None:
    assert sum(check(version, seed) for seed in range(400)) > 800


@pytest.mark.long
@pytest.mark.parametrize("version", FILES)
def test_more_broken_files_raise_nothing_and_every_byte_is_accounted_for(version: str) -> None:
    assert sum(check(version, seed) for seed in range(400, 10_400)) > 20_000


@pytest.mark.parametrize("version", FILES)
def test_one_flipped_bit_costs_one_message(version: str) -> None:
    """But for bits that are under no checksum: an offset's, and the attributes of 0.7."""
    lost = 0
    for seed in range(200):
        random = Random(f"flip {version} {seed}")
        payloads = [random.randbytes(random.randrange(60)) for _ in range(8)]
        if version == "0.7":
            parts = [message_07(payload) for payload in payloads]
        else:
            parts = [message(offset, b"k", payload) for offset, payload in enumerate(payloads)]
        data = bytearray(b"".join(parts))
        flip(data, random)
        pieces, _ = read(scan_of(bytes(data), FILES[version][0]), FILES[version][0])
        messages = sum(isinstance(piece, Found) for piece in pieces)
        assert len(pieces) - messages == len(parts) - messages <= 1
        lost += len(parts) - messages
    assert 100 < lost < 200


def test_a_batch_of_the_present_format_is_told_from_damage() -> None:
    from penstock.records.builder import BatchBuilder

    builder = BatchBuilder()
    builder.append(1, b"k", b"v" * 500)
    view = message_set("aiokafka", 1, NONE, [Kept(0, 1, None, b"v")]) + bytes(builder.build())
    with pytest.raises(PresentFormatError):
        list(scan_of(view, KAFKA_08, window_bytes=64))
