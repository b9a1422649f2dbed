"""A log on a full disk takes its appends back, and goes on."""

from __future__ import annotations

import errno
from itertools import pairwise
from random import Random

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, marker, topic_config

from penstock.errors import RequestError, StorageError
from penstock.log.loading import OpenArguments
from penstock.log.producer_state import Origin
from penstock.log.recovery import recover_log
from penstock.log.results import Appended, Duplicate
from simulator.world.disk import SimulatedDisk


def used_bytes(disk: SimulatedDisk) -> int:
    return sum(disk.size(path) for path in disk.paths())


def full_log(**config: int) -> tuple[OneLog, SimulatedDisk]:
    """A log with one batch of an idempotent producer, on a disk with 20 bytes left."""
    disk = SimulatedDisk()
    one = OneLog(topic_config(**config), disk)
    one.goes_on = True
    one.append(batch(b"a", producer=(7, 0, 0)))
    disk.capacity_bytes = used_bytes(disk) + 20
    return one, disk


def test_appends_that_found_no_room_are_taken_back_and_come_again_without_a_gap() -> None:
    one, disk = full_log()
    before, content = dict(one.log.producers.producers), one.content()
    for sequence in (1, 2):
        one.log.append_as_leader(batch(b"b", producer=(7, 0, sequence)), 0, NOW_MS)
        one.take()
    one.run()
    assert one.told[-2:] == [("undone", 1), ("truncated", 1)]
    assert one.log.log_end_offset == one.log.reserved_end_offset == one.log.producers.end_offset == 1
    assert one.log.producers.producers == before
    assert disk.content(f"{NAME}/{0:020d}.log") == content == one.content()
    disk.capacity_bytes = None
    assert isinstance(one.log.append_as_leader(batch(b"a", producer=(7, 0, 0)), 0, NOW_MS), Duplicate)
    assert one.append(batch(b"b", producer=(7, 0, 1))).base_offset == 1
    assert one.append(batch(b"b", producer=(7, 0, 2))).base_offset == 2
    assert one.log.files.outstanding == 0
    assert not [event for event, _ in one.told if event == "failed"]


def test_nothing_is_appended_while_the_files_are_read_again() -> None:
    one, disk = full_log()
    one.log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 0, NOW_MS)
    one.take()
    one.run_one()
    assert one.log.reserved_end_offset == 1
    disk.capacity_bytes = None
    with pytest.raises(RequestError, match="is being truncated"):
        one.log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 0, NOW_MS)
    assert one.content()
    one.run()
    assert one.append(batch(b"b", producer=(7, 0, 1))).base_offset == 1


@pytest.mark.parametrize("room_bytes", range(0, 90, 6))
def test_a_roll_that_found_no_room_leaves_the_segment_active(room_bytes: int) -> None:
    one, disk = full_log(segment_bytes=100)
    files = disk.paths()
    disk.capacity_bytes = used_bytes(disk) + room_bytes
    one.log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 0, NOW_MS)
    one.run()
    assert ("undone", 1) in one.told
    rolled = f"{NAME}/{1:020d}.log" in disk.paths()
    assert rolled or set(disk.paths()) - set(files) <= {f"{NAME}/unflushed-rolls"}
    disk.capacity_bytes = None
    assert one.log.segments.all[-1].base_offset == (1 if rolled else 0)
    assert one.append(batch(b"b", producer=(7, 0, 1))).base_offset == 1
    assert [segment.base_offset for segment in one.log.segments.all] == [0, 1]
    assert len(one.content()) == 2 * 69


@pytest.mark.parametrize("kind", ["an index", "records", "a record too few"])
def test_damage_that_is_met_when_the_files_are_read_again_is_damage_and_no_bug(kind: str) -> None:
    """The log is of no more use until a recovery; nothing is raised, as from a truncation that meets damage."""
    one, disk = full_log()
    one.log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 0, NOW_MS)
    one.take()
    one.run_one()
    disk.capacity_bytes = None
    if kind == "an index":
        disk.write(f"{NAME}/{0:020d}.timeindex", 0, [b"seven b"])
    elif kind == "records":
        disk.truncate(f"{NAME}/{0:020d}.log", 40)
    else:
        disk.truncate(f"{NAME}/{0:020d}.log", 0)
    one.run()
    event, error = one.told[-1]
    assert event == "broke"
    assert isinstance(error, StorageError)
    assert NAME in str(error)
    assert one.log.failed


