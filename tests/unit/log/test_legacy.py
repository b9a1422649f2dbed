"""Logs of before Kafka 0.11: every record comes out, in order, and what is damaged is named."""

from __future__ import annotations

import gzip
from pathlib import Path
from struct import pack_into

import pytest
from support.legacy import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    Kept,
    compressed,
    message,
    message_07,
    message_set,
    wrapper_07,
    write_log,
)

from penstock.errors import StorageError, UsageError
from penstock.log.legacy import LegacyRecords, LegacyReport, find_logs
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Contexts
from penstock.records.legacy.compression import with_right_checksum
from penstock.records.legacy.kafka07 import KAFKA_07
from penstock.records.legacy.wrappers import Unwrapper
from penstock.server.disk import BlockingDisk

T = 1_400_000_000_000


def read(directory: Path) -> tuple[list[Kept], LegacyReport]:
    """All records of the one log of a directory, and what is said of it."""
    disk = BlockingDisk(0, str(directory), writable=False)
    try:
        (log,) = find_logs(disk, directory.name)
        if log.fault:
            raise UsageError(log.fault)
        source = LegacyRecords(disk, log)
        return [Kept(*record[:4]) for record in source], source.report
    finally:
        disk.close()


def read_bytes(tmp_path: Path, data: bytes, base: int = 0, suffix: str = ".log") -> tuple[list[Kept], LegacyReport]:
    return read(write_log(tmp_path / "clicks-0", [(base, data)], suffix))


def kept(first: int, count: int, magic: int) -> list[Kept]:
    """Records with keys, without, and with null values."""
    return [
        Kept(
            offset,
            T + offset if magic else -1,
            None if offset % 3 == 0 else b"key %d" % offset,
            None if offset % 7 == 0 else b"value %d" % offset * (offset % 5),
        )
        for offset in range(first, first + count)
    ]


ENCODED = [
    (library, magic, codec)
    for library in ("kafka-python", "aiokafka")
    for magic in (0, 1)
    for codec in (NONE, GZIP, SNAPPY, LZ4)
    if (library, magic, codec) != ("aiokafka", 0, LZ4)  # which it refuses to write
]


@pytest.mark.parametrize(("library", "magic", "codec"), ENCODED)
def test_what_client_libraries_encoded_comes_out(tmp_path: Path, library: str, magic: int, codec: int) -> None:
    records = kept(100, 40, magic)
    parts = [records[:1], records[1:20], records[20:]]
    data = b"".join(message_set(library, magic, codec, part, absolute=magic == 0) for part in parts)
    found, report = read_bytes(tmp_path, data, base=100)
    assert found == records
    assert report.is_clean
    assert (report.records, report.read_bytes, report.end_offset) == (40, len(data), 140)
    assert set(report.codecs) == {codec}


def test_relative_offsets_are_read_with_magic_0_too(tmp_path: Path) -> None:
    records = kept(50, 10, 0)
    found, report = read_bytes(tmp_path, message_set("kafka-python", 0, GZIP, records), base=50)
    assert found == records
    assert report.is_clean


def test_a_wrapper_whose_time_the_broker_set_gives_it_to_all_inside(tmp_path: Path) -> None:
    inside = message(0, b"a", b"1", timestamp_ms=5) + message(1, b"b", b"2", timestamp_ms=6)
    data = message(8, None, gzip.compress(inside), timestamp_ms=T, attributes=GZIP | 8)
    found, _ = read_bytes(tmp_path, data, base=7)
    assert found == [Kept(7, T, b"a", b"1"), Kept(8, T, b"b", b"2")]


def test_gaps_that_compaction_left_stay_in_the_offsets(tmp_path: Path) -> None:
    inside = message(0, b"a", b"1") + message(4, b"b", b"2")
    data = message(3, b"k", b"v") + message(14, None, compressed(SNAPPY, inside), attributes=SNAPPY)
    found, report = read_bytes(tmp_path, data)
    assert [record.offset for record in found] == [3, 10, 14]
    assert report.is_clean


def test_raw_snappy_is_read_too(tmp_path: Path) -> None:
    import cramjam

    value = bytes(cramjam.snappy.compress_raw(message(0, b"k", b"v")))
    found, _ = read_bytes(tmp_path, message(0, None, value, attributes=SNAPPY))
    assert found == [Kept(0, -1, b"k", b"v")]


