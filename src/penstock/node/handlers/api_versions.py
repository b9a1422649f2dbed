"""ApiVersions (key 18): what this broker serves, and the cluster's feature levels.

Versions 0-4, flexible from 3. The response header is always version 0. An unsupported request version is answered in
version 0 with UNSUPPORTED_VERSION and the range of ApiVersions itself, from which a client picks. Names of client
software that break KIP-511's pattern are INVALID_REQUEST. Below v4 a feature whose lowest version is 0 is left out,
which old Java clients cannot read.

Our own APIs are named only to clients whose software is ours, which they say from v3 on. Otherwise the answer is the
same for everybody until the image's features change, so its body is encoded once a version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.features import KRAFT_VERSION, REGISTERED_FEATURES
from penstock.node.limits import ANSWERS_KEPT_MAX
from penstock.node.request import BoundHandler, Handler, Kept, Outcome, Request
from penstock.protocol.api import APIS, SOFTWARE_NAME, ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from penstock.node.broker import Broker

NAME_OR_VERSION = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(node: Broker, request: Request[ApiVersionsRequest | None], now_ms: int) -> Outcome:
    body = request.body
    if body is None:
        request.version = 0
        return unsupported()
    if request.version >= 3:
        names = (body.client_software_name, body.client_software_version)
        if not all(NAME_OR_VERSION.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        request.connection.software_name, request.connection.software_version = names
        node.dispatcher.clients.introduced(request.connection)
    return kept_answer(node, request, own=request.version >= 3 and body.client_software_name == SOFTWARE_NAME)


def kept_answer(node: Broker, request: Request[ApiVersionsRequest | None], *, own: bool) -> Kept:
    """The encoded response; `own`: with our own APIs."""
    features, kraft_version = node.state.image.features, node.quorum.kraft_version
    answers = request.handler.kept.of(features, ANSWERS_KEPT_MAX)
    key = (kraft_version, request.version, own)
    kept = answers.get(key)
    if kept is None:
        message = response(node, node.dispatcher.served[request.listener], request.version, own=own)
        kept = answers[key] = Kept.of(request.api, request.version, message)
    return kept


def response(node: Broker, handlers: Mapping[int, BoundHandler], version: int, *, own: bool) -> ApiVersionsResponse:
    """The answer, from the registry and the features; `own`: with our own APIs."""
    keys = [
        ApiVersion(api_key=handler.key, min_version=handler.advertised_min_version, max_version=handler.max_version)
        for handler in handlers.values()
        if own or not handler.api.own
    ]
    levels = {**node.state.image.features, KRAFT_VERSION: node.quorum.kraft_version}
    finalized = [
        FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in sorted(levels.items())
        if level > 0
    ]
    return ApiVersionsResponse(
        api_keys=keys,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in sorted(REGISTERED_FEATURES.items())
            if lowest > 0 or version >= 4
        ],
        finalized_features_epoch=node.state.image.offset if finalized else -1,
        finalized_features=finalized,
    )


def unsupported() -> Message:
    """The version 0 answer to a version that we do not know."""
    own = APIS[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=own.key, min_version=own.min_version, max_version=own.max_version)],
    )


HANDLERS = (Handler(ApiKey.API_VERSIONS, handle),)
