"""The files of a replica among several: batches as fetched, cuts, snapshots from elsewhere, and crashes in between."""

from __future__ import annotations

from random import Random

import pytest
from unit.raft.replica_harness import voter_of

from penstock.config.server import Settings
from penstock.errors import StorageError
from penstock.raft.checkpoint import CheckpointId, checkpoint_batches
from penstock.raft.election import ElectionState
from penstock.raft.flushed import read_flushed
from penstock.raft.replica_log import EpochEnd
from penstock.raft.storage import Storage
from penstock.raft.topic import METADATA
from penstock.raft.voters import VoterSet
from penstock.records.builder import BatchBuilder
from simulator.world.disk import PowerLoss, SimulatedDisk

NAME = METADATA.directory

NOW_MS = 1_700_000_000_000
SNAPSHOT = CheckpointId(50, 7)
VOTERS = VoterSet([voter_of(1), voter_of(2)])


def batch(base_offset: int, epoch: int, count: int = 1) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for number in range(count):
        builder.append(NOW_MS, None, b"value %d of epoch %d" % (base_offset + number, epoch))
    return bytes(builder.build())


def snapshot(values: int = 30) -> bytes:
    content = checkpoint_batches(
        [b"value %d" % number for number in range(values)],
        epoch=SNAPSHOT.epoch,
        last_contained_timestamp_ms=5,
        wall_ms=NOW_MS,
        kraft_version=1,
        voters=VOTERS,
    )
    return b"".join(content)


class Files:
    """A storage with its operations run at once, and what it told of them."""

    def __init__(self, disk: SimulatedDisk | None = None, *, retention_bytes: int = -1) -> None:
        self.disk = disk or SimulatedDisk()
        self.told: list[tuple[object, ...]] = []
        settings = Settings.for_node(
            1, internal_metadata_log_segment_bytes=600, metadata_max_retention_bytes=retention_bytes
        )
        self.storage = Storage(self.disk, settings, self, Random(1), NOW_MS)

    def run(self) -> None:
        while operations := self.storage.take_operations(NOW_MS):
            for operation in operations:
                result = operation.run(self.disk)
                operation.owner.operation_completed(operation, result, NOW_MS)

    def append(self, *batches: bytes) -> None:
        self.storage.append_fetched(b"".join(batches), NOW_MS)
        self.run()

    def fetch_snapshot(self, content: bytes, piece_bytes: int = 500) -> None:
        for position in range(0, len(content), piece_bytes):
            self.storage.write_snapshot(SNAPSHOT, position, content[position : position + piece_bytes])
            self.run()
        self.storage.install_snapshot(SNAPSHOT)
        self.run()

    # StorageOwner

    def election_persisted(self, state: ElectionState, now_ms: int) -> None:
        self.told.append(("persisted", state))

    def log_flushed(self, offset: int, now_ms: int) -> None:
        self.told.append(("flushed", offset))

    def log_written(self, offset: int, now_ms: int) -> None:
        self.told.append(("written", offset))

    def log_truncated(self, log_end_offset: int, now_ms: int) -> None:
        self.told.append(("truncated", log_end_offset))

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self.told.append(("checkpoint", checkpoint))

    def snapshot_written(self, snapshot: CheckpointId, size_bytes: int, now_ms: int) -> None:
        self.told.append(("piece", size_bytes))

    def snapshot_installed(
        self, snapshot: CheckpointId, voters: VoterSet | None, kraft_version: int, now_ms: int
    ) -> None:
        self.told.append(("installed", snapshot, voters, kraft_version))

    def snapshot_refused(self, snapshot: CheckpointId, now_ms: int) -> None:
        self.told.append(("refused", snapshot))

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        self.told.append(("no room for a checkpoint",))

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        self.told.append(("no room",))

    def has_room(self, now_ms: int) -> None:
        self.told.append(("room",))

    def storage_failed(self, error: Exception, now_ms: int) -> None:
        raise error


def test_fetched_batches_keep_their_bytes_and_are_flushed() -> None:
    files = Files()
    files.append(batch(0, 1, 3), batch(3, 2))
    assert files.storage.read(0, 1_000) == batch(0, 1, 3) + batch(3, 2)
    assert files.told[-1] == ("flushed", 4)
    assert (files.storage.end_offset, files.storage.last_epoch) == (4, 2)


def test_what_is_not_written_yet_cannot_be_read() -> None:
    files = Files()
    files.storage.append_fetched(batch(0, 1), NOW_MS)
    assert files.storage.end_offset == 1
    assert files.storage.read(0, 1_000) == b""
    files.run()
    assert files.storage.read(0, 1_000) == batch(0, 1)


def test_where_epochs_end() -> None:
    files = Files()
    assert files.storage.end_of_epoch(5) == EpochEnd(0, 0)
    files.append(batch(0, 1, 3), batch(3, 2), batch(4, 5, 2))
    ends = [files.storage.end_of_epoch(epoch) for epoch in (0, 1, 2, 3, 5, 9)]
    assert ends == [
        EpochEnd(0, 0),
        EpochEnd(1, 3),
        EpochEnd(2, 4),
        EpochEnd(2, 4),
        EpochEnd(5, 6),
        EpochEnd(5, 6),
    ]


