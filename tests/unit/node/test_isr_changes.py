"""Proposals on their way to the controller: how many leave together, and who is looked at when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.node.isr_changes import IsrChanges
from penstock.node.limits import ISR_CHANGES_PER_REQUEST_MAX, LAGGING_PER_STEP
from penstock.node.timers import TimerWheel
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_partition_response as answers
from penstock.protocol.messages.alter_partition_request import AlterPartitionRequest
from penstock.replication.in_sync_replicas import Proposal

TOPIC = UUID(int=1)
LAG_TIME_MAX_MS = 30_000


class OnePartition:
    """A led partition with a proposal, that always lags. `looks` has when it was looked at."""

    topic, topic_id = "t", TOPIC

    def __init__(self, index: int) -> None:
        self.index = index
        self.looks: list[int] = []
        self.isr = self
        self.proposal: Proposal | None = Proposal(((1, 10), (2, 20)), 0, 0, added=(2,))

    def alter_answered(self, proposal: Proposal, answer: object, now_ms: int) -> bool:
        self.proposal = None
        return False

    def look_after_followers(self, now_ms: int) -> bool:
        self.looks.append(now_ms)
        return True


class Node:
    """The way to the controller, and partitions that lag. `asked`: the requests."""

    def __init__(self) -> None:
        self.asked: list[AlterPartitionRequest] = []
        self.answered: Callable[[Message | None, int], None] = lambda answer, now_ms: None
        self.partitions: list[OnePartition] = []
        self.timers = TimerWheel()
        self.isr = IsrChanges(1, lambda: 10, self, self.timers, LAG_TIME_MAX_MS)

    def lag(self, count: int) -> None:
        """So many partitions lag."""
        self.partitions = [OnePartition(index) for index in range(count)]
        for partition in self.partitions:
            self.isr.lags(partition, 0)  # type: ignore[arg-type]

    @property
    def looked_at(self) -> list[int]:
        """How many partitions were looked at in each turn."""
        return list(Counter(sorted(when for partition in self.partitions for when in partition.looks)).values())

    def to_controller(self, message: object, answered: Callable[[Message | None, int], None], now_ms: int) -> None:
        assert callable(message)
        self.asked.append(message())
        self.answered = answered

    def answer(self, now_ms: int) -> None:
        """The controller does all that it was asked for."""
        rows = [
            answers.PartitionData(partition_index=each.partition_index, error_code=ErrorCode.NONE)
            for topic in self.asked[-1].topics
            for each in topic.partitions
        ]
        topic = answers.TopicData(topic_id=TOPIC, partitions=rows)
        self.answered(answers.AlterPartitionResponse(topics=[topic]), now_ms)


def sizes(requests: Sequence[AlterPartitionRequest]) -> list[int]:
    return [sum(len(topic.partitions) for topic in request.topics) for request in requests]


def test_proposals_leave_together_but_not_more_than_a_request_may_hold() -> None:
    node = Node()
    partitions = [OnePartition(index) for index in range(ISR_CHANGES_PER_REQUEST_MAX + 3)]
    for partition in partitions:
        node.isr.propose(partition, 0)  # type: ignore[arg-type]
    node.timers.advance(10)
    node.timers.advance(100)
    assert sizes(node.asked) == [ISR_CHANGES_PER_REQUEST_MAX], "one request at a time"
    node.answer(100)
    node.timers.advance(200)
    assert sizes(node.asked) == [ISR_CHANGES_PER_REQUEST_MAX, 3]
    node.answer(200)
    assert not any(partition.proposal for partition in partitions)


def test_proposals_that_were_overtaken_hold_up_no_later_one() -> None:
    node = Node()
    for index in range(ISR_CHANGES_PER_REQUEST_MAX + 1):
        partition = OnePartition(index)
        if index < ISR_CHANGES_PER_REQUEST_MAX:
            partition.proposal = None
        node.isr.propose(partition, 0)  # type: ignore[arg-type]
    node.timers.advance(10)
    node.timers.advance(20)
    assert sizes(node.asked) == [1]


def test_partitions_that_lag_are_looked_at_some_in_a_turn() -> None:
    node = Node()
    node.lag(LAGGING_PER_STEP + 7)
    node.timers.advance(LAG_TIME_MAX_MS // 2)
    assert node.looked_at == [LAGGING_PER_STEP]
    node.timers.advance(LAG_TIME_MAX_MS // 2 + 10)
    assert node.looked_at == [LAGGING_PER_STEP, 7]
    node.timers.advance(LAG_TIME_MAX_MS + 20)
    assert node.looked_at == [LAGGING_PER_STEP, 7, LAGGING_PER_STEP], "and again, while any lags"


def test_when_a_broker_comes_or_goes_very_many_partitions_are_looked_at_in_turns() -> None:
    node = Node()
    node.lag(2 * LAGGING_PER_STEP + 7)
    node.isr.look(100)
    assert node.looked_at == [LAGGING_PER_STEP], "the first at once"
    node.timers.advance(110)
    node.isr.look(110)
    assert node.looked_at == [LAGGING_PER_STEP, LAGGING_PER_STEP], "another broker: all of them again, still in turns"
    for now_ms in range(115, 200, 5):
        node.timers.advance(now_ms)
    assert node.looked_at == [LAGGING_PER_STEP] * 4 + [7]
    node.timers.advance(LAG_TIME_MAX_MS // 2)
    assert len(node.looked_at) == 6, "and it is looked at in its time as before, once"
