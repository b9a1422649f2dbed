"""The store of offsets against plain dicts: commits, tombstones, transactions, going back, and looking back."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.coordinator.group.offsets.state import Offsets
from penstock.metadata.timeline import Timeline
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue

Place = tuple[str, str, int]

GROUPS = st.sampled_from("gh")
TOPICS = st.sampled_from("tu")
PARTITIONS = st.integers(0, 1)
PRODUCERS = st.integers(1, 3)


class Model:
    """What should be: offsets and the offsets of their records, by place; those of open transactions by producer."""

    def __init__(self) -> None:
        self.committed: dict[Place, tuple[int, int]] = {}
        self.pending: dict[int, dict[Place, tuple[int, int]]] = {}


class OffsetsAgainstDicts(RuleBasedStateMachine):
    """Records are numbered; batches end with `append`, are committed up to some, or taken back."""

    def __init__(self) -> None:
        super().__init__()
        self.timeline = Timeline()
        self.offsets = Offsets(self.timeline)
        self.model = Model()
        self.kept: dict[int, Model] = {}
        self.end = 0
        self.append()

    @rule(group=GROUPS, topic=TOPICS, partition=PARTITIONS, producer=st.none() | PRODUCERS)
    def commit(self, group: str, topic: str, partition: int, producer: int | None) -> None:
        place = (group, topic, partition)
        value = OffsetCommitValue(offset=1_000 + self.end)
        key = OffsetCommitKey(group=group, topic=topic, partition=partition)
        self.offsets.replay(key, value, self.end, -1 if producer is None else producer)
        if producer is None:
            self.model.committed[place] = (value.offset, self.end)
        else:
            self.model.pending.setdefault(producer, {})[place] = (value.offset, self.end)
        self.end += 1

    @rule(group=GROUPS, topic=TOPICS, partition=PARTITIONS)
    def tombstone(self, group: str, topic: str, partition: int) -> None:
        self.offsets.replay(OffsetCommitKey(group=group, topic=topic, partition=partition), None, self.end, -1)
        for places in (self.model.committed, *self.model.pending.values()):
            places.pop((group, topic, partition), None)
        self.end += 1

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        self.offsets.replay_end_marker(producer, committed=committed)
        for place, (offset, record) in self.model.pending.pop(producer, {}).items():
            if committed and self.model.committed.get(place, (0, -1))[1] < record:
                self.model.committed[place] = (offset, record)
        self.end += 1

    @rule()
    def append(self) -> None:
        self.timeline.snapshot(self.end)
        self.kept[self.end] = deepcopy(self.model)
        self.end += 1

    @rule(number=st.integers(0, 9))
    def take_back(self, number: int) -> None:
        offset = sorted(self.kept)[number % len(self.kept)]
        self.timeline.revert_to(offset)
        self.model = deepcopy(self.kept[offset])
        self.kept = {each: model for each, model in self.kept.items() if each <= offset}

    @rule(number=st.integers(0, 9))
    def replicate(self, number: int) -> None:
        offset = sorted(self.kept)[number % len(self.kept)]
        self.timeline.forget_before(offset)
        self.kept = {each: model for each, model in self.kept.items() if each >= offset}

    @invariant()
    def agrees(self) -> None:
        for group in "gh":
            now = {(group, *place): offset for *place, offset in self.found(group, None)}
            assert now == {place: told for place, (told, _) in self.model.committed.items() if place[0] == group}
            for at, model in self.kept.items():
                then = {(group, *place): offset for *place, offset in self.found(group, at)}
                assert then == {place: told for place, (told, _) in model.committed.items() if place[0] == group}
            open_places = {place for places in self.model.pending.values() for place in places if place[0] == group}
            pending = self.offsets.pending
            assert sorted((group, *place) for place in pending.of_group(group)) == sorted(open_places)
            assert pending.has_group(group) == bool(open_places)
            for topic in "tu":
                for partition in range(2):
                    is_open = pending.has(group, topic, partition)
                    assert is_open == ((group, topic, partition) in open_places)

    @invariant()
    def finds_the_groups_of_a_topic(self) -> None:
        stores = (self.model.committed, *self.model.pending.values())
        for topic in "tu":
            found = [(group, topic, index) for group, index, _ in self.offsets.of_topic(topic)]
            assert sorted(found) == sorted(place for store in stores for place in store if place[1] == topic)

    @invariant()
    def keeps_nothing_of_transactions_without_offsets(self) -> None:
        assert len(self.offsets.pending) == sum(map(bool, self.model.pending.values()))

    def found(self, group: str, at: int | None) -> list[tuple[str, int, int]]:
        topics = self.offsets.committed.topics(group, at=at)
        return [
            (topic, partition, committed.offset)
            for topic, partitions in (() if topics is None else topics.items(at=at))
            for partition, committed in partitions.items(at=at)
        ]


OffsetsAgainstDicts.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestOffsetsAgainstDicts = OffsetsAgainstDicts.TestCase
