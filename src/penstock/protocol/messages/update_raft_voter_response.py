"""UpdateRaftVoterResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class UpdateRaftVoterResponse(Message, key=82, versions=(0, 0), flexible_from=0):
    """UpdateRaftVoterResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    current_leader: CurrentLeader = ABSENT


class CurrentLeader(Struct):
    leader_id: int = -1
    leader_epoch: int = -1
    host: str = ''
    port: int = 0
