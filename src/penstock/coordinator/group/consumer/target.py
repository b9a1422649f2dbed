"""The group epoch and the target assignment: what every member should have, computed anew for each group epoch.

An assignment is at least `consumer.assignment.interval.ms` older than the next, so that many members who join at once
cost few assignments. Until then members keep to the last one, and come back soon.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.assignors import ASSIGNORS
from penstock.coordinator.group.assignors.spec import NO_PARTITIONS, GroupSpec, MemberSpec, Partitions
from penstock.coordinator.group.consumer.current import Owned, Reconciliation
from penstock.coordinator.group.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.group.consumer.settings import preferred_assignor, timing
from penstock.coordinator.group.consumer.state import ConsumerGroupState, is_homogeneous
from penstock.coordinator.group.consumer.timers import cancel_rebalance, set_rebalance
from penstock.coordinator.group.consumer.topics import topic_ids
from penstock.coordinator.runtime.result import CoordinatorRecord

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)


class Change(NamedTuple):
    """One operation on a group: a member that was `old` and will be `new`, and the records that say so. `sees`: whether
    who asks may describe a topic."""

    machine: GroupMachine
    group: ConsumerGroupState
    old: ConsumerMember
    new: ConsumerMember
    records: list[CoordinatorRecord]
    now_ms: int
    sees: Callable[[str], bool]


class Target(NamedTuple):
    """Where a member should come to."""

    epoch: int
    partitions: Partitions


def changed_counts(counts: Mapping[str, int], old: str | None, new: str | None) -> dict[str, int]:
    """Counts when one member says something else; empty texts are not counted."""
    result = dict(counts)
    for key, by in ((old, -1), (new, +1)):
        if key:
            result[key] = result.get(key, 0) + by
            if not result[key]:
                del result[key]
    return result


def subscription_changed(change: Change) -> bool:
    """Writes the member down if it has changed. Returns whether it subscribes to other topics by name."""
    if change.new is change.old or change.new == change.old:
        return False
    change.records.append(records.member_subscription(change.group.group_id, change.new))
    return change.new.subscribed_topic_names != change.old.subscribed_topic_names


def raise_group_epoch(change: Change, *, bump: bool) -> int:
    """Looks at the topics; raises the group epoch if they or the subscriptions have changed. Returns it."""
    machine, group = change.machine, change.group
    metadata_hash = machine.topics.hash(group.topics_after(change.old, change.new), machine.image)
    epoch = group.epoch()
    group_epoch = epoch.group
    if bump or metadata_hash != epoch.metadata_hash:
        group_epoch += 1
        change.records.append(records.group_epoch(group.group_id, group_epoch, metadata_hash))
        logger.info("group %s comes to epoch %d", group.group_id, group_epoch)
    group.refreshed_epoch = group_epoch
    if group.has_partition_metadata:
        change.records.append(records.partition_metadata_tombstone(group.group_id))
    return group_epoch


def will_be_homogeneous(change: Change) -> bool:
    """Whether all members will subscribe to the same.

    Apache Kafka asks that only when it raises the group epoch, and takes the answer for the group without the member
    otherwise. A member that joins with a new regular expression, which is not evaluated yet, is left out then.
    """
    group = change.group
    regex_members = changed_counts(
        dict(group.regex_members.items()), change.old.subscribed_topic_regex, change.new.subscribed_topic_regex
    )
    replaces = group.static_member(change.new.instance_id) is not None
    joins = change.new.member_id not in group.members and not replaces
    return is_homogeneous(regex_members, group.topics_after(change.old, change.new), len(group.members) + joins)


def update_target(change: Change, group_epoch: int) -> Target:
    """Computes the target assignment if there is none for this group epoch yet. Returns what the member should have."""
    machine, group, now_ms = change.machine, change.group, change.now_ms
    epoch = group.epoch()
    interval_ms = timing(machine, group.group_id).assignment_interval_ms
    too_early = epoch.assignment_timestamp_ms and now_ms < epoch.assignment_timestamp_ms + interval_ms
    if epoch.assignment >= group_epoch or too_early:
        return Target(epoch.assignment, group.target(change.new))
    counts = changed_counts(dict(group.assignors.items()), change.old.server_assignor, change.new.server_assignor)
    assignor = preferred_assignor(machine.config(), counts)
    spec = specify(change, will_be_homogeneous(change))
    result = ASSIGNORS[assignor](spec)
    for member_id in spec.members:
        partitions = result.get(member_id, NO_PARTITIONS)
        if partitions != group.targets.get(member_id):
            change.records.append(records.target_assignment(group.group_id, member_id, partitions))
    change.records.append(records.assignment_epoch(group.group_id, group_epoch, now_ms))
    logger.info("group %s has an assignment of epoch %d by %s", group.group_id, group_epoch, assignor)
    return Target(group_epoch, result.get(change.new.member_id, NO_PARTITIONS))


def specify(change: Change, homogeneous: bool) -> GroupSpec:
    """The group as the assignor sees it, with the member as it will be."""
    group, image = change.group, change.machine.image
    members = dict(group.members.items())
    replaced = group.static_member(change.new.instance_id)
    if replaced is not None:
        del members[replaced.member_id]
    members[change.new.member_id] = change.new
    ids: dict[tuple[frozenset[str], str], tuple[UUID, ...]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id in sorted(members):
        member = members[member_id]
        key = member.subscribed_topic_names, member.subscribed_topic_regex
        if key not in ids:
            ids[key] = topic_ids(group.subscription(member), image)
        assigned = group.target(member) if member is change.new else group.targets.get(member_id) or NO_PARTITIONS
        specs[member_id] = MemberSpec(ids[key], assigned, member.instance_id)
    counts = {topic: len(image.topics_by_id[topic].partitions) for topics in ids.values() for topic in topics}
    return GroupSpec(specs, homogeneous, counts)


def reconcile(change: Change, target: Target, owned: Owned | None, *, subscription_changed: bool) -> ConsumerMember:
    """Brings the member a step nearer to its target, and writes that down."""
    machine, group, member = change.machine, change.group, change.new
    if not subscription_changed and member.is_reconciled_to(target.epoch):
        return member
    names = group.subscription(member)
    updated = Reconciliation(
        member,
        target.epoch,
        target.partitions,
        topic_ids=frozenset(topic_ids(names, machine.image)),
        subscribes_to_nothing=not names,
        is_owned=lambda topic, number: (topic, number) in group.owners,
        owned=owned,
    ).step(subscription_changed=subscription_changed)
    if updated == member:
        return member
    change.records.append(records.current_assignment(group.group_id, updated))
    if not updated.uses_classic_protocol:
        if updated.state is MemberState.UNREVOKED_PARTITIONS:
            set_rebalance(machine, group.group_id, updated, change.now_ms)
        else:
            cancel_rebalance(machine, group.group_id, updated.member_id)
    return updated
