"""Applies the records of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from penstock.coordinator.group.assignors.spec import in_order
from penstock.coordinator.group.consumer.group import ConsumerGroup, Epoch
from penstock.coordinator.group.consumer.member import (
    LEAVING_EPOCH,
    NOTHING,
    ClassicMetadata,
    ClassicProtocol,
    ConsumerMember,
    Epochs,
    MemberState,
    epochs_in_order,
)
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import CorruptRecordError
from penstock.protocol.message import Message
from penstock.protocol.messages.group import consumer_group_current_member_assignment_value as current
from penstock.protocol.messages.group.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from penstock.protocol.messages.group.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from penstock.protocol.messages.group.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from penstock.protocol.messages.group.consumer_group_metadata_key import ConsumerGroupMetadataKey
from penstock.protocol.messages.group.consumer_group_metadata_value import ConsumerGroupMetadataValue
from penstock.protocol.messages.group.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from penstock.protocol.messages.group.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from penstock.protocol.messages.group.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from penstock.protocol.messages.group.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from penstock.protocol.messages.group.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from penstock.protocol.messages.group.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from penstock.protocol.messages.group.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from penstock.protocol.messages.group.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def replay(state: GroupState, key: Any, value: Any, offset: int, producer: tuple[int, int]) -> None:
    """Applies a record of any kind. Its first value creates a group; tombstones of a group that is gone are ignored."""
    group = state.groups.find(key.group_id)
    is_end = isinstance(key, ConsumerGroupMetadataKey) and value is None
    if is_end:
        state.ended = key.group_id, offset
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        group = ConsumerGroup(state.timeline, key.group_id, state.topics.groups)
        state.groups.put(group)
    if is_end:
        check_gone(group)
        state.groups.remove(key.group_id)
    else:
        APPLY[type(key)](group, key, value)


def apply(group: ConsumerGroup, record: CoordinatorRecord) -> None:
    """Applies a value, not a tombstone of the whole group, to a group that is in no state."""
    APPLY[type(record.key)](group, record.key, record.value)


def check_gone(group: ConsumerGroup) -> None:
    """Raises CorruptRecordError when the end of a group comes before that of its parts."""
    if not group.is_empty or len(group.targets):
        raise CorruptRecordError(
            f"group {group.group_id} ends with {len(group.members)} members and {len(group.targets)} assignments"
        )


def apply_epoch(group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
    assert value is not None
    _, _, *of_assignment = group.epoch()
    group.apply_epoch(Epoch(value.epoch, value.metadata_hash, *of_assignment))


def apply_partition_metadata(
    group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    group.apply_partition_metadata(value is not None)


def apply_member(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.apply_member(subscribed(member or ConsumerMember(key.member_id), value))
    elif member is not None:
        if member.member_epoch != LEAVING_EPOCH or key.member_id in group.targets:
            raise CorruptRecordError(f"member {key.member_id} of group {group.group_id} ends before its assignment")
        group.remove_member(key.member_id)


def subscribed(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member with what the record says of it."""
    classic = value.classic_member_metadata
    return member.with_(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
        subscribed_topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=classic
        and ClassicMetadata(
            classic.session_timeout_ms,
            tuple(ClassicProtocol(each.name, bytes(each.metadata)) for each in classic.supported_protocols),
        ),
    )


def apply_target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id)
    else:
        group.targets[key.member_id] = in_order({each.topic_id: each.partitions for each in value.topic_partitions})


def apply_assignment_epoch(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    epoch, timestamp_ms = (-1, 0) if value is None else (value.assignment_epoch, value.assignment_timestamp)
    group.apply_epoch(group.epoch()._replace(assignment=epoch, assignment_timestamp_ms=timestamp_ms))


def apply_current(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: current.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.apply_member(assigned(member or ConsumerMember(key.member_id), value))
    elif member is not None:
        group.apply_member(
            member.with_(
                member_epoch=LEAVING_EPOCH,
                previous_member_epoch=LEAVING_EPOCH,
                assigned=NOTHING,
                pending_revocation=NOTHING,
            )
        )


def assigned(member: ConsumerMember, value: current.ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """The member with the assignment of the record."""
    return member.with_(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState.of(value.state),
        assigned=epochs_of(value.assigned_partitions, value.member_epoch),
        pending_revocation=epochs_of(value.partitions_pending_revocation, value.member_epoch),
    )


def epochs_of(partitions: Sequence[current.TopicPartitions], member_epoch: int) -> Epochs:
    """Partitions with the epochs at which they were assigned; releases before 4.3 do not tell those."""
    result: dict[UUID, dict[int, int]] = {}
    for each in partitions:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        result[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return epochs_in_order(result)


def apply_regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    resolved = None
    if value is not None:
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.apply_regex(key.regular_expression, resolved)


APPLY: Mapping[type[Message], Any] = {
    ConsumerGroupMetadataKey: apply_epoch,
    ConsumerGroupPartitionMetadataKey: apply_partition_metadata,
    ConsumerGroupMemberMetadataKey: apply_member,
    ConsumerGroupTargetAssignmentMemberKey: apply_target,
    ConsumerGroupTargetAssignmentMetadataKey: apply_assignment_epoch,
    ConsumerGroupCurrentMemberAssignmentKey: apply_current,
    ConsumerGroupRegularExpressionKey: apply_regex,
}
REPLAY = dict.fromkeys(APPLY, replay)
