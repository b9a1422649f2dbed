"""What the log of the groups must be, record by record: everything the coordinators have decided is there, in order.

Mostly nobody compacts it within a run, so that it tells of all that was (otherwise see `last_values`). For each group:

- its generations and epochs go on only, and so do the member epochs;
- after each batch no partition has two owners, and one that is to be given up still has its owner;
- commits are attempts of members; those of an earlier ownership of a partition never come after those of a later one,
  and a later owner never commits less;
- every acknowledged commit is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.protocol.consumer_protocol import decode_assignment
from penstock.protocol.message import Message
from penstock.protocol.messages.group.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from penstock.protocol.messages.group.consumer_group_metadata_key import ConsumerGroupMetadataKey
from penstock.protocol.messages.group.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.record_frames import decode_coordinator_key, decode_coordinator_value
from penstock.records.batch import headers
from penstock.records.reader import records
from simulator.groups.history import EPOCHS, STALE, SURVIVES, WRITTEN, GroupHistory, Place
from simulator.world.checks import check

Owner = tuple[str, str]

TWO_OWNERS = "the log gives a partition one owner"

PACKAGE = "group"


def batches(content: bytes) -> Iterator[list[tuple[int, Message, Any]]]:
    """(offset, key, value) of all records, batch by batch."""
    for position, header in headers(memoryview(content)):
        found = []
        for record in records(content[position : position + header.size_bytes], header):
            assert record.key is not None
            key = decode_coordinator_key(PACKAGE, record.key)
            value = None
            if record.value is not None:
                value, _ = decode_coordinator_value(PACKAGE, key.KEY, record.value)
            found.append((record.offset, key, value))
        yield found


class GroupLog:
    """What the log has told of one group so far.

    Attributes:
        committed: the last commit of each partition: offset, and number of the ownership. texts: the metadata of all.
    """

    def __init__(self, history: GroupHistory) -> None:
        self.history = history
        self.committed: dict[Place, tuple[int, int]] = {}
        self.texts: set[tuple[Place, str]] = set()
        self._epochs: dict[Any, int] = {}
        self._classic: dict[str, list[Any]] = {}
        self._consumers: dict[str, list[Any]] = {}

    def replay(self, offset: int, key: Message, value: Any) -> None:
        """Applies one record of the log; a commit must be one that a member attempted."""
        if isinstance(key, OffsetCommitKey):
            self._commit(offset, (key.topic, key.partition), value)
        elif isinstance(key, GroupMetadataKey):
            self._generation(offset, value)
        elif isinstance(key, ConsumerGroupMetadataKey | ConsumerGroupTargetAssignmentMetadataKey):
            epoch = None
            if value is not None:
                epoch = value.epoch if isinstance(key, ConsumerGroupMetadataKey) else value.assignment_epoch
            self._goes_on(offset, type(key).__name__, epoch)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._current(offset, key.member_id, value)

    def _goes_on(self, offset: int, what: Any, epoch: int | None) -> None:
        if epoch is None:
            self._epochs.pop(what, None)
            return
        before = self._epochs.get(what, epoch)
        check(epoch >= before, EPOCHS, f"{self.history.group_id} at {offset}: {what} {epoch} after {before}")
        self._epochs[what] = epoch

    def _generation(self, offset: int, value: Any) -> None:
        self._classic = {}
        self._goes_on(offset, "generation", None if value is None else value.generation)
        for member in () if value is None else value.members:
            if member.assignment:
                assigned = decode_assignment(member.assignment).assigned_partitions
                self._classic[member.member_id] = [
                    (each.topic, index) for each in assigned for index in each.partitions
                ]

    def _current(self, offset: int, member_id: str, value: Any) -> None:
        if value is None:
            self._consumers.pop(member_id, None)
            self._goes_on(offset, member_id, None)
            return
        if value.member_epoch >= 0:
            self._goes_on(offset, member_id, value.member_epoch)
        self._consumers[member_id] = [
            (each.topic_id, index)
            for each in (*value.assigned_partitions, *value.partitions_pending_revocation)
            for index in each.partitions
        ]

    def check_owners(self, offset: int) -> None:
        """After a batch of the log: no partition has two owners."""
        for kind in (self._classic, self._consumers):
            owners: dict[Any, str] = {}
            for member_id, places in kind.items():
                for place in places:
                    first = owners.setdefault(place, member_id)
                    where = f"{self.history.group_id} at {offset}: {place} has {first} and {member_id}"
                    check(first == member_id, TWO_OWNERS, where)

    def _commit(self, offset: int, place: Place, value: Any) -> None:
        if value is None:
            self.committed.pop(place, None)
            return
        where = f"{self.history.group_id} at {offset}: {place} {value.offset} {value.metadata!r}"
        attempted = self.history.of(place).attempts.get(value.metadata)
        check(attempted == value.offset, WRITTEN, where)
        ownership = int(value.metadata.partition(" ")[0])
        before, last = self.committed.get(place, (value.offset, ownership))
        check(ownership >= last, STALE, f"{where} after ownership {last}")
        check(ownership == last or value.offset >= before, SURVIVES, f"{where} after {before}")
        self.committed[place] = value.offset, ownership
        self.texts.add((place, value.metadata))

    def check_whole(self) -> None:
        """At the end of the log: it has all commits that were acknowledged."""
        for place, progress in self.history.progress.items():
            missing = sorted(progress.acknowledged - {text for where, text in self.texts if where == place})
            check(not missing, SURVIVES, f"{self.history.group_id}: {place}, {missing[:5]} are not in the log")


def check_log(content: bytes, logs: dict[str, GroupLog]) -> int:
    """Holds one partition of the log against the histories of its groups; how many records it has."""
    count = 0
    for batch in batches(content):
        touched: dict[str, GroupLog] = {}
        for offset, key, value in batch:
            count += 1
            group_id = str(getattr(key, "group", None) or getattr(key, "group_id", ""))
            if group_id in logs:
                logs[group_id].replay(offset, key, value)
                touched[group_id] = logs[group_id]
        for log in touched.values():
            log.check_owners(batch[-1][0])
    return count


def last_values(content: bytes) -> dict[bytes, bytes]:
    """The last value of each key in a log that is compacted; a key whose last record is a delete marker has none."""
    found: dict[bytes, bytes] = {}
    for position, header in headers(memoryview(content)):
        for record in records(content[position : position + header.size_bytes], header):
            assert record.key is not None
            if record.value is None:
                found.pop(bytes(record.key), None)
            else:
                found[bytes(record.key)] = bytes(record.value)
    return found


def replay_last(values: dict[bytes, bytes], logs: dict[str, GroupLog]) -> None:
    """Applies the last commits of a compacted log; each must be one that a member attempted."""
    for raw_key, raw_value in values.items():
        key = decode_coordinator_key(PACKAGE, raw_key)
        if isinstance(key, OffsetCommitKey) and key.group in logs:
            value, _ = decode_coordinator_value(PACKAGE, key.KEY, raw_value)
            logs[key.group].replay(0, key, value)
