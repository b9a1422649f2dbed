"""Incremental fetch sessions (KIP-227): what is sent, what is looked at, and when a session cannot be used."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import Client, Node
from support.requests import batch, fetch, partitions_of, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.protocol.message import ZERO_UUID
from penstock.replication.fetch_session import EVICTION_MS, Subscription
from penstock.replication.fetch_session import Session as CachedSession


@pytest.fixture
def node() -> Node:
    made = Node()
    made.create_topic("t", partitions=4)
    return made


class Session:
    """A client's session on topic `t`."""

    def __init__(self, client: Client, *partitions: Any, version: int = 12, topic: Any = "t") -> None:
        self.client = client
        self.version = version
        self.topic = topic
        self.id = 0
        self.epoch = 0
        self.first = self.next(*partitions)

    def next(self, *partitions: Any, forget: tuple[int, ...] = (), **fields: Any) -> Any:
        request = fetch(self.topic, *partitions, forget=forget, session_id=self.id, session_epoch=self.epoch, **fields)
        response = self.client.ask(request, self.version)
        if response.error_code == 0:
            self.id = response.session_id
            self.epoch += 1
        return response


def test_the_first_answer_names_all_and_the_next_only_what_changed(node: Node) -> None:
    client = node.connect()
    session = Session(client, *(wanted(index) for index in range(4)))
    assert session.id != 0
    assert sorted(partitions_of(session.first)) == [0, 1, 2, 3]
    assert session.next().responses == []
    produced(client, "t", batch(b"new"), partition=2)
    assert {i: values_of(d) for i, d in partitions_of(session.next()).items()} == {2: [b"new"]}


def test_data_is_sent_again_until_the_client_has_moved_on(node: Node) -> None:
    client = node.connect()
    session = Session(client, wanted(0), wanted(1))
    produced(client, "t", batch(b"a"))
    for _ in range(2):
        assert values_of(partitions_of(session.next())[0]) == [b"a"]
    assert session.next(wanted(0, offset=1)).responses == []


def test_a_fetch_with_1_of_10000_active_looks_at_1() -> None:
    node = Node()
    node.create_topic("t", partitions=5_000)
    node.add_partitions("t", 10_000)
    client = node.connect()
    session = Session(client, *(wanted(index) for index in range(10_000)))
    assert len(partitions_of(session.first)) == 10_000
    session.next()
    produced(client, "t", batch(b"a"), partition=4321)
    before = node.broker.fetches.looked_at
    assert {i: values_of(d) for i, d in partitions_of(session.next()).items()} == {4321: [b"a"]}
    assert node.broker.fetches.looked_at - before == 1
    session.next(wanted(4321, offset=1))
    before = node.broker.fetches.looked_at
    assert session.next().responses == []
    assert node.broker.fetches.looked_at == before


def test_partitions_with_data_take_turns_when_the_limit_is_small(node: Node) -> None:
    client = node.connect()
    size = len(batch(b"a"))
    session = Session(client, *(wanted(index) for index in range(3)))
    for index in range(3):
        for _ in range(3):
            produced(client, "t", batch(b"a"), partition=index)
    offsets = [0, 0, 0]
    order = []
    moved: list[Any] = []
    for _ in range(9):
        found = {i: values_of(d) for i, d in partitions_of(session.next(*moved, max_bytes=size)).items() if d.records}
        ((index, values),) = found.items()
        offsets[index] += len(values)
        order.append(index)
        moved = [wanted(index, offset=offsets[index])]
    assert offsets == [3, 3, 3]
    assert all(len(set(order[start : start + 3])) == 3 for start in (0, 3, 6)), order


def test_a_long_poll_on_a_session_is_ended_by_any_of_its_partitions(node: Node) -> None:
    client, producer = node.connect(), node.connect()
    session = Session(client, *(wanted(index) for index in range(4)))
    client.send(fetch("t", session_id=session.id, session_epoch=1, min_bytes=1, max_wait_ms=500), 12)
    assert not client.answers
    produced(producer, "t", batch(b"x"), partition=3)
    assert {i: values_of(d) for i, d in partitions_of(client.receive()).items()} == {3: [b"x"]}


def test_forgotten_partitions_are_not_sent_and_an_empty_session_ends(node: Node) -> None:
    client = node.connect()
    session = Session(client, wanted(0), wanted(1))
    produced(client, "t", batch(b"a"), partition=0)
    produced(client, "t", batch(b"b"), partition=1)
    assert list(partitions_of(session.next(forget=(0,)))) == [1]
    assert session.next(forget=(1,)).session_id == 0
    assert len(node.broker.fetches.sessions) == 0


def test_partitions_can_be_added(node: Node) -> None:
    client = node.connect()
    session = Session(client, wanted(0))
    assert list(partitions_of(session.next(wanted(3)))) == [3]


def test_a_moved_log_start_is_told(node: Node) -> None:
    client = node.connect()
    session = Session(client, wanted(0), wanted(1))
    produced(client, "t", batch(b"a"))
    session.next()
    session.next(wanted(0, offset=1))
    partition = node.broker.replicas.leader("t", 0, node.now_ms)
    partition.delete_records(1, node.now_ms)  # type: ignore[union-attr]
    node.run()
    told = partitions_of(session.next())
    assert {index: data.log_start_offset for index, data in told.items()} == {0: 1}


def test_errors_are_sent_each_time(node: Node) -> None:
    client = node.connect()
    session = Session(client, wanted(0), wanted(9))
    for _ in range(2):
        assert {i: d.error_code for i, d in partitions_of(session.next()).items()} == {
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }


