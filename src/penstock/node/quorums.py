"""Which quorum a request means: the one that keeps its log in the topic that the request names.

Fetch, FetchSnapshot, Vote, BeginQuorumEpoch, EndQuorumEpoch and DescribeQuorum name it, a newer Fetch by its id. What
names no quorum's topic is for the metadata quorum, which refuses it as Kafka does; so are the changes of voters
(KIP-853), which name no topic at all.
"""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from penstock.node.request import Request
from penstock.protocol.message import Message
from penstock.raft.messages import topic_of
from penstock.raft.replica import QuorumDescription
from penstock.raft.topic import METADATA, QuorumTopic


class QuorumMember(Protocol):
    """A quorum as this node takes part in it."""

    @property
    def topic(self) -> QuorumTopic: ...

    def handle(self, request: Request[Any], now_ms: int) -> None:
        """A request of another member: it is answered now or later. One about another topic is refused."""

    def describe(self) -> QuorumDescription: ...


class Quorums:
    """All quorums of a node; the metadata quorum is the first to be added."""

    def __init__(self) -> None:
        self._by_topic: dict[str | UUID, QuorumMember] = {}

    def add(self, quorum: QuorumMember) -> None:
        """Adds a quorum that this node takes part in."""
        for each in quorum.topic:
            assert each not in self._by_topic, "a topic is one quorum's"
            self._by_topic[each] = quorum

    def meant_by(self, request: Message) -> QuorumMember:
        """The quorum that answers a request."""
        name, topic_id = topic_of(request)
        return self._by_topic.get(name or topic_id) or self._by_topic[METADATA.name]
