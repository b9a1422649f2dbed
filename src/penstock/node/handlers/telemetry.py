"""DescribeTelemetry (key 30001, our own): what this broker knows of itself, or what has changed since the last time.

Version 0, flexible. Needs DESCRIBE_CONFIGS on the cluster, as DescribeQuotaUsage does: the answer names clients. It is
one frame (`penstock.protocol.telemetry`) with the blocks broker, disks, lanes, partitions, clients and groups. Who asks
tells the incarnation and the sequence of the last frame that it has; -1, or what this process has not sent: all.

A small answer takes one step. Each broker answers for itself; so does a controller of its own, at `/telemetry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.node.request import Handler, Outcome, Request
from penstock.node.steps import Stepped
from penstock.node.telemetry.pull import pull
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.own.describe_telemetry_request import DescribeTelemetryRequest
from penstock.protocol.messages.own.describe_telemetry_response import DescribeTelemetryResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def describe(node: Broker, request: Request[DescribeTelemetryRequest], now_ms: int) -> Stepped[Outcome]:
    frame = yield from pull(node, request.body.incarnation_id, request.body.sequence)
    return DescribeTelemetryResponse(frame=frame)


HANDLERS = (Handler(ApiKey.DESCRIBE_TELEMETRY, describe),)
