"""Indexes, leader epochs, partition.metadata and the description of files."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, marker, topic_config

from penstock.errors import StorageError
from penstock.log import dump, leader_epochs, partition_metadata
from penstock.log.index import OffsetIndex, TimeIndex
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.limits import INDEX_BLOCK_ENTRIES, INDEX_TAIL_ENTRIES
from simulator.world.disk import SimulatedDisk


@pytest.mark.parametrize("written", [0, 1, 5, INDEX_BLOCK_ENTRIES, 3 * INDEX_BLOCK_ENTRIES, 2000])
def test_an_index_finds_the_entry_below_in_file_and_memory(written: int) -> None:
    disk = SimulatedDisk()
    index = OffsetIndex("x.index", 1000)
    for number in range(2000):
        index.append(1000 + 10 * number, 100 * number)
        if number + 1 == written:
            tail = index.take_tail()
            assert tail is not None
            disk.write(tail[0], tail[1], [tail[2]])
            index.drop_written(tail[1] + len(tail[2]))
    assert (index.written, index.entries) == (written, 2000)
    assert index.entry_for(disk, 999) == (0, 0)
    for offset in [*range(1000, 1100), *range(20_000, 21_200, 7), 1 << 30]:
        assert index.entry_for(disk, offset)[1] == 100 * min((offset - 1000) // 10, 1999)
    for position in (0, 99, 100, 101, 123_456, 1 << 30):
        assert index.entry_before(disk, position, 200_000)[1] == 100 * min(position // 100, 1999)


def test_a_time_index_takes_only_new_largest_timestamps() -> None:
    index = TimeIndex("x.timeindex", 0)
    for timestamp_ms, offset in [(5, 1), (4, 2), (5, 3), (6, 4)]:
        index.append(timestamp_ms, offset)
    disk = SimulatedDisk()
    assert index.entries == 2
    assert index.last_entry(disk) == (6, 4)
    assert [index.entry_for(disk, timestamp_ms)[1] for timestamp_ms in (4, 5, 6, 9)] == [0, 1, 4, 4]


def test_a_long_index_tail_goes_to_the_file_with_the_next_append() -> None:
    one = OneLog(topic_config(index_interval_bytes=0))
    for number in range(INDEX_TAIL_ENTRIES + 10):
        one.append(batch(b"x", timestamp_ms=NOW_MS + number))
    index = one.log.segments.all[0].offset_index
    assert len(index.tail) < INDEX_TAIL_ENTRIES
    assert one.disk.size(index.path) == index.written * 8 > 0
    one.log.segments.forget_positions()
    assert one.log.read(17, 1).next_offset == 18


def test_an_index_file_cut_from_outside_is_noticed() -> None:
    disk = SimulatedDisk()
    disk.write("x.index", 0, [bytes(80)])
    index = OffsetIndex("x.index", 0)
    index.written = 10
    disk.truncate("x.index", 40)
    with pytest.raises(StorageError, match=r"x\.index"):
        index.entry_for(disk, 5)


# Leader epochs


def test_an_epoch_ends_where_the_next_begins() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 20), (6, 30)])
    assert [epochs.end_offset_for(epoch, 99) for epoch in (-1, 1, 2, 3, 4, 5, 6, 7)] == [
        (-1, -1), (1, 10), (2, 20), (2, 20), (2, 20), (5, 30), (6, 99), (-1, -1),
    ]  # fmt: skip
    assert [epochs.epoch_for(offset) for offset in (9, 10, 19, 20, 1000)] == [-1, 2, 2, 5, 6]


def test_assigning_drops_what_it_contradicts() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 20), (6, 30)])
    assert not epochs.assign(6, 35)
    assert epochs.assign(7, 25)
    assert epochs.entries() == [(2, 10), (5, 20), (7, 25)]
    assert epochs.assign(7, 15)
    assert epochs.entries() == [(2, 10), (7, 15)]


def test_epochs_are_cut_at_both_ends() -> None:
    epochs = LeaderEpochs([(2, 10), (5, 20), (6, 30)])
    assert epochs.truncate_from_start(25)
    assert epochs.entries() == [(5, 25), (6, 30)]
    assert not epochs.truncate_from_start(25)
    assert epochs.truncate_from_end(30)
    assert epochs.entries() == [(5, 25)]
    assert not epochs.truncate_from_end(30)
    assert not epochs.truncate_from_start(5)


def test_the_epoch_file_is_kafkas() -> None:
    epochs = LeaderEpochs([(0, 0), (3, 17)])
    assert epochs.encode() == b"0\n2\n0 0\n3 17\n"
    assert leader_epochs.decode(epochs.encode(), "x").entries() == epochs.entries()


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\nx\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"0\n1\n-1 4\n", b"\xff\xfe"]
)
def test_a_malformed_epoch_file_is_named(data: bytes) -> None:
    with pytest.raises(StorageError, match="some/file"):
        leader_epochs.decode(data, "some/file")


# partition.metadata

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_partition_metadata_is_kafkas() -> None:
    data = partition_metadata.encode(TOPIC_ID)
    assert data == b"version: 0\ntopic_id: ABEiM0RVZneImaq7zN3u_w"
    assert partition_metadata.decode(data, "x") == TOPIC_ID


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: ABEiM0RVZneImaq7zN3u_w", b"version: 0\n", b"version: 0\ntopic_id: AAAA",
             b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"],
)  # fmt: skip
def test_malformed_partition_metadata_is_named(data: bytes) -> None:
    with pytest.raises(StorageError, match="some/file"):
        partition_metadata.decode(data, "some/file")


# Describing files


def described() -> OneLog:
    one = OneLog(topic_config(index_interval_bytes=150))
    for number in range(20):
        one.append(
            batch(b"a" * 50, b"b", timestamp_ms=NOW_MS + number, producer=(1, 0, 2 * number), transactional=True)
        )
    one.append(marker(1, 0, commit=False))
    one.close()
    return one


def test_every_batch_record_and_entry_is_described() -> None:
    one = described()
    segment = one.log.segments.all[0]
    batches = [*dump.describe_log(one.disk, segment.log_path, deep=True)]
    assert [each.header.base_offset for each in batches] == list(range(0, 41, 2))
    assert sum(len(each.records) for each in batches) == 41
    assert not any(each.problem for each in batches)
    assert len([*dump.describe_offset_index(one.disk, segment.offset_index.path)]) == segment.offset_index.entries > 5
    assert [*dump.describe_time_index(one.disk, segment.time_index.path)][-1] == (39, NOW_MS + 19)
    assert [*dump.describe_aborted_index(one.disk, segment.aborted_index.path)] == [(1, 0, 40, 41)]
    assert [entry.producer_id for entry in dump.describe_snapshot(one.disk, f"{NAME}/{41:020d}.snapshot")] == [1]
    assert dump.describe_leader_epochs(one.disk, f"{NAME}/leader-epoch-checkpoint") == [(0, 0)]
    assert [*dump.verify_offset_index(one.disk, segment.offset_index.path)] == []
    assert [*dump.verify_time_index(one.disk, segment.time_index.path)] == []


@pytest.mark.parametrize("position", range(0, 160, 3))
def test_a_flipped_bit_in_an_index_is_reported(position: int) -> None:
    one = described()
    segment = one.log.segments.all[0]
    for index, verify in (
        (segment.offset_index, dump.verify_offset_index),
        (segment.time_index, dump.verify_time_index),
    ):
        if position < one.disk.size(index.path):
            one.disk.flip_bit(index.path, position)
            assert [*verify(one.disk, index.path)] != [], index.path


def test_a_flipped_bit_in_a_batch_and_a_torn_end_are_reported() -> None:
    one = described()
    path = one.log.segments.all[0].log_path
    one.disk.flip_bit(path, 100)
    one.disk.truncate(path, one.disk.size(path) - 1)
    first, *_, last = dump.describe_log(one.disk, path)
    assert isinstance(first, dump.BatchDescription)
    assert first.problem == "its checksum is wrong"
    assert isinstance(last, dump.Problem)
    assert "cut off" in last.message


@pytest.mark.parametrize("path", ["a/b.txt", "x-0/12.log", "x-0/0000000000000000000a.log"])
def test_other_files_are_not_described(path: str) -> None:
    with pytest.raises(ValueError, match="not a file of a log"):
        dump.kind_of(path)
