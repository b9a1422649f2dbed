"""Who may have died, and what clients are told of what it leads."""

from __future__ import annotations

from support.broker import Node

from penstock.errors import ErrorCode
from penstock.metadata.limits import LOST_CONNECTION_GRACE_MS
from penstock.node.outgoing import Peer
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic


def test_partitions_of_a_leader_that_may_have_died_have_none_for_a_while() -> None:
    node = Node()
    node.create_topic("t", partitions=2)
    client = node.connect()
    named = MetadataRequest(topics=[MetadataRequestTopic(name="t")])

    def told(request: MetadataRequest) -> list[tuple[int, int]]:
        [topic] = client.ask(request, 12).topics
        return [(partition.leader_id, partition.error_code) for partition in topic.partitions]

    assert told(named) == [(1, ErrorCode.NONE)] * 2
    suspects, peer = node.broker.calls.suspects, Peer(1, "127.0.0.1", 9092, "PLAINTEXT")
    suspects.link_lost(peer, "raft fetch", "reset", node.now_ms)
    assert told(named) == [(1, ErrorCode.NONE)] * 2, "a controller may have stopped that is no broker"
    suspects.link_lost(peer, "replication 0", "reset", node.now_ms)
    assert told(named) == [(-1, ErrorCode.LEADER_NOT_AVAILABLE)] * 2
    assert told(MetadataRequest(topics=None)) == [(1, ErrorCode.NONE)] * 2, "a listing is no question for a leader"
    node.advance(LOST_CONNECTION_GRACE_MS + 1)
    assert told(named) == [(1, ErrorCode.NONE)] * 2
