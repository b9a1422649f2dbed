"""AddPartitionsToTxn (key 24): partitions come into a transaction; or a leader asks whether they are in it (KIP-890).

Versions 0-5, flexible from 3. Up to version 3 a client names one transaction. From 4 on brokers name several, with the
right to act in the cluster, and may only verify; what they add is of transaction version 2. A partition that may not be
written to, or does not exist, fails its whole transaction: the others are OPERATION_NOT_ATTEMPTED. Clients may not add
partitions of internal topics. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.partitions import add_partitions, verify_partitions
from penstock.coordinator.transaction.state import Transactions, check_id
from penstock.coordinator.transaction.transaction import EPOCH_BUMP_FROM, Partitions, Producer
from penstock.errors import ErrorCode, PenstockError
from penstock.metadata.names import is_internal
from penstock.node.handlers.transaction_coordinator import AskedByRequest, run_for, told
from penstock.node.limits import PARTITIONS_PER_STEP, TRANSACTIONS_PER_STEP
from penstock.node.own_calls import Asked, OwnCall
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from penstock.security.authorizer import CLUSTER_NAME
from penstock.security.rights import ACT_IN_CLUSTER, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID

if TYPE_CHECKING:
    from penstock.node.broker import Broker

R = TypeVar("R")

BATCHES_FROM = 4
FENCED_FROM = 2

CodeOf = Callable[[str, int], ErrorCode]
"""The error of a partition of a topic."""


def handle(node: Broker, request: Request[AddPartitionsToTxnRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    if request.version >= BATCHES_FROM:
        node.gate.check(request, ACT_IN_CLUSTER, CLUSTER_NAME)
        wanted = body.transactions
    else:
        wanted = [
            AddPartitionsToTxnTransaction(
                transactional_id=body.v3_and_below_transactional_id,
                producer_id=body.v3_and_below_producer_id,
                producer_epoch=body.v3_and_below_producer_epoch,
                topics=body.v3_and_below_topics,
            )
        ]
    if not wanted:
        return AddPartitionsToTxnResponse()
    results = Results(node, AskedByRequest(node, request), wanted, request.version, request)
    pace = Pace(TRANSACTIONS_PER_STEP)
    for position, each in enumerate(wanted):
        if pace.is_over():
            yield None
        partitions, refused = yield from check(node, request, each)
        if refused:
            results.add(position, codes_or(refused, ErrorCode.OPERATION_NOT_ATTEMPTED), node.scheduler.now_ms)
        else:
            results.ask(position, each, partitions, node.scheduler.now_ms)
    return LATER


def direct(node: Broker, body: AddPartitionsToTxnRequest, call: OwnCall, now_ms: int) -> bool:
    """Answers what this node asks itself before it appends, if that is little."""
    wanted = body.transactions
    partitions_in_all = sum(len(topic.partitions) for each in wanted for topic in each.topics)
    if len(wanted) > TRANSACTIONS_PER_STEP or partitions_in_all > PARTITIONS_PER_STEP:
        return False
    results = Results(node, call, wanted, BATCHES_FROM)
    for position, each in enumerate(wanted):
        partitions, refused = at_once(check(node, None, each))
        if refused:
            results.add(position, codes_or(refused, ErrorCode.OPERATION_NOT_ATTEMPTED), now_ms)
        else:
            results.ask(position, each, partitions, now_ms)
    return True


def check(
    node: Broker, request: Request[AddPartitionsToTxnRequest] | None, transaction: AddPartitionsToTxnTransaction
) -> Stepped[tuple[Partitions, Mapping[str, ErrorCode | set[int]]]]:
    """The partitions of a transaction; and what is wrong by topic: an error, or partitions that there are not.
    `request` is None for a call of this node itself.
    """
    client = request if request is not None and request.version < BATCHES_FROM else None
    if client and not node.gate.allows(client, WRITE_TRANSACTIONAL_ID, transaction.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return {}, {topic.name: code for topic in transaction.topics} or {"": code}
    image = node.state.image
    partitions: dict[str, frozenset[int]] = {}
    refused: dict[str, ErrorCode | set[int]] = {}
    pace = Pace()
    for topic in transaction.topics:
        if pace.is_over() or len(topic.partitions) > PARTITIONS_PER_STEP:
            yield None
        name, known = topic.name, image.topics_by_name.get(topic.name)
        if client and (is_internal(name) or not node.gate.allows(client, WRITE_TOPIC, name)):
            refused[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        wanted = partitions[name] = partitions.get(name, frozenset()).union(topic.partitions)
        unknown = wanted.difference(range(0 if known is None else len(known.partitions)))
        if unknown:
            refused[name] = set(unknown)
    return partitions, refused


def codes_or(refused: Mapping[str, ErrorCode | Collection[int]], otherwise: ErrorCode) -> CodeOf:
    """The error of a partition: its topic's; UNKNOWN_TOPIC_OR_PARTITION if it is named; or another one."""

    def code_of(topic: str, index: int) -> ErrorCode:
        found = refused.get(topic, ())
        if isinstance(found, ErrorCode):
            return found
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if index in found else otherwise

    return code_of


