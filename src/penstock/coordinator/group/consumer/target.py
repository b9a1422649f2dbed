"""The group epoch and the target assignment: what every member should have, computed anew for each group epoch.

That of a large group is computed in steps (`target_runs`); until it is there, members keep to the last one, too.
An assignment is at least `consumer.assignment.interval.ms` older than the next, so that many members who join at once
cost few assignments. Until then members keep to the last one, and come back soon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.assignors import ASSIGNORS, preferred_assignor
from penstock.coordinator.group.assignors.spec import NO_PARTITIONS, Pace, Partitions, at_once
from penstock.coordinator.group.consumer import target_runs
from penstock.coordinator.group.consumer.current import Owned, Reconciliation
from penstock.coordinator.group.consumer.group import ConsumerGroup, is_homogeneous
from penstock.coordinator.group.consumer.member import JOINING_EPOCH, ConsumerMember, MemberState
from penstock.coordinator.group.consumer.target_run import specify
from penstock.coordinator.group.consumer.timers import cancel_rebalance, set_rebalance
from penstock.coordinator.group.consumer.topics import topic_ids
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.events import events

logger = events("coordinator.group")


class Change(NamedTuple):
    """One operation on a group: a member that was `old` and will be `new`, and the records that say so. `sees`: whether
    who asks may describe a topic."""

    state: GroupState
    group: ConsumerGroup
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
    """Adds a record if the member has changed. Returns whether it subscribes to other topics by name."""
    if change.new is change.old or change.new == change.old:
        return False
    change.records.append(records.member_subscription(change.group.group_id, change.new))
    return change.new.subscribed_topic_names != change.old.subscribed_topic_names


def raise_group_epoch(change: Change, *, bump: bool) -> int:
    """Looks at the topics; raises the group epoch if they or the subscriptions have changed. Returns it."""
    state, group = change.state, change.group
    metadata_hash = state.topics.hash(group.topics_after(change.old, change.new), state.image)
    epoch = group.epoch()
    group_epoch = epoch.group
    if bump or metadata_hash != epoch.metadata_hash:
        group_epoch += 1
        change.records.append(records.group_epoch(group.group_id, group_epoch, metadata_hash))
        logger.debug("group epoch raised", group=group.group_id, epoch=group_epoch)
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
    return is_homogeneous(regex_members, group.topics_after(change.old, change.new), member_count_after(change))


def member_count_after(change: Change) -> int:
    """How many members there will be."""
    group, member = change.group, change.new
    joins = member.member_id not in group.members and group.static_member(member.instance_id) is None
    return len(group.members) + joins


def update_target(change: Change, group_epoch: int) -> Target:
    """Computes the target assignment if this group epoch has none yet. Returns the member's target."""
    state, group, now_ms = change.state, change.group, change.now_ms
    epoch = group.epoch()
    if epoch.assignment >= group_epoch or is_too_early(state, group, now_ms):
        return Target(epoch.assignment, group.target(change.new))
    if epoch.assignment > JOINING_EPOCH and is_for_later(change):
        target_runs.start(state, group, now_ms)
        return Target(epoch.assignment, group.target(change.new))
    counts = changed_counts(dict(group.assignors.items()), change.old.server_assignor, change.new.server_assignor)
    assignor = preferred_assignor(state.settings.broker().group_consumer_assignors, counts)
    pace = Pace(state.settings.broker().penstock_group_consumer_assignment_step)
    spec = at_once(specify(group, members_after(change), state.image, pace, homogeneous=will_be_homogeneous(change)))
    result = at_once(ASSIGNORS[assignor](spec, pace))
    for member_id in spec.members:
        partitions = result.get(member_id, NO_PARTITIONS)
        if partitions != group.targets.get(member_id):
            change.records.append(records.target_assignment(group.group_id, member_id, partitions))
    change.records.append(records.assignment_epoch(group.group_id, group_epoch, state.wall.at(now_ms)))
    how = {"assignor": assignor, "members": len(spec.members)}
    logger.info("partitions assigned", group=group.group_id, epoch=group_epoch, **how)
    return Target(group_epoch, result.get(change.new.member_id, NO_PARTITIONS))


def is_too_early(state: GroupState, group: ConsumerGroup, now_ms: int) -> bool:
    """Whether the group has been assigned so recently that the next assignment has to wait."""
    interval_ms = state.settings_of(group.group_id).consumer_assignment_interval_ms
    return state.wall.within(group.epoch().assignment_timestamp_ms, interval_ms, now_ms)


def is_for_later(change: Change) -> bool:
    """Whether the assignment takes longer than a heartbeat should, or has begun already."""
    state, group = change.state, change.group
    if target_runs.is_under_way(state, group):
        return True
    topics = group.topics_after(change.old, change.new)
    return target_runs.is_large(state, member_count_after(change), topics)


def members_after(change: Change) -> dict[str, ConsumerMember]:
    """The members with the one that changes as it will be."""
    members = change.group.members.copy()
    replaced = change.group.static_member(change.new.instance_id)
    if replaced is not None:
        del members[replaced.member_id]
    members[change.new.member_id] = change.new
    return members


def reconcile(change: Change, target: Target, owned: Owned | None, *, subscription_changed: bool) -> ConsumerMember:
    """Brings the member a step nearer to its target, and writes that down."""
    state, group, member = change.state, change.group, change.new
    if not subscription_changed and member.is_reconciled_to(target.epoch):
        return member
    names = group.subscription(member)
    updated = Reconciliation(
        member,
        target.epoch,
        target.partitions,
        topic_ids=frozenset(topic_ids(names, state.image)),
        subscribes_to_nothing=not names,
        is_owned=lambda topic, number: (topic, number) in group.owners,
        owned=owned,
    ).step(subscription_changed=subscription_changed)
    if updated == member:
        return member
    change.records.append(records.current_assignment(group.group_id, updated))
    if not updated.uses_classic_protocol:
        if updated.state is MemberState.UNREVOKED_PARTITIONS:
            set_rebalance(state, group.group_id, updated, change.now_ms)
        else:
            cancel_rebalance(state, group.group_id, updated.member_id)
    return updated
