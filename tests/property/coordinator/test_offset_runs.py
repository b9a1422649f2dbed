"""The offsets of a commit, encoded and replayed together, are what they would be one by one, to the byte."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.group.consumer.pace import SettlingPace
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.group.offsets.run import OffsetRun, TopicOffsets, one_by_one
from penstock.coordinator.group.records import NO_TIMESTAMP
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.coordinator.runtime.shard import NO_PRODUCER, encode
from penstock.coordinator.runtime.timers import Timers
from penstock.metadata.image import EMPTY_IMAGE
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue
from penstock.protocol.messages.offset_commit_request import OffsetCommitRequestPartition
from penstock.records.wall import WallTime

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
PARTITIONS = st.lists(
    st.builds(
        OffsetCommitRequestPartition,
        partition_index=st.integers(0, 5) | st.integers(0, 2**31 - 1),
        committed_offset=st.integers(-(2**63), 2**63 - 1),
        committed_leader_epoch=st.integers(-(2**31), 2**31 - 1),
        committed_metadata=TEXTS,
    ),
    min_size=1,
    max_size=8,
)
TOPICS = st.lists(st.builds(TopicOffsets, st.sampled_from("tuö"), st.uuids() | st.just(ZERO_UUID), PARTITIONS))
COMMITS = st.lists(st.tuples(st.sampled_from("gh"), TOPICS, st.integers(0, 2**62)), min_size=1, max_size=4)
BASE = 100


class World:
    """A machine that has been given commits, each in a batch that can be taken back."""

    def __init__(self) -> None:
        settings = GroupSettings(lambda: None)  # type: ignore[arg-type, return-value]
        state = GroupState(
            Timers().of(0),
            settings=settings,
            random=Random(1),
            image=EMPTY_IMAGE,
            wall=WallTime(),
            pace=SettlingPace(),
        )
        self.machine = GroupMachine(state)
        self.state = state
        self.offset = BASE
        state.timeline.snapshot(BASE)

    def run(self, group_id: str, topics: list[TopicOffsets], wall_ms: int) -> OffsetRun:
        return OffsetRun(self.state, group_id, topics, wall_ms)

    def ended(self, run: OffsetRun) -> None:
        self.offset += len(run)
        self.state.timeline.snapshot(self.offset)

    def offsets(self) -> list[Any]:
        """All offsets, in the order in which they are kept."""
        store = self.state.offsets.committed
        return [(group, *each) for group in store.groups() for each in store.each(group)]


@given(COMMITS)
def test_a_run_of_offsets_is_what_its_records_are(commits: list[tuple[str, list[TopicOffsets], int]]) -> None:
    together, apart = World(), World()
    for commit in commits:
        run = together.run(*commit)
        assert len(run) == len(list(run))
        assert run.encoded() == [encode(record) for record in run]
        run.replay(together.offset)
        together.ended(run)
        same = apart.run(*commit)
        for offset, record in enumerate(same, apart.offset):
            apart.machine.replay(record, offset, NO_PRODUCER)
        apart.ended(same)
        assert together.offsets() == apart.offsets()
        assert [group.group_id for group in together.state.groups.all()] == [
            group.group_id for group in apart.state.groups.all()
        ]
    for at in reversed(together.state.timeline.offsets):
        for world in (together, apart):
            world.state.timeline.revert_to(at)
        assert together.offsets() == apart.offsets()
    assert not together.offsets()


@given(COMMITS, st.booleans())
def test_offsets_loaded_as_bytes_are_those_of_the_codecs(
    commits: list[tuple[str, list[TopicOffsets], int]], expires: bool
) -> None:
    as_bytes, decoded = World(), World()
    for group_id, topics, wall_ms in commits:
        found = list(one_by_one(group_id, topics, wall_ms, 9 if expires and wall_ms % 2 else NO_TIMESTAMP))
        stored = []
        for offset, record in enumerate(found, as_bytes.offset):
            decoded.machine.replay(record, offset, NO_PRODUCER)
            key, value = encode(record)
            assert value is not None
            stored.append((key, (offset, value)))
        while stored:
            done = as_bytes.machine.replay_stored(stored)
            for (_, (offset, _)), record in zip(stored[done : done + 1], found[done:], strict=False):
                assert is_unusual(record)
                as_bytes.machine.replay(record, offset, NO_PRODUCER)
            stored, found = stored[done + 1 :], found[done + 1 :]
        for world in (as_bytes, decoded):
            world.offset += 100
        assert as_bytes.offsets() == decoded.offsets()


def is_unusual(record: CoordinatorRecord) -> bool:
    """Whether the record of an offset is left to the codecs."""
    value = record.value
    assert isinstance(value, OffsetCommitValue)
    return value.expire_timestamp != NO_TIMESTAMP or len(value.metadata.encode()) > 126


def test_a_topic_id_is_kept() -> None:
    world = World()
    run = world.run("g", [TopicOffsets("t", UUID(int=7), [OffsetCommitRequestPartition(partition_index=3)])], 5)
    run.replay(BASE)
    ((_, _, partition, committed),) = world.offsets()
    assert (partition, committed.topic_id, committed.commit_timestamp_ms) == (3, UUID(int=7), 5)
