"""The records of consumer groups (KIP-848) in `__consumer_offsets`. Every value has version 0."""

from __future__ import annotations

from penstock.coordinator.group.assignors.spec import Partitions
from penstock.coordinator.group.consumer.member import ConsumerMember, Epochs
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.protocol.messages.group.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from penstock.protocol.messages.group.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from penstock.protocol.messages.group.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from penstock.protocol.messages.group.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from penstock.protocol.messages.group.consumer_group_metadata_key import ConsumerGroupMetadataKey
from penstock.protocol.messages.group.consumer_group_metadata_value import ConsumerGroupMetadataValue
from penstock.protocol.messages.group.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from penstock.protocol.messages.group.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from penstock.protocol.messages.group.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from penstock.protocol.messages.group.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from penstock.protocol.messages.group.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from penstock.protocol.messages.group.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from penstock.protocol.messages.group.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group epoch, and the hash of the topics that it was raised for."""
    key = ConsumerGroupMetadataKey(group_id=group_id)
    return CoordinatorRecord(key, ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def group_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id))


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """The end of a record that releases before 4.1 wrote in place of the hash."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_subscription(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """A record of a member's identity and subscription."""
    classic = member.classic
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=classic
            and ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in classic.protocols
                ],
            ),
        ),
    )


def member_subscription_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic, partitions=list(numbers)) for topic, numbers in partitions.items()
            ]
        ),
    )


def target_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """A member should have nothing any more: it goes."""
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """The group epoch that the target assignment was computed for, and when that was."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def assignment_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """The end of the target assignment."""
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def current_assignment(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """A record of the partitions a member owns and those it has to give up."""
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state.value,
            assigned_partitions=with_epochs(member.assigned),
            partitions_pending_revocation=with_epochs(member.pending_revocation),
        ),
    )


def with_epochs(partitions: Epochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic, epochs in partitions.items()
    ]


def current_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """A member has nothing any more: it goes."""
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))


def regular_expression(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """The topics that a regular expression matches."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def regular_expression_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Nobody subscribes to a regular expression any more."""
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))
