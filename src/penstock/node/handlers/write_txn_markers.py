"""WriteTxnMarkers (key 27): coordinators of transactions end them in the partitions that this broker leads.

Versions 1-2, flexible. From version 2 a marker says by whose rules it ends its transaction (KIP-1228): with those of
transaction.version 2 its epoch is newer than that of the records, or nothing but a repetition of the same marker.
Coordinators send the request; whoever may alter the cluster may, too, which is how a hanging transaction is aborted by
hand. Without the right the whole request is refused.

Each marker is a control batch, appended as with acks=all: the answer leaves when all replicas have it, with an error
for each partition. The slowest of several partitions does not keep the answer for the others: once one has its answer,
the rest have MARKERS_SLOWEST_MS, and are REQUEST_TIMED_OUT then (in Kafka only after request.timeout.ms, as one by
itself is here). A log that has to be opened holds back nothing but its own partition; a few are opened at a time, and
what has waited for one is appended in turns. A marker may come again, after any error and after none: then it is
written again, and changes nothing. INVALID_PRODUCER_EPOCH is a marker behind the producer's epoch,
TRANSACTION_COORDINATOR_FENCED one of a coordinator that another has followed; a partition without a replica here is
UNKNOWN_TOPIC_OR_PARTITION; one that is not replicated in request.timeout.ms is REQUEST_TIMED_OUT. As in Kafka the
answer has one entry a producer id, and the last error of a partition counts.
Markers for `__consumer_offsets` are written by the group coordinator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.coordinator.runtime.transactions import TransactionEnd
from penstock.errors import ErrorCode, PenstockError
from penstock.log.manager import NotOpen
from penstock.node.groups import OFFSETS_TOPIC, complete_transaction
from penstock.node.handlers.transaction_coordinator import AskedByRequest
from penstock.node.limits import LOGS_OPENED_AT_ONCE, MARKERS_SLOWEST_MS, PARTITIONS_PER_STEP
from penstock.node.own_calls import Asked, OwnCall
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, lazily
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

UNKNOWN_VERSION = -1
"""Kafka's mark of a caller that has not said by whose rules a marker ends its transaction, which it takes for a bug."""


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
    deadline_ms = request.arrived_ms + node.settings.request_timeout_ms
    writing = Writing(node, AskedByRequest(node, request), deadline_ms)
    pace = Pace()
    for each in wanted(markers):
        if pace.is_over():
            yield None
        if each is not None:
            writing.append(each, node.scheduler.now_ms)
    writing.started(node.scheduler.now_ms)
    return LATER


def direct(node: Broker, body: WriteTxnMarkersRequest, call: OwnCall, now_ms: int) -> bool:
    """Writes the markers of this node's own coordinator, if they are few."""
    some = list(islice(wanted(body.markers), PARTITIONS_PER_STEP + 1))
    if len(some) > PARTITIONS_PER_STEP:
        return False
    writing = Writing(node, call, now_ms + node.settings.request_timeout_ms)
    for each in some:
        if each is not None:
            writing.append(each, now_ms)
    writing.started(now_ms)
    return True


def wanted(markers: Sequence[WritableTxnMarker]) -> Iterator[Wanted | None]:
    """All markers, a partition that one names twice only once; None for one that names none."""
    for marker in markers:
        named = {(topic.name, index): None for topic in marker.topics for index in topic.partition_indexes}
        for topic, index in named:
            yield Wanted(marker, topic, index)
        if not named:
            yield None


