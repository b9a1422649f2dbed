"""AllocateProducerIdsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AllocateProducerIdsResponse(Message):
    """AllocateProducerIdsResponse, versions 0 to 0."""

    __slots__ = ("throttle_time_ms", "error_code", "producer_id_start", "producer_id_len",)

    NAME = "AllocateProducerIdsResponse"
    KEY = 67
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id_start: int = 0,
        producer_id_len: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id_start = producer_id_start
        self.producer_id_len = producer_id_len
