"""Answers of other nodes, and the versions in which they are asked."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ErrorCode, ProtocolError
from penstock.protocol.api import APIS, Api, ApiKey
from penstock.protocol.frames import decode_response
from penstock.protocol.message import Message

API_VERSIONS = APIS[ApiKey.API_VERSIONS]
UNSUPPORTED_VERSION_BYTES = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


def decoded(api: Api, version: int | None, wanted_id: int, frame: memoryview) -> Message:
    """The answer to a call. Raises ProtocolError for broken bytes, or if the answer is to another request."""
    assert version is not None, "what was sent has a version"
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    if correlation_id != wanted_id:
        raise ProtocolError(f"it answers request {correlation_id}, {wanted_id} was next")
    if api is API_VERSIONS and frame[4:6] == UNSUPPORTED_VERSION_BYTES:
        version = 0
    return decode_response(api, version, frame)[1]


def common_version(api: Api, served: Mapping[int, tuple[int, int]]) -> int:
    """The highest version that both sides know. Raises ProtocolError, with the versions they serve, if none."""
    lowest, highest = served.get(api.key, (0, -1))
    version = min(highest, api.stable_max_version)
    if version < max(lowest, api.min_version):
        theirs = f"versions {lowest} to {highest}" if highest >= 0 else "no version"
        raise ProtocolError(f"serves {theirs} of {api.name}, we know {api.min_version} to {api.stable_max_version}")
    return version