def test_a_cut_is_made_and_the_log_goes_on_from_there() -> None:
    files = Files()
    files.append(batch(0, 1, 3), batch(3, 1), batch(4, 1))
    files.storage.truncate(3, NOW_MS)
    files.run()
    assert ("truncated", 3) in files.told
    files.append(batch(3, 2))
    assert files.storage.read(0, 1_000) == batch(0, 1, 3) + batch(3, 2)
    assert files.told[-1] == ("flushed", 4)
    assert files.storage.end_of_epoch(1) == EpochEnd(1, 3)


def test_nothing_is_retired_while_the_log_is_cut() -> None:
    """A checkpoint may be complete in the middle of it; what it makes superfluous is deleted after the next one."""
    files = Files(retention_bytes=1)
    files.append(*(batch(number, 1) for number in range(20)))
    for end_offset in (5, 10):
        files.storage.write_checkpoint(CheckpointId(end_offset, 1), lambda: [bytearray(snapshot())])
        files.run()
    files.storage.truncate(15, NOW_MS)
    files.storage.retire(12, NOW_MS)
    assert (len(files.storage.checkpoints), files.storage.log.log_start_offset) == (2, 0)
    files.run()
    assert files.storage.end_offset == 15
    files.storage.retire(12, NOW_MS)
    assert (list(files.storage.checkpoints), files.storage.log.log_start_offset) == ([CheckpointId(10, 1)], 10)


def test_what_is_read_while_the_files_are_cut_is_there_or_read_again() -> None:
    """A follower may load what is committed while the lane cuts what is not."""
    files = Files()
    files.append(batch(0, 1, 3), batch(3, 1), batch(4, 1))
    files.storage.truncate(3, NOW_MS)
    cut = [(operation, operation.run(files.disk)) for operation in files.storage.take_operations(NOW_MS)]
    assert files.storage.read(0, 1_000) in (b"", batch(0, 1, 3))
    assert len(list(files.storage.batches(0))) <= 1
    for operation, result in cut:
        operation.owner.operation_completed(operation, result, NOW_MS)
    files.run()
    assert files.storage.read(0, 1_000) == batch(0, 1, 3)
    assert [each.header.base_offset for each in files.storage.batches(0)] == [0]


def test_what_was_not_flushed_before_a_cut_is_flushed_after_it() -> None:
    files = Files()
    files.storage.append_fetched(batch(0, 1) + batch(1, 1) + batch(2, 1), NOW_MS)
    files.storage.truncate(2, NOW_MS)
    files.run()
    assert ("truncated", 2) in files.told
    assert files.storage.log.recovery_point == 2


def test_the_note_of_what_was_flushed_is_lowered_by_a_cut() -> None:
    files = Files()
    files.append(batch(0, 1, 3), batch(3, 1))
    assert read_flushed(files.disk, NAME) == 4
    files.storage.truncate(3, NOW_MS)
    files.run()
    assert read_flushed(files.disk, NAME) == 3


def test_the_note_is_there_and_durable_before_the_first_append() -> None:
    disk = Files().disk
    disk.restart()
    assert read_flushed(disk, NAME) == 0


def test_a_snapshot_is_installed_and_the_log_begins_after_it() -> None:
    files = Files()
    files.append(batch(0, 1, 3))
    files.fetch_snapshot(snapshot())
    assert ("installed", SNAPSHOT, VOTERS, 1) in files.told
    storage = files.storage
    assert (storage.start_offset, storage.end_offset, storage.last_epoch) == (50, 50, 7)
    assert storage.newest_snapshot == SNAPSHOT
    assert storage.end_of_epoch(6) is None
    files.append(batch(50, 8))
    assert storage.end_of_epoch(7) == EpochEnd(7, 50)
    assert storage.read(50, 1_000) == batch(50, 8)
    size_bytes = storage.snapshot_size(SNAPSHOT)
    assert size_bytes is not None
    assert storage.read_snapshot(SNAPSHOT, 0, size_bytes) == snapshot()
    again = Files(files.disk).storage
    assert (again.start_offset, again.end_offset, again.last_epoch) == (50, 51, 8)


def test_a_checkpoint_that_was_due_during_an_installation_does_not_count_as_the_newest() -> None:
    files = Files()
    files.append(batch(0, 1, 3))
    files.storage.write_snapshot(SNAPSHOT, 0, snapshot())
    files.run()
    files.storage.install_snapshot(SNAPSHOT)
    files.storage.write_checkpoint(
        CheckpointId(3, 1), lambda: checkpoint_batches([], epoch=1, last_contained_timestamp_ms=5, wall_ms=NOW_MS)
    )
    files.run()
    told = [each[0] for each in files.told]
    assert told.index("checkpoint") < told.index("installed")
    assert list(files.storage.checkpoints) == [CheckpointId(3, 1), SNAPSHOT]
    assert files.storage.newest_snapshot == SNAPSHOT
    found = files.storage.newest_checkpoint()
    assert found is not None
    assert found[0] == SNAPSHOT, "which the image is made from now"