class Writing:
    """What was asked, under way. `_outstanding` has the markers that wait for the replicas, and where; None for those
    that the group coordinator writes, or whose log is being opened.
    """

    def __init__(self, node: Broker, asked: Asked, deadline_ms: int) -> None:
        self._node = node
        self._asked = asked
        self._errors: dict[int, dict[str, dict[int, ErrorCode]]] = {}
        self._opening = 0
        self._closed: deque[Wanted] = deque()
        self._appends_closed = False
        self._outstanding: dict[Wanted, tuple[Partition, Prepared] | None] = {}
        self._has_started = False
        self._has_answered = False
        self._hurries = False
        self._timer: Timer | None = None
        self._deadline_ms = deadline_ms

    def append(self, wanted: Wanted, now_ms: int) -> None:
        """Appends a marker to one partition, or notes its error."""
        node = self._node
        if self._opening >= LOGS_OPENED_AT_ONCE and node.logs.open_log(wanted.topic, wanted.index) is None:
            self._outstanding[wanted] = None
            self._closed.append(wanted)
            return
        try:
            partition = node.replicas.leader(wanted.topic, wanted.index, now_ms)
            if isinstance(partition, ErrorCode):
                self._note(wanted, self._not_led(wanted, partition))
            elif wanted.marker.transaction_version == UNKNOWN_VERSION:
                self._note(wanted, ErrorCode.UNKNOWN_SERVER_ERROR)
            elif wanted.topic == OFFSETS_TOPIC:
                self._outstanding[wanted] = None
                self._end_in_group_coordinator(wanted, now_ms)
            else:
                prepared = appended(partition, wanted.marker, now_ms)
                self._outstanding[wanted] = partition, prepared
                partition.wait(prepared, ACKS_ALL, self, wanted, now_ms)
        except NotOpen as missing:
            self._outstanding[wanted] = None
            self._opening += 1
            node.scheduler.when_open(missing, partial(self._opened, wanted))
        except PenstockError as error:
            self._note(wanted, error.code)
        except Exception as error:
            self._note(wanted, node.replication.partition_error("append", wanted.topic, wanted.index, error, now_ms))

    def _opened(self, wanted: Wanted, now_ms: int) -> None:
        """The partition's log is open, or cannot be opened."""
        self._opening -= 1
        if self._has_answered or self._asked.done:
            return
        if self._outstanding.pop(wanted, wanted) is None:
            self.append(wanted, now_ms)
        if self._closed and not self._appends_closed:
            self._appends_closed = True
            self._node.scheduler.do(self._append_closed())
        self._hurries = False
        self._proceed(now_ms)

    def _append_closed(self) -> Iterator[None]:
        """Appends in turns what has waited, until that opens as many logs again as may be."""
        pace = Pace()
        while self._may_append_closed():
            if pace.is_over():
                yield None
                if not self._may_append_closed():
                    break
            closed = self._closed.popleft()
            del self._outstanding[closed]
            self.append(closed, self._node.scheduler.now_ms)
        self._appends_closed = False
        self._hurries = False
        self._proceed(self._node.scheduler.now_ms)

    def _may_append_closed(self) -> bool:
        is_over = self._has_answered or self._asked.done
        return bool(self._closed) and self._opening < LOGS_OPENED_AT_ONCE and not is_over

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
        done = self._asked.guard(partial(self.appended, wanted))
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
        self._proceed(now_ms)

    def _proceed(self, now_ms: int) -> None:
        """Answers if nothing is under way any more; else at the deadline, which is near once one has its answer, and
        since the last log was opened.
        """
        if not self._has_started or self._has_answered or self._asked.done:
            return
        if not self._outstanding:
            self._answer(now_ms)
        elif self._timer is None or (self._errors and not self._hurries):
            self._hurries = bool(self._errors)
            deadline_ms = min(self._deadline_ms, now_ms + MARKERS_SLOWEST_MS) if self._errors else self._deadline_ms
            if self._timer is not None:
                self._node.scheduler.timers.cancel(self._timer)
            self._timer = self._node.scheduler.timers.at(deadline_ms, self._expire)

    def appended(self, slot: Any, code: ErrorCode, now_ms: int) -> None:
        """AppendWaiter: all replicas have the marker, or never will."""
        if slot in self._outstanding:
            del self._outstanding[slot]
            self._note(slot, code)
            self._proceed(now_ms)

    def broke(self, error: Exception, now_ms: int) -> None:
        """AppendWaiter: a bug in `appended`."""
        self._asked.broke(error, now_ms)

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
        """Once. A long answer is not there at once, and one that nobody takes never is."""
        self._has_answered = True
        self._closed.clear()
        if self._timer is not None:
            self._node.scheduler.timers.cancel(self._timer)
        self._asked.answer(response(self._errors), now_ms)


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


HANDLERS = (Handler(ApiKey.WRITE_TXN_MARKERS, handle, refuse, direct=direct),)
