"""A consumer group becomes a classic one (KIP-848, "Online Migration"): when the last member that does not speak the
classic protocol goes, or is replaced by one that does.

The classic group is what its record says; so it is replayed like any other, and a revert brings the consumer group
back. What a record does not tell, sessions and the rebalance to come, follows when it is committed, or takes too long;
or when another coordinator finds it right behind the end of the consumer group, with no generation since. In Apache
Kafka 4.3 nobody has then what the consumers had, until the members share anew for another reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from penstock.coordinator.group.classic.group import CONSUMER_PROTOCOL, ClassicGroup, State
from penstock.coordinator.group.classic.member import ClassicMember
from penstock.coordinator.group.classic.rebalance import WAS_CONSUMER_GROUP, prepare_rebalance, renew_session
from penstock.coordinator.group.consumer.embedded import encode_assignment
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.timers import cancel_all
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import KEPT, CoordinatorRecord, Result
from penstock.errors import ErrorCode, ProtocolError
from penstock.events import events
from penstock.protocol.consumer_protocol import version_of
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

logger = events("coordinator.group")

DOWNGRADE_POLICIES = ("downgrade", "bidirectional")

R = TypeVar("R")


def may_downgrade(state: GroupState, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> bool:
    """Whether all who stay when these leave speak the classic protocol, and the settings allow it."""
    staying = len(group.members) - len(leaving)
    classic = group.classic_member_count - sum(member.uses_classic_protocol for member in leaving)
    return staying > 0 and classic == staying and is_allowed(state, group, staying)


def may_downgrade_by(state: GroupState, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    """Whether this member is the only one that does not speak the classic protocol, and the settings allow it."""
    if replaced.uses_classic_protocol or group.classic_member_count != len(group.members) - 1:
        return False
    return is_allowed(state, group, len(group.members))


def is_allowed(state: GroupState, group: ConsumerGroup, size: int) -> bool:
    """Whether the settings allow the group to become a classic one of this size."""
    settings = state.settings.broker()
    if settings.group_consumer_migration_policy.lower() not in DOWNGRADE_POLICIES:
        logger.info("group stays a consumer group", group=group.group_id, reason="group.consumer.migration.policy")
        return False
    if size > settings.group_max_size:
        logger.info("group stays a consumer group", group=group.group_id, reason="it is larger than group.max.size")
        return False
    return True


def convert(
    state: GroupState,
    group: ConsumerGroup,
    response: R | None,
    now_ms: int,
    *,
    leaving: Sequence[ConsumerMember] = (),
    joining: ConsumerMember | None = None,
    before: Sequence[CoordinatorRecord] = (),
    rebalance: bool = True,
) -> Result[R] | None:
    """Turns the group into a classic one, without `leaving`, and with `joining` in the place of its predecessor.

    `before`: records that are written first. `rebalance`: whether its members have to share anew. None where the
    subscription of a member who stays cannot be read: then it stays a consumer group, and whoever is gone is gone. In
    Apache Kafka 4.3 nobody leaves such a group, and the dead keep their partitions.
    """
    replaced = None if joining is None else group.static_member(joining.instance_id)
    members = {member_id: member for member_id, member in group.members.items() if member not in leaving}
    names = {member_id: member_id for member_id in group.members}
    if joining is not None:
        assert replaced is not None, "only a static member joins in the place of another"
        del members[replaced.member_id]
        members[joining.member_id] = joining
        names[replaced.member_id] = joining.member_id
    try:
        classic = classic_group(state, group, members, now_ms)
    except ProtocolError as error:
        logger.warning("group stays a consumer group", group=group.group_id, reason=error)
        return None
    protocols = {member_id: member.protocols for member_id, member in classic.members.items()}
    member_ids = list(group.members)

    def appended(code: ErrorCode, at_ms: int) -> None:
        present = state.groups.find(group.group_id)
        if code not in KEPT or not isinstance(present, ClassicGroup):
            return
        for member_id in member_ids:
            cancel_all(state, group.group_id, member_id)
        if present.state is not State.STABLE:
            return
        for member in present.members.values():
            known = protocols.get(member.member_id)
            if known is not None and not member.awaits_join:
                present.update(member, known, member.rebalance_timeout_ms, member.session_timeout_ms, None)
            renew_session(state, present, member, at_ms)
        if rebalance:
            prepare_rebalance(state, present, WAS_CONSUMER_GROUP, at_ms)
        present.was_consumer_group = False

    logger.info("group becomes a classic group", group=group.group_id)
    tombstones = group.tombstones_for(list(names.values()))
    return Result(response, [*before, *tombstones, classic.record()], appended=appended)


def classic_group(
    state: GroupState, group: ConsumerGroup, members: dict[str, ConsumerMember], now_ms: int
) -> ClassicGroup:
    """The same group as a stable classic one. Raises ProtocolError when a member's subscription cannot be read."""
    result = ClassicGroup(group.group_id, State.STABLE, wall_ms=state.wall.at(now_ms))
    result.generation_id = group.epoch().group
    for member in members.values():
        result.add(classic_member(member))
    result.protocol_name = result.select_protocol()
    for member_id, member in members.items():
        version = version_of(result.members[member_id].protocols[result.protocol_name], ConsumerProtocolSubscription)
        result.members[member_id].assignment = encode_assignment(group.target(member), version, state.image)
    return result


def classic_member(member: ConsumerMember) -> ClassicMember:
    """A member of a classic group."""
    assert member.classic is not None, f"{member.member_id} does not speak the classic protocol"
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL,
        protocols={protocol.name: protocol.metadata for protocol in member.classic.protocols},
    )
