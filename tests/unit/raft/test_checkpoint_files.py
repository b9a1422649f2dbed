"""Checkpoints: names, contents, and that a damaged or unfinished one is never taken for a good one."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.errors import StorageError
from penstock.raft.checkpoint import (
    BATCH_MAX_BYTES,
    CheckpointId,
    checkpoint_batches,
    read_checkpoint,
    write_checkpoint,
)
from penstock.raft.voters import ReplicaKey, Voter, VoterSet
from penstock.records.batch import headers
from simulator.world.disk import PowerLoss, SimulatedDisk

VOTERS = VoterSet([Voter(ReplicaKey(1, UUID(int=7)))])
VALUES = [b"record %d" % number for number in range(100)]


def batches(values: list[bytes], kraft_version: int = 1) -> list[bytearray]:
    return list(
        checkpoint_batches(
            values, epoch=3, last_contained_timestamp_ms=5, wall_ms=9, kraft_version=kraft_version, voters=VOTERS
        )
    )


def test_names() -> None:
    assert CheckpointId(8_412, 7).file == "00000000000000008412-0000000007.checkpoint"
    assert CheckpointId.of_file("00000000000000008412-0000000007.checkpoint") == CheckpointId(8_412, 7)
    assert CheckpointId.of_file("00000000000000008412-0000000007.checkpoint.part") is None
    assert CheckpointId.of_file("00000000000000008412.log") is None


def test_what_is_written_is_read_again() -> None:
    found = read_checkpoint(b"".join(batches(VALUES)), "it")
    assert (found.values, found.kraft_version, found.voters) == (VALUES, 1, VOTERS)
    assert found.last_contained_timestamp_ms == 5
    without = read_checkpoint(b"".join(batches([], kraft_version=0)), "it")
    assert (without.values, without.kraft_version, without.voters) == ([], None, None)


def test_large_ones_are_cut_into_batches_with_offsets_that_follow_each_other() -> None:
    data = b"".join(batches([bytes(BATCH_MAX_BYTES // 3)] * 10))
    found = [header for _, header in headers(data)]
    assert len(found) > 4
    assert max(header.size_bytes for header in found) < BATCH_MAX_BYTES + 1000
    assert [header.base_offset for header in found[1:]] == [header.next_offset for header in found[:-1]]


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    data = b"".join(batches(VALUES[:3]))
    for position in range(17, len(data), 7):  # the first bytes are offsets and lengths, which the checksum leaves out
        damaged = bytearray(data)
        damaged[position] ^= 4
        try:
            found = read_checkpoint(damaged, "it")
        except StorageError:
            continue
        assert found == read_checkpoint(data, "it"), f"byte {position}"
    for length in range(0, len(data), 5):
        with pytest.raises(StorageError):
            read_checkpoint(data[:length], "it")


def test_a_crash_at_any_moment_leaves_all_of_it_or_nothing() -> None:
    changes = 0
    while True:
        disk = SimulatedDisk()
        disk.crash_at = changes
        try:
            write_checkpoint(disk, "", "it.checkpoint", batches(VALUES))
        except PowerLoss:
            disk.restart()
            if disk.exists("it.checkpoint"):
                data = disk.read("it.checkpoint", 0, disk.size("it.checkpoint"))
                assert read_checkpoint(data, "it").values == VALUES
            changes += 1
            continue
        assert changes >= 3
        return
