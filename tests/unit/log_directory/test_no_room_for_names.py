"""A directory that has no room for another name, as where it would have to grow by a block and the disk is full: files
and logs that are to get longer names, so that they can go, go all the same, and no log directory is offline for it.
"""

from __future__ import annotations

import pytest
from support.compacted import MINUTE_MS, SECOND_MS, Compacted
from unit.log_directory.test_log_manager import World, topic_id
from unit.log_directory.test_retention_unopened import Topic
from unit.log_directory.test_swap import ROWS, Deleting

from penstock.log import directory_operations, operations
from penstock.log.compaction import log_cleaner, swap
from penstock.log.disk import read_slice
from penstock.log.events import DirectoryFailed, LogBroken, LogCleaned, LogNotCleaned, SegmentsRetired
from penstock.log.limits import CLEANING_AGAIN_MS
from penstock.log.manager import ReplicaRequest
from penstock.log.names import CLEANED, DELETED, SWAP
from penstock.records.batch import headers
from simulator.world.disk import SimulatedDisk

# Retention


def test_an_open_log_removes_segments_whose_names_find_no_room() -> None:
    topic = Topic(retention_bytes="1500")
    topic.append(6)
    assert topic.segments() == [0, 2, 4]
    before = topic.log().read(0, 1 << 20).slices[0]
    topic.disk.no_names_from = 0
    topic.wait(10 * MINUTE_MS)
    assert any(name.endswith(DELETED) for name in topic.disk.unnamed)
    assert topic.segments() == [4]
    assert topic.log().log_start_offset == 4
    with pytest.raises(FileNotFoundError):
        read_slice(topic.disk, before)
    topic.append(1)
    assert topic.log().log_end_offset == 7
    assert not [event for event in topic.node.events if isinstance(event, DirectoryFailed)]


def test_a_log_that_nobody_has_opened_loses_segments_whose_names_find_no_room() -> None:
    topic = Topic(partitions=3, retention_bytes="1500")
    for partition in range(3):
        topic.append(6, partition)
    topic.restart_cleanly()
    topic.disk.no_names_from = 0
    topic.wait(10 * MINUTE_MS)
    assert topic.disk.unnamed
    assert [topic.segments(partition) for partition in range(3)] == [[4]] * 3
    assert topic.opened() == []
    retired = [event for event in topic.node.events if isinstance(event, SegmentsRetired)]
    assert [event.segments for event in retired] == [2] * 3
    assert not [event for event in topic.node.events if isinstance(event, DirectoryFailed)]


def test_without_that_a_full_disk_takes_the_directory_of_a_closed_log_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "is_full", lambda error: False)
    monkeypatch.setattr("penstock.log.outbox.is_full", lambda error: False)
    with pytest.raises(AssertionError):
        test_a_log_that_nobody_has_opened_loses_segments_whose_names_find_no_room()


@pytest.mark.parametrize("opened", [True, False], ids=["open", "closed"])
def test_where_files_cannot_even_be_removed_retention_tries_again(
    monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    topic = Topic(retention_bytes="1500")
    topic.append(6)
    if not opened:
        topic.restart_cleanly()
    topic.disk.no_names_from = 0

    def unlink(disk: SimulatedDisk, path: str) -> None:
        raise OSError(28, "no room for the log of the file system", path)

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedDisk, "unlink", unlink)
        topic.wait(10 * MINUTE_MS)
        assert topic.segments() == [0, 2, 4]
    topic.disk.no_names_from = None
    topic.append(1)
    topic.wait(10 * MINUTE_MS)
    assert topic.segments()[0] >= 4
    assert not [event for event in topic.node.events if isinstance(event, DirectoryFailed)]


