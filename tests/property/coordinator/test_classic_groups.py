"""Classic groups under random joins, crashes, pauses, lost leaderships and refused appends.

What must hold (the members' and the coordinator's point of view): a partition has one owner at most in a generation;
generations only grow in the log; who is of an old generation commits nothing; a committed offset is never lost, never
goes back, and is never ahead of what was consumed; every request is answered; and when all is well again, everybody who
is alive has its share.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from property.coordinator.consumers import (
    PARTITIONS,
    REBALANCE_MS,
    SESSION_MS,
    Consumer,
    check_group,
    check_log,
    check_owners,
)
from unit.coordinator.world import World

from penstock.coordinator.group.classic import rebalance, sync
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import ClassicMember
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.shard import Shard
from penstock.errors import ErrorCode

PHASES = (Phase.generate,)
"""No need to shrink what was planted."""
CONSUMERS_MAX = 6
EVERYTHING = list(range(PARTITIONS))
PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"))


class Groups(RuleBasedStateMachine):
    """One group, some consumers, one coordinator."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(group_max_size=CONSUMERS_MAX - 1)
        self.consumers: list[Consumer] = []
        self.consumed = dict.fromkeys(range(PARTITIONS), 0)
        self.acknowledged = dict.fromkeys(range(PARTITIONS), 0)
        self.shown = dict.fromkeys(range(PARTITIONS), 0)
        self.waiting: list[tuple[Any, dict[int, int]]] = []

    @initialize(
        instances=st.lists(st.sampled_from([None, None, "i", "j"]), max_size=3, unique_by=lambda each: each or object())
    )
    def begin(self, instances: list[str | None]) -> None:
        """A group that is stable already, of so many."""
        for instance in instances:
            self.start(instance, 9, PROTOCOLS[0])
        for _ in range(30 if instances else 0):
            self.step_all(1)
            self.pass_time(500)

    def some(self, number: int) -> Consumer | None:
        return self.consumers[number % len(self.consumers)] if self.consumers else None

    # What consumers do

    @precondition(lambda self: sum(each.alive for each in self.consumers) < CONSUMERS_MAX)
    @rule(
        instance=st.sampled_from([None, None, "i", "j"]),
        version=st.sampled_from([3, 5, 8, 9]),
        protocols=st.sampled_from(PROTOCOLS),
    )
    def start(self, instance: str | None, version: int, protocols: tuple[str, ...]) -> None:
        self.consumers.append(Consumer(self.world, instance if version >= 5 else None, version, protocols))

    @rule(number=st.integers(0, 20))
    def step_one(self, number: int) -> None:
        consumer = self.some(number)
        if consumer is not None:
            consumer.step()

    @rule(rounds=st.integers(1, 6))
    def step_all(self, rounds: int) -> None:
        for _ in range(rounds):
            for consumer in self.consumers:
                consumer.step()

    @rule(number=st.integers(0, 20), records=st.integers(1, 9))
    def consume(self, number: int, records: int) -> None:
        consumer = self.some(number)
        if consumer is not None:
            consumer.consume(records)
            for partition, position in (consumer.positions or {}).items():
                self.consumed[partition] = max(self.consumed[partition], position)

    @rule(number=st.integers(0, 20))
    def commit(self, number: int) -> None:
        consumer = self.some(number)
        answer = None if consumer is None else consumer.commit()
        if consumer is not None and answer is not None:
            assert consumer.positions is not None
            self.waiting.append((answer, dict(consumer.positions)))

    @rule(number=st.integers(0, 20))
    def zombie(self, number: int) -> None:
        """A process that has slept goes on with what it owned once."""
        consumer = self.some(number)
        group = self.world.state.groups.find("g")
        if consumer is None or consumer.owned_once is None or not isinstance(group, ClassicGroup):
            return
        member_id, generation_id, positions = consumer.owned_once
        if generation_id != group.generation_id or member_id not in group.members:
            offsets = {("t", partition): position for partition, position in positions.items()}
            zombie = self.world.commit_offsets(offsets, member_id=member_id, generation_id=generation_id)
            self.world.commit()
            assert zombie.code, "a stale commit was taken"

    @rule(number=st.integers(0, 20))
    def join_again(self, number: int) -> None:
        consumer = self.some(number)
        if consumer is not None and consumer.alive:
            consumer.metadata += b"x"
            consumer.join()

    @rule(number=st.integers(0, 20))
    def leave(self, number: int) -> None:
        consumer = self.some(number)
        if consumer is not None:
            consumer.leave()

    @rule(number=st.integers(0, 20))
    def crash(self, number: int) -> None:
        consumer = self.some(number)
        if consumer is not None:
            consumer.alive = False

    # What the world does

    @rule(ms=st.sampled_from([1, 500, 3_000, 4_000, SESSION_MS, REBALANCE_MS]))
    def pass_time(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(keep=st.booleans())
    def fail_over(self, keep: bool) -> None:
        self.world.fail_over(keep_uncommitted=keep)

    @rule(commits=st.booleans())
    def replicate(self, commits: bool) -> None:
        self.world.commits = commits
        self.world.settle()

    @rule(code=st.sampled_from([None, None, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE]))
    def refuse(self, code: ErrorCode | None) -> None:
        self.world.log.refuses = code

    # What must hold

    @invariant()
    def parts_fit(self) -> None:
        check_group(self.world)
        check_owners(self.world, self.consumers)

    @invariant()
    def offsets_hold(self) -> None:
        for answer, positions in [each for each in self.waiting if each[0].done]:
            if not answer.code and not answer.value.topics[0].partitions[0].error_code:
                for partition, position in positions.items():
                    self.acknowledged[partition] = max(self.acknowledged[partition], position)
        self.waiting = [each for each in self.waiting if not each[0].done]
        for (_, partition), offset in self.world.offsets().items():
            assert offset <= self.consumed[partition], "committed ahead of what was consumed"
            assert offset >= self.shown[partition], "a committed offset has gone back"
            self.shown[partition] = offset
        for partition, offset in self.acknowledged.items():
            assert self.shown[partition] >= offset, "an acknowledged commit is lost"

    def teardown(self) -> None:
        if sys.exc_info()[0] is not None:
            return  # something has failed already
        check_log(self.world)
        self.heal()
        self.silence()

    def heal(self) -> None:
        """All is well again: everybody who is alive gets its share, soon."""
        self.world.commits = True
        self.world.log.refuses = None
        self.world.settle()
        owned: list[int] = []
        for _ in range(200):
            for consumer in self.consumers:
                consumer.step()
            self.world.advance(500)
            check_owners(self.world, self.consumers)
            alive = [consumer for consumer in self.consumers if consumer.alive]
            owned = sorted(partition for consumer in alive for partition in consumer.positions or {})
            if all(consumer.positions is not None for consumer in alive) and owned == EVERYTHING[: len(alive) * 9]:
                return
        raise AssertionError(f"owned are {owned}")

    def silence(self) -> None:
        """Everybody is gone: nothing is left that waits."""
        for consumer in self.consumers:
            consumer.alive = False
        self.world.advance(400_000)
        assert all(answer.done for consumer in self.consumers for answer in consumer.answers)
        group = self.world.state.groups.find("g")
        assert group is None or group.is_empty
        assert len(self.world.state.pending) == 0
        assert len(self.world.runtime.timers) == 1


RUN = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def test_groups_hold_whatever_happens() -> None:
    run_state_machine_as_test(Groups, settings=RUN)


@pytest.mark.long
def test_groups_hold_whatever_happens_at_length() -> None:
    run_state_machine_as_test(Groups, settings=settings(RUN, max_examples=1_500, stateful_step_count=80))


# Faults that are planted, and found


def no_generation_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of old generations commit."""

    def check(self: ClassicGroup, member_id: str, *rest: Any, **options: Any) -> None:
        self.check_member(member_id, None)

    monkeypatch.setattr(ClassicGroup, "check_commit", check)


def told_before_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The assignment is told before it is in the log."""
    store = sync.store_assignment

    def early(state: Any, group: ClassicGroup, request: Any) -> Result[None]:
        result = store(state, group, request)
        assert result.appended is not None
        assert group.state_timestamp_ms is not None
        result.appended(ErrorCode.NONE, group.state_timestamp_ms)
        return replace(result, appended=None)

    monkeypatch.setattr(sync, "store_assignment", early)


def answered_before_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers leave when records are appended."""

    def commit_now(self: Shard[Any], offset: int, now_ms: int) -> None:
        self.commit(offset, now_ms)

    monkeypatch.setattr(Shard, "_commit_later", commit_now)


def new_sessions_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not wait for its members."""
    monkeypatch.setattr("penstock.coordinator.group.machine.LOADED", ())


def silent_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that is dropped while it waits is not told."""
    monkeypatch.setattr(ClassicGroup, "answer_join", lambda self, member, *rest: self.await_join(member, None))


def sessions_not_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited for its assignment has no session afterwards."""
    monkeypatch.setattr(rebalance, "renew_session", lambda *args: None)


def replies_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs are answered and thought to wait all the same."""

    def answer(self: ClassicMember, response: Any, now_ms: int) -> bool:
        if self.sync_reply is not None:
            self.sync_reply(response, now_ms)
        return self.sync_reply is not None

    monkeypatch.setattr(ClassicMember, "answer_sync", answer)


def lost_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A static leader that starts again is not the leader any more, and nobody is."""
    rename = ClassicGroup.rename

    def renamed(self: ClassicGroup, member: ClassicMember, member_id: str) -> None:
        leader_id = self.leader_id
        rename(self, member, member_id)
        self.leader_id = leader_id

    monkeypatch.setattr(ClassicGroup, "rename", renamed)


QUICK = (new_sessions_forgotten, silent_drops, sessions_not_renewed, replies_kept)
RARE = (no_generation_check, told_before_stored, answered_before_committed, lost_leader)
"""What it takes hundreds of runs to find."""
FAULTS = (*QUICK, *(pytest.param(fault, marks=pytest.mark.slow) for fault in RARE))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    found = settings(
        RUN, derandomize=True, max_examples=1_000, database=None, report_multiple_bugs=False, phases=PHASES
    )
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(Groups, settings=found)
