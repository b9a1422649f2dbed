"""BrokerRegistration (key 62): a broker joins the cluster, or changes its registration (KIP-631). On controller
listeners only.

Versions 0-4, flexible. From version 3 on a broker sends the epoch at which it last stopped cleanly (KIP-966). Refused
are: a foreign cluster id (INCONSISTENT_CLUSTER_ID), an id whose other holder is alive (DUPLICATE_BROKER_REGISTRATION),
invalid directories (INVALID_REGISTRATION), a finalized feature level that the broker does not support
(UNSUPPORTED_VERSION).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.brokers import Registration, register_broker
from penstock.metadata.image import Endpoint
from penstock.node.handlers.bounds import check_few
from penstock.node.loopback import OwnConnection
from penstock.node.request import Append, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from penstock.protocol.messages.broker_registration_response import BrokerRegistrationResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[BrokerRegistrationRequest], now_ms: int) -> Outcome:
    body = request.body
    controller = node.controller
    if not controller.active:
        return BrokerRegistrationResponse(error_code=ErrorCode.NOT_CONTROLLER)
    if body.cluster_id != node.cluster_id:
        raise RequestError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {node.cluster_id}, but got cluster ID {body.cluster_id}",
        )
    check_few(body.listeners, body.features, body.log_dirs)
    if body.is_migrating_zk_broker:
        sentence = "Controller does not support registering ZK brokers."
        raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, sentence)
    heartbeats = controller.duties.heartbeats
    heartbeats.follow(controller.state, now_ms)
    if not isinstance(request.connection, OwnConnection):  # this process has the directories: no other one lives
        heartbeats.check_registration(
            controller.state,
            body.broker_id,
            body.incarnation_id,
            now_ms,
            previous_broker_epoch=body.previous_broker_epoch,
        )
    result = register_broker(
        controller.state, registration(body), controller.next_offset, kraft_version=node.quorum.kraft_version
    )
    return Append(result.records, BrokerRegistrationResponse(broker_epoch=result.response), atomic=result.atomic)


def registration(body: BrokerRegistrationRequest) -> Registration:
    """The registration in the controller's terms."""
    return Registration(
        broker_id=body.broker_id,
        incarnation_id=body.incarnation_id,
        endpoints=tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in body.listeners),
        log_dirs=tuple(body.log_dirs),
        rack=body.rack,
        previous_broker_epoch=body.previous_broker_epoch,
        features={each.name: (each.min_supported_version, each.max_supported_version) for each in body.features},
    )


HANDLERS = (Handler(ApiKey.BROKER_REGISTRATION, handle),)