def test_a_crash_while_segments_are_removed_at_once_leaves_an_end_of_the_log() -> None:
    def topic_with(crash_at: int | None) -> Topic:
        topic = Topic(retention_bytes="1500")
        power_fails = crash_at is not None and crash_at % 2 == 0
        topic.node._power_lost = lambda: topic.node.kill(power_failed=power_fails)  # type: ignore[method-assign]
        topic.append(8)
        topic.node.use("clicks", 0, lambda log: log.flush(topic.simulation.now_ms))
        topic.wait(SECOND_MS)
        topic.disk.no_names_from = 0
        topic.disk.crash_at = crash_at
        return topic

    reference = topic_with(None)
    began = reference.disk.changes
    while reference.segments() != [6]:
        reference.wait(1)
    starts = set()
    for step in range(began + 1, reference.disk.changes + 1):
        topic = topic_with(step)
        topic.wait(35 * SECOND_MS)
        assert topic.node.incarnation == 2, step
        log = topic.log()
        offset, found = log.log_start_offset, []
        starts.add(offset)
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20)
            for piece in read.slices:
                found += [header.base_offset for _, header in headers(read_slice(topic.disk, piece))]
            offset = read.next_offset
        assert found == list(range(found[0], 8)), step
        assert not [event for event in topic.node.events if isinstance(event, LogBroken)]
    assert len(starts) > 1


# Logs that leave


def with_records(topic: str = "clicks") -> World:
    world = World()
    world.create(topic)
    world.append(topic)
    assert world.disks[0].exists(f"{topic}-0/{0:020d}.log")
    return world


def test_a_deleted_topic_gives_its_room_back_and_its_name_as_soon_as_there_is_some() -> None:
    world = with_records()
    world.disks[0].no_names_from = 0
    world.node.manager.delete("clicks", 0, world.simulation.now_ms)
    world.node.drain()
    world.settle()
    assert [path for path in world.disks[0].paths() if path.startswith("clicks-0/0")] == []
    assert not world.node.manager.exists("clicks", 0)
    world.node.manager.create([request_of("clicks", 2)], world.simulation.now_ms)
    world.node.drain()
    world.settle()
    world.disks[0].no_names_from = None
    world.settle(5 * MINUTE_MS)
    assert world.log("clicks").log_end_offset == 0
    world.append("clicks")
    assert world.log("clicks").log_end_offset == 1
    assert not [each for each in world.disks[0].list("") if each.name.endswith("-delete")]
    assert not [event for event in world.node.events if isinstance(event, DirectoryFailed)]


def test_without_that_a_deleted_topic_takes_its_directory_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_operations, "is_full", lambda error: False)
    with pytest.raises(AssertionError):
        test_a_deleted_topic_gives_its_room_back_and_its_name_as_soon_as_there_is_some()


def test_a_stray_log_keeps_its_records_until_there_is_room_for_its_name() -> None:
    world = with_records()
    disk = world.disks[0]
    content = disk.content(f"clicks-0/{0:020d}.log")
    disk.no_names_from = 0
    world.node.manager.create([request_of("clicks", 2)], world.simulation.now_ms)
    world.node.drain()
    world.settle()
    assert disk.content(f"clicks-0/{0:020d}.log") == content
    disk.no_names_from = None
    world.settle(MINUTE_MS)
    (stray,) = [each.name for each in disk.list("") if each.name.endswith("-stray")]
    assert disk.content(f"{stray}/{0:020d}.log") == content
    assert world.log("clicks").log_end_offset == 0
    assert not [event for event in world.node.events if isinstance(event, DirectoryFailed)]


@pytest.mark.parametrize("room", [False, True], ids=["never any room", "room later"])
def test_a_crash_while_a_deleted_log_waits_for_its_name_leaves_one_that_can_be_opened(room: bool) -> None:
    world = with_records()
    world.append("clicks", value=b"v" * 1000)
    world.disks[0].no_names_from = 0
    began = world.disks[0].changes
    for step in range(began + 1, began + 8):
        world.disks[0].crash_at = step
        world.node.manager.delete("clicks", 0, world.simulation.now_ms)
        world.node.drain()
        world.settle()
        world.disks[0].crash_at = None
        if room:
            world.disks[0].no_names_from = None
        world.settle(MINUTE_MS)
        if not world.node.manager.exists("clicks", 0):
            break
        assert world.log("clicks").log_end_offset in (0, 1, 2)
    assert not [event for event in world.node.events if isinstance(event, DirectoryFailed | LogBroken)]


def request_of(topic: str, number: int) -> ReplicaRequest:
    """A replica of the topic with this number."""
    return ReplicaRequest(topic, 0, topic_id(number))


# The swap of the cleaner


