"""Produce (key 0): one record batch for each partition, appended and acknowledged.

Versions 3-13, flexible from 9; 0-2 are advertised, as Kafka does for the sake of librdkafka, and refused. zstd from v7;
record errors and an error message from v8; the current leader of a refused partition from v10; topic ids instead of
names from v13.

acks=1 answers when the write has completed, acks=all when the high watermark has passed it (`replication/waiting.py`),
acks=0 never: an error then closes the connection, so that the producer asks for new metadata. A duplicate batch is
answered with the offsets of the original, when that one would have been.

A request with transactional batches needs the right to its transactional id, or it is refused as a whole. They begin
their transaction once its coordinator has confirmed it (`transactional_produce.py`).

A request appends all its partitions before anything of the connection's next request executes, even if a batch has to
be validated in depth or recompressed first (Deferred), or its transaction verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.log.manager import NotOpen
from penstock.metadata.names import INTERNAL_TOPICS
from penstock.node.effects import Run
from penstock.node.handlers.transactional_produce import Verifying, transactional_producers
from penstock.node.leaders import current_leader, endpoints_of
from penstock.node.limits import PARTITIONS_PER_STEP
from penstock.node.request import LATER, Handler, Kept, Outcome, Request
from penstock.node.steps import Stepped, resident
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.plain_produce import plain_answer
from penstock.records.batch import TRANSACTIONAL_FLAG
from penstock.records.validation import only_batch
from penstock.replication.appends import ACKS_ALL, Deferred, Prepared, Rejected
from penstock.replication.partition import Partition
from penstock.replication.rewrite import RewriteOperation
from penstock.security.rights import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID

if TYPE_CHECKING:
    from penstock.log.disk import Operation as DiskOperation
    from penstock.log.producer_state import VerificationGuard
    from penstock.node.broker import Broker
    from penstock.node.timers import Timer
    from penstock.records.batch import BatchHeader, WritableBuffer


TOPIC_IDS_FROM = 13
LEADERS_FROM = 10
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
REFUSED_WHOLE = {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the transactional id may not be written with",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "the transactional batches are of more than one producer",
}
"""Errors for which a request with transactional batches is refused as a whole."""
NO_RECORD_ERRORS: list[BatchIndexAndErrorMessage] = []
NO_LEADER = LeaderIdAndEpoch()

Wanted = tuple[TopicProduceResponse, str | None, PartitionProduceData]
Target = tuple[TopicProduceResponse, str | None, PartitionProduceData, Partition | ErrorCode]


def handle(node: Broker, request: Request[ProduceRequest], now_ms: int) -> Outcome | Stepped[Outcome]:
    body = request.body
    acks = body.acks
    if acks not in (ACKS_ALL, 0, 1):
        return refuse(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}: it must be -1, 0 or 1")
    topics = body.topic_data
    producers = transactional_producers(topics)
    if producers is not None and (code := whole_refusal(node, request, producers)):
        if acks == 0:
            node.dispatcher.close(request.connection, f"produce with acks=0 failed: {code.name}")
        return node.dispatcher.exit.refusal(request, code, REFUSED_WHOLE[code])
    produce = Produce(node, request, acks)
    if len(topics) == 1 and len(topics[0].partition_data) == 1:  # as from a producer of few records
        answer, name = produce.topic(topics[0])
        data = topics[0].partition_data[0]
        produce.begin(answer, name, data, find(node, request, name, data.index, now_ms), now_ms)
        return produce.started(body.timeout_ms, now_ms)
    partitions = wanted(produce, topics)
    some = list(islice(partitions, PARTITIONS_PER_STEP + 1))
    if len(some) > PARTITIONS_PER_STEP:
        return produce_in_steps(produce, chain(some, partitions), body.timeout_ms)
    for target in find_all(node, request, some, now_ms):
        produce.begin(*target, now_ms)
    return produce.started(body.timeout_ms, now_ms)


def whole_refusal(node: Broker, request: Request[ProduceRequest], producers: set[tuple[int, int]]) -> ErrorCode:
    """Why a request with transactional batches of these producers is refused as a whole, as in Kafka."""
    name = request.body.transactional_id
    if name is None or not node.gate.allows(request, WRITE_TRANSACTIONAL_ID, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if len(producers) > 1 else ErrorCode.NONE


def produce_in_steps(produce: Produce, partitions: Iterator[Wanted], timeout_ms: int) -> Stepped[Outcome]:
    """Appends to many partitions, some in each step."""
    node, request = produce.node, produce.request
    while some := list(islice(partitions, PARTITIONS_PER_STEP)):
        for target in (yield from resident(partial(find_all, node, request, some, node.scheduler.now_ms))):
            produce.begin(*target, node.scheduler.now_ms)
        yield None
    return produce.started(timeout_ms, node.scheduler.now_ms)


def wanted(produce: Produce, topics: Sequence[TopicProduceData]) -> Iterator[Wanted]:
    """The partitions of the request, in order, with the answers for their topics, which it adds to `produce`."""
    for topic in topics:
        answer, name = produce.topic(topic)
        for data in topic.partition_data:
            yield answer, name, data


def find_all(node: Broker, request: Request[ProduceRequest], partitions: Sequence[Wanted], now_ms: int) -> list[Target]:
    """The partitions to append to. Closed logs are all opened concurrently first: raises NotOpen."""
    targets: list[Target] = []
    not_open: NotOpen | None = None
    for answer, name, data in partitions:
        try:
            targets.append((answer, name, data, find(node, request, name, data.index, now_ms)))
        except NotOpen as error:
            not_open = error
    if not_open is not None:
        raise not_open  # the last of them: by then the others are open too
    return targets


def find(
    node: Broker, request: Request[ProduceRequest], name: str | None, index: int, now_ms: int
) -> Partition | ErrorCode:
    """The partition to append to, or the error."""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not node.gate.allows(request, WRITE_TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partition = node.replicas.leader(name, index, now_ms)
    if name in INTERNAL_TOPICS and not isinstance(partition, ErrorCode) and request.client_id != ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return partition


def refuse(request: Request[Any], code: ErrorCode, message: str) -> Message | None:
    """Every partition of the request answered with the error; None with acks=0."""
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
    """One produce request under way. `outstanding` counts the undecided partitions, and the handler itself; `deferred`
    and `verifying` have those that are not appended yet, `waiting` those that wait, or have waited, for replicas.
    """

    __slots__ = (
        "acks",
        "deferred",
        "failed",
        "leaders",
        "node",
        "outstanding",
        "request",
        "timer",
        "topics",
        "verifying",
        "waiting",
    )

    def __init__(self, node: Broker, request: Request[ProduceRequest], acks: int) -> None:
        self.node = node
        self.request = request
        self.acks = acks
        self.topics: list[TopicProduceResponse] = []
        self.outstanding = 1
        self.failed = ""
        self.leaders: dict[int, None] = {}
        self.deferred: dict[Resumed, None] | None = None
        self.waiting: list[tuple[Partition, Prepared, PartitionProduceResponse]] | None = None
        self.verifying: Verifying | None = None
        self.timer: Timer | None = None

    def topic(self, topic: TopicProduceData) -> tuple[TopicProduceResponse, str | None]:
        """The answer for a topic of the request, and its name; None for an unknown id."""
        topic_id = topic.topic_id
        answer = TopicProduceResponse(name=topic.name, topic_id=topic_id, partition_responses=[])
        self.topics.append(answer)
        by_name = self.request.version < TOPIC_IDS_FROM
        return answer, topic.name if by_name else self.node.replicas.topic_name(topic_id)

    def begin(
        self,
        answer: TopicProduceResponse,
        topic: str | None,
        data: PartitionProduceData,
        partition: Partition | ErrorCode,
        now_ms: int,
    ) -> None:
        """Appends the batch for one partition, or sets its error."""
        slot = PartitionProduceResponse(index=data.index, record_errors=NO_RECORD_ERRORS, current_leader=NO_LEADER)
        answer.partition_responses.append(slot)
        self.outstanding += 1
        if type(partition) is Partition:
            self.append(partition, data, slot, now_ms)
        else:
            assert isinstance(partition, ErrorCode)
            self.fail(slot, partition, topic or "", now_ms)

    def append(
        self, partition: Partition, data: PartitionProduceData, slot: PartitionProduceResponse, now_ms: int
    ) -> None:
        """Appends the batch of one partition, now or after it has been rewritten."""
        records: Any = memoryview(b"") if data.records is None else data.records
        try:
            header = only_batch(records, self.request.version)
        except PenstockError as error:
            slot.error_message = str(error)
            self.fail(slot, error.code, partition.topic, now_ms)
            return
        if header.size_bytes != len(records):
            records = records[: header.size_bytes]
        if header.attributes & TRANSACTIONAL_FLAG and header.producer_id >= 0:
            if self.verifying is None:
                transactional_id = self.request.body.transactional_id
                assert transactional_id is not None, "checked for the whole request"
                self.verifying = Verifying(self, transactional_id, self.request.version)
            self.verifying.append(partition, slot, records, header, now_ms)
        else:
            self.append_batch(partition, slot, records, header, now_ms)

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
        """Appends a batch, now or after it has been rewritten. For `guard` see `Partition.append_as_leader`."""
        deep = self.node.state.settings.penstock_produce_validation == "deep"
        try:
            outcome = partition.append_as_leader(records, header, self.acks, now_ms, deep=deep, guard=guard)
        except Exception as error:
            code = self.node.replication.partition_error("append", partition.topic, partition.index, error, now_ms)
            outcome = Rejected(code, "")
        if type(outcome) is Prepared:
            self.prepared(partition, slot, outcome, header, now_ms)
        elif type(outcome) is Deferred:
            self.defer(partition, slot, outcome, now_ms)
        else:
            assert isinstance(outcome, Rejected)
            self.rejected(partition, slot, outcome, now_ms)

    def defer(self, partition: Partition, slot: PartitionProduceResponse, deferred: Deferred, now_ms: int) -> None:
        """Has a batch rewritten or validated before its append. The connection's next request waits for that."""
        connection = self.request.connection
        self.node.dispatcher.hold(connection)
        owner = Resumed(self, partition, slot, deferred)
        self.deferred = self.deferred or {}
        self.deferred[owner] = None
        order = f"rewrite for connection {connection.id}"
        directory, wall_ms = partition.log.disk.directory, self.node.scheduler.wall.at(now_ms)
        self.node.scheduler.emit(Run(RewriteOperation(deferred.reason, directory, order, owner, wall_ms)))

    def prepared(
        self, partition: Partition, slot: PartitionProduceResponse, prepared: Prepared, header: BatchHeader, now_ms: int
    ) -> None:
        """Offsets are reserved: waits for the write, or for the replicas."""
        slot.base_offset = prepared.base_offset
        slot.log_append_time_ms = prepared.timestamp_ms
        slot.log_start_offset = partition.log.log_start_offset
        counters = self.node.telemetry.topics.of(partition.topic)
        counters.produces += 1
        counters.bytes_in += header.size_bytes
        counters.messages_in += header.record_count
        traffic = partition.traffic
        traffic.bytes_in += header.size_bytes
        traffic.records_in += header.record_count
        if not self.outstanding:
            return  # it has been too late for a while
        if self.acks == ACKS_ALL and partition.isr.followers:
            if self.waiting is None:
                self.waiting = []
            self.waiting.append((partition, prepared, slot))
        partition.wait(prepared, self.acks, self, slot, now_ms)

    def rejected(self, partition: Partition, slot: PartitionProduceResponse, why: Rejected, now_ms: int) -> None:
        slot.error_message = why.message or None
        slot.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.index, batch_index_error_message=error.message)
            for error in why.record_errors
        ]
        if why.code not in NO_LOG_START:
            slot.log_start_offset = partition.log.log_start_offset
        counters = self.node.telemetry.topics.of(partition.topic)
        counters.produces += 1
        counters.failed_produces += 1
        self.fail(slot, why.code, partition.topic, now_ms)

    def fail(self, slot: PartitionProduceResponse, code: ErrorCode, topic: str, now_ms: int) -> None:
        """Answers one partition with an error."""
        slot.error_code = code
        slot.base_offset = -1
        slot.log_append_time_ms = -1
        self.failed = f"{topic}-{slot.index}: {code.name}"
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and self.request.version >= LEADERS_FROM:
            leader_id, leader_epoch = current_leader(self.node.state.image, topic, slot.index)
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
        self.decided(now_ms)

    def broke(self, error: Exception, now_ms: int) -> None:
        """AppendWaiter: a bug in `appended`."""
        self.node.scheduler.bug("append", f"a produce request of connection {self.request.connection.id}", error)
        self.give_up(now_ms)

    def give_up(self, now_ms: int) -> None:
        """Refuses the request after a bug; its batches stay appended."""
        if self.timer is not None:
            self.node.scheduler.timers.cancel(self.timer)
        self.node.dispatcher.give_up(self.request, now_ms)

    def decided(self, now_ms: int) -> None:
        self.outstanding -= 1
        if self.outstanding == 0:
            self.answer(now_ms)

    def started(self, timeout_ms: int, now_ms: int) -> Outcome:
        """All partitions are under way: arms the timeout if replicas are or may be waited for."""
        verifying = self.verifying
        if verifying is not None and verifying.waiting:
            self.node.dispatcher.hold(self.request.connection)
            verifying.begin(now_ms)
        else:
            self.verifying = verifying = None  # the connection is not held, and nothing to let go
        if self.acks == ACKS_ALL and (self.waiting or self.deferred or verifying):
            self.timer = self.node.scheduler.timers.at(self.request.arrived_ms + timeout_ms, self.expire)
        self.decided(now_ms)
        return LATER

    def verified(self, now_ms: int) -> None:
        """No batch waits for its transaction to be verified any more: lets the connection go on."""
        if self.verifying is not None:
            self.verifying = None
            self.node.dispatcher.release(self.request.connection, now_ms)

    def expire(self, now_ms: int) -> None:
        """The timeout of acks=all: partitions that still wait are answered REQUEST_TIMED_OUT; their appends go on, if
        no transaction had to be verified first.
        """
        self.timer = None
        for partition, prepared, slot in self.waiting or ():
            if partition.give_up(prepared, self, slot):
                slot.error_code = ErrorCode.REQUEST_TIMED_OUT
        for owner in self.deferred or ():
            owner.slot.error_code = ErrorCode.REQUEST_TIMED_OUT
            owner.slot.base_offset = -1
        if self.verifying is not None:
            for each in self.verifying.waiting:
                each.slot.error_code = ErrorCode.REQUEST_TIMED_OUT
                each.slot.base_offset = -1
            self.verifying.waiting.clear()
            self.verified(now_ms)
        if self.outstanding > 0:
            self.outstanding = 0
            self.answer(now_ms)

    def answer(self, now_ms: int) -> None:
        node = self.node
        request = self.request
        if self.timer is not None:
            node.scheduler.timers.cancel(self.timer)
        if self.acks == 0:
            if self.failed:
                node.dispatcher.close(request.connection, f"produce with acks=0 failed, {self.failed}")
            else:
                node.answer(request, None, now_ms)
            return
        if not self.failed and len(self.topics) == 1 and len(self.topics[0].partition_responses) == 1:
            topic = self.topics[0]
            plain = plain_answer(request.version, topic, topic.partition_responses[0])
            if plain is not None:
                node.answer(request, Kept(plain), now_ms)
                return
        response = ProduceResponse(responses=self.topics)
        if self.leaders:
            response.node_endpoints = endpoints_of(node.state.image, self.leaders, request.listener, NodeEndpoint)
        node.answer(request, response, now_ms)


