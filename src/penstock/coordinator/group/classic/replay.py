"""A classic group as the log has it, with members and assignments as of its last stored generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.member import ClassicMember
from penstock.protocol.message import Message
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group.group_metadata_value import GroupMetadataValue

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine


def replay_group_metadata(
    machine: GroupMachine,
    key: GroupMetadataKey,
    value: GroupMetadataValue | None,
    offset: int,
    producer: tuple[int, int],
) -> None:
    """Applies a GroupMetadata record."""
    if value is None:
        machine.groups.remove(key.group)
    else:
        machine.groups.put(group_of(key.group, value))


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record tells of: stable if it has members."""
    group = ClassicGroup(group_id, State.STABLE if value.members else State.EMPTY)
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    group.state_timestamp_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
    for member in value.members:
        group.add(ClassicMember.from_record(member, value.protocol_type, value.protocol))
    group.learn_topics()
    return group


REPLAY: dict[type[Message], Callable[..., None]] = {GroupMetadataKey: replay_group_metadata}
