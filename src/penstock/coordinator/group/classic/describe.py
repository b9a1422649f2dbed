"""DescribeGroups (key 15), versions 0-6, for classic groups.

A group that does not exist is Dead; from version 6 that is an error as well (KIP-1043). The members' metadata is told
only of a stable group, as it depends on the protocol that they agree on.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.state import GroupState
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.describe_groups_response import DescribedGroup

NOT_FOUND_FROM = 6


def describe_groups(
    state: GroupState, committed_offset: int, group_ids: Sequence[str], *, api_version: int = NOT_FOUND_FROM
) -> list[DescribedGroup]:
    """DescribeGroups, one answer for each id, in their order."""
    return [describe(state, committed_offset, group_id, api_version) for group_id in group_ids]


def describe(state: GroupState, committed_offset: int, group_id: str, api_version: int) -> DescribedGroup:
    """Describes one group, whether it exists or not."""
    try:
        group = state.groups.get_of(ClassicGroup, group_id, at=committed_offset)
    except RequestError as error:
        absent = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
        if api_version >= NOT_FOUND_FROM:
            absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            absent.error_message = error.message
        return absent
    return described(group)


def described(group: ClassicGroup) -> DescribedGroup:
    protocol_name = group.protocol_name if group.state is State.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[member.described(protocol_name) for member in group.members.values()],
    )
