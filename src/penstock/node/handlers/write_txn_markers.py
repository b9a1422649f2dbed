"""WriteTxnMarkers (key 27): coordinators of transactions end them in the partitions that this broker leads.

Versions 1-2, flexible. From version 2 a marker says by whose rules it ends its transaction (KIP-1228): with those of
transaction.version 2 its epoch is newer than that of the records, or nothing but a repetition of the same marker.
Coordinators send the request; whoever may alter the cluster may, too, which is how a hanging transaction is aborted by
hand. Without the right the whole request is refused.

Each marker is a control batch, appended as with acks=all: the answer leaves when all replicas have it, with an error
for each partition. A marker may come again, after any error and after none: then it is written again, and changes
nothing. INVALID_PRODUCER_EPOCH is a marker behind the producer's epoch, TRANSACTION_COORDINATOR_FENCED one of a
coordinator that another has followed; a partition without a replica here is UNKNOWN_TOPIC_OR_PARTITION; one that is not
replicated in request.timeout.ms is REQUEST_TIMED_OUT. As in Kafka the answer has one entry a producer id, and the last
error of a partition counts. Markers for `__consumer_offsets` are written by the group coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.coordinator.runtime.transactions import TransactionEnd
from penstock.errors import ErrorCode, PenstockError
from penstock.log.manager import NotOpen
from penstock.node.groups import OFFSETS_TOPIC, complete_transaction
from penstock.node.limits import LOGS_OPENED_PER_STEP, PARTITIONS_PER_STEP
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.node.steps import Stepped, lazily, resident
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from penstock.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from penstock.records.batch import read_header
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.replication.appends import ACKS_ALL, Prepared
from penstock.replication.partition import Partition

if TYPE_CHECKING:
    from penstock.node.broker import Broker
    from penstock.node.timers import Timer


@dataclass(slots=True, eq=False)
class Wanted:
    """A marker for one partition."""

    marker: WritableTxnMarker
    topic: str
    index: int


def handle(node: Broker, request: Request[WriteTxnMarkersRequest], now_ms: int) -> Stepped[Outcome]:
    markers = request.body.markers
    for marker in markers:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            message = "a marker needs a producer id and an epoch"
            return node.dispatcher.exit.refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR, message)
    writing = Writing(node, request)
    partitions = wanted(markers)
    while step := list(islice(partitions, PARTITIONS_PER_STEP)):
        some = [each for each in step if each is not None]
        for start in range(0, len(some), LOGS_OPENED_PER_STEP):
            yield from resident(partial(open_logs, node, some[start : start + LOGS_OPENED_PER_STEP]))
        for each in some:
            writing.append(each, node.scheduler.now_ms)
        if len(step) == PARTITIONS_PER_STEP:
            yield None
    writing.started(node.scheduler.now_ms)
    return LATER


def wanted(markers: Sequence[WritableTxnMarker]) -> Iterator[Wanted | None]:
    """All markers, a partition that one names twice only once; None for one that names none."""
    for marker in markers:
        named = {(topic.name, index): None for topic in marker.topics for index in topic.partition_indexes}
        for topic, index in named:
            yield Wanted(marker, topic, index)
        if not named:
            yield None


def open_logs(node: Broker, partitions: Sequence[Wanted]) -> None:
    """Has the partitions' logs opened, concurrently. Raises NotOpen until they are."""
    not_open: NotOpen | None = None
    for each in partitions:
        try:
            node.replicas.leader(each.topic, each.index, node.scheduler.now_ms)
        except NotOpen as error:
            not_open = error
    if not_open is not None:
        raise not_open  # the last of them: by then the others are open too


