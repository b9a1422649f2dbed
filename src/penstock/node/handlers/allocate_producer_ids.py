"""AllocateProducerIds (key 67): a block of producer ids for a broker (KIP-730). On controller listeners only.

Version 0, flexible. A broker that is not registered, or with another epoch, is told so: STALE_BROKER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.producer_ids import allocate_producer_ids
from penstock.node.request import Append, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from penstock.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[AllocateProducerIdsRequest], now_ms: int) -> Outcome:
    if not node.controller.active:
        return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    result = allocate_producer_ids(node.controller.state, request.body.broker_id, request.body.broker_epoch)
    block = result.response
    return Append(
        result.records, AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.length)
    )


HANDLERS = (Handler(ApiKey.ALLOCATE_PRODUCER_IDS, handle),)
