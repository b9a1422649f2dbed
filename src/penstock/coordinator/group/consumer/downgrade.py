"""A consumer group becomes a classic one (KIP-848, "Online Migration"): when the last member that does not speak the
classic protocol goes, or is replaced by one that does.

The classic group is what its record says; so it is replayed like any other, and a revert brings the consumer group
back. What a record does not tell, sessions and the rebalance to come, follows when it is committed, or takes too long.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.coordinator.group.classic.group import CONSUMER_PROTOCOL, ClassicGroup, State
from penstock.coordinator.group.classic.member import ClassicMember
from penstock.coordinator.group.classic.rebalance import prepare_rebalance, renew_session
from penstock.coordinator.group.consumer.embedded import encode_assignment, version_of
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.timers import cancel_all
from penstock.coordinator.runtime.result import KEPT, CoordinatorRecord, Result
from penstock.errors import ErrorCode, ProtocolError, RequestError
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from penstock.coordinator.group.consumer.state import ConsumerGroupState
    from penstock.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

DOWNGRADE_POLICIES = ("downgrade", "bidirectional")

R = TypeVar("R")


def may_downgrade(machine: GroupMachine, group: ConsumerGroupState, leaving: Sequence[ConsumerMember]) -> bool:
    """Whether all who stay when these leave speak the classic protocol, and the settings allow it."""
    staying = len(group.members) - len(leaving)
    classic = group.classic_member_count - sum(member.uses_classic_protocol for member in leaving)
    return staying > 0 and classic == staying and is_allowed(machine, group, staying)


def may_downgrade_by(machine: GroupMachine, group: ConsumerGroupState, replaced: ConsumerMember) -> bool:
    """Whether this member is the only one that does not speak the classic protocol, and the settings allow it."""
    if replaced.uses_classic_protocol or group.classic_member_count != len(group.members) - 1:
        return False
    return is_allowed(machine, group, len(group.members))


def is_allowed(machine: GroupMachine, group: ConsumerGroupState, size: int) -> bool:
    """Whether the settings allow the group to become a classic one of this size."""
    config = machine.config()
    if config.consumer_migration_policy not in DOWNGRADE_POLICIES:
        logger.info("group %s stays a consumer group: group.consumer.migration.policy", group.group_id)
        return False
    if size > config.max_size:
        logger.info("group %s stays a consumer group: it is larger than group.max.size", group.group_id)
        return False
    return True


def convert(
    machine: GroupMachine,
    group: ConsumerGroupState,
    response: R | None,
    now_ms: int,
    *,
    leaving: Sequence[ConsumerMember] = (),
    joining: ConsumerMember | None = None,
    before: Sequence[CoordinatorRecord] = (),
    rebalance: bool = True,
) -> Result[R]:
    """Turns the group into a classic one, without `leaving`, and with `joining` in the place of its predecessor.

    `before`: records that are written first. `rebalance`: whether its members have to share anew. Raises RequestError
    GROUP_ID_NOT_FOUND when a member's subscription cannot be read.
    """
    replaced = None if joining is None else group.static_member(joining.instance_id)
    members = {member_id: member for member_id, member in group.members.items() if member not in leaving}
    names = {member_id: member_id for member_id in group.members}
    if joining is not None:
        assert replaced is not None, "only a static member joins in the place of another"
        del members[replaced.member_id]
        members[joining.member_id] = joining
        names[replaced.member_id] = joining.member_id
    classic = classic_group(machine, group, members, now_ms)
    protocols = {member_id: member.protocols for member_id, member in classic.members.items()}
    member_ids = list(group.members)

    def appended(code: ErrorCode, at_ms: int) -> None:
        present = machine.groups.find(group.group_id)
        if code not in KEPT or not isinstance(present, ClassicGroup):
            return
        for member_id in member_ids:
            cancel_all(machine, group.group_id, member_id)
        if present.state is not State.STABLE:
            return
        for member in present.members.values():
            known = protocols.get(member.member_id)
            if known is not None and not member.awaits_join:
                present.update(member, known, member.rebalance_timeout_ms, member.session_timeout_ms, None)
            renew_session(machine, present, member, at_ms)
        if rebalance:
            prepare_rebalance(machine, present, "it was a consumer group until now", at_ms)

    logger.info("group %s becomes a classic group", group.group_id)
    tombstones = group.tombstones_for(list(names.values()))
    return Result(response, [*before, *tombstones, classic.record()], appended=appended)


def classic_group(
    machine: GroupMachine, group: ConsumerGroupState, members: dict[str, ConsumerMember], now_ms: int
) -> ClassicGroup:
    """The same group as a stable classic one."""
    result = ClassicGroup(group.group_id, State.STABLE, now_ms=now_ms)
    result.generation_id = group.epoch().group
    for member in members.values():
        result.add(classic_member(member))
    result.protocol_name = result.select_protocol()
    try:
        for member_id, member in members.items():
            version = version_of(
                result.members[member_id].protocols[result.protocol_name], ConsumerProtocolSubscription
            )
            result.members[member_id].assignment = encode_assignment(group.target(member), version, machine.image)
    except ProtocolError as error:
        raise RequestError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot downgrade the classic group {group.group_id}: {error}."
        ) from None
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
