"""UpdateRaftVoterResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class UpdateRaftVoterResponse(Message):
    """UpdateRaftVoterResponse, versions 0 to 0."""

    __slots__ = ("throttle_time_ms", "error_code", "current_leader",)

    NAME = "UpdateRaftVoterResponse"
    KEY = 82
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        current_leader: CurrentLeader = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader = CurrentLeader() if current_leader is ABSENT else current_leader


class CurrentLeader(Struct):
    __slots__ = ("leader_id", "leader_epoch", "host", "port",)

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        host: str = '',
        port: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port
