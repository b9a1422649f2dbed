"""Where a leader's log begins and ends, for followers whose offset is outside of it (ListOffsets, as in Kafka).

The end is asked for first and the start after it, for all such partitions of a leader together, over a separate
connection: on the fetcher's these requests would wait behind a long poll.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import ErrorCode
from penstock.node.outgoing import Outgoing
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.message import Message
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.list_offsets_response import ListOffsetsResponse
from penstock.replication.follower import Follower

LATEST = -1
EARLIEST = -2
CHANNEL = "replication offsets"

Partitions = dict[tuple[str, int], Follower]
Offsets = dict[tuple[str, int], tuple[ErrorCode, int]]


class LeaderOffsets:
    """Asks leaders where their logs begin and end."""

    def __init__(self, state: NodeState, scheduler: Scheduler, outgoing: Outgoing) -> None:
        self._state = state
        self._scheduler = scheduler
        self._outgoing = outgoing
        self._wanted: dict[int, Partitions] = {}

    def want(self, follower: Follower) -> None:
        """Adds a follower in state ASKING."""
        self._wanted.setdefault(follower.leader_id, {})[(follower.topic, follower.index)] = follower

    def send_due(self, now_ms: int) -> None:
        """Sends the requests for all followers that were added since the last call."""
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
        self, leader_id: int, partitions: Partitions, timestamp: int, known: Callable[[Offsets, int], None], now_ms: int
    ) -> None:
        offsets: Offsets = dict.fromkeys(partitions, (ErrorCode.LEADER_NOT_AVAILABLE, -1))
        peer = self._state.peer(leader_id)
        if peer is None:
            self._scheduler.timers.at(now_ms, lambda at_ms: known(offsets, at_ms))
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

        version = self._state.version.list_offsets_request
        self._outgoing.call(
            peer,
            ListOffsetsRequest(replica_id=self._state.node_id, topics=list(topics.values())),
            timeout_ms=self._state.settings.replica_socket_timeout_ms,
            done=answered,
            now_ms=now_ms,
            version=version,
            channel=CHANNEL,
        )
