"""A quorum's log on a full disk: what finds no room waits, in order, until it is on disk; a leader gives way."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random

import pytest
from unit.raft.replica_harness import One, begin
from unit.raft.test_replica_storage import NAME, NOW_MS, SNAPSHOT, Files, batch, snapshot

from penstock.config.server import Settings
from penstock.log.disk import Operation
from penstock.log.limits import SPACE_RETRY_MS
from penstock.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.raft.effects import Answer, LeaderChanged
from penstock.raft.election import FILE, ElectionState, parse_election
from penstock.raft.flushed import read_flushed
from penstock.raft.limits import RAFT_HELD_BACK_MAX
from penstock.raft.storage import Storage
from simulator.world.disk import SimulatedDisk

ROOM = ("room",)
NO_ROOM = ("no room",)


class Full(Files):
    """A storage on a disk that may be full, at a time that goes by."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self.now_ms = NOW_MS
        super().__init__(disk)
        self.failures: list[Exception] = []

    def run(self) -> None:
        while operations := self.storage.take_operations(self.now_ms):
            self.end(operations)

    def end(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            try:
                result = operation.run(self.disk)
            except OSError as error:
                operation.owner.operation_failed(operation, error, self.now_ms)
            else:
                operation.owner.operation_completed(operation, result, self.now_ms)

    def fill(self, free_bytes: int = 0) -> None:
        self.disk.capacity_bytes = sum(self.disk.size(path) for path in self.disk.paths()) + free_bytes

    def make_room(self) -> None:
        self.disk.capacity_bytes = None
        deadline_ms = self.storage.next_deadline_ms()
        assert deadline_ms is not None
        assert self.now_ms < deadline_ms <= self.now_ms + SPACE_RETRY_MS
        self.now_ms = deadline_ms
        self.run()

    def storage_failed(self, error: Exception, now_ms: int) -> None:
        self.failures.append(error)

    def again(self) -> Full:
        """The next process on the same disk, after a power failure."""
        self.disk.restart()
        return Full(self.disk)


@pytest.fixture
def files() -> Full:
    made = Full()
    made.append(batch(0, 1, 3))
    made.told.clear()
    return made


@pytest.mark.parametrize("free_bytes", [0, 50, 130, 250])
def test_what_is_appended_waits_and_counts_in_order_when_it_is_on_disk(files: Full, free_bytes: int) -> None:
    files.fill(free_bytes)
    appended = [batch(3 + number, 2 + number) for number in range(12)]  # over several segments, each of its own epoch
    for each in appended:
        files.append(each)
    written = max([told[1] for told in files.told if told[0] == "written"], default=3)
    assert files.told.count(NO_ROOM) == 1
    assert files.storage.end_offset == 15
    files.now_ms += SPACE_RETRY_MS
    files.run()
    assert files.told.count(NO_ROOM) == 1, "said once"
    files.make_room()
    assert files.told.count(ROOM) == 1
    assert ("flushed", 15) in files.told
    flushed = [told[1] for told in files.told if told[0] == "flushed"]
    assert flushed == sorted(flushed)
    assert written < 15
    assert not files.failures
    next_process = files.again()
    assert next_process.storage.end_offset == 15
    found = b"".join(next_process.storage.read(offset, 1) for offset in range(3, 15))
    assert found == b"".join(appended)


def test_nothing_is_made_again_before_all_that_was_under_way_has_ended(files: Full) -> None:
    """Otherwise a later record could be written where there is none before it."""
    files.storage.append_fetched(batch(3, 1), files.now_ms)
    first = files.storage.take_operations(files.now_ms)
    files.storage.append_fetched(batch(4, 1), files.now_ms)
    slow = files.storage.take_operations(files.now_ms)
    files.fill()
    files.end(first)
    files.disk.capacity_bytes = None
    files.now_ms += SPACE_RETRY_MS
    assert files.storage.take_operations(files.now_ms) == []
    files.end(slow)
    files.run()
    assert ("flushed", 5) in files.told
    assert files.again().storage.read(3, 1) == batch(3, 1)


def test_what_waits_is_lost_with_the_process_and_nothing_else() -> None:
    files = Full()
    files.append(batch(0, 1, 3))
    files.fill()
    files.append(batch(3, 1))
    files.disk.capacity_bytes = None
    assert files.again().storage.end_offset == 3


def test_of_the_states_of_elections_that_wait_the_last_one_is_written(files: Full) -> None:
    files.fill()
    for epoch in range(5, 9):
        files.storage.persist_election(ElectionState(epoch, leader_id=epoch), 1, [1, 2])
        if epoch < 7:
            files.run()
    files.append(batch(3, 6))
    files.make_room()
    assert [told[1] for told in files.told if told[0] == "persisted"] == [ElectionState(8, leader_id=8)]
    assert parse_election(files.disk.content(f"{NAME}/{FILE}"), FILE) == ElectionState(8, leader_id=8)
    assert ("flushed", 4) in files.told
    assert not [path for path in files.disk.paths() if path.endswith(".tmp")]


def test_the_last_state_of_an_election_is_written_last(files: Full) -> None:
    """Also if an earlier one was under way when room ran out: otherwise a vote that was given could be forgotten."""
    under_way = []
    for epoch in (5, 6):
        files.storage.persist_election(ElectionState(epoch, leader_id=epoch), 1, [1, 2])
        under_way.append(files.storage.take_operations(files.now_ms))
    files.fill()
    first, second = under_way
    files.end(first)
    files.storage.persist_election(ElectionState(7, leader_id=7), 1, [1, 2])
    files.end(second)
    files.make_room()
    assert [told[1] for told in files.told if told[0] == "persisted"][-1] == ElectionState(7, leader_id=7)
    assert parse_election(files.disk.content(f"{NAME}/{FILE}"), FILE) == ElectionState(7, leader_id=7)


def test_a_truncation_waits_behind_what_it_cuts_away(files: Full) -> None:
    files.append(batch(3, 2))
    files.fill()
    files.append(batch(4, 2))
    files.storage.truncate(3, files.now_ms)
    files.run()
    assert not [told for told in files.told if told[0] == "truncated"]
    files.make_room()
    assert ("truncated", 3) in files.told
    assert read_flushed(files.disk, NAME) == 3
    files.append(batch(3, 3))
    next_process = files.again()
    assert next_process.storage.read(3, 1_000) == batch(3, 3)


def test_a_snapshot_that_is_fetched_waits(files: Full) -> None:
    files.fill(200)
    content = snapshot()
    files.storage.write_snapshot(SNAPSHOT, 0, content)
    files.run()
    assert NO_ROOM in files.told
    files.make_room()
    assert ("piece", len(content)) in files.told
    files.storage.install_snapshot(SNAPSHOT)
    files.run()
    assert files.storage.end_offset == SNAPSHOT.end_offset


def test_a_checkpoint_that_finds_no_room_leaves_nothing_behind_and_appends_go_on(files: Full) -> None:
    files.fill(300)
    files.storage.write_checkpoint(SNAPSHOT, lambda: [bytearray(snapshot())])
    files.run()
    assert files.told == [("no room for a checkpoint",)]
    assert not [path for path in files.disk.paths() if ".part" in path]
    files.append(batch(3, 1))
    assert files.told[-1] == ("flushed", 4)


def test_an_fsync_that_finds_no_room_is_final(files: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(path: str) -> None:
        raise OSError(errno.ENOSPC, "no room", path)

    monkeypatch.setattr(files.disk, "fsync", fsync)
    files.append(batch(3, 1))
    assert [type(error) for error in files.failures] == [OSError]
    assert files.storage.take_operations(files.now_ms) == []


def test_a_medium_that_fails_while_something_waits_ends_the_storage(files: Full) -> None:
    files.fill()
    files.append(batch(3, 1))
    files.disk.fail_write_at = 0
    files.now_ms += SPACE_RETRY_MS
    files.run()
    assert len(files.failures) == 1
    assert ROOM not in files.told


@pytest.mark.parametrize("known", [False, True])
def test_a_stop_does_not_wait_for_room(files: Full, known: bool) -> None:
    stopped: list[int] = []
    if not known:
        files.append(batch(3, 1))
    files.fill()
    if known:
        files.append(batch(3, 1))
    files.storage.close(stopped.append, files.now_ms)
    files.run()
    assert len(stopped) == 1
    assert not files.failures
    files.disk.capacity_bytes = None
    assert files.again().storage.end_offset == 3 if known else 4


def test_a_storage_does_not_open_without_room() -> None:
    disk = SimulatedDisk()
    Storage(disk, Settings.for_node(1), Full(disk), Random(1), NOW_MS)
    disk.capacity_bytes = 0
    with pytest.raises(OSError, match="No space"):
        Full(disk)


# The replica


def test_a_leader_without_room_gives_way_and_does_not_stand_before_there_is_some() -> None:
    one = One()
    one.elect()
    one.do(one.replica.ran_out(one.now_ms))
    assert not one.replica.is_leader
    assert LeaderChanged(None, one.replica.epoch) in one.effects
    assert {call.target.node_id for call in one.calls(EndQuorumEpochRequest)} == {2, 3}
    one.pass_ms(60_000)
    assert one.calls(VoteRequest) == []
    one.do(one.replica.has_room(one.now_ms))
    one.pass_ms(10_000)
    assert one.calls(VoteRequest)


def test_the_only_voter_leads_on() -> None:
    one = One(voters=(1,))
    one.elect()
    one.do(one.replica.ran_out(one.now_ms))
    one.pass_ms(60_000)
    assert one.replica.is_leader


def test_a_follower_without_room_neither_fetches_nor_stands() -> None:
    one = One()
    one.start()
    one.ask(begin(2, 5))
    (fetch,) = one.calls(FetchRequest)
    one.do(one.replica.ran_out(one.now_ms))
    one.reply(fetch, None)
    one.pass_ms(60_000)
    assert one.calls(FetchRequest) == one.calls(VoteRequest) == []
    one.do(one.replica.has_room(one.now_ms))
    assert one.calls(FetchRequest)


def test_a_candidate_that_was_elected_does_not_begin_to_lead_without_room() -> None:
    one = One(voters=(1,), durable=False)
    one.start()
    (vote,) = one.persisting
    one.do(one.replica.ran_out(one.now_ms))
    one.do(one.replica.election_persisted(vote, one.now_ms))
    assert not one.replica.is_leader
    one.do(one.replica.has_room(one.now_ms))
    assert one.replica.is_leader


def test_answers_that_wait_for_an_election_on_disk_are_bounded() -> None:
    one = One(durable=False)
    one.start()
    one.ask(begin(2, 5))
    one.do(one.replica.ran_out(one.now_ms))
    for number in range(RAFT_HELD_BACK_MAX + 5):
        assert one.ask(begin(2, 5), token=number) is None
    assert len(one.replica._core._held) == RAFT_HELD_BACK_MAX
    answered = one.do(one.replica.election_persisted(one.persisting[-1], one.now_ms))
    tokens = [each.token for each in answered if isinstance(each, Answer)]
    assert tokens[-1] == RAFT_HELD_BACK_MAX + 4
    assert 0 not in tokens


def test_of_the_epochs_that_wait_for_room_only_the_last_is_awaited() -> None:
    one = One(durable=False)
    one.start()
    one.ask(begin(2, 5), token="first")
    one.do(one.replica.ran_out(one.now_ms))
    for epoch in range(6, 60):
        one.ask(begin(2 + epoch % 2, epoch), token=epoch)
    assert len(one.replica._core._persisting) <= 2
    answered = one.do(one.replica.election_persisted(one.persisting[-1], one.now_ms))
    assert [each.token for each in answered if isinstance(each, Answer)][-1] == 59
