"""ConsumerGroupDescribe (key 69), versions 0-1: a consumer group with its members, as of the committed state.

What a member still has to give up counts as its own. Topics that are gone are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from penstock.coordinator.group.assignors import preferred_assignor
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.state import GroupState
from penstock.errors import RequestError
from penstock.metadata.image import MetadataImage
from penstock.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe_consumer_groups(
    state: GroupState, committed_offset: int, group_ids: Sequence[str]
) -> list[DescribedGroup]:
    """The groups, each as it is or with GROUP_ID_NOT_FOUND."""
    return [describe(state, committed_offset, group_id) for group_id in group_ids]


def describe(state: GroupState, at: int, group_id: str) -> DescribedGroup:
    try:
        group = state.groups.get_of(ConsumerGroup, group_id, at=at)
    except RequestError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    epoch = group.epoch(at)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name(at),
        group_epoch=epoch.group,
        assignment_epoch=epoch.assignment,
        assignor_name=preferred_assignor(
            state.settings.broker().group_consumer_assignors, dict(group.assignors.items(at=at))
        ),
        members=[
            described(member, group.target(member, at), state.image) for _, member in sorted(group.members.items(at=at))
        ],
    )


def described(member: ConsumerMember, target: Mapping[UUID, Sequence[int]], image: MetadataImage) -> Member:
    has: dict[UUID, list[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic, epochs in partitions.items():
            has.setdefault(topic, []).extend(epochs)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=assignment(has, image),
        target_assignment=assignment(target, image),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def assignment(partitions: Mapping[UUID, Sequence[int]], image: MetadataImage) -> Assignment:
    """Partitions with the names of their topics."""
    found = ((image.topics_by_id.get(topic), numbers) for topic, numbers in partitions.items())
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.id, topic_name=topic.name, partitions=sorted(numbers))
            for topic, numbers in found
            if topic is not None
        ]
    )
