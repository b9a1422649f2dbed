"""AddPartitionsToTxn (key 24): partitions come into a transaction; or a leader asks whether they are in it (KIP-890).

Versions 0-5, flexible from 3. Up to version 3 a client names one transaction. From 4 on brokers name several, with the
right to act in the cluster, and may only verify; what they add is of transaction version 2. A partition that may not be
written to, or does not exist, fails its whole transaction: the others are OPERATION_NOT_ATTEMPTED. Clients may not add
partitions of internal topics. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.partitions import add_partitions, verify_partitions
from penstock.coordinator.transaction.state import Transactions, partitions_of
from penstock.coordinator.transaction.transaction import EPOCH_BUMP_FROM, Partitions, Producer
from penstock.errors import ErrorCode, PenstockError
from penstock.metadata.names import is_internal
from penstock.node.handlers.transaction_coordinator import run, told
from penstock.node.limits import TRANSACTIONS_PER_STEP
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

BATCHES_FROM = 4
FENCED_FROM = 2

Codes = Mapping[tuple[str, int], ErrorCode]


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
    results = Results(node, request, wanted)
    pace = Pace(TRANSACTIONS_PER_STEP)
    for position, each in enumerate(wanted):
        if pace.is_over():
            yield None
        code, codes = yield from check(node, request, each)
        if code or codes:
            results.add(position, code, codes, node.scheduler.now_ms)
        else:
            results.ask(position, each, node.scheduler.now_ms)
    return LATER


def check(
    node: Broker, request: Request[AddPartitionsToTxnRequest], transaction: AddPartitionsToTxnTransaction
) -> Stepped[tuple[ErrorCode, Codes]]:
    """Why all partitions of a transaction are refused, or why some are; nothing to complain about: (NONE, {})."""
    from_client = request.version < BATCHES_FROM
    if from_client and not node.gate.allows(request, WRITE_TRANSACTIONAL_ID, transaction.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, {}
    image = node.state.image
    codes: dict[tuple[str, int], ErrorCode] = {}
    complaints = False
    pace = Pace()
    for topic in transaction.topics:
        name = topic.name
        may = not from_client or (not is_internal(name) and node.gate.allows(request, WRITE_TOPIC, name))
        for some in pace.pieces(topic.partitions):
            if some is None:
                yield None
                continue
            for index in some:
                code = ErrorCode.OPERATION_NOT_ATTEMPTED
                if not may:
                    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif image.partition(name, index) is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                complaints |= code is not ErrorCode.OPERATION_NOT_ATTEMPTED
                codes[name, index] = code
    return ErrorCode.NONE, codes if complaints else {}


class Results:
    """The answers to the transactions of one request, which leaves when all are there."""

    def __init__(
        self,
        node: Broker,
        request: Request[AddPartitionsToTxnRequest],
        wanted: list[AddPartitionsToTxnTransaction],
    ) -> None:
        self._node = node
        self._request = request
        self._wanted = wanted
        self._results: list[list[AddPartitionsToTxnTopicResult] | None] = [None] * len(wanted)
        self._left = len(wanted)

    def ask(self, position: int, transaction: AddPartitionsToTxnTransaction, now_ms: int) -> None:
        """Has the coordinator add the partitions of one transaction, or look for them."""
        node, transactional_id = self._node, transaction.transactional_id
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        partitions = partitions_of([(topic.name, topic.partitions) for topic in transaction.topics])
        if transaction.verify_only:
            self.add(position, *self._verified(transactional_id, producer, partitions), now_ms)
            return
        version = EPOCH_BUMP_FROM if self._request.version >= BATCHES_FROM else 0

        def operation(state: Transactions) -> Result[Any]:
            return add_partitions(state, transactional_id, producer, partitions, now_ms, client_version=version)

        def done(response: Any, code: ErrorCode, at_ms: int) -> None:
            self.add(position, told(code, self._request.version, FENCED_FROM), {}, at_ms)

        run(node, transactional_id, operation, node.dispatcher.later(self._request, done), now_ms)

    def _verified(self, transactional_id: str, producer: Producer, partitions: Partitions) -> tuple[ErrorCode, Codes]:
        transactions = self._node.coordinators.transactions
        try:
            return ErrorCode.NONE, transactions.runtime.read(
                transactions.topic.partition_of(transactional_id),
                lambda machine, at: verify_partitions(machine.state, at, transactional_id, producer, partitions),
            )
        except PenstockError as error:
            return coordinator_error(error.code), {}

    def add(self, position: int, code: ErrorCode, codes: Codes, now_ms: int) -> None:
        """Takes the answer to one transaction: a code for all partitions, and others for some."""
        topics = self._wanted[position].topics
        self._results[position] = results_of(topics, lambda name, index: codes.get((name, index), code))
        self._left -= 1
        if not self._left and not self._request.done:
            self._node.answer(self._request, self._response(), now_ms)

    def _response(self) -> AddPartitionsToTxnResponse:
        results = [topics or [] for topics in self._results]
        if self._request.version < BATCHES_FROM:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=topics)
                for each, topics in zip(self._wanted, results, strict=True)
            ]
        )


def results_of(
    topics: list[AddPartitionsToTxnTopic], code_of: Callable[[str, int], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    """The answers to the partitions of one transaction."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=list(map(partial(result_of, topic.name, code_of), topic.partitions)),
        )
        for topic in topics
    ]


def result_of(topic: str, code_of: Callable[[str, int], ErrorCode], index: int) -> AddPartitionsToTxnPartitionResult:
    """The answer to one partition."""
    return AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code_of(topic, index))


def refuse(request: Request[AddPartitionsToTxnRequest], code: ErrorCode, message: str) -> Message:
    """The error for all partitions of a client's transaction; for brokers, one for the whole request."""
    if request.version >= BATCHES_FROM:
        return AddPartitionsToTxnResponse(error_code=code)
    topics = [] if request.body is None else request.body.v3_and_below_topics
    shown = told(code, request.version, FENCED_FROM)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results_of(topics, lambda name, index: shown))


HANDLERS = (Handler(ApiKey.ADD_PARTITIONS_TO_TXN, handle, refuse),)
