"""The quorum's files, damaged: never trusted, never deleted, and the line says which it is and what to do."""

from __future__ import annotations

import pytest
from unit.node.controller_harness import Harness, formatted_disk

from penstock.errors import StorageError
from penstock.raft.topic import METADATA
from penstock.records.batch import headers
from simulator.world.disk import SimulatedDisk

NAME = METADATA.directory

LOG = f"{NAME}/00000000000000000000.log"
QUORUM_STATE = f"{NAME}/quorum-state"
NOTE = f"{NAME}/flushed-offset"


@pytest.fixture
def disk() -> SimulatedDisk:
    """Of a node that was stopped after its topic was acknowledged."""
    found = formatted_disk()
    run = Harness(found, metadata_log_max_record_bytes_between_snapshots=600).start()
    run.register()
    run.create_topic("clicks")
    run.settle()
    run.stop()
    return found


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: disk.content(path) for path in disk.paths()}


def batches(disk: SimulatedDisk) -> list[int]:
    """Where the log's batches begin."""
    return [position for position, _ in headers(disk.read(LOG, 0, disk.size(LOG)))]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 104,
        b"{",
        b"[]",
        b"null",
        b'{"leaderId":-1,"leaderEpoch":7,"votedId":-1}',
        b'{"leaderId":-1,"leaderEpoch":-7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        b'{"leaderId":-1,"leaderEpoch":7,"votedId":1,"votedDirectoryId":"not an id","data_version":1}',
        b'{"leaderId":-1,"leaderEpoch":7,"votedId":-1,"data_version":9}',
    ],
)
def test_a_damaged_quorum_state_is_an_error_that_names_it(disk: SimulatedDisk, content: bytes) -> None:
    disk.replace(QUORUM_STATE, content)
    before = contents(disk)
    with pytest.raises(StorageError, match=r"quorum-state (is damaged|has version 9)") as raised:
        Harness(disk).start()
    assert "\n" not in str(raised.value)
    assert contents(disk) == before


def test_without_its_quorum_state_a_voter_goes_on_from_the_epochs_of_its_log(disk: SimulatedDisk) -> None:
    disk.unlink(QUORUM_STATE)
    run = Harness(disk).start()
    assert run.quorum.epoch == 2
    assert list(run.quorum.image.topics_by_name) == ["clicks"]


@pytest.mark.parametrize("batch", range(3, 7))
def test_a_bit_that_flipped_in_what_was_flushed_is_damage_and_nothing_is_lost_by_the_look_at_it(
    disk: SimulatedDisk, batch: int
) -> None:
    start = batches(disk)[batch]
    disk.flip_bit(LOG, start + 70)
    damaged = disk.content(LOG)
    for _ in range(2):
        with pytest.raises(StorageError, match=f"{NAME} is damaged.* where records were flushed"):
            Harness(disk).start()
        assert disk.content(LOG) == damaged[:start]
        assert disk.content(f"{LOG}.corrupt") == damaged[start:]


def test_a_log_that_is_shorter_than_what_was_flushed_is_damage(disk: SimulatedDisk) -> None:
    disk.truncate(LOG, batches(disk)[-1])
    before = disk.content(LOG)
    with pytest.raises(StorageError, match=r"ends at offset \d+, and was once flushed up to \d+: restore the log"):
        Harness(disk).start()
    assert disk.content(LOG) == before


def test_who_does_what_the_line_says_goes_on_without_the_rest(disk: SimulatedDisk) -> None:
    disk.flip_bit(LOG, batches(disk)[-1] + 70)
    with pytest.raises(StorageError, match=f"or remove these files and {NOTE} to go on without"):
        Harness(disk).start()
    disk.unlink(f"{LOG}.corrupt")
    with pytest.raises(StorageError, match=f"or remove {NOTE} to go on without what is lost"):
        Harness(disk).start()
    disk.unlink(NOTE)
    assert Harness(disk).start().node.active


@pytest.mark.parametrize("position", [8, 20, 70, 200])
def test_a_damaged_snapshot_is_an_error_and_stays(disk: SimulatedDisk, position: int) -> None:
    newest = max(path for path in disk.paths() if path.endswith(".checkpoint"))
    assert not newest.endswith("00000000000000000000-0000000000.checkpoint")
    disk.flip_bit(newest, position)
    damaged = disk.content(newest)
    with pytest.raises(StorageError, match=f"{newest.rpartition('/')[2]} is damaged"):
        Harness(disk).start()
    assert disk.content(newest) == damaged
