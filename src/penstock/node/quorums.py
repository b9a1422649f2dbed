"""Finds the quorum that a request is meant for: the one that keeps its log in the topic that the request names.

Fetch, FetchSnapshot, Vote, BeginQuorumEpoch, EndQuorumEpoch and DescribeQuorum name it, newer Fetch versions by id. A
request that names no quorum's topic goes to the metadata quorum, which refuses it as Kafka does; so do the changes of
voters (KIP-853), which name no topic at all.

This is routing alone. The node ticks the metadata quorum and takes its disk operations itself (`Broker.start`,
`Broker.take_effects`); another quorum needs its own duty there, and its own calls (`penstock.node.quorum_calls`).
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
        """Takes a request of another member, and answers it now or later. One about another topic is refused."""

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
        """The quorum that has to answer a request."""
        name, topic_id = topic_of(request)
        return self._by_topic.get(name or topic_id) or self._by_topic[METADATA.name]
