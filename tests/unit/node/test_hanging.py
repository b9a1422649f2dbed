"""A transaction that no coordinator knows is told within a minute, once; one that is known or ends never is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import ErrorCode
from penstock.node.hanging import LOOK_INTERVAL_MS, HangingTransactions, OpenTransaction
from penstock.node.outgoing import Peer
from penstock.node.timers import TimerWheel
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
)
from penstock.protocol.messages.describe_transactions_response import TransactionState as Described
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest
from penstock.protocol.messages.list_transactions_response import ListTransactionsResponse
from penstock.protocol.messages.list_transactions_response import TransactionState as Listed

COORDINATORS = (1, 2)
PRODUCER = 77
BEGAN_AT = 5
MINUTE_MS = 60_000
HANGS = OpenTransaction("clicks", 0, PRODUCER, BEGAN_AT)


class Partition:
    """A led partition: its topic and the transactions that are open in it, by their first offset."""

    def __init__(self, topic: str, index: int, ongoing: dict[int, int]) -> None:
        self.topic, self.index = topic, index
        self.log = SimpleNamespace(producers=SimpleNamespace(ongoing=ongoing))


@dataclass
class World:
    """The broker around the finder, and two coordinators.

    Attributes:
        knows: what each coordinator knows: transactional id -> (producer id, partitions). errors: what it answers
            instead. silent: those that do not answer at all.
    """

    knows: dict[int, dict[str, tuple[int, list[tuple[str, int]]]]] = field(default_factory=dict)
    errors: dict[int, ErrorCode] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    leaders: tuple[int, ...] = COORDINATORS
    has_topic: bool = True
    now_ms: int = 10_000
    asked: list[Message] = field(default_factory=list)
    led: dict[tuple[str, int], Partition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.timers = TimerWheel()
        world: Any = self
        self.finder = HangingTransactions(world, world, world, lambda: world)

    # What the finder sees of the node

    @property
    def image(self) -> Any:
        topic = SimpleNamespace(partitions=[SimpleNamespace(leader=each) for each in self.leaders])
        return SimpleNamespace(topics_by_name={"__transaction_state": topic} if self.has_topic else {})

    def peer(self, broker_id: int) -> Peer | None:
        return None if broker_id < 0 else Peer(broker_id, "host", 9092, "PLAINTEXT")

    def in_use(self, topic: str, index: int) -> Partition | None:
        return self.led.get((topic, index))

    def do(self, work: Iterator[None]) -> None:
        for _ in work:
            pass

    def call(self, peer: Peer, message: Any, *, done: Any, now_ms: int, **_: Any) -> None:
        self.asked.append(message)
        if peer.node_id in self.silent:
            done(None, "timed out", now_ms)
        elif isinstance(message, ListTransactionsRequest):
            done(self.listed(peer.node_id, message), None, now_ms)
        else:
            done(self.described(peer.node_id, message), None, now_ms)

    def listed(self, broker_id: int, message: ListTransactionsRequest) -> ListTransactionsResponse:
        states = [
            Listed(transactional_id=name, producer_id=producer_id, transaction_state="Ongoing")
            for name, (producer_id, _) in self.knows.get(broker_id, {}).items()
            if producer_id in message.producer_id_filters
        ]
        return ListTransactionsResponse(
            error_code=self.errors.get(broker_id, ErrorCode.NONE), transaction_states=states
        )

    def described(self, broker_id: int, message: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        states = []
        for name in message.transactional_ids:
            producer_id, partitions = self.knows[broker_id][name]
            topics = [TopicData(topic=topic, partitions=[index]) for topic, index in partitions]
            states.append(Described(transactional_id=name, producer_id=producer_id, topics=topics))
        return DescribeTransactionsResponse(transaction_states=states)

    # What happens

    def opens(self, partition: Partition) -> None:
        self.led[partition.topic, partition.index] = partition
        self.finder.noticed(partition, self.now_ms)  # type: ignore[arg-type]

    def passes(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while (deadline_ms := self.timers.next_deadline_ms()) is not None and deadline_ms <= until_ms:
            self.now_ms = deadline_ms
            self.timers.advance(deadline_ms)
        self.now_ms = until_ms


def clicks() -> Partition:
    return Partition("clicks", 0, {BEGAN_AT: PRODUCER})


def test_nobody_knows_it_and_it_is_told_within_a_minute_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.WARNING, "penstock.node.hanging"):
        world.opens(clicks())
        world.passes(MINUTE_MS)
        assert world.finder.hanging() == [HANGS]
        world.passes(10 * MINUTE_MS)
    (line,) = caplog.messages
    assert "partition=clicks-0 offset=5 producer_id=77" in line
    assert "penstock transactions abort --topic clicks --partition 0 --start-offset 5" in line


def test_without_any_coordinator_it_is_one_too() -> None:
    world = World(has_topic=False)
    world.opens(clicks())
    world.passes(MINUTE_MS)
    assert world.finder.hanging() == [HANGS]


def test_what_its_coordinator_counts_among_its_partitions_does_not_hang() -> None:
    world = World(knows={2: {"loader": (PRODUCER, [("clicks", 0)])}})
    world.opens(clicks())
    world.passes(10 * MINUTE_MS)
    assert world.finder.hanging() == []


def test_a_coordinator_that_knows_the_producer_and_not_the_partition_names_who_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(knows={2: {"loader": (PRODUCER, [("clicks", 1)])}})
    with caplog.at_level(logging.WARNING, "penstock.node.hanging"):
        world.opens(clicks())
        world.passes(MINUTE_MS)
    assert world.finder.hanging() == [HANGS]
    assert "transactional_id=loader" in caplog.text


@pytest.mark.parametrize("what", ["silent", "loading", "without a leader"])
def test_nothing_is_said_while_a_coordinator_may_know_it(what: str) -> None:
    world = World()
    if what == "silent":
        world.silent = {2}
    elif what == "loading":
        world.errors = {2: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    else:
        world.leaders = (1, -1)
    world.opens(clicks())
    world.passes(10 * MINUTE_MS)
    assert world.finder.hanging() == []
    world.silent, world.errors, world.leaders = set(), {}, COORDINATORS
    world.passes(MINUTE_MS)
    assert world.finder.hanging() == [HANGS]


def test_one_look_alone_may_have_come_between_a_marker_and_the_next_transaction() -> None:
    world = World()
    world.opens(clicks())
    world.passes(2 * LOOK_INTERVAL_MS)
    assert world.asked, "one look has found nobody who knows it"
    world.knows = {1: {"loader": (PRODUCER, [("clicks", 0)])}}
    world.passes(LOOK_INTERVAL_MS)
    world.knows = {}
    world.passes(LOOK_INTERVAL_MS)
    assert world.finder.hanging() == []


def test_one_that_is_ended_hangs_no_longer_and_nobody_is_asked_any_more() -> None:
    world = World()
    partition = clicks()
    world.opens(partition)
    world.passes(MINUTE_MS)
    partition.log.producers.ongoing.clear()
    world.passes(MINUTE_MS)
    assert world.finder.hanging() == []
    assert world.timers.next_deadline_ms() is None, "without open transactions there is nothing to look at"


def test_another_leader_looks_after_it_from_then_on() -> None:
    world = World()
    world.opens(clicks())
    world.passes(MINUTE_MS)
    world.led.clear()
    world.passes(MINUTE_MS)
    assert world.finder.hanging() == []


def test_a_look_asks_about_a_bounded_number_and_the_next_one_about_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.hanging.OPEN_TRANSACTIONS_ASKED_MAX", 2)
    monkeypatch.setattr("penstock.node.hanging.OPEN_TRANSACTIONS_SEEN_MAX", 4)
    world = World(leaders=(1,))
    world.opens(Partition("clicks", 0, {offset: 100 + offset for offset in range(10)}))
    world.passes(3 * LOOK_INTERVAL_MS)
    asked = [list(each.producer_id_filters) for each in world.asked if isinstance(each, ListTransactionsRequest)]
    assert asked == [[100, 101], [102, 103]]


def test_what_hangs_is_counted() -> None:
    world = World()
    world.opens(Partition("clicks", 0, {5: 1, 9: 2}))
    world.passes(MINUTE_MS)
    assert {each.name: each.value for each in world.finder.samples()} == {
        "penstock_hanging_transactions": 2,
        "penstock_partitions_with_hanging_transactions": 1,
    }
