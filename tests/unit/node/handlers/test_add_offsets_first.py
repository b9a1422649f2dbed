"""AddOffsetsToTxn before there is any group: `__consumer_offsets` is made, since a partition that is not known gets no
marker."""

from __future__ import annotations

from support.broker import Node
from support.transaction_requests import ALONE, add_offsets, begin, coordinate, described

from penstock.errors import ErrorCode
from penstock.node.groups import OFFSETS_TOPIC


def test_the_topic_of_offsets_exists_before_its_partition_is_in_a_transaction() -> None:
    node = Node(**ALONE)
    coordinate(node)
    client = node.connect()
    assert OFFSETS_TOPIC not in node.broker.image.topics_by_name
    assert client.ask(add_offsets(begin(client)), 3).error_code == ErrorCode.NONE
    assert OFFSETS_TOPIC in node.broker.image.topics_by_name
    assert [topic.topic for topic in described(client).topics] == [OFFSETS_TOPIC]


def test_without_the_topic_the_client_comes_again_and_no_transaction_begins() -> None:
    node = Node(**{**ALONE, "offsets_topic_replication_factor": 3})
    coordinate(node)
    client = node.connect()
    assert client.ask(add_offsets(begin(client)), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert described(client).transaction_state == "Empty"