class Resumed:
    """Owner of a deferred append's operation: appends the result, then lets the connection go on."""

    __slots__ = ("_deferred", "_partition", "_produce", "slot")

    def __init__(
        self, produce: Produce, partition: Partition, slot: PartitionProduceResponse, deferred: Deferred
    ) -> None:
        self._produce = produce
        self._partition = partition
        self._deferred = deferred
        self.slot = slot

    def operation_completed(self, operation: DiskOperation, result: Any, now_ms: int) -> None:
        self._resume(result, now_ms)

    def operation_failed(self, operation: DiskOperation, error: OSError, now_ms: int) -> None:
        self._resume(RequestError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)), now_ms)

    def operation_broke(self, operation: DiskOperation, error: Exception, now_ms: int) -> None:
        self._produce.give_up(now_ms)

    def _resume(self, result: WritableBuffer | PenstockError, now_ms: int) -> None:
        produce, partition = self._produce, self._partition
        try:
            assert produce.deferred is not None
            del produce.deferred[self]
            if produce.node.replicas.in_use(partition.topic, partition.index) is not partition:
                result = RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            outcome = partition.resume(self._deferred, result, now_ms)
            if isinstance(outcome, Prepared):
                produce.prepared(partition, self.slot, outcome, self._deferred.header, now_ms)
            else:
                produce.rejected(partition, self.slot, outcome, now_ms)
        finally:
            produce.node.dispatcher.release(produce.request.connection, now_ms)


HANDLERS = (Handler(ApiKey.PRODUCE, handle, refuse, advertised_min_version=0),)
