"""Offsets as the log has them. A group that only commits offsets exists from its first one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.offsets.state import OffsetKey
from penstock.protocol.message import Message
from penstock.protocol.messages.group.legacy_offset_commit_key import LegacyOffsetCommitKey
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine


def replay_offset_commit(
    machine: GroupMachine,
    key: OffsetKey,
    value: OffsetCommitValue | None,
    offset: int,
    producer: tuple[int, int],
) -> None:
    """Applies an OffsetCommit record."""
    if value is not None:
        ensure_group(machine, key.group)
    machine.offsets.replay(key, value, offset, producer[0])


def ensure_group(machine: GroupMachine, group_id: str) -> None:
    """There is a group, as it has an offset."""
    if group_id not in machine.groups:
        machine.groups.put(machine.pending.forming(group_id) or ClassicGroup(group_id))
        machine.pending.stored(group_id)


REPLAY: dict[type[Message], Callable[..., None]] = {
    OffsetCommitKey: replay_offset_commit,
    LegacyOffsetCommitKey: replay_offset_commit,
}
