"""InitProducerId (key 22): a producer id for an idempotent producer, from this broker's block of ids.

Versions 0-5, flexible from 2. Without a transactional id the answer is a new id with epoch 0, whatever id and epoch the
producer had, as in Kafka: sequences begin anew with the new id. An id without an epoch, or the reverse, is
INVALID_REQUEST. With a transactional id: COORDINATOR_NOT_AVAILABLE, since there are no transactions yet; an empty one
is INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.node.journal import NO_TRANSACTIONS, shortened
from penstock.node.request import Handler, Outcome, Parked, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


NONE = -1


def handle(node: Broker, request: Request[InitProducerIdRequest], now_ms: int) -> Outcome:
    body = request.body
    if (body.producer_id == NONE) != (body.producer_epoch == NONE):
        return failed(ErrorCode.INVALID_REQUEST)
    if body.transactional_id is not None:
        node.journal.refused(NO_TRANSACTIONS, request, transactional_id=shortened(body.transactional_id))
        return failed(ErrorCode.COORDINATOR_NOT_AVAILABLE if body.transactional_id else ErrorCode.INVALID_REQUEST)
    producer_ids = node.producer_ids
    producer_id = producer_ids.take(now_ms)
    if producer_id is not None:
        return granted(producer_id)

    def complete(at_ms: int) -> Message | None:
        taken = producer_ids.take(at_ms)
        return None if taken is None else granted(taken)

    return Parked(
        keys=(producer_ids.KEY,),
        deadline_ms=request.arrived_ms + node.state.settings.request_timeout_ms,
        complete=complete,
        expire=lambda at_ms: failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    )


def refuse(request: Request[InitProducerIdRequest], code: ErrorCode, message: str) -> Message:
    return failed(code)


def granted(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)


HANDLERS = (Handler(ApiKey.INIT_PRODUCER_ID, handle, refuse),)