@pytest.mark.parametrize("damage", ["flipped", "cut", "nothing"])
def test_a_snapshot_without_its_checksums_is_never_trusted(damage: str) -> None:
    files = Files()
    files.append(batch(0, 1, 3))
    content = bytearray(snapshot())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    elif damage == "cut":
        del content[-20:]
    else:
        content.clear()
    files.fetch_snapshot(bytes(content))
    assert files.told[-1] == ("refused", SNAPSHOT)
    assert files.storage.newest_snapshot is None
    assert files.storage.read(0, 1_000) == batch(0, 1, 3)
    assert Files(files.disk).storage.end_offset == 3


def test_a_piece_at_the_start_begins_a_snapshot_anew() -> None:
    files = Files()
    files.storage.write_snapshot(SNAPSHOT, 0, b"what another leader sent, longer than all that follows" * 99)
    files.run()
    files.fetch_snapshot(snapshot())
    assert ("installed", SNAPSHOT, VOTERS, 1) in files.told


@pytest.mark.parametrize("end", [3, 60])
@pytest.mark.parametrize("power_failed", [True, False])
def test_a_crash_at_any_moment_of_an_installation_leaves_a_log_that_opens(end: int, power_failed: bool) -> None:
    """Also where the log is longer than the snapshot, but of older epochs."""
    outcomes = set()
    change = 0
    while True:
        files = Files(SimulatedDisk(random=Random(change)))
        files.append(batch(0, 1, 3), *[batch(offset, 2, 3) for offset in range(3, end, 3)])
        files.disk.crash_at = files.disk.changes + 1 + change
        try:
            files.fetch_snapshot(snapshot())
            files.append(batch(50, 8))
        except PowerLoss:
            files.disk.restart(power_failed=power_failed)
        else:
            break
        for _ in range(2):
            storage = Files(files.disk).storage
            outcomes.add((storage.start_offset, storage.end_offset))
            assert (storage.newest_snapshot == SNAPSHOT) == (storage.start_offset == SNAPSHOT.end_offset)
        change += 1
    assert change > 15
    assert outcomes <= {(0, end), (50, 50), (50, 51)}
    assert {(0, end), (50, 50)} <= outcomes


def test_a_crash_at_any_moment_of_a_cut_leaves_a_log_that_opens() -> None:
    ends = set()
    change = 0
    while True:
        files = Files(SimulatedDisk(random=Random(change)))
        files.append(batch(0, 1, 3), batch(3, 1), batch(4, 1, 2))
        files.disk.crash_at = files.disk.changes + 1 + change
        try:
            files.storage.truncate(3, NOW_MS)
            files.run()
            files.append(batch(3, 2, 4), batch(7, 2), batch(8, 2))
        except PowerLoss:
            files.disk.restart()
        else:
            break
        storage = Files(files.disk).storage
        ends.add((storage.end_offset, storage.last_epoch))
        assert storage.read(0, 70) == batch(0, 1, 3)
        change += 1
    assert {end for end, epoch in ends if epoch == 1} <= {3, 4, 6}
    assert {end for end, epoch in ends if epoch == 2} <= {7, 8, 9}


def test_a_log_that_lost_what_was_flushed_does_not_begin_after_a_checkpoint_as_if_nothing_were() -> None:
    files = Files()
    files.append(batch(0, 1, 3), batch(3, 1))
    files.fetch_snapshot(snapshot())
    files.append(batch(50, 8), batch(51, 8))
    log = next(path for path in files.disk.paths() if path.endswith("50.log"))
    files.disk.unlink(log)
    files.disk.write(log.replace("50.log", "40.log"), 0, [])
    with pytest.raises(StorageError, match="ends at offset 40, and was once flushed up to 52"):
        Files(files.disk)


def test_a_crash_between_moving_aside_and_removing_what_was_never_flushed_is_no_damage() -> None:
    files = Files()
    files.append(batch(0, 1, 3))
    files.disk.write(f"{NAME}/00000000000000000003.log.corrupt", 0, [batch(4, 1)])
    assert Files(files.disk).storage.end_offset == 3
    assert not [path for path in files.disk.paths() if path.endswith(".corrupt")]


def test_what_was_moved_aside_from_below_the_flushed_offset_stays_an_error() -> None:
    files = Files()
    files.append(batch(0, 1, 3), batch(3, 1))
    files.disk.truncate(f"{NAME}/00000000000000000000.log", len(batch(0, 1, 3)))
    files.disk.write(f"{NAME}/00000000000000000003.log.corrupt", 0, [batch(3, 1)])
    for _ in range(2):
        with pytest.raises(
            StorageError, match=r"is damaged, where records were flushed; they are now in .*3\.log\.corrupt"
        ):
            Files(files.disk)
