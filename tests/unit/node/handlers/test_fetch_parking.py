"""A fetch that finds nothing is parked without an answer, and everything comes of it that comes of another one.

That a whole cluster with followers does the same, event by event, is in tests/simulation/cluster/test_short_paths.py.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.broker import Node
from support.requests import batch, fetch, partitions_of, produce, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.node.fetches import Fetch
from penstock.replication.partition import Partition
from penstock.security.authorizer import ResourceType

FIRST_BYTES = 5_000


class Ready:
    """A node with a topic, and a consumer's session that has read its first record and asks for what follows."""

    def __init__(self, version: int = 17) -> None:
        self.node = Node()
        self.node.create_topic("t")
        self.version = version
        self.topic: Any = self.node.broker.image.topics_by_name["t"].id if version >= 13 else "t"
        self.producer, self.client = self.node.connect(), self.node.connect()
        produced(self.producer, "t", batch(b"x" * FIRST_BYTES))
        first = self.client.ask(fetch(self.topic, wanted(), session_epoch=0), version)
        self.session_id, self.epoch = first.session_id, 1

    def ask(self, *partitions: Any, **fields: Any) -> None:
        """Sends the next fetch of the session, which waits for a second."""
        fields = {"max_wait_ms": 1_000, "min_bytes": 1, **fields}
        request = fetch(self.topic, *partitions, session_id=self.session_id, session_epoch=self.epoch, **fields)
        self.epoch += 1
        self.client.send(request, self.version)

    @property
    def looked_at(self) -> int:
        return self.node.broker.fetches.looked_at


@pytest.fixture(autouse=True)
def parked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each fetch that asked was parked without an answer."""
    found: list[bool] = []
    real = Fetch.finds_nothing

    def noted(*arguments: Any) -> bool:
        found.append(real(*arguments))
        return found[-1]

    monkeypatch.setattr(Fetch, "finds_nothing", noted)
    return found


@pytest.mark.parametrize("version", [12, 17])
def test_a_consumer_at_the_end_waits_and_gets_what_comes(version: int, parked: list[bool]) -> None:
    ready = Ready(version)
    ready.ask(wanted(offset=1))
    assert parked[-1]
    assert not ready.client.answers
    produced(ready.producer, "t", batch(b"new"))
    assert partitions_of(ready.client.receive())[0].records


def test_so_does_one_without_a_session(parked: list[bool]) -> None:
    ready = Ready()
    ready.client.send(fetch("t", wanted(offset=1), session_epoch=-1, max_wait_ms=1_000, min_bytes=1), 12)
    assert parked[-1]
    assert not ready.client.answers
    produced(ready.producer, "t", batch(b"new"))
    assert values_of(partitions_of(ready.client.receive())[0]) == [b"new"]


def test_at_its_deadline_it_is_answered_with_nothing(parked: list[bool]) -> None:
    ready = Ready()
    ready.ask(wanted(offset=1))
    assert parked[-1]
    ready.node.advance(1_005)
    assert ready.client.receive().responses == []


def test_who_does_not_wait_is_answered(parked: list[bool]) -> None:
    for fields in ({"max_wait_ms": 0}, {"min_bytes": 0}):
        ready = Ready()
        ready.ask(wanted(offset=1), **fields)
        assert not parked[-1]
        assert ready.client.answers


def test_bytes_that_were_there_before_it_waited_do_not_count(parked: list[bool]) -> None:
    ready = Ready()
    produced(ready.producer, "t", batch(b"y" * FIRST_BYTES))  # and nobody has looked at these
    ready.ask(wanted(offset=2), min_bytes=FIRST_BYTES)
    assert parked[-1]
    looked_at = ready.looked_at
    produced(ready.producer, "t", batch(b"new"))
    assert ready.looked_at == looked_at
    assert not ready.client.answers
    produced(ready.producer, "t", batch(b"z" * FIRST_BYTES))
    assert len(ready.client.answers) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"last_fetched_epoch": 7}, {"current_leader_epoch": 5}, {"offset": 2}, {"topic_id": True}, {"refused": True}],
)
def test_what_is_wrong_is_said_at_once(wrong: dict[str, Any], parked: list[bool]) -> None:
    ready = Ready()
    if wrong.pop("refused", False):
        ready.node.acls.refused = lambda _operation, kind, _name: kind is ResourceType.TOPIC
    if wrong.pop("topic_id", False):
        ready.node.delete_topic("t")
        ready.node.create_topic("t")
        produced(ready.producer, "t", batch(b"another topic's"))
    ready.ask(wanted(**{"offset": 1, **wrong}))
    assert not parked[-1]
    assert partitions_of(ready.client.receive())[0].error_code != 0


def test_a_moved_watermark_is_told_with_what_comes_next(parked: list[bool]) -> None:
    ready = Ready()
    partition = ready.node.broker.replicas.leader("t", 0, ready.node.now_ms)
    assert isinstance(partition, Partition)
    ready.ask(wanted(offset=1))
    ready.node.advance(1_005)
    ready.client.receive()
    partition.log.advance_log_start(1, 1)
    ready.ask(wanted(offset=1))
    assert parked[-1]
    ready.node.advance(1_005)
    assert partitions_of(ready.client.receive())[0].log_start_offset == 1


def outcome(seed: int, patch: pytest.MonkeyPatch, *, short: bool) -> tuple[list[Any], int]:
    """What a random client is answered, and when; with the short path or without it, and how often it was taken."""
    random, taken = Random(seed), [0]
    real = Fetch.finds_nothing

    def noted(*arguments: Any) -> bool:
        found = short and real(*arguments)
        taken[0] += found
        return found

    seen: list[Any] = []
    with patch.context() as only_now:
        only_now.setattr(Fetch, "finds_nothing", noted)
        ready, end = Ready(random.choice([7, 12, 17])), 1
        for _ in range(60):
            match random.randrange(4):
                case 0:
                    ready.producer.send(produce("t", batch(b"r" * random.randrange(600))), 9)
                    end += 1
                case 1:
                    ready.node.advance(random.choice([1, 40, 200]))
                case _:
                    offset = random.choice([end, end, end, end - 1, end + 1])
                    one = wanted(offset=offset, max_bytes=random.choice([1, 1 << 20]))
                    partitions = random.choice([[one], [one], []])
                    ready.ask(
                        *partitions, max_wait_ms=random.choice([0, 50, 100]), min_bytes=random.choice([0, 1, 400])
                    )
            after_session_id = 14 if ready.version < 12 else 15  # which is random
            seen.append([bytes(frame[after_session_id:]) for frame in ready.client.answers])
            seen.append(ready.looked_at)
    return seen, taken[0]


@pytest.mark.parametrize("seed", range(10))
def test_a_random_reader_is_answered_the_same_at_the_same_times(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with_it, taken = outcome(seed, monkeypatch, short=True)
    assert taken, "or nothing has been compared"
    without_it, _ = outcome(seed, monkeypatch, short=False)
    assert with_it == without_it


def test_what_was_deleted_within_an_open_transaction_is_out_of_range(parked: list[bool]) -> None:
    """Readers of what is committed see up to where the transaction begins, which is before the log by now."""
    ready = Ready()
    partition = ready.node.broker.replicas.leader("t", 0, ready.node.now_ms)
    assert isinstance(partition, Partition)
    for _ in range(3):
        produced(ready.producer, "t", batch(b"open"))
    partition.log.producers.ongoing[1] = 7  # a producer's transaction begins there
    partition.log.advance_log_start(3, 3)
    ready.ask(wanted(offset=2), isolation_level=1)
    assert not parked[-1]
    assert partitions_of(ready.client.receive())[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
