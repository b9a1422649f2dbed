"""Long work is done in steps, between which others are served, and nobody sees half of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.broker import Node
from support.requests import batch, fetch, partitions_of, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.metadata import topics
from penstock.node.handlers.metadata import answer_wide
from penstock.node.limits import CHANGES_PER_STEP, METADATA_ANSWER_KEPT_TOPICS_MAX, METADATA_PARTITIONS_PER_STEP
from penstock.node.publishing import REPLICAS_PER_STEP
from penstock.node.steps import Pace
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.security.authorizer import ANONYMOUS

MANY = 2 * REPLICAS_PER_STEP + 1


def begin_deletion(node: Node, name: str) -> None:
    """Deletes a topic and stops after the first step of what follows from it."""
    controller = node.broker.controller
    found = node.broker.image.topics_by_name.get(name)
    assert found is not None
    records = topics.delete_topics(controller.state, [found.id]).records
    controller.append(records, lambda now_ms: None, lambda code, now_ms: None, node.now_ms)
    node.run()


def replicas_of(node: Node, name: str) -> int:
    return sum(replica.topic == name for replica in node.broker.logs.table.replicas())


def test_logs_of_a_large_deleted_topic_go_in_steps_and_are_led_no_more_at_once() -> None:
    node = Node()
    node.create_topic("t", partitions=MANY)
    client = node.connect()
    assert produced(client, "t", batch(b"last"), partition=MANY - 1).error_code == 0
    begin_deletion(node, "t")
    assert replicas_of(node, "t") == MANY - REPLICAS_PER_STEP
    assert node.broker.replicas.in_use("t", MANY - 1) is None
    node.settle()
    assert replicas_of(node, "t") == 0


def test_a_topic_that_is_made_again_at_once_begins_empty() -> None:
    node = Node()
    node.create_topic("t", partitions=MANY)
    client = node.connect()
    assert produced(client, "t", batch(b"old"), partition=MANY - 1).error_code == 0
    begin_deletion(node, "t")
    node.create_topic("t", partitions=MANY)
    assert produced(client, "t", batch(b"new"), partition=MANY - 1).error_code == 0
    found = partitions_of(client.ask(fetch("t", wanted(MANY - 1)), 12))
    assert values_of(found[MANY - 1]) == [b"new"]
    assert replicas_of(node, "t") == MANY
    names = [entry.name for entry in node.disks[0].list("")]
    assert not [name for name in names if name.endswith("-stray")]


@pytest.mark.parametrize("crash", [False, True])
def test_a_node_that_goes_down_meanwhile_has_no_deleted_topic_when_it_is_back(crash: bool) -> None:
    node = Node()
    node.create_topic("t", partitions=MANY)
    begin_deletion(node, "t")
    if crash:
        node.crash()
    else:
        node.stop()
        node.start()
    node.settle()
    assert replicas_of(node, "t") == 0
    names = [entry.name for entry in node.disks[0].list("")]
    assert crash or not [name for name in names if name.startswith("t-")]


def test_a_listing_of_all_topics_is_made_in_steps_and_is_of_one_moment() -> None:
    node = Node()
    for number in range(4):
        node.create_topic(f"t{number}", partitions=METADATA_PARTITIONS_PER_STEP)
    client = node.connect()
    frame = client.frame(MetadataRequest(topics=None), 12)
    node.broker.received(client.number, memoryview(frame), node.now_ms)
    node.run()
    assert not client.answers
    begin_deletion(node, "t3")
    node.settle()
    listed = client.receive()
    assert [topic.name for topic in listed.topics] == ["t0", "t1", "t2", "t3"]
    assert [len(topic.partitions) for topic in listed.topics] == [METADATA_PARTITIONS_PER_STEP] * 4
    again = client.ask(MetadataRequest(topics=None), 12)
    assert [topic.name for topic in again.topics] == ["t0", "t1", "t2"]


def test_an_answer_about_very_many_topics_is_made_in_steps_and_is_of_one_moment() -> None:
    node = Node()
    for number in range(4):
        node.create_topic(f"t{number}", partitions=METADATA_PARTITIONS_PER_STEP)
    names = [f"t{number}" for number in range(200)]
    body = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    connection = SimpleNamespace(principal=ANONYMOUS, address="127.0.0.1")
    request: Any = SimpleNamespace(body=body, version=12, listener="PLAINTEXT", connection=connection)
    steps = answer_wide(node.broker, request, names)
    next(steps)
    begin_deletion(node, "t3")
    assert "t3" not in node.broker.image.topics_by_name
    yielded = 1
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            response = ended.value
            break
        yielded += 1
    assert yielded > 4
    assert [topic.name for topic in response.topics] == names
    assert [len(topic.partitions) for topic in response.topics] == [METADATA_PARTITIONS_PER_STEP] * 4 + [0] * 196


@pytest.mark.parametrize("count", [CHANGES_PER_STEP + 50, METADATA_ANSWER_KEPT_TOPICS_MAX + 50])
def test_one_request_creates_so_many_topics_and_the_next_one_more(count: int) -> None:
    node = Node()
    client = node.connect()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(count)])
    for time in range(2):
        answer = client.ask(request, 12)
        assert len(answer.topics) == count
        known = sum(topic.error_code == ErrorCode.NONE for topic in answer.topics)
        assert known == len(node.broker.image.topics_by_name) == min(count, (time + 1) * CHANGES_PER_STEP)


def test_items_are_counted_in_pieces_as_one_by_one() -> None:
    apart, together = Pace(3), Pace(3)
    for count in (0, 1, 7, 2, 2, 6, 1):
        wanted = [mark for item in range(count) for mark in ((None, item) if apart.is_over() else (item,))]
        pieces = list(together.pieces(range(count)))
        assert [mark for some in pieces for mark in ((None,) if some is None else some)] == wanted
