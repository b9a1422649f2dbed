"""What becomes of a consumer group when its records are refused, or take longer to commit than anybody waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unit.coordinator.consumers import Consumer, ConsumerWorld
from unit.coordinator.test_consumer_group_migration import ClassicConsumer, classic_group, settle

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.errors import ErrorCode

LONG_MS = 8 * 60_000
"""Longer than every session; groups that are empty are removed later."""


@contextmanager
def refused(world: ConsumerWorld) -> Iterator[None]:
    """What is written meanwhile is refused."""
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    yield
    world.log.refuses = None


@contextmanager
def late(world: ConsumerWorld) -> Iterator[None]:
    """What is written meanwhile is committed when everybody has been told that it takes too long."""
    world.commits = False
    yield
    world.advance(world.runtime.write_timeout_ms)
    world.commits = True
    world.commit()


def mixed(world: ConsumerWorld) -> tuple[ClassicConsumer, ClassicConsumer, Consumer]:
    """A consumer group with two classic members and one of the other kind."""
    one, two = classic_group(world, [[0, 1, 2], [3, 4, 5]])
    consumer = Consumer(world, "consumer")
    consumer.join()
    settle(world, one, two, consumer)
    return one, two, consumer


def test_who_could_not_leave_is_dropped_at_the_end_of_its_session() -> None:
    world = ConsumerWorld()
    stays, goes = world.consumers(2)
    with refused(world):
        assert goes.leave().code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.group().has_member(goes.member_id)
    for _ in range(100):
        world.advance(1_000)
        stays.beat()
    assert stays.partitions() == list(range(6))


def test_who_leaves_and_joins_again_before_either_is_committed_has_a_session() -> None:
    world = ConsumerWorld()
    stays, other = world.consumers(2)
    world.commits = False
    other.leave()
    other.join()
    world.commits = True
    world.commit()
    assert world.group().has_member(other.member_id)
    for _ in range(100):
        world.advance(1_000)
        stays.beat()
    assert not world.group().has_member(other.member_id)


def test_a_group_that_becomes_classic_late_rebalances_all_the_same() -> None:
    world = ConsumerWorld()
    one, two, consumer = mixed(world)
    with late(world):
        consumer.leave()
    assert consumer.code is ErrorCode.REQUEST_TIMED_OUT
    assert isinstance(world.state.groups.get("g"), ClassicGroup)
    assert [one.heartbeat(), two.heartbeat()] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2


def test_a_group_that_becomes_classic_late_notices_dead_members() -> None:
    world = ConsumerWorld()
    *_, consumer = mixed(world)
    with late(world):
        consumer.leave()
    world.advance(LONG_MS)
    assert world.state.groups.get("g").is_empty


def test_a_group_that_could_not_become_classic_notices_dead_members() -> None:
    world = ConsumerWorld()
    *_, consumer = mixed(world)
    with refused(world):
        consumer.leave()
    assert isinstance(world.state.groups.get("g"), ConsumerGroup)
    world.advance(LONG_MS)
    assert world.state.groups.get("g").is_empty


def test_a_group_that_could_not_become_a_consumer_group_notices_dead_members() -> None:
    world = ConsumerWorld()
    classic_group(world, [[0, 1, 2], [3, 4, 5]])
    joining = ClassicConsumer(world)
    joining.join()
    with refused(world):
        Consumer(world, "consumer").join()
    assert isinstance(world.state.groups.get("g"), ClassicGroup)
    world.advance(LONG_MS)
    assert world.state.groups.get("g").is_empty


def test_a_classic_member_whose_join_took_too_long_is_dropped_if_it_does_not_come_again() -> None:
    world = ConsumerWorld()
    (consumer,) = world.consumers(1)
    classic = ClassicConsumer(world)
    with late(world):
        answer = classic.join()
    assert answer.code is ErrorCode.REQUEST_TIMED_OUT
    assert world.group().has_member(classic.member_id)
    for _ in range(100):
        world.advance(1_000)
        consumer.beat()
    assert consumer.partitions() == list(range(6))


def test_a_classic_member_whose_join_was_refused_is_not_in_the_group() -> None:
    world = ConsumerWorld()
    world.consumers(1)
    classic = ClassicConsumer(world)
    with refused(world):
        assert classic.join().code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert not world.group().has_member(classic.member_id)
