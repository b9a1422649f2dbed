"""What all kinds of groups have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.list_groups_response import ListedGroup
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

NO_MEMBER = ""
"""The member id of who has none yet."""

JoinReply = Callable[[JoinGroupResponse, int], None]
"""`reply(response, now_ms)`. It may be called again when the answer has left already; that changes nothing then."""
PartitionCheck = Callable[[str, UUID, int], None]
"""`check(topic, topic_id, partition)` raises RequestError unless the member may commit an offset for the partition."""
SyncReply = Callable[[SyncGroupResponse, int], None]
"""`reply(response, now_ms)`, as with JoinReply."""


class GroupType(StrEnum):
    """The types of groups, named as in ListGroups (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(ABC):
    """A group of any kind."""

    __slots__ = ()

    TYPE: ClassVar[GroupType]
    group_id: str

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @abstractmethod
    def state_name(self, committed_offset: int | None = None) -> str:
        """The state as tools show it, `Stable`; as of a committed offset, or now."""

    @abstractmethod
    def listed(self, committed_offset: int) -> ListedGroup:
        """The group's entry in a ListGroups response."""

    @abstractmethod
    def has_member(self, member_id: str) -> bool: ...

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether its offsets of a topic are in use: they neither expire nor are deleted."""

    @abstractmethod
    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        api_version: int,
        *,
        transactional: bool,
    ) -> PartitionCheck | None:
        """Raises RequestError unless the member may commit offsets now. Returns what else to check, if anything."""

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int, committed_offset: int | None) -> None:
        """Raises RequestError unless the member may fetch offsets: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""

    @abstractmethod
    def check_delete_offsets(self) -> None:
        """Raises RequestError unless offsets may be deleted one by one."""

    def check_delete(self) -> None:
        """Raises RequestError NON_EMPTY_GROUP unless the group may be deleted."""
        if not self.is_empty:
            raise RequestError(ErrorCode.NON_EMPTY_GROUP, f"The group {self.group_id} is not empty.")

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group, except its offsets."""

    @abstractmethod
    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """From when on the retention of an offset counts that was committed then. None: it does not expire now."""
