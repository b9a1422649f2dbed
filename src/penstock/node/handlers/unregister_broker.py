"""UnregisterBroker (key 64): removes the registration of a broker that is gone for good (KIP-631).

Version 0, flexible. Its replicas stay assigned to it until they are reassigned; nothing waits for them. A broker that
is still alive registers again by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.brokers import unregister_broker
from penstock.node.request import FORWARD, Append, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from penstock.protocol.messages.unregister_broker_response import UnregisterBrokerResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[UnregisterBrokerRequest], now_ms: int) -> Outcome:
    if not node.controller.active:
        return FORWARD
    result = unregister_broker(node.controller.state, request.body.broker_id)
    return Append(result.records, UnregisterBrokerResponse(), atomic=result.atomic)


HANDLERS = (Handler(ApiKey.UNREGISTER_BROKER, handle),)
