"""AddOffsetsToTxn (key 25): a group's partition of `__consumer_offsets` comes into a transaction.

Versions 0-4, flexible from 3, of clients of transaction version 1; later ones leave it to TxnOffsetCommit.
PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.

The topic is made first if there is none here yet: a partition that this broker does not know when the transaction ends
passes for deleted, and would never get its marker. Meanwhile the answer is COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.partitions import add_partitions
from penstock.coordinator.transaction.state import Transactions
from penstock.coordinator.transaction.transaction import Producer
from penstock.errors import ErrorCode
from penstock.node.handlers.transaction_coordinator import told, write
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from penstock.security.rights import READ_GROUP, WRITE_TRANSACTIONAL_ID

if TYPE_CHECKING:
    from penstock.node.broker import Broker

FENCED_FROM = 2


def handle(node: Broker, request: Request[AddOffsetsToTxnRequest], now_ms: int) -> Outcome:
    body = request.body
    node.gate.check(request, WRITE_TRANSACTIONAL_ID, body.transactional_id)
    node.gate.check(request, READ_GROUP, body.group_id)
    offsets = node.coordinators.groups.topic
    if offsets.name in node.state.image.topics_by_name:
        return add(node, request)

    def created(at_ms: int) -> None:
        request.body = body
        if offsets.name in node.state.image.topics_by_name:
            add(node, request)
        else:
            node.answer(request, refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, ""), at_ms)

    offsets.create(node.dispatcher.later(request, created), now_ms)
    return LATER


def add(node: Broker, request: Request[AddOffsetsToTxnRequest]) -> Outcome:
    """Adds the group's partition, which exists."""
    body, now_ms = request.body, node.scheduler.now_ms
    offsets = node.coordinators.groups.topic
    partitions = {offsets.name: frozenset({offsets.partition_of(body.group_id)})}
    producer = Producer(body.producer_id, body.producer_epoch)

    def operation(state: Transactions) -> Result[Any]:
        return add_partitions(state, body.transactional_id, producer, partitions, now_ms, client_version=0)

    return write(node, request, operation, respond=lambda code: AddOffsetsToTxnResponse())


def refuse(request: Request[AddOffsetsToTxnRequest], code: ErrorCode, message: str) -> Message:
    return AddOffsetsToTxnResponse(error_code=told(code, request.version, FENCED_FROM))


HANDLERS = (Handler(ApiKey.ADD_OFFSETS_TO_TXN, handle, refuse),)
