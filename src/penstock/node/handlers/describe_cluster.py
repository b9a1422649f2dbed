"""DescribeCluster (key 60): the cluster's id, its brokers, and the node to send changes to.

Versions 0-2, flexible. From version 1 on the request says whether it wants brokers or controllers (KIP-919): a broker
listener answers for brokers only, a controller listener for controllers only, otherwise MISMATCHED_ENDPOINT_TYPE.
Brokers name themselves as the controller, since they forward changes; controllers name the active one. From version 2
on fenced brokers are included on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.node.handlers.metadata import controller_id
from penstock.node.request import Handler, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from penstock.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


BROKER, CONTROLLER = 1, 2
NOBODY = -1
NAMES = {BROKER: "BROKER", CONTROLLER: "CONTROLLER"}


def handle(node: Broker, request: Request[DescribeClusterRequest], now_ms: int) -> Message:
    body = request.body
    here = CONTROLLER if request.listener in node.state.settings.controller_listener_names else BROKER
    wanted = body.endpoint_type
    if wanted not in NAMES:
        code = ErrorCode.INVALID_REQUEST if request.version == 0 else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        return DescribeClusterResponse(error_code=code, error_message=f"Unsupported endpoint type {wanted}")
    if wanted != here:
        code = ErrorCode.INVALID_REQUEST if request.version == 0 else ErrorCode.MISMATCHED_ENDPOINT_TYPE
        return DescribeClusterResponse(
            error_code=code,
            error_message=f"The request was sent to an endpoint of type {NAMES[here]}, but we wanted an endpoint of "
            f"type {NAMES[wanted]}",
        )
    if here == BROKER:
        nodes, chosen = brokers(node, request), controller_id(node)
    else:
        nodes, chosen = controllers(node, request), NOBODY if node.quorum.leader_id is None else node.quorum.leader_id
    response = DescribeClusterResponse(
        endpoint_type=here,
        cluster_id=node.cluster_id,
        controller_id=chosen if any(each.broker_id == chosen for each in nodes) else NOBODY,
        brokers=nodes,
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = node.gate.operations_on_cluster(request)
    return response


def brokers(node: Broker, request: Request[DescribeClusterRequest]) -> list[DescribeClusterBroker]:
    """The brokers that have the requester's listener; fenced ones only on request."""
    return [
        DescribeClusterBroker(
            broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced
        )
        for broker in node.state.image.brokers.values()
        if (request.body.include_fenced_brokers or not broker.fenced)
        and (endpoint := broker.endpoint(request.listener)) is not None
    ]


def controllers(node: Broker, request: Request[DescribeClusterRequest]) -> list[DescribeClusterBroker]:
    """The registered controllers that have the requester's listener."""
    return [
        DescribeClusterBroker(broker_id=controller.id, host=endpoint.host, port=endpoint.port)
        for controller in node.state.image.controllers.values()
        for endpoint in controller.endpoints
        if endpoint.name == request.listener
    ]


HANDLERS = (Handler(ApiKey.DESCRIBE_CLUSTER, handle),)
