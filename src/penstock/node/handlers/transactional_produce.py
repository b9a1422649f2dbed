"""The batches of a produce request that begin a transaction in their partitions, until they may be appended (KIP-890).

A batch that goes on with an open transaction is appended at once, like any other. For one that begins a transaction a
guard is taken of its partition's log, and the transaction's coordinator asked (`node/verification.py`): whether the
partition is part of the transaction, or to add it (Produce from version 12 on). All partitions of the request are asked
about at once; then each batch is appended, or answered with the error. The log refuses it if the guard has become void
meanwhile: then the coordinator's word may have been about a transaction that has ended.

While the transaction before is still being completed the coordinator says CONCURRENT_TRANSACTIONS; where it is to add
partitions it is asked again, with new guards, for add.partitions.to.txn.retry.backoff.max.ms: as soon as that
transaction is complete, if this node coordinates it, and after add.partitions.to.txn.retry.backoff.ms at the latest.
Errors that the next try may not meet are NOT_ENOUGH_REPLICAS to producers, which all of them repeat. Source:
ReplicaManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import ErrorCode, RequestError
from penstock.log.manager import NotOpen
from penstock.log.producer_state import NOT_VERIFIED, VerificationGuard
from penstock.node.timers import Timer
from penstock.node.transactions import ending_of
from penstock.node.verification import Errors, Operation
from penstock.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    PRODUCER,
    PRODUCER_POSITION,
    TRANSACTIONAL_FLAG,
)
from penstock.replication.partition import Partition

if TYPE_CHECKING:
    from penstock.coordinator.transaction.state import Ending
    from penstock.log.log import Log
    from penstock.node.broker import Broker
    from penstock.protocol.messages.produce_request import TopicProduceData
    from penstock.protocol.messages.produce_response import PartitionProduceResponse
    from penstock.records.batch import BatchHeader, WritableBuffer

LOW_BYTE_OF_ATTRIBUTES = ATTRIBUTES_POSITION + 1
REPEATABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of coordinators after which a producer should send its batch again, and which old producers take for fatal."""


def transactional_producers(topics: Iterable[TopicProduceData]) -> set[tuple[int, int]] | None:
    """The producers (id, epoch) of a request's transactional batches, of which only the first of each partition counts;
    None if it has no such batch.
    """
    found: set[tuple[int, int]] | None = None
    for topic in topics:
        for data in topic.partition_data:
            records: Any = data.records
            if (
                records is None
                or len(records) < HEADER_BYTES
                or not records[LOW_BYTE_OF_ATTRIBUTES] & TRANSACTIONAL_FLAG
            ):
                continue  # as nearly all
            if records[MAGIC_POSITION] == MAGIC:
                producer_id, producer_epoch, _ = PRODUCER.unpack_from(records, PRODUCER_POSITION)
                found = set() if found is None else found
                if producer_id >= 0:
                    found.add((producer_id, producer_epoch))
    return found


@dataclass(slots=True, eq=False)
class Beginning:
    """A batch that begins a transaction in its partition. `guard` was taken in this object of the log and this leader
    epoch, and means nothing in another.
    """

    partition: Partition
    slot: PartitionProduceResponse
    records: WritableBuffer
    header: BatchHeader
    guard: VerificationGuard
    log: Log
    leader_epoch: int


class ProduceUnderWay(Protocol):
    """The produce request, which appends the batches and has the answers."""

    node: Broker

    def append_batch(
        self,
        partition: Partition,
        slot: PartitionProduceResponse,
        records: WritableBuffer,
        header: BatchHeader,
        now_ms: int,
        *,
        guard: VerificationGuard | None = None,
    ) -> None:
        """Appends a batch that nothing has to be asked about any more."""

    def fail(self, slot: PartitionProduceResponse, code: ErrorCode, topic: str, now_ms: int) -> None:
        """Answers one partition with an error."""

    def verified(self, now_ms: int) -> None:
        """Nothing waits for the coordinator any more."""

    def broke(self, error: Exception, now_ms: int) -> None:
        """A bug ends the request."""


