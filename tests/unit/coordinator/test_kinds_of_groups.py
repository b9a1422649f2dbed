"""A kind of group that nobody has foreseen: it keeps its id, and nothing else has to know of it."""

from __future__ import annotations

import pytest
from unit.coordinator.consumers import ConsumerWorld
from unit.coordinator.world import World

from penstock.coordinator.group.base import Group, GroupType, PartitionCheck
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.heartbeat import group_to_join
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.list_groups_response import ListedGroup


class Crowd(Group):
    """Such a group. It has members, or is empty."""

    TYPE = GroupType.CONSUMER  # the protocol has no name for it

    def __init__(self, *members: str) -> None:
        self.group_id = "g"
        self.members = members

    @property
    def is_empty(self) -> bool:
        return not self.members

    def state_name(self, committed_offset: int | None = None) -> str:
        return "Crowded" if self.members else "Empty"

    def listed(self, committed_offset: int) -> ListedGroup:
        return ListedGroup(group_id=self.group_id, group_state=self.state_name(), group_type="crowd")

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def is_subscribed(self, topic: str) -> bool:
        return False

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        api_version: int,
        *,
        transactional: bool,
    ) -> PartitionCheck | None:
        if not self.has_member(member_id):
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID)
        return None

    def check_fetch(self, member_id: str | None, member_epoch: int, committed_offset: int | None) -> None: ...

    def check_delete_offsets(self) -> None: ...

    def tombstones(self) -> list[CoordinatorRecord]:
        return []

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms


@pytest.fixture
def world() -> World:
    world = World()
    world.state.groups.put(Crowd("a"))
    return world


def test_members_of_the_classic_protocol_are_strangers_to_it(world: World) -> None:
    assert world.join().code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.heartbeat("a").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync(JoinGroupResponse(member_id="a", generation_id=1)).code is ErrorCode.UNKNOWN_MEMBER_ID
    (left,) = world.leave("a").value.members
    assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(world.state.groups.get("g"), Crowd)


def test_an_empty_one_gives_way_to_either_kind(world: World) -> None:
    world.state.groups.put(Crowd())
    assert isinstance(group_to_join(world.state, "g", []), ConsumerGroup)
    world.stable()
    assert isinstance(world.state.groups.get("g"), ClassicGroup)


def test_a_consumer_does_not_take_its_place() -> None:
    world = ConsumerWorld()
    world.state.groups.put(Crowd("a"))
    with pytest.raises(RequestError) as refused:
        group_to_join(world.state, "g", [])
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.state.groups.find_of(ConsumerGroup, "g") is None


def test_it_is_listed_commits_and_keeps_offsets_like_any_other(world: World) -> None:
    assert world.commit_offsets({("t", 0): 5}, member_id="b").code is ErrorCode.UNKNOWN_MEMBER_ID
    world.commit_offsets({("t", 0): 5}, member_id="a", generation_id=1)
    assert world.offsets() == {("t", 0): 5}
    assert [each.group_type for each in world.list_groups()] == ["crowd"]
    (deleted,) = world.delete_groups("g").value
    assert deleted.error_code == ErrorCode.NON_EMPTY_GROUP


def test_it_outlives_leadership_and_the_look_for_what_has_expired(world: World) -> None:
    world.machine.image_changed(world.image, None, world.now_ms)
    world.advance(2 * world.settings.offsets_retention_check_interval_ms)
    assert "g" in world.state.groups
    world.machine.loaded(world.now_ms)
    world.resign()
