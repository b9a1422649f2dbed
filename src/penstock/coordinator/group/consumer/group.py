"""The state of a consumer group. It is all in timeline maps, and changes by `apply_...` and `remove_member` alone.

What is counted here is what a heartbeat asks for, so that one costs the same in a group of ten thousand members: how
many members subscribe to a topic, ask for an assignor, speak the classic protocol, or are stable at an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar
from uuid import UUID

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.assignors.spec import NO_PARTITIONS, Partitions
from penstock.coordinator.group.base import Group, GroupType, PartitionCheck
from penstock.coordinator.group.by_topic import GroupsByTopic
from penstock.coordinator.group.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.group.consumer.run import TargetRun
from penstock.coordinator.group.consumer.withheld import Withheld
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import CorruptRecordError, ErrorCode, RequestError
from penstock.metadata.timeline import Timeline, TimelineMap
from penstock.protocol.messages.list_groups_response import ListedGroup

K = TypeVar("K")

PROTOCOL_TYPE = "consumer"
NO_EPOCH = -1
MODERN_COMMIT_VERSION = 9
"""The first version of OffsetCommit that knows member epochs."""


class State(StrEnum):
    """The state of a group, named as tools show it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Epoch(NamedTuple):
    """Where the group is. `metadata_hash`: of the topics that it subscribes to, when `group` was raised last."""

    group: int = 1
    metadata_hash: int = 0
    assignment: int = 1
    assignment_timestamp_ms: int = 0


FIRST_EPOCH = Epoch()


class Subscribers(NamedTuple):
    """How many members subscribe to a topic by its name, and how many regular expressions match it."""

    by_name: int = 0
    by_regex: int = 0


NO_SUBSCRIBERS = Subscribers()
Topics = dict[str, Subscribers] | TimelineMap[str, Subscribers]


class SubscribedTopics(TimelineMap[str, Subscribers]):
    """The topics a group subscribes to, which it keeps up to date in the index of all groups."""

    __slots__ = ("_by_topic", "_group_id")

    def __init__(self, timeline: Timeline, group_id: str, by_topic: GroupsByTopic | None) -> None:
        super().__init__(timeline)
        self._group_id = group_id
        self._by_topic = by_topic

    def __setitem__(self, key: str, value: Subscribers) -> None:
        if self._by_topic is not None and key not in self:
            self._by_topic.add(key, self._group_id)
        super().__setitem__(key, value)

    def pop(self, key: str) -> Subscribers | None:
        if self._by_topic is not None:
            self._by_topic.remove(key, self._group_id)
        return super().pop(key)


