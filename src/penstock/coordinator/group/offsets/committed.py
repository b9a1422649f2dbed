"""An offset as a group has committed it."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from penstock.protocol.message import ZERO_UUID


class CommittedOffset(NamedTuple):
    """An offset as it was committed.

    Attributes:
        leader_epoch: of the last record that was consumed; -1: unknown.
        metadata: a text of the client's.
        commit_timestamp_ms: when it was committed.
        expire_timestamp_ms: when it expires if the client has said so; -1: as the settings say.
        topic_id: of the topic; zero in records of older releases.
        record_offset: of its record in the coordinator's log; -1 before it is replayed.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: UUID = ZERO_UUID
    record_offset: int = -1
