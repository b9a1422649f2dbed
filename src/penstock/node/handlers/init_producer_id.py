"""InitProducerId (key 22): a producer id for an idempotent producer, or the next epoch of a transactional id.

Versions 0-5, flexible from 2. Without a transactional id the answer is a new id with epoch 0, from this broker's block
of ids, whatever id and epoch the producer had, as in Kafka: sequences begin anew with the new id. An id without an
epoch, or the reverse, is INVALID_REQUEST. With a transactional id the coordinator answers
(`coordinator/transaction/init_producer_id.py`); PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 4. Two-phase
commit (version 6, not served) is refused: transaction.two.phase.commit.enable cannot be set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.init_producer_id import check_timeout, init_producer_id
from penstock.coordinator.transaction.state import Transactions, check_id
from penstock.coordinator.transaction.transaction import Producer
from penstock.errors import ErrorCode
from penstock.node.handlers.transaction_coordinator import told, write
from penstock.node.request import LATER, Handler, Outcome, Parked, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.init_producer_id_response import InitProducerIdResponse
from penstock.security.authorizer import CLUSTER_NAME
from penstock.security.rights import WRITE_IDEMPOTENTLY, WRITE_TRANSACTIONAL_ID

if TYPE_CHECKING:
    from penstock.node.broker import Broker


NONE = -1
FENCED_FROM = 4
READY = InitProducerIdResponse()
"""Stands for an answer while a request waits for producer ids."""


def handle(node: Broker, request: Request[InitProducerIdRequest], now_ms: int) -> Outcome:
    body = request.body
    if body.transactional_id is None:
        node.gate.check(request, WRITE_IDEMPOTENTLY, CLUSTER_NAME)
    else:
        node.gate.check(request, WRITE_TRANSACTIONAL_ID, body.transactional_id)
    if (body.producer_id == NONE) != (body.producer_epoch == NONE):
        return failed(ErrorCode.INVALID_REQUEST)
    if body.transactional_id is not None:
        return for_transactions(node, request, body.transactional_id, now_ms)
    producer_ids = node.producer_ids
    producer_id = producer_ids.take(now_ms)
    if producer_id is not None:
        return granted(Producer(producer_id, 0))

    def complete(at_ms: int) -> Message | None:
        taken = producer_ids.take(at_ms)
        return None if taken is None else granted(Producer(taken, 0))

    return Parked(
        keys=(producer_ids.KEY,),
        deadline_ms=request.arrived_ms + node.state.settings.request_timeout_ms,
        complete=complete,
        expire=lambda at_ms: failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    )


def for_transactions(
    node: Broker, request: Request[InitProducerIdRequest], transactional_id: str, now_ms: int
) -> Outcome:
    """Has the coordinator answer, once this broker has a producer id at hand, which the first request needs."""
    body = request.body
    check_id(transactional_id)
    if body.enable2_pc:
        return failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if body.keep_prepared_txn:
        return failed(ErrorCode.UNSUPPORTED_VERSION)
    check_timeout(node.state.settings, body.transaction_timeout_ms)
    expected = None if body.producer_id == NONE else Producer(body.producer_id, body.producer_epoch)
    timeout_ms = body.transaction_timeout_ms

    def begin(at_ms: int) -> None:
        def operation(state: Transactions) -> Result[Any]:
            return init_producer_id(state, transactional_id, timeout_ms, expected, at_ms)

        request.body = body
        write(node, request, operation, respond=respond)

    producer_ids = node.producer_ids
    if producer_ids.is_ready(now_ms):
        begin(now_ms)
        return LATER
    node.purgatory.park(
        Parked(
            keys=(producer_ids.KEY,),
            deadline_ms=request.arrived_ms + node.state.settings.request_timeout_ms,
            complete=lambda at_ms: READY if producer_ids.is_ready(at_ms) else None,
            expire=lambda at_ms: READY,
        ),
        node.dispatcher.later(request, lambda ready, at_ms: begin(at_ms)),
        lambda error, at_ms: node.dispatcher.broke(request, error, at_ms),
    )
    return LATER


def respond(result: Producer | ErrorCode) -> Message:
    """The answer of the coordinator: a producer, or that the open transaction is being aborted first."""
    return granted(result) if isinstance(result, Producer) else failed(result)


def refuse(request: Request[InitProducerIdRequest], code: ErrorCode, message: str) -> Message:
    return failed(told(code, request.version, FENCED_FROM))


def granted(producer: Producer) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)


def failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)


HANDLERS = (Handler(ApiKey.INIT_PRODUCER_ID, handle, refuse),)
