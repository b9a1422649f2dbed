"""DescribeTransactions (key 65): the state of transactional ids, and the partitions that have no marker yet.

Version 0. Partitions of topics that the requester may not describe are left out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.transaction.describe import describe_transaction
from penstock.coordinator.transaction.state import check_id
from penstock.errors import ErrorCode, PenstockError
from penstock.node.limits import TRANSACTIONS_PER_STEP
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped, in_steps
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from penstock.security.rights import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[DescribeTransactionsRequest], now_ms: int) -> Stepped[Message]:
    wanted = request.body.transactional_ids
    states = yield from in_steps(partial(describe, node, request), wanted, Pace(TRANSACTIONS_PER_STEP))
    return DescribeTransactionsResponse(transaction_states=states)


def describe(node: Broker, request: Request[DescribeTransactionsRequest], transactional_id: str) -> TransactionState:
    """One transaction, or why it cannot be described."""
    transactions = node.coordinators.transactions
    try:
        node.gate.check(request, DESCRIBE_TRANSACTIONAL_ID, transactional_id)
        check_id(transactional_id)
        described = transactions.runtime.read(
            transactions.topic.partition_of(transactional_id),
            lambda machine, at: describe_transaction(machine.state, at, transactional_id),
        )
    except PenstockError as error:
        return TransactionState(transactional_id=transactional_id, error_code=coordinator_error(error.code))
    described.topics = [each for each in described.topics if node.gate.allows(request, DESCRIBE_TOPIC, each.topic)]
    return described


def refuse(request: Request[DescribeTransactionsRequest], code: ErrorCode, message: str) -> Message:
    """Every transactional id answered with the error."""
    names = [] if request.body is None else request.body.transactional_ids
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(transactional_id=name, error_code=code) for name in names]
    )


HANDLERS = (Handler(ApiKey.DESCRIBE_TRANSACTIONS, handle, refuse),)