def test_lz4_frames_of_linked_blocks_are_read(tmp_path: Path) -> None:
    import lz4.frame

    inside = message(0, None, bytes(range(256)) * 1024)
    frame = lz4.frame.compress(inside, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=True)
    found, _ = read_bytes(tmp_path, message(0, None, frame, attributes=LZ4))
    assert found == [Kept(0, -1, None, bytes(range(256)) * 1024)]


@pytest.mark.parametrize("store_size", [False, True])
def test_a_broken_checksum_of_an_lz4_frame_is_put_right(store_size: bool) -> None:
    import lz4.frame

    frame = lz4.frame.compress(b"hello" * 100, store_size=store_size)
    at = 14 if store_size else 6
    broken = frame[:at] + bytes((frame[at] ^ 0x55,)) + frame[at + 1 :]
    assert with_right_checksum(broken) == frame


def test_messages_of_kafka_07_have_their_position_as_offset(tmp_path: Path) -> None:
    first = [message_07(b"one", magic=0), message_07(b""), wrapper_07([b"two", b"three"]), message_07(b"four")]
    second = [wrapper_07([b"five", b"six"], SNAPPY)]
    base = 4096
    directory = write_log(
        tmp_path / "clicks-3",
        [(base, b"".join(first)), (base + len(b"".join(first)), b"".join(second))],
        ".kafka",
    )
    found, report = read(directory)
    at = [base]
    for each in [*first, *second]:
        at.append(at[-1] + len(each))
    assert found == [
        Kept(at[0], -1, None, b"one"),
        Kept(at[1], -1, None, b""),
        Kept(at[2], -1, None, b"two"),
        Kept(at[2], -1, None, b"three"),
        Kept(at[3], -1, None, b"four"),
        Kept(at[4], -1, None, b"five"),
        Kept(at[4], -1, None, b"six"),
    ]
    assert report.is_clean
    assert report.end_offset == at[-1]


def test_a_file_of_kafka_07_that_is_missing_is_said(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "clicks-0", [(0, message_07(b"one")), (1000, message_07(b"two"))], ".kafka")
    found, report = read(directory)
    assert [record.value for record in found] == [b"one", b"two"]
    assert report.missing_bytes == 1000 - len(message_07(b"one"))
    assert not report.is_clean


THREE = [message(offset, b"k", b"value %d" % offset) for offset in range(3)]


def test_a_flipped_bit_costs_its_message(tmp_path: Path) -> None:
    data = bytearray(b"".join(THREE))
    data[len(THREE[0]) + 30] ^= 1
    found, report = read_bytes(tmp_path, bytes(data))
    assert [record.offset for record in found] == [0, 2]
    assert (report.damaged, report.damaged_bytes) == (1, len(THREE[1]))
    assert report.holes[0].position == len(THREE[0])
    assert "checksum" in report.holes[0].reason


@pytest.mark.parametrize("size", [0, -1, 20, 2**31 - 1, 60])
def test_a_size_that_lies_costs_its_message(tmp_path: Path, size: int) -> None:
    data = bytearray(b"".join(THREE))
    pack_into(">i", data, len(THREE[0]) + 8, size)
    found, report = read_bytes(tmp_path, bytes(data))
    assert [record.offset for record in found] == [0, 2]
    assert (report.damaged, report.damaged_bytes) == (1, len(THREE[1]))


def test_a_message_within_a_damaged_one_is_not_taken_for_one(tmp_path: Path) -> None:
    outer = bytearray(message(1, b"k", message(7, b"inner", b"v")))
    outer[20] ^= 1  # not in the one within
    found, _ = read_bytes(tmp_path, THREE[0] + bytes(outer) + THREE[2])
    assert [record.offset for record in found] == [0, 2]


