"""Nearly all heartbeats say only that a member lives: these are answered without looking at everything, and alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from unit.coordinator.consumers import Consumer, ConsumerWorld

from penstock.coordinator.group.consumer.heartbeat import (
    consumer_group_heartbeat,
    full_heartbeat,
    settled_member,
    steady,
)
from penstock.coordinator.group.context import Context
from penstock.coordinator.limits import GROUP_SETTLING_MS
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

CONTEXT = Context(1, "c", "/127.0.0.1")


def settled_world() -> ConsumerWorld:
    """Three members of a group in which nothing has happened for a while."""
    world = ConsumerWorld()
    members = world.consumers(3)
    for _ in range(4):
        world.advance(GROUP_SETTLING_MS // 3)
        for member in members:
            member.beat()
    return world


def request_of(world: ConsumerWorld, member_id: str = "m0") -> ConsumerGroupHeartbeatRequest:
    """The member lives, that is all."""
    epoch = world.group().epoch().group
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)


def test_a_settled_member_is_answered_as_any_other_and_its_session_goes_on() -> None:
    world = settled_world()
    request = request_of(world)
    assert settled_member(world.state, world.group(), CONTEXT, request, world.now_ms) is not None
    timer = ("consumer-session", "g", "m0")
    world.now_ms += 1000
    short = consumer_group_heartbeat(world.state, CONTEXT, request, world.now_ms)
    deadline_ms = world.state.timers.deadline_ms(timer)
    full = full_heartbeat(world.state, CONTEXT, request, world.now_ms)
    assert short.response == full.response
    assert not short.records
    assert not full.records
    assert deadline_ms == world.state.timers.deadline_ms(timer) == world.now_ms + 45_000


@pytest.mark.parametrize(
    "happens",
    [
        lambda world: world.change_topics(t=12),
        lambda world: world.beat(member_id="m1", member_epoch=-1),
        lambda world: world.beat(
            member_id="m9", rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
        ),
        lambda world: world.beat(
            member_id="m9", rebalance_timeout_ms=1000, subscribed_topic_regex="u.*", topic_partitions=[]
        ),
    ],
    ids=["a topic grows", "a member leaves", "a member joins", "a member joins with a pattern"],
)
def test_when_something_has_happened_all_is_looked_at(happens: Callable[[ConsumerWorld], object]) -> None:
    world = settled_world()
    happens(world)
    world.settle()
    request = request_of(world)
    request.member_epoch = world.group().members["m0"].member_epoch
    assert settled_member(world.state, world.group(), CONTEXT, request, world.now_ms) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": "unknown"},
        {"member_epoch": 1},
        {"member_epoch": 99},
        {"instance_id": "i"},
        {"subscribed_topic_names": ["u"]},
        {"subscribed_topic_regex": "u.*"},
        {"rebalance_timeout_ms": 5},
        {"server_assignor": "range"},
        {"rack_id": "r"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_member_that_says_more_is_looked_at(fields: dict[str, object]) -> None:
    world = settled_world()
    request = request_of(world)
    for name, value in fields.items():
        setattr(request, name, value)
    assert settled_member(world.state, world.group(), CONTEXT, request, world.now_ms) is None


def test_a_client_by_another_name_is_looked_at() -> None:
    world = settled_world()
    renamed = Context(1, "another", "/127.0.0.1")
    assert settled_member(world.state, world.group(), renamed, request_of(world), world.now_ms) is None


def test_a_group_that_has_just_been_assigned_is_looked_at() -> None:
    world = ConsumerWorld()
    world.consumers(3)
    assert settled_member(world.state, world.group(), CONTEXT, request_of(world), world.now_ms) is None


@pytest.mark.parametrize("assignment_interval_ms", [0, 1_000])
def test_members_that_wait_are_answered_as_any_other(assignment_interval_ms: int) -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=assignment_interval_ms)
    members = [Consumer(world, f"m{index}", "g") for index in range(4)]
    joins = [0, 2, 9, 40]
    short_ways: Counter[int] = Counter()
    for turn in range(150):
        if turn in joins:
            members[joins.index(turn)].join()
        members[0].lazy = turn > joins[2]  # others wait for it
        world.advance(250)
        for index, member in enumerate(members):
            if not member.epoch or (turn + index) % 2:
                continue
            request = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=member.member_id,
                member_epoch=world.group().members[member.member_id].member_epoch,
            )
            stays = steady(world.state, CONTEXT, request, world.now_ms)
            if stays is not None:
                full = full_heartbeat(world.state, CONTEXT, request, world.now_ms)
                assert not full.records
                assert full.response == ConsumerGroupHeartbeatResponse(
                    member_id=stays.member_id, member_epoch=stays.member_epoch, heartbeat_interval_ms=stays.interval_ms
                )
                short_ways[stays.interval_ms] += 1
            member.beat()
    assert len(short_ways) > 1, "some come soon, others do not"
