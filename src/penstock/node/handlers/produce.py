"""Produce (key 0): one record batch a partition, appended and acknowledged.

Versions 3-13, flexible from 9; 0-2 are advertised, as Kafka does for the sake of librdkafka, and refused. zstd from
v7; record errors and an error message from v8; the current leader of a refused partition from v10; topic ids instead
of names from v13.

acks=1 answers when the write has completed, acks=all when the high watermark has passed it, acks=0 never: an error
then closes the connection, so that the producer asks for new metadata. A batch that was appended before is answered
with its first offsets, as soon as the first one would have been. Transactional batches are refused: there
are no transactions yet.

A request appends all its partitions before anything of the connection's next request executes, also when a batch has
to be walked or recompressed first (Deferred).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.errors import ErrorCode, PenstockError
from penstock.log.manager import NotOpen
from penstock.node.effects import Run
from penstock.node.handlers.leaders import current_leader, endpoints_of
from penstock.node.request import LATER, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
from penstock.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.records.validation import only_batch
from penstock.replication.partition import ACKS_ALL, Deferred, Partition, Prepared, Rejected
from penstock.replication.rewrite import RewriteOperation
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.log.disk import Operation as DiskOperation
    from penstock.node.broker import Broker
    from penstock.node.timers import Timer
    from penstock.records.batch import BatchHeader

AUTHORIZE = Authorize(Operation.WRITE, ResourceType.TOPIC)

TOPIC_IDS_FROM = 13
LEADERS_FROM = 10
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
ADMIN_CLIENT_ID = "__admin_client"
"""The client id by which Kafka lets its own tools write to internal topics."""
NO_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors whose answer says -1 for the log start offset."""

Target = tuple[PartitionProduceData, PartitionProduceResponse, Partition | ErrorCode, str]


def handle(node: Broker, request: Request[ProduceRequest], now_ms: int) -> Outcome:
    body = request.body
    produce = Produce(node, request, body.acks)
    targets: list[Target] = []
    not_open: NotOpen | None = None
    for topic in body.topic_data:
        answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[])
        produce.topics.append(answer)
        name = topic.name if request.version < TOPIC_IDS_FROM else node.replicas.topic_name(topic.topic_id)
        for data in topic.partition_data:
            try:
                partition = find(node, request, name, data.index, now_ms)
            except NotOpen as error:
                not_open = error
                continue
            slot = PartitionProduceResponse(index=data.index)
            answer.partition_responses.append(slot)
            targets.append((data, slot, partition, name or ""))
    if not_open is not None:
        raise not_open  # the last of them: by then the others are open too
    if body.acks not in (ACKS_ALL, 0, 1):
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {body.acks}: it must be -1, 0 or 1")
    produce.outstanding = len(targets) + 1
    for data, slot, partition, name in targets:
        if isinstance(partition, ErrorCode):
            produce.fail(slot, partition, name, now_ms)
        else:
            produce.append(partition, data, slot, now_ms)
    return produce.started(body.timeout_ms, now_ms)


def find(
    node: Broker, request: Request[ProduceRequest], name: str | None, index: int, now_ms: int
) -> Partition | ErrorCode:
    """The partition to append to, or why not."""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not node.authorizer.authorize(request.principal, Operation.WRITE, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partition = node.replicas.leader(name, index, now_ms)
    if name in INTERNAL_TOPICS and not isinstance(partition, ErrorCode) and request.client_id != ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return partition


def refuse(request: Request[Any], code: ErrorCode, message: str) -> Message | None:
    """Every partition of the request answered with the error; with acks=0 there is nobody to answer."""
    body = request.body
    if body is None:
        return ProduceResponse(responses=[])
    if body.acks == 0:
        return None
    said = message or None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index, error_code=code, base_offset=-1, log_append_time_ms=-1, error_message=said
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in body.topic_data
        ]
    )


