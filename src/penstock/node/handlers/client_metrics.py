"""GetTelemetrySubscriptions (key 71) and PushTelemetry (key 72): what metrics clients shall push, and the push.

Version 0, flexible (KIP-714). Open to everybody who can connect, as in Kafka, and counted by quotas like other
requests. A client that comes before its push interval is over is THROTTLING_QUOTA_EXCEEDED: it may ask anew at once
after a push was refused because of its subscription id or compression, and when the subscriptions have changed; and
push at once after it asked, or when it ends. After that last push, which says that it is `terminating`, nothing goes:
INVALID_REQUEST. Other refusals, in this order: UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE,
TELEMETRY_TOO_LARGE (`telemetry.max.bytes`), and INVALID_RECORD for what cannot be decompressed or read, or is larger
than that decompressed.

A push is read in steps, and kept once all of it was read. The APIs are always advertised; Kafka has them only if a
plugin takes the metrics, and here they go to /metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import CorruptRecordError, ErrorCode, InvalidRecordError, RequestError
from penstock.node.client_metrics.instances import ClientInstance
from penstock.node.client_metrics.otlp import read_pushed
from penstock.node.request import Handler, Outcome, Request
from penstock.node.steps import Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from penstock.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from penstock.protocol.messages.push_telemetry_request import PushTelemetryRequest
from penstock.protocol.messages.push_telemetry_response import PushTelemetryResponse
from penstock.records.compression import Codec, decompress

if TYPE_CHECKING:
    from penstock.node.broker import Broker

NO_ID = UUID(int=0)
RESERVED = (NO_ID, UUID(int=1))
"""Ids that no client has; the second is the metadata topic's."""
ACCEPTED = [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
"""Compression that clients are to use, the preferred one first. None at all is accepted, too."""
MAY_ASK_ANEW = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def get(node: Broker, request: Request[GetTelemetrySubscriptionsRequest], now_ms: int) -> Outcome:
    metrics = node.dispatcher.client_metrics
    instance_id = request.body.client_instance_id
    if instance_id == NO_ID:
        instance_id = metrics.new_id()
    instance = metrics.instance(instance_id, request, now_ms)
    if not instance.gets(now_ms) and instance.last_error not in MAY_ASK_ANEW:
        metrics.too_early += 1
        raise RequestError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    instance.last_error = ErrorCode.NONE
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=instance.wanted.push_interval_ms,
        telemetry_max_bytes=node.state.settings.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.wanted.metrics),
    )


def push(node: Broker, request: Request[PushTelemetryRequest], now_ms: int) -> Outcome | Stepped[Outcome]:
    body = request.body
    if body.client_instance_id in RESERVED:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    instance = node.dispatcher.client_metrics.instance(body.client_instance_id, request, now_ms)
    refused = refusal(node, instance, body, now_ms)
    instance.terminating = body.terminating
    if refused is not ErrorCode.NONE:
        instance.last_error = refused
        raise RequestError(refused)
    if len(body.metrics):
        return taken(node, request, instance)
    instance.last_error = ErrorCode.NONE
    return PushTelemetryResponse()


def refusal(node: Broker, instance: ClientInstance, body: PushTelemetryRequest, now_ms: int) -> ErrorCode:
    """Why a push is refused before it is looked into; NONE if it is not."""
    metrics = node.dispatcher.client_metrics
    if instance.terminating:
        return ErrorCode.INVALID_REQUEST
    if not instance.pushes(now_ms) and not body.terminating:
        metrics.too_early += 1
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if body.subscription_id != instance.subscription_id:
        metrics.unknown_subscriptions += 1
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if body.compression_type not in (Codec.NONE, *ACCEPTED):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(body.metrics) > node.state.settings.telemetry_max_bytes:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE


def taken(node: Broker, request: Request[PushTelemetryRequest], instance: ClientInstance) -> Stepped[Outcome]:
    """Reads the metrics of a push, and keeps them."""
    metrics, body = node.dispatcher.client_metrics, request.body
    limit_bytes = node.state.settings.telemetry_max_bytes
    try:
        data = decompress(Codec(body.compression_type), body.metrics, limit_bytes, metrics.contexts)
        found = yield from read_pushed(bytes(data))
    except (CorruptRecordError, InvalidRecordError):
        metrics.unreadable += 1
        instance.last_error = ErrorCode.INVALID_RECORD
        raise RequestError(ErrorCode.INVALID_RECORD) from None
    now_ms = node.now_ms
    yield from metrics.pushed.take(instance, request.connection.id, str(request.principal), found, now_ms)
    metrics.look_later(now_ms)
    metrics.accepted += 1
    instance.last_error = ErrorCode.NONE
    return PushTelemetryResponse()


HANDLERS = (
    Handler(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, get),
    Handler(ApiKey.PUSH_TELEMETRY, push),
)
