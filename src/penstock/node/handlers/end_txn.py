"""EndTxn (key 26): commits or aborts a transaction. The answer leaves when that is decided; the markers follow.

Versions 0-5, flexible from 3. From 5 on (transaction version 2) the epoch rises with each end, and the answer says with
which producer id and epoch to go on. PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.ending import end_transaction
from penstock.coordinator.transaction.state import Transactions
from penstock.coordinator.transaction.transaction import EPOCH_BUMP_FROM, Producer
from penstock.errors import ErrorCode
from penstock.node.handlers.transaction_coordinator import told, write
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.end_txn_response import EndTxnResponse
from penstock.security.rights import WRITE_TRANSACTIONAL_ID

if TYPE_CHECKING:
    from penstock.node.broker import Broker

EPOCH_BUMP_FROM_API = 5
FENCED_FROM = 2


def handle(node: Broker, request: Request[EndTxnRequest], now_ms: int) -> Outcome:
    body = request.body
    node.gate.check(request, WRITE_TRANSACTIONAL_ID, body.transactional_id)
    producer = Producer(body.producer_id, body.producer_epoch)
    version = EPOCH_BUMP_FROM if request.version >= EPOCH_BUMP_FROM_API else 0

    def operation(state: Transactions) -> Result[Any]:
        return end_transaction(state, body.transactional_id, producer, version, now_ms, commit=body.committed)

    return write(node, request, operation, respond=respond)


def respond(producer: Producer) -> Message:
    """The answer of the coordinator."""
    return EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch)


def refuse(request: Request[EndTxnRequest], code: ErrorCode, message: str) -> Message:
    return EndTxnResponse(error_code=told(code, request.version, FENCED_FROM))


HANDLERS = (Handler(ApiKey.END_TXN, handle, refuse),)
