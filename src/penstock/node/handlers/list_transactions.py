"""ListTransactions (key 66): the transactional ids that this broker coordinates.

Versions 0-2, flexible from 0. Filters: producer ids and states; from 1 on the least time since the transaction began;
from 2 on a regular expression that the whole id has to match (RE2, `pip install 'penstock[regex]'`); one that would
take too long with an id that there is, is refused. While a partition is being loaded the list would be incomplete:
COORDINATOR_LOAD_IN_PROGRESS. Very many are listed in steps, each id as committed at its step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.coordinator.runtime.shard import Shard, ShardState
from penstock.coordinator.transaction.describe import ListFilter, list_filter, list_some
from penstock.errors import ErrorCode, RequestError
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest
from penstock.protocol.messages.list_transactions_response import ListTransactionsResponse
from penstock.security.rights import DESCRIBE_TRANSACTIONAL_ID

if TYPE_CHECKING:
    from penstock.coordinator.transaction.machine import TransactionMachine
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[ListTransactionsRequest], now_ms: int) -> Outcome:
    body, shards = request.body, node.coordinators.transactions.runtime.shards
    if any(shard.state is ShardState.LOADING for shard in shards.values()):
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    wanted, unknown = list_filter(
        body.producer_id_filters, body.state_filters, body.duration_filter, body.transactional_id_pattern
    )
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    steps = node.dispatcher.guard_steps(request, list_in_steps(node, request, wanted, response))
    if next(steps, steps) is not steps:
        node.scheduler.do(steps)
    return LATER


def list_in_steps(
    node: Broker, request: Request[ListTransactionsRequest], wanted: ListFilter, response: ListTransactionsResponse
) -> Iterator[None]:
    """Lists some ids a step, and answers after the last."""
    shards = node.coordinators.transactions.runtime.shards
    may_see = node.gate.allowing(request, DESCRIBE_TRANSACTIONAL_ID)
    wall_ms = node.scheduler.wall.at(node.scheduler.now_ms)
    for index in sorted(shards):
        shard = shards.get(index)
        names = list(shard.machine.state.ids) if shard is not None else []
        portions = wanted.portions(names, may_see)
        while shard is not None and serves(shard):
            try:
                some = next(portions, None)
            except RequestError as error:
                refusal = node.dispatcher.exit.refusal(request, error.code, error.message)
                node.answer(request, refusal, node.scheduler.now_ms)
                return
            if some is None:
                break
            listed = list_some(shard.machine.state, shard.committed_offset, some, wanted, wall_ms)
            response.transaction_states += [each for each in listed if may_see(each.transactional_id)]
            yield
    node.answer(request, response, node.scheduler.now_ms)


def serves(shard: Shard[TransactionMachine]) -> bool:
    """Whether the shard is loaded, and still led by this broker."""
    return shard.state is ShardState.ACTIVE


HANDLERS = (Handler(ApiKey.LIST_TRANSACTIONS, handle),)
