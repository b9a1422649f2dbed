"""Brings proposed ISR changes to the controller (AlterPartition), and has lagging followers looked for: the ISR shrink.

All gathered proposals leave in one request, one request at a time; later ones wait for the next. Each answer goes to
its partition, which applies the change or rolls it back. A request without an answer, or refused as a whole (an
outdated broker epoch, another controller), is repeated after ALTER_PARTITION_RETRY_MS with the proposals that still
hold.

Followers that catch up are noticed when they fetch. Those that fall behind are looked for at intervals of half of
replica.lag.time.max.ms, as in Kafka, only in partitions that have a lagging follower, and only while there are any. The
decision is `replication/in_sync_replicas.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import ErrorCode
from penstock.node.limits import ALTER_PARTITION_RETRY_MS, ISR_CHANGES_PER_REQUEST_MAX, LAGGING_PER_STEP
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from penstock.protocol.messages.alter_partition_response import AlterPartitionResponse
from penstock.replication.in_sync_replicas import Proposal
from penstock.replication.partition import Partition

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.node.timers import TimerWheel

RECOVERED = 0
"""A leader from an unclean election has nothing to recover here, and says so with its first proposal (KIP-704)."""
Sent = dict[tuple["UUID", int], tuple[Partition, Proposal]]


class ToController(Protocol):
    """The way to the active controller: `answered(answer, now_ms)` is called once, with None if there was none."""

    def to_controller(
        self, message: Message | Callable[[], Message], answered: Callable[[Message | None, int], None], now_ms: int, /
    ) -> Any: ...


class IsrChanges:
    """The `IsrDriver` of a node. See the module's head. `broker_epoch` returns the epoch of this broker's registration.

    Attributes:
        lagging: led partitions whose followers are not all in sync and at the end, or were not at the last look.
        shrinks, expands, failures: proposals that the controller has accepted, and those that it refused.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        channel: ToController,
        timers: TimerWheel,
        lag_time_max_ms: int,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._timers = timers
        self._look_every_ms = lag_time_max_ms // 2
        self._proposed: dict[tuple[str, int], Partition] = {}
        self._waiting = False
        self._under_way = False
        self._watching = False
        self._to_look_at: list[tuple[str, int]] = []
        self.lagging: dict[tuple[str, int], Partition] = {}
        self.shrinks = 0
        self.expands = 0
        self.failures = 0

    def lags(self, partition: Partition, now_ms: int) -> None:
        if not self.lagging:
            self._watch(now_ms)
        self.lagging[(partition.topic, partition.index)] = partition

    def forget(self, partition: Partition) -> None:
        self.lagging.pop((partition.topic, partition.index), None)

    def accepted(self, proposal: Proposal) -> None:
        self.expands += bool(proposal.added)
        self.shrinks += bool(proposal.removed)

    def _watch(self, now_ms: int) -> None:
        if not self._watching:
            self._watching = True
            self._timers.at(now_ms + self._look_every_ms, self._check, duty=True)

    def _check(self, now_ms: int) -> None:
        self._watching = False
        self.look(now_ms)

    def look(self, now_ms: int) -> None:
        """Looks at all lagging partitions: the first now, the rest in later turns."""
        under_way = bool(self._to_look_at)
        self._to_look_at = list(self.lagging)
        if not under_way:
            self._look_at_some(now_ms)

    def _look_at_some(self, now_ms: int) -> None:
        some = self._to_look_at[:LAGGING_PER_STEP]
        del self._to_look_at[:LAGGING_PER_STEP]
        for key in some:
            partition = self.lagging.get(key)
            if partition is not None and not partition.look_after_followers(now_ms):
                self.lagging.pop(key, None)
        if self._to_look_at:
            self._timers.at(now_ms + 1, self._look_at_some, duty=True)
        elif self.lagging:
            self._watch(now_ms)

    def propose(self, partition: Partition, now_ms: int) -> None:
        self._proposed[(partition.topic, partition.index)] = partition
        self._send_after(0, now_ms)

    def _send_after(self, delay_ms: int, now_ms: int) -> None:
        """Sends at the next tick at the earliest, so that all proposals of one turn go together."""
        if not self._waiting and not self._under_way:
            self._waiting = True
            self._timers.at(now_ms + delay_ms, self._send, duty=True)

    def _send(self, now_ms: int) -> None:
        self._waiting = False
        sent: Sent = {}
        for key in list(islice(self._proposed, ISR_CHANGES_PER_REQUEST_MAX)):
            partition = self._proposed.pop(key)
            if partition.isr.proposal is not None:
                sent[(partition.topic_id, partition.index)] = (partition, partition.isr.proposal)
        if not sent and self._proposed:
            self._send_after(0, now_ms)
        if sent:
            self._under_way = True
            self._channel.to_controller(
                lambda: self._request(sent), lambda answer, at_ms: self._answered(sent, answer, at_ms), now_ms
            )

    def _request(self, sent: Sent) -> AlterPartitionRequest:
        topics: dict[UUID, TopicData] = {}
        for (topic_id, index), (_, proposal) in sent.items():
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id))
            topic.partitions.append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    leader_recovery_state=RECOVERED,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=each, broker_epoch=epoch) for each, epoch in proposal.isr
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _answered(self, sent: Sent, answer: Message | None, now_ms: int) -> None:
        self._under_way = False
        assert answer is None or isinstance(answer, AlterPartitionResponse)
        if answer is not None and not answer.error_code:
            for topic in answer.topics:
                for data in topic.partitions:
                    found = sent.pop((topic.topic_id, data.partition_index), None)
                    if found is not None:
                        partition, proposal = found
                        code = ErrorCode(data.error_code)
                        self.failures += code is not ErrorCode.NONE
                        if partition.alter_answered(proposal, code or data, now_ms):
                            sent[(topic.topic_id, data.partition_index)] = found
        else:
            self.failures += len(sent)
        again = False
        for partition, proposal in sent.values():
            if partition.isr.proposal is proposal:
                self._proposed[(partition.topic, partition.index)] = partition
                again = True
        if self._proposed:
            self._send_after(ALTER_PARTITION_RETRY_MS if again else 0, now_ms)
