"""Our coordinator and Kafka's answer the same and write the same records, whatever the members of a classic group do.

Four differences are wanted. A request that can be answered no more because its member has sent another one, or is not
in the group any more, is answered with an error here, where Kafka lets it wait for ever. A group's first record is
written with its first member, not when the first member id is given out. A member that is turned away because the group
is full is not waited for. And what has prolonged one initial rebalance does not prolong the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from interop.coordinator.classic_peer import answers_of_kafka
from interop.coordinator.classic_scenarios import Draw, Names, Operation, Ours, answers_left, record_of_kafka

from penstock.coordinator.group.classic import join, rebalance
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import ClassicMember
from penstock.errors import ErrorCode
from penstock.protocol.messages.join_group_response import JoinGroupResponse

pytestmark = pytest.mark.java

SCENARIOS = 150
STEPS = 150
CONFIG = {"offset.metadata.max.bytes": "20", "group.initial.rebalance.delay.ms": "3000"}
CODE_ONLY = ("sync", "heartbeat", "leave", "commit", "delete offsets")
WAITED_FOREVER = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR)


@pytest.fixture(autouse=True)
def the_last_two_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """They change what happens when. See the module's head."""
    complete_join = rebalance.complete_join

    def completed(state: Any, group: ClassicGroup, now_ms: int) -> Any:
        added = group.new_member_added
        result = complete_join(state, group, now_ms)
        group.new_member_added = added
        return result

    monkeypatch.setattr(rebalance, "complete_join", completed)
    monkeypatch.setattr(join, "complete_rebalance", lambda *args: rebalance.NOTHING)


@pytest.mark.slow
def test_as_kafka() -> None:
    compare(range(SCENARIOS), STEPS)


@pytest.mark.long
def test_as_kafka_at_length() -> None:
    for first in range(SCENARIOS, 8 * SCENARIOS, SCENARIOS):
        compare(range(first, first + SCENARIOS), 2 * STEPS)


@pytest.mark.slow
def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassicMember, "is_heard_of", property(lambda self: self.awaits_join or self.awaits_sync))
    with pytest.raises(AssertionError):
        compare(range(SCENARIOS), STEPS)


def compare(seeds: Sequence[int], steps: int) -> None:
    """The scenarios of some seeds; in every third the group has few places."""
    scenarios = [Draw(Random(seed)).scenario(steps) for seed in seeds]
    sizes = [3 if seed % 3 == 0 else 1_000 for seed in seeds]
    started_ms = Ours().started_ms
    asked = [
        {"now": started_ms, "config": {**CONFIG, "group.max.size": str(size)}, "operations": operations}
        for operations, size in zip(scenarios, sizes, strict=True)
    ]
    answers = answers_of_kafka(asked)
    for seed, operations, size, told in zip(seeds, scenarios, sizes, answers, strict=True):
        Comparison(f"scenario {seed}", operations, Ours(group_max_size=size)).run(told)


class Comparison:
    """One scenario on both sides."""

    def __init__(self, name: str, operations: list[Operation], ours: Ours) -> None:
        self.name = name
        self.operations = operations
        self.ours = ours
        self.our_names, self.their_names = Names(), Names()

    def run(self, answers: list[dict[str, Any]]) -> None:
        for number, (operation, theirs) in enumerate(zip(self.operations, answers, strict=True)):
            their_left = answers_left(self.operations, theirs["answers"])
            written, left = self.ours.do(number, operation, their_left)
            self.our_names.learn(self.operations, left)
            self.their_names.learn(self.operations, their_left)
            self.follow_leader(their_left, left)
            where = f"{self.name}, operation {number}: {operation}"
            self.compare_answers(left, their_left, where)
            ours = [self.our_names.record(*each) for each in written]
            records = [self.their_names.record(*record_of_kafka(*each)) for each in theirs["records"]]
            assert sorted(filter(None, ours)) == sorted(filter(None, records)), where

    def follow_leader(self, their_left: dict[int, Any], left: dict[int, Any]) -> None:
        for answer in their_left.values():
            if isinstance(answer, JoinGroupResponse) and not answer.error_code:
                name = self.their_names.name_of(answer.leader)
                leader_id = None if name is None else self.our_names.id_of(name)
                if leader_id is not None:
                    self.ours.lead(leader_id, left, [each.get("version", 0) for each in self.operations])

    def compare_answers(self, left: dict[int, Any], their_left: dict[int, Any], where: str) -> None:
        for to, theirs in their_left.items():
            ours = left.pop(to, None)
            assert ours is not None, f"{where}: {self.operations[to]} waits, at Kafka's it is answered {theirs}"
            told, wanted = self.plain(to, ours, self.our_names), self.plain(to, theirs, self.their_names)
            assert told == wanted, f"{where}: of {self.operations[to]}"
        for to, code in left.items():
            assert code in WAITED_FOREVER, f"{where}: {self.operations[to]} is answered {code}, at Kafka's it waits"

    def plain(self, to: int, answer: Any, names: Names) -> Any:
        """An answer, or its code alone where there is nothing else in it."""
        if isinstance(answer, int):
            return int(answer)
        told = names.plain(answer)
        if self.operations[to]["kind"] in CODE_ONLY and told.get("error_code"):
            return told["error_code"]
        return told
