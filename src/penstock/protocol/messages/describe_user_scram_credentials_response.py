"""DescribeUserScramCredentialsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeUserScramCredentialsResponse(Message):
    """DescribeUserScramCredentialsResponse, versions 0 to 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results",)

    NAME = "DescribeUserScramCredentialsResponse"
    KEY = 50
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
        results: list[DescribeUserScramCredentialsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is ABSENT else results


class DescribeUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message", "credential_infos",)

    def __init__(
        self,
        *,
        user: str = '',
        error_code: int = 0,
        error_message: str | None = '',
        credential_infos: list[CredentialInfo] = ABSENT,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is ABSENT else credential_infos


class CredentialInfo(Struct):
    __slots__ = ("mechanism", "iterations",)

    def __init__(
        self,
        *,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations
