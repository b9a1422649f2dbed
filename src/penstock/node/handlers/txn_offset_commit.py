"""TxnOffsetCommit (key 28): a group's offsets as part of a producer's transaction, which count when it commits.

Versions 0-5, flexible from 3; leader epochs from 2 on, member and generation from 3. A client of version 5 has not said
AddOffsetsToTxn before: the transaction's coordinator is asked to add the partition of `__consumer_offsets`; for older
ones it is asked whether it is part of the transaction (KIP-890). That is asked once in each transaction: not if the
transaction is open in the partition already. Unknown topics and partitions are refused here, the others go to the
group's coordinator (`coordinator.group.offsets.transactional`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter, mul
from typing import TYPE_CHECKING

from penstock.coordinator.group.offsets.transactional import commit_transactional_offsets
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.transactions import Transaction
from penstock.errors import ErrorCode, RequestError
from penstock.log.producer_state import NOT_VERIFIED
from penstock.node.groups import OFFSETS_TOPIC
from penstock.node.handlers.group_coordinator import context_of
from penstock.node.handlers.offset_commit import BOUNDED_FROM_BYTES, INDEX, LEAST_RECORD_BYTES
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped
from penstock.node.verification import Errors, Operation
from penstock.protocol.api import ApiKey
from penstock.protocol.limits import ELEMENTS_PER_STEP
from penstock.protocol.message import Message
from penstock.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from penstock.security.rights import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID

if TYPE_CHECKING:
    from penstock.node.broker import Broker

NAME, PARTITIONS = attrgetter("name"), attrgetter("partitions")
Merged = dict[str, TxnOffsetCommitResponseTopic]
LOADING_FROM = 2
"""Clients of older versions do not know that a coordinator may be loading (KAFKA-7296)."""


def handle(node: Broker, request: Request[TxnOffsetCommitRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    node.gate.check(request, WRITE_TRANSACTIONAL_ID, body.transactional_id)
    node.gate.check(request, READ_GROUP, body.group_id)
    accepted: list[TxnOffsetCommitRequestTopic] = []
    refused: list[TxnOffsetCommitResponseTopic] = []
    pace = Pace()
    for topic in body.topics:
        if pace.is_over():
            yield None
        yield from sort_out(node, request, topic, accepted, refused, pace=pace)
    whole: Merged = {}
    for start in range(0, len(refused), ELEMENTS_PER_STEP):
        merge(whole, refused[start : start + ELEMENTS_PER_STEP])
        yield from (None,) if start else ()
    if not accepted:
        return TxnOffsetCommitResponse(topics=list(whole.values()))
    commit = Commit(node, request, accepted, whole)
    try:
        return commit.begin(now_ms)
    except RequestError as error:
        return (yield from commit.failed(error.code))


def sort_out(
    node: Broker,
    request: Request[TxnOffsetCommitRequest],
    topic: TxnOffsetCommitRequestTopic,
    accepted: list[TxnOffsetCommitRequestTopic],
    refused: list[TxnOffsetCommitResponseTopic],
    *,
    pace: Pace,
) -> Stepped[None]:
    """Adds the partitions of a topic to those for the coordinator, or refuses them."""
    found = node.state.image.topics_by_name.get(topic.name)
    allowed = node.gate.allows(request, READ_TOPIC, topic.name)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    count = 0 if found is None or not allowed else len(found.partitions)
    good: list[TxnOffsetCommitRequestPartition] = []
    for some in pace.pieces(topic.partitions):
        if some is None:
            yield None
            continue
        indexes = list(map(INDEX, some))
        if min(indexes) >= 0 and max(indexes) < count:
            good += some
        else:
            good += [each for each in some if 0 <= each.partition_index < count]
            bad = [each for each in some if not 0 <= each.partition_index < count]
            refused.append(failed_topic(topic.name, bad, code))
    if good:
        accepted.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=good))


class Commit:
    """One request on its way: verified, written, answered. `whole` are the answers for what was refused before."""

    __slots__ = ("index", "node", "request", "wanted", "whole")

    def __init__(
        self,
        node: Broker,
        request: Request[TxnOffsetCommitRequest],
        accepted: list[TxnOffsetCommitRequestTopic],
        whole: Merged,
    ) -> None:
        body = request.body
        self.node = node
        self.request = request
        self.whole = whole
        self.index = node.coordinators.groups.topic.partition_of(body.group_id)
        self.wanted = TxnOffsetCommitRequest(
            transactional_id=body.transactional_id,
            group_id=body.group_id,
            producer_id=body.producer_id,
            producer_epoch=body.producer_epoch,
            generation_id=body.generation_id,
            member_id=body.member_id,
            group_instance_id=body.group_instance_id,
            topics=accepted,
        )

    def begin(self, now_ms: int) -> Outcome:
        """Has the transaction verified, if that has to be, and goes on. Raises RequestError."""
        node, wanted = self.node, self.wanted
        self.check()
        producer_id, epoch = wanted.producer_id, wanted.producer_epoch
        operation = Operation.of_txn_offset_commit(self.request.version)
        adds = operation is Operation.ADD_PARTITION
        if not (adds or node.settings.transaction_partition_verification_enable):
            self.write(Transaction(producer_id, epoch, NOT_VERIFIED), now_ms)
            return LATER
        guard = node.coordinators.groups.runtime.guard(self.index, producer_id, epoch, now_ms, adds=adds)
        transaction = Transaction(producer_id, epoch, guard)
        if guard is None:
            self.write(transaction, now_ms)
            return LATER

        def verified(errors: Errors, at_ms: int) -> None:
            try:
                if code := errors.get((OFFSETS_TOPIC, self.index), ErrorCode.NONE):
                    node.dispatcher.go_on(self.request, self.failed(code))
                else:
                    self.write(transaction, at_ms)
            finally:
                node.dispatcher.release(self.request.connection, at_ms)

        node.dispatcher.hold(self.request.connection)  # what comes after it must find what it has written
        node.verifier.verify(
            wanted.transactional_id,
            producer_id,
            epoch,
            {OFFSETS_TOPIC: [self.index]},
            operation=operation,
            done=node.dispatcher.later(self.request, verified),
            now_ms=now_ms,
        )
        return LATER

    def check(self) -> None:
        """Raises RequestError for what needs no coordinator to be refused."""
        wanted = self.wanted
        if not wanted.group_id:
            raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed to commit offsets")
        if wanted.producer_id < 0:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a transaction has a producer id")
        if wanted.producer_epoch < 0:
            raise RequestError(ErrorCode.INVALID_PRODUCER_EPOCH, "a transaction has a producer epoch")
        fixed_bytes = LEAST_RECORD_BYTES + len(wanted.group_id)
        counts, names = list(map(len, map(PARTITIONS, wanted.topics))), map(NAME, wanted.topics)
        size_bytes = fixed_bytes * sum(counts) + sum(map(mul, counts, map(len, names)))
        limit = self.node.state.topic_config(OFFSETS_TOPIC).max_message_bytes
        if size_bytes > BOUNDED_FROM_BYTES and size_bytes > limit:
            raise RequestError(ErrorCode.RECORD_LIST_TOO_LARGE)  # before each has become a record

    def write(self, transaction: Transaction, now_ms: int) -> None:
        """Has the group's coordinator write the offsets; the answer leaves when they are committed."""
        context, wanted = context_of(self.request), self.wanted

        def done(response: TxnOffsetCommitResponse | None, code: ErrorCode, message: str, at_ms: int) -> None:
            if response is None:
                self.node.dispatcher.go_on(self.request, self.failed(code))
            else:
                self.node.answer(self.request, self.with_rest(response.topics), at_ms)

        self.node.coordinators.groups.runtime.write(
            self.index,
            lambda machine: commit_transactional_offsets(machine.state, context, wanted, now_ms),
            self.node.dispatcher.later(self.request, done),
            now_ms,
            transaction=transaction,
        )

    def failed(self, code: ErrorCode) -> Stepped[Outcome]:
        """The answer if the coordinator refuses the whole commit."""
        code = for_client(coordinator_error(code), self.request.version)
        failed, pace = [], Pace()
        for topic in self.wanted.topics:
            if pace.is_over():
                yield None
            failed.append(failed_topic(topic.name, topic.partitions, code))
        return self.with_rest(failed)

    def with_rest(self, topics: list[TxnOffsetCommitResponseTopic]) -> TxnOffsetCommitResponse:
        """The coordinator's answer and what was refused before, each topic once."""
        if not self.whole:
            return TxnOffsetCommitResponse(topics=topics)
        merge(self.whole, topics)
        return TxnOffsetCommitResponse(topics=list(self.whole.values()))


def for_client(code: ErrorCode, version: int) -> ErrorCode:
    """An error as clients of a version know it."""
    if version < LOADING_FROM and code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def failed_topic(
    name: str, partitions: Sequence[TxnOffsetCommitRequestPartition], code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    """Partitions of a topic answered with the error."""
    return TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in partitions
        ],
    )


def merge(whole: Merged, topics: Iterable[TxnOffsetCommitResponseTopic]) -> None:
    """Adds the topics of a part to the whole answer, each topic once."""
    for topic in topics:
        known = whole.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)


def refuse(request: Request[TxnOffsetCommitRequest], code: ErrorCode, message: str) -> Message:
    """Every partition answered with the error."""
    topics = [] if request.body is None else request.body.topics
    code = for_client(code, request.version)
    return TxnOffsetCommitResponse(topics=[failed_topic(topic.name, topic.partitions, code) for topic in topics])


HANDLERS = (Handler(ApiKey.TXN_OFFSET_COMMIT, handle, refuse),)