def swapped_without_room(step: int) -> tuple[Deleting, bool]:
    """A topic whose first swap finds no room from that change of the disk on; whether it could be read meanwhile."""
    topic = Deleting()
    topic.disk.no_names_from = step
    while not topic.events(LogNotCleaned) and not topic.events(LogCleaned):
        topic.wait(1)
    topic.wait(SECOND_MS)
    found: list[object] = []
    topic.use(found.append)
    topic.wait(SECOND_MS)
    if found:
        assert topic.rows() == ROWS, step
        assert not topic.files(CLEANED) + topic.files(SWAP), "no later recovery takes them for a swap to be finished"
    return topic, bool(found)


def test_a_swap_that_finds_no_room_at_any_step_is_tried_again_as_other_passes_are() -> None:
    reference = Deleting()
    steps = reference.cleaned()
    readable: list[bool] = []
    for step in steps:
        topic, is_readable = swapped_without_room(step)
        if not topic.events(LogNotCleaned):
            continue
        readable.append(is_readable)
        (said,) = topic.events(LogNotCleaned)
        assert str(said).startswith("users-0 cannot be cleaned"), said
        assert log_cleaner.NO_ROOM_TO_SWAP in str(said)
        assert list(topic.node.manager.cleaner.uncleanable.values()) == [said.reason]  # type: ignore[attr-defined]
        topic.disk.no_names_from = None
        topic.wait(MINUTE_MS)
        assert topic.rows() == ROWS, step
        topic.wait(CLEANING_AGAIN_MS + MINUTE_MS)
        assert topic.events(LogCleaned), step
        assert topic.rows() == ROWS, step
        assert topic.segments() == reference.segments()
        assert not topic.files(CLEANED) + topic.files(SWAP)
        assert not topic.node.manager.cleaner.uncleanable
        assert not topic.events(DirectoryFailed)
    assert readable.count(True) > 3, "where the old files are there still, the log is served"
    assert readable.count(False) > 3, "where they are not, a recovery waits for room"


@pytest.mark.parametrize("power_fails", [True, False], ids=["power failure", "kill"])
def test_a_crash_while_a_swap_waits_for_room_loses_nothing_and_brings_nothing_back(power_fails: bool) -> None:
    steps = Deleting().cleaned()
    for step in steps[::3]:
        topic, _ = swapped_without_room(step)
        topic.node.kill(power_failed=power_fails)
        topic.disk.no_names_from = None
        topic.wait(MINUTE_MS)
        assert topic.rows() == ROWS, step
        assert not topic.files(CLEANED) + topic.files(SWAP)


def test_a_crash_at_any_step_of_giving_a_swap_up_loses_nothing_and_brings_nothing_back() -> None:
    steps = Deleting().cleaned()
    given_up = 0
    for step in steps[::2]:
        reference, _ = swapped_without_room(step)
        if not any(name.endswith(SWAP) for name in reference.disk.unnamed):
            continue
        for crash_at in range(step, step + 8):
            topic = Deleting(crash_at, power_fails=bool(crash_at % 2), seed=crash_at)
            topic.disk.no_names_from = step
            topic.wait(20 * SECOND_MS)
            topic.disk.no_names_from = None
            topic.wait(MINUTE_MS)
            assert topic.rows() == ROWS, (step, crash_at)
            given_up += topic.node.incarnation == 2
    assert given_up > 10


def test_new_segments_that_are_left_when_a_swap_is_given_up_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swap, "give_up", lambda disk, name: None)
    with pytest.raises(AssertionError):
        test_a_swap_that_finds_no_room_at_any_step_is_tried_again_as_other_passes_are()


def test_a_compacted_log_is_cleaned_though_its_old_segments_find_no_names() -> None:
    topic = Compacted()
    topic.append(11)
    rename = topic.disk.rename

    def refusing(old: str, new: str) -> None:
        if new.endswith(DELETED):
            raise OSError(28, "no room", new)
        rename(old, new)

    topic.disk.rename = refusing  # type: ignore[method-assign]
    topic.wait(5 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    assert set(topic.read()) == {7, 8, 9, 10}
    assert not topic.files(DELETED)
    assert not topic.events(DirectoryFailed)