class Results:
    """The answers to the transactions of one request, which leaves when all are there. `request`: if it is not a call
    of this node itself.
    """

    def __init__(
        self,
        node: Broker,
        asked: Asked,
        wanted: Sequence[AddPartitionsToTxnTransaction],
        version: int,
        request: Request[AddPartitionsToTxnRequest] | None = None,
    ) -> None:
        self._node = node
        self._asked = asked
        self._request = request
        self._version = version
        self._wanted = wanted
        self._codes: list[CodeOf | None] = [None] * len(wanted)
        self._left = len(wanted)

    def ask(
        self, position: int, transaction: AddPartitionsToTxnTransaction, partitions: Partitions, now_ms: int
    ) -> None:
        """Has the coordinator add the partitions of one transaction, or look for them."""
        node, transactional_id = self._node, transaction.transactional_id
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        version = EPOCH_BUMP_FROM if self._version >= BATCHES_FROM else 0

        def operation(state: Transactions) -> Result[Any]:
            return add_partitions(state, transactional_id, producer, partitions, now_ms, client_version=version)

        def done(response: Any, code: ErrorCode, at_ms: int) -> None:
            self.add(position, always(told(code, self._version, FENCED_FROM)), at_ms)

        try:
            if transaction.verify_only:
                self.add(position, self._verified(transactional_id, producer, partitions), now_ms)
            else:
                run_for(self._asked, node, transactional_id, operation, done)
        except PenstockError as error:
            self.add(position, always(coordinator_error(error.code)), now_ms)

    def _verified(self, transactional_id: str, producer: Producer, partitions: Partitions) -> CodeOf:
        check_id(transactional_id)
        transactions = self._node.coordinators.transactions
        missing = transactions.runtime.read(
            transactions.topic.partition_of(transactional_id),
            lambda machine, at: verify_partitions(machine.state, at, transactional_id, producer, partitions),
        )

        def code_of(topic: str, index: int) -> ErrorCode:
            return ErrorCode.TRANSACTION_ABORTABLE if index in missing.get(topic, ()) else ErrorCode.NONE

        return code_of

    def add(self, position: int, code_of: CodeOf, now_ms: int) -> None:
        """Takes the answer to one transaction."""
        self._codes[position] = code_of
        self._left -= 1
        request = self._request
        if self._left or (request is not None and request.done):
            return
        if request is not None and request.long:
            self._node.dispatcher.go_on(request, self._response())
        else:
            self._asked.answer(at_once(self._response()), now_ms)

    def _response(self) -> Stepped[Message]:
        results = []
        pace = Pace()
        for each, code_of in zip(self._wanted, self._codes, strict=True):
            if pace.is_over():
                yield None
            topics = yield from results_of(each.topics, code_of or always(ErrorCode.UNKNOWN_SERVER_ERROR), pace)
            results.append(AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=topics))
        if self._version < BATCHES_FROM:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
        return AddPartitionsToTxnResponse(results_by_transaction=results)


def always(code: ErrorCode) -> CodeOf:
    """One error for all partitions."""
    return lambda topic, index: code


def results_of(
    topics: Sequence[AddPartitionsToTxnTopic], code_of: CodeOf, pace: Pace
) -> Stepped[list[AddPartitionsToTxnTopicResult]]:
    """The answers to the partitions of one transaction."""
    results = []
    for topic in topics:
        if pace.is_over():
            yield None
        result = AddPartitionsToTxnTopicResult(name=topic.name)
        for some in pace.pieces(topic.partitions):
            if some is None:
                yield None
                continue
            result.results_by_partition += [
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code_of(topic.name, index)
                )
                for index in some
            ]
        results.append(result)
    return results


def at_once(steps: Stepped[R]) -> R:
    """What steps come to that need not be apart."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: R = ended.value
            return result


def refuse(request: Request[AddPartitionsToTxnRequest], code: ErrorCode, message: str) -> Message:
    """The error for all partitions of a client's transaction; for brokers, one for the whole request."""
    if request.version >= BATCHES_FROM:
        return AddPartitionsToTxnResponse(error_code=code)
    topics = [] if request.body is None else request.body.v3_and_below_topics
    shown = told(code, request.version, FENCED_FROM)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=at_once(results_of(topics, always(shown), Pace())))


HANDLERS = (Handler(ApiKey.ADD_PARTITIONS_TO_TXN, handle, refuse, direct=direct),)