def test_session_errors(node: Node) -> None:
    client = node.connect()
    session = Session(client, wanted(0))

    def error(session_id: int, epoch: int, version: int = 12) -> int:
        code: int = client.ask(fetch("t", session_id=session_id, session_epoch=epoch), version).error_code
        return code

    assert error(session.id + 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert error(session.id, 7) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert error(session.id, 1, version=13) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert error(session.id, 1) == 0


def test_a_final_fetch_ends_the_session(node: Node) -> None:
    client = node.connect()
    session = Session(client, wanted(0))
    response = client.ask(fetch("t", wanted(1), session_id=session.id, session_epoch=-1), 12)
    assert (response.session_id, list(partitions_of(response))) == (0, [1])
    assert len(node.broker.fetches.sessions) == 0
    assert not node.broker.replicas.leader("t", 0, 0).subscriptions  # type: ignore[union-attr]


def test_the_next_fetch_supersedes_one_that_waits(node: Node) -> None:
    client = node.connect()
    session = Session(client, wanted(0))
    client.send(fetch("t", session_id=session.id, session_epoch=1, min_bytes=1, max_wait_ms=500), 12)
    client.send(fetch("t", session_id=session.id, session_epoch=2), 12)
    assert client.receive().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.receive().error_code == 0


def test_sessions_by_topic_id_follow_a_recreated_topic(node: Node) -> None:
    client = node.connect()
    topic_id = node.broker.image.topics_by_name["t"].id
    session = Session(client, wanted(0), version=13, topic=topic_id)
    node.delete_topic("t")
    assert partitions_of(session.next())[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    node.create_topic("t")
    assert partitions_of(session.next())[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_session_that_nobody_uses_any_more_costs_an_append_nothing(node: Node) -> None:
    dead, alive = Session(node.connect(), wanted(0)), Session(node.connect(), wanted(0))
    partition = node.broker.replicas.in_use("t", 0)
    assert partition is not None
    assert len(partition.subscriptions) == 2
    node.advance(EVICTION_MS)
    alive.next()
    node.advance(1)
    client = node.connect()
    produced(client, "t", batch(b"a"))
    assert [each.session.id for each in partition.subscriptions.values()] == [alive.id]
    produced(client, "t", batch(b"b"))
    assert values_of(partitions_of(dead.next())[0]) == [b"a", b"b"], "it was not dead after all"
    assert len(partition.subscriptions) == 2
    dead.next(wanted(0, offset=2))
    produced(client, "t", batch(b"c"))
    assert values_of(partitions_of(dead.next())[0]) == [b"c"]


def test_sessions_are_at_most_as_many_as_the_cache_has_slots() -> None:
    node = Node(max_incremental_fetch_session_cache_slots=2)
    node.create_topic("t", partitions=4)
    client = node.connect()
    first = Session(client, wanted(0))
    second = Session(client, wanted(0), wanted(1))
    assert first.id != 0
    assert second.id != 0
    assert Session(client, wanted(0), wanted(1), wanted(2)).id == 0, "both are young"
    node.advance(121_000)
    second.next()
    third = Session(client, wanted(0))
    assert third.id != 0, "the first one was idle for two minutes"
    assert first.next().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert second.next().error_code == 0
    assert node.broker.fetches.sessions.evictions == 1


def test_sessions_have_so_many_partitions_in_all_and_the_largest_goes(node: Node) -> None:
    node.broker.fetches.sessions.partitions_max = 6
    small = Session(node.connect(), wanted(0), wanted(1))
    large = Session(node.connect(), *(wanted(index) for index in range(4)))
    assert node.broker.fetches.sessions.partition_count == 6
    assert large.next(wanted(4)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert small.next().error_code == 0
    assert Session(node.connect(), *(wanted(index) for index in range(4))).id != 0
    assert node.broker.fetches.sessions.partition_count == 6


def test_a_session_that_names_partitions_without_end_loses_its_place_alone(node: Node) -> None:
    node.broker.fetches.sessions.partitions_max = 10
    other = Session(node.connect(), *(wanted(index) for index in range(4)))
    greedy = Session(node.connect(), wanted(0))
    added = 1
    while (answer := greedy.next(wanted(added))).error_code == 0:
        added += 1
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert added == 6
    assert other.next().error_code == 0
    assert node.broker.fetches.sessions.partition_count == 4


def test_who_asks_for_too_many_partitions_is_answered_without_a_session(node: Node) -> None:
    node.broker.fetches.sessions.partitions_max = 10
    greedy = Session(node.connect(), *(wanted(index) for index in range(1_000)))
    assert greedy.id == 0
    codes = {index: data.error_code for index, data in partitions_of(greedy.first).items()}
    assert [codes[index] for index in range(4)] == [0] * 4
    assert set(list(codes.values())[4:]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert node.broker.fetches.sessions.partition_count == 0


def test_the_partitions_of_a_followers_session_stay_when_consumers_have_too_many(node: Node) -> None:
    sessions = node.broker.fetches.sessions
    sessions.partitions_max = 6
    follower = sessions_of(4, privileged=True, now_ms=node.now_ms)
    assert sessions.add(follower, node.now_ms)
    consumer = sessions_of(3, privileged=False, now_ms=node.now_ms)
    assert not sessions.add(consumer, node.now_ms)
    assert (follower.counted, consumer.id, len(sessions)) == (4, 0, 1)


def sessions_of(partitions: int, *, privileged: bool, now_ms: int) -> Any:
    """A session, not in the cache yet, that has so many partitions."""
    made = CachedSession(uses_topic_ids=False, privileged=privileged, now_ms=now_ms)
    for index in range(partitions):
        made.partitions["t", index] = Subscription(made, ("t", index), "t", ZERO_UUID, index)
    return made