@pytest.mark.parametrize("offset", [0, 2**40, -5])
def test_an_offset_that_cannot_be_costs_nothing(tmp_path: Path, offset: int) -> None:
    """The checksum does not cover it."""
    data = bytearray(b"".join(THREE))
    pack_into(">q", data, len(THREE[0]), offset)
    directory = write_log(tmp_path / "clicks-0", [(0, bytes(data)), (3, message(3, None, b"last"))])
    found, report = read(directory)
    if offset >= 0:
        assert [record.offset for record in found] == [0, 1, 2, 3]
        assert report.wrong_offsets == 1
    else:
        assert [record.offset for record in found] == [0, 2, 3]  # nothing begins with a negative offset
        assert report.damaged == 1
    assert not report.is_clean


def test_the_cut_off_end_of_the_last_file_is_no_damage(tmp_path: Path) -> None:
    for number, left in enumerate([1, 16, 17, len(THREE[2]) - 1]):
        data = b"".join(THREE[:2]) + THREE[2][:left]
        found, report = read(write_log(tmp_path / f"clicks-{number}", [(0, data)]))
        assert [record.offset for record in found] == [0, 1]
        assert report.is_clean
        assert report.cut_off_bytes == left


def test_the_cut_off_end_of_another_file_is_damage(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "clicks-0", [(0, b"".join(THREE)[:-1]), (3, message(3, None, b"v"))])
    found, report = read(directory)
    assert [record.offset for record in found] == [0, 1, 3]
    assert report.damaged == 1
    assert report.cut_off_bytes == 0


def test_zeros_at_the_end_are_space_that_was_not_used(tmp_path: Path) -> None:
    found, report = read_bytes(tmp_path, b"".join(THREE) + bytes(10_000))
    assert len(found) == 3
    assert report.is_clean
    assert report.unused_bytes == 10_000


def test_a_broken_message_inside_a_wrapper_costs_itself(tmp_path: Path) -> None:
    inside = bytearray(b"".join(THREE))
    inside[len(THREE[0]) + 30] ^= 1
    data = message(12, None, gzip.compress(bytes(inside)), attributes=GZIP) + message(13, None, b"after")
    found, report = read_bytes(tmp_path, data, base=10)
    assert [record.offset for record in found] == [10, 12, 13]
    assert report.damaged == 1


BOMB = gzip.compress(bytes(8 << 20), 1) * 33
"""8 MiB of zeros in each of 33 members."""


@pytest.mark.parametrize(
    ("value", "codec", "reason"),
    [
        (b"no gzip", GZIP, "broken gzip data"),
        (None, GZIP, "without a value"),
        (b"", LZ4, "cut off"),
        (b"x", 4, "unknown compression type 4"),
        (gzip.compress(b"", mtime=0), GZIP, "0 bytes inside are no message"),
        (gzip.compress(b"x" * 40, mtime=0), GZIP, "40 bytes inside are no message"),
        (BOMB, GZIP, "more than 268435456 bytes"),
    ],
)
def test_a_wrapper_that_cannot_be_opened_is_passed_over(
    tmp_path: Path, value: bytes | None, codec: int, reason: str
) -> None:
    found, report = read_bytes(tmp_path, message(0, None, value, attributes=codec) + message(1, b"k", b"after"))
    assert [record.offset for record in found] == [1]
    assert reason in report.holes[0].reason
    assert report.damaged == 1


def test_wrappers_inside_each_other_are_opened_up_to_a_depth(tmp_path: Path) -> None:
    data = message(0, b"k", b"v")
    for depth in range(1, 5):
        data = message(0, None, gzip.compress(data), attributes=GZIP)
        found, report = read(write_log(tmp_path / f"clicks-{depth}", [(0, data)]))
        assert len(found) == (depth <= 3)
        assert report.damaged == (depth > 3)


def test_wrappers_inside_each_other_have_one_bound_for_all() -> None:
    payload = bytes(1000)
    inner = message_07(compressed(GZIP, message_07(payload)), attributes=GZIP)
    outer = message_07(compressed(GZIP, inner * 4), attributes=GZIP)
    unwrapper = Unwrapper(KAFKA_07, Contexts(), limit_bytes=2 * 1100 + 4 * len(inner))
    found = list(unwrapper.records(KAFKA_07.entry(outer, 0, len(outer)), 5))
    assert found[:2] == [(5, -1, None, payload, GZIP)] * 2
    assert all(isinstance(each, str) and "decompresses to more than" in each for each in found[2:])
    assert len(found) == 4


