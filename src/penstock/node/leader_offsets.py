"""Where a leader's log begins and ends, for followers whose offset it does not have (ListOffsets, as Kafka's).

The end is asked for first and the start after it, of all partitions of a leader that want to know, over a connection of
its own: the fetcher's would have these requests wait behind a long poll.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.features import METADATA_VERSIONS
from penstock.node.outgoing import Peer
from penstock.protocol.message import Message
from penstock.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.protocol.messages.list_offsets_response import ListOffsetsResponse
from penstock.replication.follower import Follower

if TYPE_CHECKING:
    from penstock.node.broker import Broker

LATEST = -1
EARLIEST = -2
CHANNEL = "replication offsets"

Partitions = dict[tuple[str, int], Follower]
Offsets = dict[tuple[str, int], tuple[ErrorCode, int]]


class LeaderOffsets:
    """Asks leaders. `peer` gives a broker's address."""

    def __init__(self, node: Broker, peer: Callable[[int], Peer | None]) -> None:
        self._node = node
        self._peer = peer
        self._wanted: dict[int, Partitions] = {}

    def want(self, follower: Follower) -> None:
        """A follower in state ASKING."""
        self._wanted.setdefault(follower.leader_id, {})[(follower.topic, follower.index)] = follower

    def send_due(self, now_ms: int) -> None:
        """Asks for all who want to know since the last time."""
        wanted, self._wanted = self._wanted, {}
        for leader_id, partitions in wanted.items():
            self._ask_both(leader_id, partitions, now_ms)

    def _ask_both(self, leader_id: int, partitions: Partitions, now_ms: int) -> None:
        epochs = {key: follower.leader_epoch for key, follower in partitions.items()}

        def end_known(ends: Offsets, at_ms: int) -> None:
            self._ask(leader_id, partitions, EARLIEST, lambda starts, then_ms: both_known(starts, ends, then_ms), at_ms)

        def both_known(starts: Offsets, ends: Offsets, at_ms: int) -> None:
            for key, follower in partitions.items():
                if follower.leader_epoch != epochs[key] or follower.leader_id != leader_id:
                    continue  # it asks again under its new leader
                start, end = starts[key], ends[key]
                if start[0] or end[0]:
                    follower.leader_offsets_failed(start[0] or end[0], at_ms)
                else:
                    follower.leader_offsets(start[1], end[1], at_ms)

        self._ask(leader_id, partitions, LATEST, end_known, now_ms)

    def _ask(
        self,
        leader_id: int,
        partitions: Partitions,
        timestamp: int,
        known: Callable[[Offsets, int], None],
        now_ms: int,
    ) -> None:
        node = self._node
        offsets: Offsets = dict.fromkeys(partitions, (ErrorCode.LEADER_NOT_AVAILABLE, -1))
        peer = self._peer(leader_id)
        if peer is None:
            node.timers.at(now_ms, lambda at_ms: known(offsets, at_ms))
            return
        topics: dict[str, ListOffsetsTopic] = {}
        for (topic, index), follower in partitions.items():
            entry = topics.setdefault(topic, ListOffsetsTopic(name=topic))
            entry.partitions.append(
                ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=follower.leader_epoch, timestamp=timestamp
                )
            )

        def answered(answer: Message | None, reason: str | None, at_ms: int) -> None:
            if answer is not None:
                assert isinstance(answer, ListOffsetsResponse)
                for topic in answer.topics:
                    for found in topic.partitions:
                        if (topic.name, found.partition_index) in offsets:
                            offsets[(topic.name, found.partition_index)] = (ErrorCode(found.error_code), found.offset)
            known(offsets, at_ms)

        version = METADATA_VERSIONS[node.image.metadata_version or max(METADATA_VERSIONS)].list_offsets_request
        node.outgoing.call(
            peer,
            ListOffsetsRequest(replica_id=node.node_id, topics=list(topics.values())),
            timeout_ms=node.settings.replica_socket_timeout_ms,
            done=answered,
            now_ms=now_ms,
            version=version,
            channel=CHANNEL,
        )