class Writing:
    """One request under way. `_outstanding` has the markers that wait for the replicas, and where; None for those that
    the group coordinator writes.
    """

    def __init__(self, node: Broker, request: Request[WriteTxnMarkersRequest]) -> None:
        self._node = node
        self._request = request
        self._errors: dict[int, dict[str, dict[int, ErrorCode]]] = {}
        self._outstanding: dict[Wanted, tuple[Partition, Prepared] | None] = {}
        self._has_started = False
        self._timer: Timer | None = None
        self._deadline_ms = request.arrived_ms + node.settings.request_timeout_ms

    def append(self, wanted: Wanted, now_ms: int) -> None:
        """Appends a marker to one partition, or notes its error."""
        node = self._node
        try:
            partition = node.replicas.leader(wanted.topic, wanted.index, now_ms)
            if isinstance(partition, ErrorCode):
                self._note(wanted, self._not_led(wanted, partition))
            elif wanted.topic == OFFSETS_TOPIC:
                self._outstanding[wanted] = None
                self._end_in_group_coordinator(wanted, now_ms)
            else:
                prepared = appended(partition, wanted.marker, now_ms)
                self._outstanding[wanted] = partition, prepared
                partition.wait(prepared, ACKS_ALL, self, wanted, now_ms)
        except PenstockError as error:
            self._note(wanted, error.code)
        except Exception as error:
            self._note(wanted, node.replication.partition_error("append", wanted.topic, wanted.index, error, now_ms))

    def _end_in_group_coordinator(self, wanted: Wanted, now_ms: int) -> None:
        """The group coordinator writes the marker itself: pending offsets count from then on, or are dropped."""
        marker = wanted.marker
        end = TransactionEnd(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        done = self._node.dispatcher.later(self._request, partial(self.appended, wanted))
        complete_transaction(self._node.coordinators.groups, wanted.index, end, done, now_ms)

    def _not_led(self, wanted: Wanted, code: ErrorCode) -> ErrorCode:
        """The error for a partition that is not led here: in Kafka it is unknown where it has no replica."""
        registration = self._node.state.image.partition(wanted.topic, wanted.index)
        if registration is None or self._node.node_id not in registration.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return code

    def _note(self, wanted: Wanted, code: ErrorCode) -> None:
        topics = self._errors.setdefault(wanted.marker.producer_id, {})
        topics.setdefault(wanted.topic, {})[wanted.index] = code

    def started(self, now_ms: int) -> None:
        """All markers are under way."""
        self._has_started = True
        if self._outstanding:
            self._timer = self._node.scheduler.timers.at(self._deadline_ms, self._expire)
        else:
            self._answer(now_ms)

    def appended(self, slot: Any, code: ErrorCode, now_ms: int) -> None:
        """AppendWaiter: all replicas have the marker, or never will."""
        if slot in self._outstanding:
            del self._outstanding[slot]
            self._note(slot, code)
            if self._has_started and not self._outstanding:
                self._answer(now_ms)

    def broke(self, error: Exception, now_ms: int) -> None:
        """AppendWaiter: a bug in `appended`."""
        self._node.dispatcher.broke(self._request, error, now_ms, place="append")

    def _expire(self, now_ms: int) -> None:
        self._timer = None
        waiting, self._outstanding = self._outstanding, {}
        for wanted, place in waiting.items():
            if place is not None:
                partition, prepared = place
                partition.give_up(prepared, self, wanted)
            self._note(wanted, ErrorCode.REQUEST_TIMED_OUT)
        self._answer(now_ms)

    def _answer(self, now_ms: int) -> None:
        if self._timer is not None:
            self._node.scheduler.timers.cancel(self._timer)
        self._node.answer(self._request, response(self._errors), now_ms)


def appended(partition: Partition, marker: WritableTxnMarker, now_ms: int) -> Prepared:
    """Appends the control batch. Raises RequestError or StorageError."""
    kind = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    batch = end_transaction_marker(
        EndTransactionMarker(kind, marker.coordinator_epoch),
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        wall_ms=partition.log.wall.at(now_ms),
    )
    version = marker.transaction_version
    return partition.append_as_coordinator(batch, read_header(batch), now_ms, transaction_version=version)


def response(errors: dict[int, dict[str, dict[int, ErrorCode]]]) -> WriteTxnMarkersResponse:
    """The answer with the error of each producer id, topic and partition."""
    return WriteTxnMarkersResponse(markers=lazily(lambda each: result_of(*each), list(errors.items())))


def result_of(producer_id: int, topics: dict[str, dict[int, ErrorCode]]) -> WritableTxnMarkerResult:
    made = lazily(lambda each: topic_result(*each), list(topics.items()))
    return WritableTxnMarkerResult(producer_id=producer_id, topics=made)


def topic_result(name: str, partitions: dict[int, ErrorCode]) -> WritableTxnMarkerTopicResult:
    made = lazily(lambda each: partition_result(*each), list(partitions.items()))
    return WritableTxnMarkerTopicResult(name=name, partitions=made)


def partition_result(index: int, code: ErrorCode) -> WritableTxnMarkerPartitionResult:
    return WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)


def refuse(request: Request[WriteTxnMarkersRequest], code: ErrorCode, message: str) -> Message:
    """Every partition of every marker answered with the error."""
    errors: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for each in wanted(request.body.markers if request.body is not None else ()):
        if each is None:
            continue
        errors.setdefault(each.marker.producer_id, {}).setdefault(each.topic, {})[each.index] = code
    return response(errors)


HANDLERS = (Handler(ApiKey.WRITE_TXN_MARKERS, handle, refuse),)
