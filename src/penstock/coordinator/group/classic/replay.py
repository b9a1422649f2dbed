"""A classic group according to the log, with members and assignments of its last stored generation."""

from __future__ import annotations

from collections.abc import Callable

from penstock.coordinator.group.classic.group import NO_TIMESTAMP, ClassicGroup, State
from penstock.coordinator.group.classic.member import ClassicMember
from penstock.coordinator.group.state import GroupState
from penstock.protocol.message import Message
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group.group_metadata_value import GroupMetadataValue


def replay_group_metadata(
    state: GroupState, key: GroupMetadataKey, value: GroupMetadataValue | None, offset: int, producer: tuple[int, int]
) -> None:
    """Applies a GroupMetadata record."""
    if value is None:
        state.groups.remove(key.group)
    else:
        group = group_of(key.group, value)
        group.was_consumer_group = bool(group.members) and state.ended == (key.group, offset - 1)
        state.groups.put(group)


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record describes: stable if it has members."""
    group = ClassicGroup(group_id, State.STABLE if value.members else State.EMPTY)
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    group.state_timestamp_ms = None if value.current_state_timestamp == NO_TIMESTAMP else value.current_state_timestamp
    for member in value.members:
        group.add(ClassicMember.from_record(member, value.protocol_type, value.protocol))
    group.learn_topics()
    return group


REPLAY: dict[type[Message], Callable[..., None]] = {GroupMetadataKey: replay_group_metadata}
