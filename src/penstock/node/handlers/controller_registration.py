"""ControllerRegistration (key 70): a controller registers its addresses and feature levels (KIP-919). On controller
listeners only.

Version 0, flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.brokers import register_controller
from penstock.metadata.image import Endpoint
from penstock.node.handlers.bounds import check_few
from penstock.node.request import Append, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from penstock.protocol.messages.controller_registration_response import ControllerRegistrationResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[ControllerRegistrationRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        return ControllerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER)
    check_few(body.listeners, body.features)
    if body.zk_migration_ready:
        sentence = "A controller that migrates from ZooKeeper cannot be part of this cluster."
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, sentence)
    result = register_controller(
        node.controller.state,
        body.controller_id,
        body.incarnation_id,
        [Endpoint(each.name, each.host, each.port, each.security_protocol) for each in body.listeners],
        {each.name: (each.min_supported_version, each.max_supported_version) for each in body.features},
    )
    return Append(result.records, ControllerRegistrationResponse(error_message=None))


HANDLERS = (Handler(ApiKey.CONTROLLER_REGISTRATION, handle),)