def test_a_timestamp_that_cannot_be_is_dropped_and_said(tmp_path: Path) -> None:
    found, report = read_bytes(tmp_path, message(0, None, b"v", timestamp_ms=-2))
    assert found == [Kept(0, -1, None, b"v")]
    assert report.wrong_timestamps == 1


def test_batches_of_the_present_format_are_refused(tmp_path: Path) -> None:
    builder = BatchBuilder(base_offset=3)
    builder.append(T, b"k", b"v")
    directory = write_log(tmp_path / "clicks-0", [(0, b"".join(THREE) + builder.build())])
    with pytest.raises(StorageError, match="record batch of the present format begins at byte"):
        read(directory)
    (directory / f"{4:020d}.log").write_bytes(builder.build())
    with pytest.raises(
        UsageError, match=r"00000000000000000004\.log begins with a record batch, the format of Kafka 0\.11"
    ):
        read(directory)


def test_directories_that_are_no_old_logs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "clicks-0").mkdir()
    with pytest.raises(UsageError, match=r"no log of Kafka 0\.7 to 0\.10 is there"):
        read(tmp_path)
    write_log(tmp_path / "a" / "clicks-0", [(0, THREE[0])])
    (tmp_path / "a" / "clicks-0" / f"{0:020d}.log.swap").write_bytes(b"")
    with pytest.raises(UsageError, match="died while it compacted"):
        read(tmp_path / "a")
    write_log(tmp_path / "b" / "clicks-0", [(0, THREE[0])])
    (tmp_path / "b" / "clicks-0" / f"{0:020d}.kafka").write_bytes(b"")
    with pytest.raises(UsageError, match="two logs, not one"):
        read(tmp_path / "b")
    write_log(tmp_path / "c" / "clicks-0", [(0, message_07(b"one")), (5, message_07(b"two"))], ".kafka")
    with pytest.raises(UsageError, match="begins before"):
        read(tmp_path / "c")


def test_all_partitions_of_a_directory_are_found(tmp_path: Path) -> None:
    for partition in (2, 0, 10):
        write_log(tmp_path / f"clicks-{partition}", [(0, THREE[0])])
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    (tmp_path / "clicks-2" / f"{0:020d}.index").write_bytes(b"")
    (tmp_path / "clicks-2" / f"{9:020d}.log.deleted").write_bytes(b"")
    disk = BlockingDisk(0, str(tmp_path), writable=False)
    logs = find_logs(disk, tmp_path.name)
    disk.close()
    assert [(log.topic, log.partition, len(log.segments)) for log in logs] == [
        ("clicks", 0, 1),
        ("clicks", 2, 1),
        ("clicks", 10, 1),
    ]


def test_links_are_followed_as_the_old_brokers_did(tmp_path: Path) -> None:
    """A partition or a segment that lay on another disk was left out, and nothing said so."""
    data = message(0, b"k", b"value")
    old, elsewhere = tmp_path / "old", tmp_path / "elsewhere"
    write_log(old / "clicks-0", [(0, data)])
    (old / "clicks-1").symlink_to(write_log(elsewhere, [(0, data), (1, message(1, b"k", b"v"))]))
    write_log(old / "clicks-2", []).joinpath(f"{0:020d}.log").symlink_to(elsewhere / f"{0:020d}.log")
    (old / "clicks-3").write_text("a file is no log")
    disk = BlockingDisk(0, str(old), writable=False)
    logs = find_logs(disk, old.name)
    assert [(log.partition, len(list(LegacyRecords(disk, log)))) for log in logs] == [(0, 1), (1, 2), (2, 1)]
    disk.close()


def test_links_that_lead_nowhere_are_said(tmp_path: Path) -> None:
    write_log(tmp_path / "clicks-0", []).joinpath(f"{0:020d}.log").symlink_to(tmp_path / "nowhere")
    disk = BlockingDisk(0, str(tmp_path), writable=False)
    [log] = find_logs(disk, tmp_path.name)
    with pytest.raises(StorageError, match=r"clicks-0/0{20}\.log cannot be read: No such file"):
        list(LegacyRecords(disk, log))
    (tmp_path / "clicks-1").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="clicks-1 is a link to what is not there"):
        find_logs(disk, tmp_path.name)
    disk.close()