class Verifying:
    """See the module's head. `waiting`: the batches that wait for the coordinator."""

    __slots__ = ("_began_ms", "_closed", "_operation", "_produce", "_transactional_id", "waiting")

    def __init__(self, produce: ProduceUnderWay, transactional_id: str, version: int) -> None:
        self._produce = produce
        self._transactional_id = transactional_id
        self._operation = Operation.of_produce(version)
        self._began_ms = 0
        self._closed: NotOpen | None = None
        self.waiting: list[Beginning] = []

    def append(
        self,
        partition: Partition,
        slot: PartitionProduceResponse,
        records: WritableBuffer,
        header: BatchHeader,
        now_ms: int,
    ) -> None:
        """Appends a batch of a transaction, now or once the coordinator has been asked."""
        produce = self._produce
        adds = self._operation is Operation.ADD_PARTITION
        if not (adds or produce.node.settings.transaction_partition_verification_enable):
            produce.append_batch(partition, slot, records, header, now_ms, guard=NOT_VERIFIED)
            return
        log = partition.log
        try:
            guard = log.producers.guard(header.producer_id, header.producer_epoch, header.base_sequence, adds=adds)
        except RequestError as error:
            self._refuse(partition, slot, error.code, error.message, now_ms)
            return
        if guard is None:
            produce.append_batch(partition, slot, records, header, now_ms)
        else:
            epoch = partition.leader_epoch
            self.waiting.append(Beginning(partition, slot, records, header, guard, log, epoch))

    def begin(self, now_ms: int) -> None:
        """Asks the coordinator for the first time about the batches that wait."""
        self._began_ms = now_ms
        ending = self._ending() if self._operation is Operation.ADD_PARTITION else None
        if ending is not None and ending.remaining:  # what would be answered CONCURRENT_TRANSACTIONS
            self._wait(now_ms + self._produce.node.settings.add_partitions_to_txn_retry_backoff_ms)
        else:
            self._ask(now_ms)

    def _ending(self) -> Ending | None:
        return ending_of(self._produce.node.coordinators.transactions, self._transactional_id)

    def _ask(self, now_ms: int) -> None:
        partitions: dict[str, list[int]] = {}
        for each in self.waiting:
            partitions.setdefault(each.partition.topic, []).append(each.partition.index)
        header = self.waiting[0].header  # all are of the same producer
        self._produce.node.verifier.verify(
            self._transactional_id,
            header.producer_id,
            header.producer_epoch,
            partitions,
            operation=self._operation,
            done=self._answered,
            now_ms=now_ms,
        )

    def _answered(self, errors: Errors, now_ms: int) -> None:
        """The coordinator has been asked: appends the batches, answers errors, or asks again."""
        settings = self._produce.node.settings
        tries_ms = min(settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms)
        if (
            self._operation is Operation.ADD_PARTITION
            and now_ms - self._began_ms < tries_ms
            and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        ):
            self._wait(now_ms + settings.add_partitions_to_txn_retry_backoff_ms)
        else:
            self._with_each(partial(self._end, errors), now_ms)

    def _wait(self, until_ms: int) -> None:
        """Begins again then, or as soon as the transaction before is complete, if this node comes to know."""
        node = self._produce.node
        timer = node.scheduler.timers.at(until_ms, self._take_up)
        ending = self._ending()
        if ending is not None:
            ending.when_finished(lambda: node.scheduler.do(self._sooner(timer)))

    def _sooner(self, timer: Timer) -> Iterator[None]:
        if timer.callback is not None:
            self._produce.node.scheduler.timers.cancel(timer)
            self._take_up(self._produce.node.scheduler.now_ms)
        yield from ()

    def _take_up(self, now_ms: int) -> None:
        """Begins again with all batches that wait: takes new guards, and asks."""
        self._closed = None
        self._with_each(self._again, now_ms)

    def _with_each(self, do: Callable[[Beginning, int], None], now_ms: int) -> None:
        """Does something with each batch that waits, and asks about those that still wait then."""
        produce = self._produce
        batches, self.waiting = self.waiting, []
        try:
            for each in batches:
                do(each, now_ms)
            if self._closed is not None and self.waiting:
                produce.node.scheduler.when_open(self._closed, self._take_up)
            elif self.waiting:
                self._ask(now_ms)
            else:
                produce.verified(now_ms)
        except Exception as error:
            self.waiting = []
            produce.broke(error, now_ms)
            produce.verified(now_ms)

    def _end(self, errors: Errors, each: Beginning, now_ms: int) -> None:
        """Appends a batch whose transaction goes on, or answers the coordinator's error."""
        code = errors.get((each.partition.topic, each.partition.index))
        if code is not None:
            self._refuse(each.partition, each.slot, *self._for_producer(code), now_ms)
        elif self._is_led(each, now_ms):
            if each.partition.log is each.log:
                append = self._produce.append_batch
                append(each.partition, each.slot, each.records, each.header, now_ms, guard=each.guard)
            else:
                self.append(each.partition, each.slot, each.records, each.header, now_ms)

    def _again(self, each: Beginning, now_ms: int) -> None:
        if self._is_led(each, now_ms):
            self.append(each.partition, each.slot, each.records, each.header, now_ms)

    def _is_led(self, each: Beginning, now_ms: int) -> bool:
        """Whether the partition is still led in the same epoch; answers the error if not. If its log was closed since,
        as the least recently used, the batch waits on.
        """
        partition = each.partition
        try:
            found = self._produce.node.replicas.leader(partition.topic, partition.index, now_ms)
        except NotOpen as missing:
            self._closed = missing
            self.waiting.append(each)
            return False
        if found is partition and partition.leader_epoch == each.leader_epoch:
            return True
        code = found if isinstance(found, ErrorCode) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._refuse(partition, each.slot, code, "the leader changed while the transaction was verified", now_ms)
        return False

    def _refuse(
        self, partition: Partition, slot: PartitionProduceResponse, code: ErrorCode, message: str, now_ms: int
    ) -> None:
        slot.error_message = message or None
        counters = self._produce.node.telemetry.topics.of(partition.topic)
        counters.produces += 1
        counters.failed_produces += 1
        self._produce.fail(slot, code, partition.topic, now_ms)

    def _for_producer(self, code: ErrorCode) -> tuple[ErrorCode, str]:
        """A coordinator's error as a producer is told it, with the message."""
        concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS and self._operation is not Operation.ADD_PARTITION
        if code in REPEATABLE or concurrent:
            return ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction could not be verified: {code.name}"
        if code is ErrorCode.INVALID_TXN_STATE:
            return code, "the partition is not part of the transaction"
        return code, ""
