"""Offsets according to the log. A group that only commits offsets exists from its first one."""

from __future__ import annotations

from collections.abc import Callable

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.offsets.state import OffsetKey
from penstock.coordinator.group.state import GroupState
from penstock.protocol.message import Message
from penstock.protocol.messages.group.legacy_offset_commit_key import LegacyOffsetCommitKey
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue


def replay_offset_commit(
    state: GroupState, key: OffsetKey, value: OffsetCommitValue | None, offset: int, producer: tuple[int, int]
) -> None:
    """Applies an OffsetCommit record."""
    if value is not None:
        ensure_group(state, key.group)
    state.offsets.replay(key, value, offset, producer[0])


def ensure_group(state: GroupState, group_id: str) -> None:
    """Creates the group of a committed offset if it does not exist yet."""
    if group_id not in state.groups:
        state.groups.put(state.pending.forming(group_id) or ClassicGroup(group_id))
        state.pending.formed(group_id)


REPLAY: dict[type[Message], Callable[..., None]] = {
    OffsetCommitKey: replay_offset_commit,
    LegacyOffsetCommitKey: replay_offset_commit,
}