def test_a_new_leader_epoch_is_in_its_file_before_the_first_record_that_is_kept() -> None:
    one, disk = full_log()
    one.log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 5, NOW_MS)
    one.run()
    assert one.log.leader_epochs.latest == 0
    disk.capacity_bytes = None
    one.append(batch(b"b", producer=(7, 0, 1)), leader_epoch=6)
    assert one.reopen().leader_epochs.entries() == [(0, 0), (6, 1)]


def test_a_log_that_could_not_be_closed_is_open_again() -> None:
    one, disk = full_log()
    disk.capacity_bytes = used_bytes(disk)
    one.log.close(NOW_MS)
    one.run()
    assert not one.log.closed
    disk.capacity_bytes = None
    one.append(batch(b"b", producer=(7, 0, 1)))
    assert one.reopen().log_end_offset == 2


def test_a_truncation_behind_an_append_that_found_no_room_is_done_again() -> None:
    one, disk = full_log()
    disk.capacity_bytes = None
    one.append(batch(b"b", producer=(7, 0, 1)))
    disk.capacity_bytes = used_bytes(disk)
    one.log.append_as_leader(batch(b"c", producer=(7, 0, 2)), 0, NOW_MS)
    one.take()
    one.log.truncate_to(1, NOW_MS)
    one.run()
    assert one.log.truncating
    assert one.log.files.cut_to is not None
    one.cut_again()
    one.run()
    assert not one.log.truncating
    assert one.log.log_end_offset == 1
    disk.capacity_bytes = None
    assert one.append(batch(b"b", producer=(7, 0, 1))).base_offset == 1


def test_another_error_of_the_disk_still_fails_the_log() -> None:
    one, disk = full_log()
    disk.capacity_bytes = None
    disk.fail_write_at = disk.changes
    one.log.append_as_leader(batch(b"b", producer=(7, 0, 1)), 0, NOW_MS)
    one.run()
    assert [event for event, _ in one.told].count("failed") == 1


def test_an_fsync_that_found_no_room_fails_the_log() -> None:
    """What it should have written is in memory only, and nobody knows how much of it."""

    class LateDisk(SimulatedDisk):
        late = False

        def fsync(self, path: str) -> None:
            if self.late:
                raise OSError(errno.ENOSPC, "No space left on device", path)
            super().fsync(path)

    disk = LateDisk()
    one = OneLog(topic_config(flush_messages=1), disk)
    one.goes_on = True
    one.append(batch(b"a"))
    disk.late = True
    one.log.append_as_leader(batch(b"b"), 0, NOW_MS)
    one.run()
    assert [event for event, _ in one.told].count("failed") == 1


@pytest.mark.parametrize("seed", range(20))
def test_what_was_cut_away_does_not_come_back_after_a_power_failure(seed: int) -> None:
    """Other replicas may have another record at its offset by then, of the same epoch."""
    disk = SimulatedDisk(random=Random(seed))
    one = OneLog(disk=disk)
    one.goes_on = True
    one.append(batch(b"kept"))
    one.log.flush(NOW_MS)
    one.run()
    disk.fsync_directory("")
    lost = batch(b"lost")
    disk.capacity_bytes = used_bytes(disk) + len(lost) + 20
    one.log.append_as_leader(lost, 0, NOW_MS)
    one.log.append_as_leader(batch(b"lost, too"), 0, NOW_MS)
    one.run()
    assert one.told[-1] == ("truncated", 1)
    disk.restart()
    disk.capacity_bytes = None
    arguments = OpenArguments(NAME, one.config, 1, 0, NOW_MS)
    assert recover_log(disk, arguments).log_end_offset == 1


