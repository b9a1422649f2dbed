"""A classic group becomes a consumer group (KIP-848, "Online Migration"), when the first member of the new kind joins.

Its members keep what they have; the generation goes on as the epoch. They do not notice but for one rebalance, and are
served by `classic.py` from then on.
"""

from __future__ import annotations

from uuid import UUID

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.assignors.spec import Partitions, in_order
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.member import ClassicMember, join_error
from penstock.coordinator.group.consumer.group import ConsumerGroup, Epoch
from penstock.coordinator.group.consumer.member import ClassicMetadata, ClassicProtocol, ConsumerMember
from penstock.coordinator.group.consumer.timers import set_session
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import CorruptRecordError, ErrorCode, ProtocolError, RequestError
from penstock.events import events
from penstock.metadata.image import MetadataImage
from penstock.metadata.timeline import Timeline
from penstock.protocol.consumer_protocol import decode_assignment, decode_subscription
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

logger = events("coordinator.group")

UNKNOWN_TOPICS_HASH = 0
"""Of a classic group that was about to share anew: what its topics have is looked at, and all is assigned, although
nobody subscribes to anything else than before. A static member that takes the place of its like does not."""
UPGRADE_POLICIES = ("upgrade", "bidirectional")


def check_upgrade(state: GroupState, group: ClassicGroup) -> None:
    """Raises RequestError GROUP_ID_NOT_FOUND when the group cannot become a consumer group."""
    settings = state.settings.broker()
    if settings.group_consumer_migration_policy.lower() not in UPGRADE_POLICIES:
        raise refused(group, "online upgrade is disabled.")
    if not group.uses_consumer_protocol:
        raise refused(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > settings.group_consumer_max_size:
        raise refused(group, "the group size exceeds the consumer group maximum size.")


def refused(group: ClassicGroup, why: str) -> RequestError:
    """The error for a group that is not converted."""
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}"
    logger.info("group stays a classic group", group=group.group_id, reason=why)
    return RequestError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def convert(state: GroupState, group: ClassicGroup, written: list[CoordinatorRecord]) -> ConsumerGroup:
    """The group as a consumer group, which is in the state later. The records that make it so are added to `written`.

    Raises RequestError GROUP_ID_NOT_FOUND when it has to stay what it is.
    """
    check_upgrade(state, group)
    result = ConsumerGroup(Timeline(), group.group_id)
    protocol_name = group.protocol_name or (group.select_protocol() if group.members else "")
    try:
        for member in group.members.values():
            partitions = assigned_to(member, group, state.image)
            result.apply_target(member.member_id, partitions)
            result.apply_member(consumer_member(member, protocol_name, group.generation_id, partitions))
    except ProtocolError:
        raise refused(group, "the embedded consumer protocol is malformed.") from None
    except CorruptRecordError:
        raise refused(group, "a partition is assigned to two members.") from None
    settled = group.state is State.STABLE and not group.was_consumer_group
    metadata_hash = state.topics.hash(result.topics, state.image) if settled else UNKNOWN_TOPICS_HASH
    result.apply_epoch(Epoch(group.generation_id, metadata_hash, group.generation_id))
    written += group.tombstones()
    written += records_of(result)
    return result


def hand_over(state: GroupState, group: ClassicGroup, converted: ConsumerGroup, now_ms: int) -> None:
    """Once nothing can go wrong any more: who waits in the classic group is told to join again, in the other."""
    for member in group.members.values():
        group.answer_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), now_ms)
        member.answer_sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
        set_session(state, group.group_id, converted.members[member.member_id], now_ms)
    logger.info("group becomes a consumer group", group=group.group_id)


def assigned_to(member: ClassicMember, group: ClassicGroup, image: MetadataImage) -> Partitions:
    """The partitions assigned to a member, of existing topics. Raises ProtocolError, or RequestError for a custom
    assignor.
    """
    if not member.assignment:
        return {}
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise refused(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    found: dict[UUID, list[int]] = {}
    for each in assignment.assigned_partitions:
        topic = image.topics_by_name.get(each.topic)
        if topic is not None:
            found[topic.id] = each.partitions
    return in_order(found)


def consumer_member(
    member: ClassicMember, protocol_name: str, generation_id: int, partitions: Partitions
) -> ConsumerMember:
    """The member as one of a consumer group. Raises ProtocolError."""
    subscription = decode_subscription(member.protocols[protocol_name])
    return ConsumerMember(
        member.member_id,
        member_epoch=generation_id,
        previous_member_epoch=generation_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned={topic: dict.fromkeys(numbers, generation_id) for topic, numbers in partitions.items()},
        classic=ClassicMetadata(
            member.session_timeout_ms,
            tuple(ClassicProtocol(name, bytes(metadata)) for name, metadata in member.protocols.items()),
        ),
    )


def records_of(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """The records that make the whole group."""
    group_id, epoch = group.group_id, group.epoch()
    members = [member for _, member in group.members.items()]
    return [
        *(records.member_subscription(group_id, member) for member in members),
        records.group_epoch(group_id, epoch.group, epoch.metadata_hash),
        *(records.target_assignment(group_id, member_id, target) for member_id, target in group.targets.items()),
        records.assignment_epoch(group_id, epoch.assignment, epoch.assignment_timestamp_ms),
        *(records.current_assignment(group_id, member) for member in members),
    ]