class Produce:
    """One produce request under way. `outstanding` counts the partitions that are not decided, and the handler
    itself.
    """

    __slots__ = (
        "acks",
        "failed",
        "leaders",
        "node",
        "outstanding",
        "request",
        "timer",
        "topics",
        "transactional_id",
        "waiting",
    )

    def __init__(self, node: Broker, request: Request[ProduceRequest], acks: int) -> None:
        self.node = node
        self.request = request
        self.acks = acks
        self.transactional_id = request.body.transactional_id
        self.topics: list[TopicProduceResponse] = []
        self.outstanding = 0
        self.failed = ""
        self.leaders: dict[int, None] = {}
        self.waiting: list[PartitionProduceResponse] | None = None
        self.timer: Timer | None = None

    def append(
        self, partition: Partition, data: PartitionProduceData, slot: PartitionProduceResponse, now_ms: int
    ) -> None:
        """Appends the batch of one partition, now or after it has been rewritten."""
        records = cast("memoryview", data.records) if data.records is not None else memoryview(b"")
        try:
            header = only_batch(records, self.request.version)
        except PenstockError as error:
            slot.error_message = str(error)
            self.fail(slot, error.code, partition.topic, now_ms)
            return
        if header.is_transactional:
            code = self.transactional_refusal()
            slot.error_message = "transactions are not supported yet: the partition is in none"
            self.fail(slot, code, partition.topic, now_ms)
            return
        if header.size_bytes != len(records):
            records = records[: header.size_bytes]
        deep = self.node.settings.penstock_produce_validation == "deep"
        outcome = partition.append_as_leader(records, header, self.acks, now_ms, deep=deep)
        if type(outcome) is Prepared:
            self.prepared(partition, slot, outcome, header, now_ms)
        elif type(outcome) is Deferred:
            self.node.dispatcher.hold(self.request.connection)
            owner = Rewritten(self, partition, slot)
            order = f"rewrite for connection {self.request.connection.id}"
            directory = partition.log.disk.directory
            self.node.effects.append(Run(RewriteOperation(outcome.rewrite, directory, order, owner, now_ms)))
        else:
            assert isinstance(outcome, Rejected)
            self.rejected(partition, slot, outcome, now_ms)

    def transactional_refusal(self) -> ErrorCode:
        """Why a transactional batch is refused. Without a transactional id, or the right to use it, as Kafka does."""
        node = self.node
        name = self.transactional_id
        if name is None or not node.authorizer.authorize(
            self.request.principal, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name
        ):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ErrorCode.INVALID_TXN_STATE

    def prepared(
        self, partition: Partition, slot: PartitionProduceResponse, prepared: Prepared, header: BatchHeader, now_ms: int
    ) -> None:
        """Offsets are reserved: waits for the write, or for the replicas."""
        slot.base_offset = prepared.base_offset
        slot.log_append_time_ms = prepared.timestamp_ms
        slot.log_start_offset = partition.log.log_start_offset
        counters = self.node.topic_metrics.of(partition.topic)
        counters.produces += 1
        counters.bytes_in += header.size_bytes
        counters.messages_in += header.record_count
        if self.acks == ACKS_ALL and partition.followers:
            if self.waiting is None:
                self.waiting = []
            self.waiting.append(slot)
        partition.wait(prepared, self.acks, self, slot, now_ms)

    def rejected(self, partition: Partition, slot: PartitionProduceResponse, why: Rejected, now_ms: int) -> None:
        slot.error_message = why.message or None
        slot.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.index, batch_index_error_message=error.message)
            for error in why.record_errors
        ]
        if why.code not in NO_LOG_START:
            slot.log_start_offset = partition.log.log_start_offset
        counters = self.node.topic_metrics.of(partition.topic)
        counters.produces += 1
        counters.failed_produces += 1
        self.fail(slot, why.code, partition.topic, now_ms)

    def fail(self, slot: PartitionProduceResponse, code: ErrorCode, topic: str, now_ms: int) -> None:
        """One partition is decided: an error."""
        slot.error_code = code
        slot.base_offset = -1
        slot.log_append_time_ms = -1
        self.failed = f"{topic}-{slot.index}: {code.name}"
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and self.request.version >= LEADERS_FROM:
            leader_id, leader_epoch = current_leader(self.node, topic, slot.index)
            slot.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            self.leaders[leader_id] = None
        self.decided(now_ms)

    def appended(self, slot: Any, code: ErrorCode, now_ms: int) -> None:
        """AppendWaiter: the write has completed or the replicas have it, or never will."""
        if code:
            slot.error_code = code
            slot.base_offset = -1
            slot.log_append_time_ms = -1
            self.failed = code.name
        if self.waiting is not None:
            self.waiting = [other for other in self.waiting if other is not slot]
        self.decided(now_ms)

    def decided(self, now_ms: int) -> None:
        self.outstanding -= 1
        if self.outstanding == 0:
            self.answer(now_ms)

    def started(self, timeout_ms: int, now_ms: int) -> Outcome:
        """All partitions are under way: arms the timeout if replicas are waited for."""
        if self.waiting:
            self.timer = self.node.timers.at(self.request.arrived_ms + timeout_ms, self.expire)
        self.decided(now_ms)
        return LATER

    def expire(self, now_ms: int) -> None:
        """acks=all and the time is over: what the replicas do not have is answered REQUEST_TIMED_OUT. It stays
        appended.
        """
        self.timer = None
        for slot in self.waiting or ():
            slot.error_code = ErrorCode.REQUEST_TIMED_OUT
        if self.outstanding > 0:
            self.outstanding = 0
            self.answer(now_ms)

    def answer(self, now_ms: int) -> None:
        node = self.node
        request = self.request
        if self.timer is not None:
            node.timers.cancel(self.timer)
        if self.acks == 0:
            if self.failed:
                node.close(request.connection, f"produce with acks=0 failed, {self.failed}")
            else:
                node.answer(request, None, now_ms)
            return
        response = ProduceResponse(responses=self.topics)
        if self.leaders:
            response.node_endpoints = endpoints_of(node, self.leaders, request.listener, NodeEndpoint)
        node.answer(request, response, now_ms)


class Rewritten:
    """Owner of a rewrite: appends what it made, then lets the connection go on."""

    __slots__ = ("partition", "produce", "slot")

    def __init__(self, produce: Produce, partition: Partition, slot: PartitionProduceResponse) -> None:
        self.produce = produce
        self.partition = partition
        self.slot = slot

    def operation_completed(self, operation: DiskOperation, result: Any, now_ms: int) -> None:
        assert isinstance(operation, RewriteOperation)
        produce, partition = self.produce, self.partition
        if produce.node.replicas.in_use(partition.topic, partition.index) is not partition:
            outcome: Rejected | Prepared = Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        else:
            outcome = partition.append_rewritten(operation.rewrite, result, now_ms)
        if isinstance(outcome, Prepared):
            produce.prepared(partition, self.slot, outcome, operation.rewrite.header, now_ms)
        else:
            produce.rejected(partition, self.slot, outcome, now_ms)
        produce.node.dispatcher.release(produce.request.connection, now_ms)

    def operation_failed(self, operation: DiskOperation, error: OSError, now_ms: int) -> None:
        why = Rejected(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        self.produce.rejected(self.partition, self.slot, why, now_ms)
        self.produce.node.dispatcher.release(self.produce.request.connection, now_ms)


HANDLERS = (Handler(ApiKey.PRODUCE, handle, AUTHORIZE, refuse, advertised_min_version=0),)