def append_or_not(one: OneLog, random: Random, sequences: dict[int, int]) -> bool:
    """Appends some batches in one to three turns; returns whether all of them are in the log."""
    end_offset = one.log.log_end_offset
    wanted, before = 0, dict(sequences)
    for _ in range(random.randint(1, 3)):
        for _ in range(random.randint(1, 3)):
            producer = random.randrange(3)
            values = [random.randbytes(random.randrange(60)) for _ in range(random.randint(1, 4))]
            records = batch(*values, producer=(producer, 0, sequences.get(producer, 0)))
            assert isinstance(one.log.append_as_leader(records, 0, one.now_ms), Appended)
            sequences[producer] = sequences.get(producer, 0) + len(values)
            wanted += len(values)
        one.take()
    one.run()
    if one.log.log_end_offset == end_offset + wanted:
        return True
    sequences.clear()
    sequences.update(before)
    return False


@pytest.mark.parametrize("seed", range(30))
def test_a_log_that_was_full_now_and_then_is_the_log_of_what_was_kept(seed: int) -> None:
    random, disk = Random(seed), SimulatedDisk()
    config = topic_config(segment_bytes=1000, index_interval_bytes=100)
    one = OneLog(config, disk)
    one.goes_on = True
    sequences: dict[int, int] = {}
    undone = 0
    for _ in range(60):
        one.now_ms += random.randrange(1000)
        if random.random() < 0.4:
            disk.capacity_bytes = used_bytes(disk) + random.randrange(600)
        kept = append_or_not(one, random, sequences)
        disk.capacity_bytes = None
        if not kept:
            undone += 1
            sequences = {
                producer_id: producer.last_sequence + 1 for producer_id, producer in one.log.producers.producers.items()
            }
        if random.random() < 0.1:
            content, producers = one.content(), dict(one.log.producers.producers)
            one.reopen()
            assert one.content() == content
            assert {each: found.last_sequence for each, found in one.log.producers.producers.items()} == {
                each: found.last_sequence for each, found in producers.items()
            }
    assert undone > 3
    headers = []
    position, content = 0, one.content()
    while position < len(content):
        size_bytes = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        base_offset = int.from_bytes(content[position : position + 8], "big")
        last_delta = int.from_bytes(content[position + 23 : position + 27], "big")
        headers.append((base_offset, base_offset + last_delta))
        position += size_bytes
    assert headers[0][0] == 0
    assert all(left[1] + 1 == right[0] for left, right in pairwise(headers))
    assert headers[-1][1] + 1 == one.log.log_end_offset


def aborted_on_a_disk_that_gets_full() -> tuple[OneLog, SimulatedDisk]:
    """A log with an aborted transaction at 0, and another one that is open at 2."""
    disk = SimulatedDisk()
    one = OneLog(topic_config(), disk)
    one.goes_on = True
    one.append(batch(b"a", producer=(7, 0, 0), transactional=True))
    one.append(marker(7, 0, commit=False), origin=Origin.COORDINATOR)
    one.append(batch(b"b", producer=(8, 0, 0), transactional=True))
    disk.capacity_bytes = used_bytes(disk) + 20
    return one, disk


def aborted_in(one: OneLog) -> list[tuple[int, int]]:
    found = one.log.segments.aborted_transactions(0, one.log.log_end_offset)
    return [(each.producer_id, each.first_offset) for each in found]


def test_aborted_transactions_stay_known_of_which_the_files_do_not_tell() -> None:
    one, disk = aborted_on_a_disk_that_gets_full()
    assert aborted_in(one) == [(7, 0)]
    one.log.append_as_leader(marker(8, 0, commit=False), 0, NOW_MS, origin=Origin.COORDINATOR)
    one.run()
    assert ("undone", 3) in one.told
    assert aborted_in(one) == [(7, 0)], "that of the marker which found no room is not aborted"
    disk.capacity_bytes = None
    one.append(marker(8, 0, commit=False), origin=Origin.COORDINATOR)
    assert aborted_in(one) == [(7, 0), (8, 2)]
    one.reopen()
    assert aborted_in(one) == [(7, 0), (8, 2)]


def test_aborted_transactions_stay_known_where_a_truncation_found_no_room_for_them() -> None:
    one, disk = aborted_on_a_disk_that_gets_full()
    disk.capacity_bytes = used_bytes(disk)
    one.log.truncate_to(2, NOW_MS)
    one.run()
    disk.capacity_bytes = None
    one.run()
    assert one.log.log_end_offset == 2
    assert aborted_in(one) == [(7, 0)]