class ConsumerGroup(Group):
    """See the module's head.

    Attributes:
        members, targets: by member id. static_members: member id by instance id.
        regexes: what the regular expressions in use match. regex_members: how many members have one.
        topics: what the group subscribes to. assignors: how many members ask for one.
        owners: the member epoch of whoever has a partition, or still has to give it up.
        protocols: how many classic members support one.
        refreshed_epoch: the group epoch at which the topics were looked at last; None: they may have changed since.
        run, withheld: a target assignment that is computed in steps, and what members should have meanwhile.
    The last three are soft state.
    """

    TYPE = GroupType.CONSUMER

    __slots__ = (
        "_epoch", "_numbers", "assignors", "group_id", "members", "owners", "protocols", "refreshed_epoch",
        "regex_members", "regexes", "run", "static_members", "targets", "topics", "withheld",
    )  # fmt: skip

    def __init__(self, timeline: Timeline, group_id: str, by_topic: GroupsByTopic | None = None) -> None:
        """`by_topic` is told of the topics that the group subscribes to; None: a group that is in no state."""
        self.group_id = group_id
        self.members: TimelineMap[str, ConsumerMember] = TimelineMap(timeline)
        self.targets: TimelineMap[str, Partitions] = TimelineMap(timeline)
        self.static_members: TimelineMap[str, str] = TimelineMap(timeline)
        self.regexes: TimelineMap[str, ResolvedRegex] = TimelineMap(timeline)
        self.regex_members: TimelineMap[str, int] = TimelineMap(timeline)
        self.topics = SubscribedTopics(timeline, group_id, by_topic)
        self.assignors: TimelineMap[str, int] = TimelineMap(timeline)
        self.protocols: TimelineMap[str, int] = TimelineMap(timeline)
        self.owners: TimelineMap[tuple[UUID, int], int] = TimelineMap(timeline)
        self._numbers: TimelineMap[str | int, int] = TimelineMap(timeline)
        self._epoch: TimelineMap[None, Epoch] = TimelineMap(timeline)
        self.refreshed_epoch: int | None = None
        self.run: TargetRun | None = None
        self.withheld: Withheld | None = None

    # What it is

    def epoch(self, at: int | None = None) -> Epoch:
        """The epochs, now or as of a committed offset."""
        return self._epoch.get(None, at=at) or FIRST_EPOCH

    @property
    def is_empty(self) -> bool:
        return not len(self.members)

    @property
    def classic_member_count(self) -> int:
        return self._numbers.get("classic") or 0

    @property
    def has_partition_metadata(self) -> bool:
        """Whether an older release has left a record that is not needed any more."""
        return bool(self._numbers.get("partition metadata"))

    def stable_count(self, assignment_epoch: int, at: int | None = None) -> int:
        """How many members have their target of this epoch."""
        return self._numbers.get(assignment_epoch, at=at) or 0

    def state(self, at: int | None = None) -> State:
        """The state, now or as of a committed offset."""
        members = self._numbers.get("members", at=at) or 0
        epoch = self.epoch(at)
        if not members:
            return State.EMPTY
        if epoch.group > epoch.assignment:
            return State.ASSIGNING
        return State.STABLE if self.stable_count(epoch.assignment, at) == members else State.RECONCILING

    def state_name(self, committed_offset: int | None = None) -> str:
        return self.state(committed_offset).value

    def listed(self, committed_offset: int) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=PROTOCOL_TYPE,
            group_state=self.state_name(committed_offset),
            group_type=self.TYPE.value,
        )

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topics

    def member(self, member_id: str) -> ConsumerMember:
        """Raises RequestError UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            raise self.unknown(member_id)
        return found

    def unknown(self, member_id: str | None) -> RequestError:
        return RequestError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
        )

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member: ConsumerMember, at: int | None = None) -> Partitions:
        """A member's target assignment, now or as of a committed offset; a static member inherits its predecessor's."""
        withheld = self.withheld
        if withheld is not None and withheld.assignment_epoch == self.epoch(at).assignment:
            found = withheld.find(member)
            if found is not None:
                return found
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, at=at) or member_id
        return self.targets.get(member_id, at=at) or NO_PARTITIONS

    def regex_topics(self, regex: str) -> frozenset[str]:
        """The topics that a regular expression matches; none until it has been evaluated."""
        resolved = self.regexes.get(regex) if regex else None
        return frozenset() if resolved is None else resolved.topics

    def subscription(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to, by name and by its regular expression."""
        return member.subscribed_topic_names | self.regex_topics(member.subscribed_topic_regex)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether other members still own partitions that this one should have."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic, ()) and (topic, partition) in self.owners
            for topic, partitions in self.target(member).items()
            for partition in partitions
        )

    # The topics

    @property
    def topics_may_have_changed(self) -> bool:
        """Whether the topics have to be looked at; also when the epoch that they were looked at for was reverted."""
        return self.refreshed_epoch is None or self.epoch().group < self.refreshed_epoch

    def topics_after(self, old: ConsumerMember | None, new: ConsumerMember | None) -> dict[str, Subscribers]:
        """The value of `topics` after a member has changed; a new regular expression is not evaluated yet."""
        topics = dict(self.topics.items())
        count_names(topics, old, -1)
        count_names(topics, new, +1)
        regex = "" if old is None else old.subscribed_topic_regex
        if regex and self.regex_members.get(regex) == 1 and (new is None or new.subscribed_topic_regex != regex):
            count_matches(topics, self.regex_topics(regex), -1)
        return topics

    def topics_without(self, members: list[ConsumerMember], regexes: list[str]) -> dict[str, Subscribers]:
        """The value of `topics` without these members and regular expressions."""
        topics = dict(self.topics.items())
        for member in members:
            count_names(topics, member, -1)
        for regex in regexes:
            count_matches(topics, self.regex_topics(regex), -1)
        return topics

    # What may be done

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        api_version: int,
        *,
        transactional: bool,
    ) -> PartitionCheck | None:
        """See `Group`. A member that commits at an older epoch may do so for what it has had since then (KIP-1251).

        Raises RequestError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or for classic members ILLEGAL_GENERATION,
        UNSUPPORTED_VERSION. Returns a further check to be made for each partition, if there is one.
        """
        epoch = generation_or_epoch
        if epoch < 0 and self.is_empty:
            return None
        if transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not transactional and not member.uses_classic_protocol and api_version < MODERN_COMMIT_VERSION:
            raise RequestError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
            )
        if epoch == member.member_epoch:
            return None
        if epoch > member.member_epoch:
            raise stale(member, f"Received {{epoch}} {epoch} is newer than current member epoch {member.member_epoch}.")
        return lambda topic, topic_id, partition: check_partition(member, epoch, topic, topic_id, partition)

    def check_fetch(self, member_id: str | None, member_epoch: int, committed_offset: int | None) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = None if member_id is None else self.members.get(member_id, at=committed_offset)
        if member is None:
            raise self.unknown(member_id)
        if member_epoch != member.member_epoch:
            raise stale(
                member,
                f"The received {{epoch}} {member_epoch} does not match the expected member epoch "
                f"{member.member_epoch}.",
            )

    def check_delete_offsets(self) -> None:
        """Allows the deletion of offsets in any state; offsets of subscribed topics are kept all the same."""

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> list[CoordinatorRecord]:
        return self.tombstones_for(list(self.members))

    def tombstones_for(self, member_ids: list[str]) -> list[CoordinatorRecord]:
        """The records that make the group vanish, when these are its members."""
        group_id = self.group_id
        return [
            *(records.current_assignment_tombstone(group_id, member_id) for member_id in member_ids),
            *(records.target_assignment_tombstone(group_id, member_id) for member_id in member_ids),
            records.assignment_epoch_tombstone(group_id),
            *(records.member_subscription_tombstone(group_id, member_id) for member_id in member_ids),
            *(records.regular_expression_tombstone(group_id, regex) for regex in self.regexes),
            records.partition_metadata_tombstone(group_id),
            records.group_epoch_tombstone(group_id),
        ]

    # Replay

    def apply_epoch(self, epoch: Epoch) -> None:
        """The group has come to other epochs. One that it had come to before, and had lost, is not the same again."""
        before, run, withheld = self.epoch(), self.run, self.withheld
        if run is not None and before.group != epoch.group <= run.group_epoch:
            self.run = None
        if withheld is not None and before.assignment != epoch.assignment <= withheld.assignment_epoch:
            self.withheld = None
        self._epoch[None] = epoch

    def apply_partition_metadata(self, present: bool) -> None:
        """An older release's record is there, or gone."""
        count(self._numbers, "partition metadata", present - self.has_partition_metadata)

    def apply_target(self, member_id: str, partitions: Partitions) -> None:
        """A member should have something else."""
        self.targets[member_id] = partitions

    def apply_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """A regular expression was evaluated, or is not used any more."""
        count_matches(self.topics, self.regex_topics(regex), -1)
        self.regexes.pop(regex)
        if resolved is not None:
            self.regexes[regex] = resolved
            count_matches(self.topics, resolved.topics, +1)

    def apply_member(self, member: ConsumerMember) -> None:
        """A member has joined or changed."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count(old, member)
        self._own(old, member)
        if old is not None and old.instance_id != member.instance_id:
            self._release_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """A member has gone."""
        old = self.members.pop(member_id)
        assert old is not None
        self._count(old, None)
        self._own(old, None)
        self._release_instance(old)

    def _release_instance(self, member: ConsumerMember) -> None:
        """The instance id of a member is free, unless another member has it by now."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            self.static_members.pop(member.instance_id)

    def _count(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        for member, by in ((old, -1), (new, +1)):
            if member is None:
                continue
            if old is None or new is None or old.subscribed_topic_names != new.subscribed_topic_names:
                count_names(self.topics, member, by)
            if member.subscribed_topic_regex:
                count(self.regex_members, member.subscribed_topic_regex, by)
            if member.server_assignor is not None:
                count(self.assignors, member.server_assignor, by)
            if member.classic is not None:
                count(self._numbers, "classic", by)
                for name in dict.fromkeys(protocol.name for protocol in member.classic.protocols):
                    count(self.protocols, name, by)
            if member.state is MemberState.STABLE and member.member_epoch >= 0:
                count(self._numbers, member.member_epoch, by)
        count(self._numbers, "members", (new is not None) - (old is not None))

    def _own(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        if old is not None:
            for owned in each_partition(old):
                if self.owners.get(owned) == old.member_epoch:  # else a compacted log has told of the next owner first
                    self.owners.pop(owned)
        if new is not None:
            for owned in each_partition(new):
                held = self.owners.get(owned)
                if held is not None and held >= new.member_epoch:
                    raise CorruptRecordError(
                        f"partition {owned[1]} of topic {owned[0]} is owned twice in group {self.group_id}: "
                        f"at epoch {held} and by {new.member_id} at epoch {new.member_epoch}"
                    )
                self.owners[owned] = new.member_epoch


def each_partition(member: ConsumerMember) -> Iterator[tuple[UUID, int]]:
    """The partitions a member owns, and those it still has to give up."""
    for partitions in (member.assigned, member.pending_revocation):
        for topic, numbers in partitions.items():
            for number in numbers:
                yield topic, number


def count(counts: TimelineMap[K, int], key: K, by: int) -> None:
    """Adds to a count; one that comes to nothing is not there."""
    if by:
        total = (counts.get(key) or 0) + by
        if total:
            counts[key] = total
        else:
            counts.pop(key)


def count_names(topics: Topics, member: ConsumerMember | None, by: int) -> None:
    for name in () if member is None else sorted(member.subscribed_topic_names):
        held = topics.get(name) or NO_SUBSCRIBERS
        set_or_drop(topics, name, Subscribers(held.by_name + by, held.by_regex))


def count_matches(topics: Topics, names: frozenset[str], by: int) -> None:
    """Counts a regular expression that matches."""
    for name in sorted(names):
        held = topics.get(name) or NO_SUBSCRIBERS
        set_or_drop(topics, name, Subscribers(held.by_name, held.by_regex + by))


def set_or_drop(topics: Topics, name: str, subscribers: Subscribers) -> None:
    if subscribers == NO_SUBSCRIBERS:
        topics.pop(name)
    else:
        topics[name] = subscribers


def is_homogeneous(regex_members: Mapping[str, int], topics: Mapping[str, Subscribers], member_count: int) -> bool:
    """Whether all members subscribe to the same: by name, or all by one regular expression."""
    if not regex_members:
        return all(subscribers.by_name == member_count for subscribers in topics.values())
    return next(iter(regex_members.values())) == member_count and all(
        subscribers == Subscribers(by_regex=1) for subscribers in topics.values()
    )


def stale(member: ConsumerMember, text: str) -> RequestError:
    """The error of an epoch that does not fit, in the words of the member's protocol."""
    if member.uses_classic_protocol:
        return RequestError(ErrorCode.ILLEGAL_GENERATION, text.format(epoch="generation id"))
    return RequestError(ErrorCode.STALE_MEMBER_EPOCH, text.format(epoch="member epoch"))


def check_partition(member: ConsumerMember, epoch: int, topic: str, topic_id: UUID, partition: int) -> None:
    """Raises RequestError unless the member has the partition since `epoch` or longer."""
    assigned_at = member.assignment_epoch(topic_id, partition)
    name = f"{topic}-{partition}".replace("{", "{{").replace("}", "}}")
    if assigned_at is None:
        raise stale(member, f"Partition {name} is not assigned or pending revocation for member.")
    if epoch < assigned_at:
        raise stale(
            member, f"Received {{epoch}} {epoch} is older than assignment epoch {assigned_at} for partition {name}."
        )
