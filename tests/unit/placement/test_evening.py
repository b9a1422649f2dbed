"""Free space of log directories evened out: what may move, that it helps, and that it comes to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.config.values import GiB, MiB
from penstock.placement import evening
from penstock.placement.evening import Directory, Held, Move, Place, evened, plan_of, replicas_after
from penstock.placement.plan import Partition, Plan, Racks, Replicas, rack_count

A, B = (1, "/a"), (1, "/b")
RACKS = {1: "x", 2: "x", 3: "y", 4: "z"}
MOVES = 1000
few_examples = settings(max_examples=40)


def directory(place: Place, free_bytes: int, *, disk: str | None = None, takes: bool = True) -> Directory:
    return Directory(place, disk or f"{place}", free_bytes, takes=takes)


def held(*replicas: tuple[Place, int]) -> tuple[Plan, Held]:
    """Partitions t-0, t-1, ... of one replica: where each lies, and its size."""
    found: dict[Place, dict[Partition, int]] = {}
    for index, (place, size_bytes) in enumerate(replicas):
        found.setdefault(place, {})["t", index] = size_bytes
    return {("t", index): (place[0],) for index, (place, _) in enumerate(replicas)}, found


def moved(moves: list[Move]) -> list[tuple[int, Place, Place]]:
    return [(each.partition[1], each.source, each.target) for each in moves]


@dataclass(frozen=True)
class World:
    """A cluster whose disks are to be evened out."""

    plan: Plan
    directories: list[Directory]
    held: Held


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to four brokers with up to three directories, some of them on one disk, cordoned, or nearly full."""
    directories = []
    for broker_id in range(1, draw(st.integers(1, 4)) + 1):
        for number in range(draw(st.integers(1, 3))):
            place = (broker_id, f"/{number}")
            disk = draw(st.sampled_from([f"{broker_id}", f"{place}"]))
            free_bytes, reserve_bytes = draw(st.integers(0, 2 * GiB)), draw(st.sampled_from([0, 256 * MiB]))
            directories.append(
                Directory(place, disk, free_bytes, reserve_bytes, draw(st.sampled_from([True, True, False])))
            )
    plan: dict[Partition, tuple[int, ...]] = {}
    where: dict[Place, dict[Partition, int]] = {}
    brokers = sorted({each.place[0] for each in directories})
    for index in range(draw(st.integers(0, 15))):
        replicas = draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=3, unique=True))
        plan["t", index] = tuple(replicas)
        size_bytes = draw(st.integers(0, GiB))
        for broker_id in replicas:
            place = draw(st.sampled_from([each.place for each in directories if each.place[0] == broker_id]))
            where.setdefault(place, {})["t", index] = size_bytes
    return World(plan, directories, where)


def free_bytes(directories: list[Directory]) -> dict[str, int]:
    free: dict[str, int] = {}
    for each in directories:
        free[each.disk] = min(each.free_bytes, free.get(each.disk, each.free_bytes))
    return free


def after(free: Mapping[str, int], move: Move, disks: Mapping[Place, str]) -> dict[str, int]:
    changes = Counter({disks[move.source]: move.size_bytes})
    changes.subtract({disks[move.target]: move.size_bytes})
    return {disk: left + changes[disk] for disk, left in free.items()}


def unevenness(free: Mapping[str, int]) -> tuple[int, int, int]:
    """How far the fullest and the emptiest are apart, what the fullest lacks, and the sum of squares."""
    return max(free.values()) - min(free.values()), -min(free.values()), sum(each * each for each in free.values())


@few_examples
@given(worlds())
def test_each_move_makes_the_free_space_more_even_and_they_end(world: World) -> None:
    moves = evened(world.plan, world.directories, world.held, RACKS, MOVES)
    disks = {each.place: each.disk for each in world.directories}
    free = free_bytes(world.directories)
    assert len(moves) < MOVES
    for move in moves:
        now = after(free, move, disks)
        assert all(then <= before for then, before in zip(unevenness(now), unevenness(free), strict=True))
        assert unevenness(now)[2] < unevenness(free)[2]
        free = now


@few_examples
@given(worlds())
def test_no_broker_gets_a_partition_twice_and_racks_stay(world: World) -> None:
    moves = evened(world.plan, world.directories, world.held, RACKS, MOVES)
    assert max(Counter(each.partition for each in moves).values(), default=0) <= 1
    for move in moves:
        before = world.plan[move.partition]
        replicas = replicas_after(before, move)
        assert len(set(replicas)) == len(replicas) == len(before)
        assert rack_count(replicas, RACKS) >= rack_count(before, RACKS)
        assert world.held[move.source][move.partition] == move.size_bytes


@few_examples
@given(worlds())
def test_nothing_goes_where_it_must_not_or_into_the_reserve(world: World) -> None:
    by_place = {each.place: each for each in world.directories}
    disks = {each.place: each.disk for each in world.directories}
    free = free_bytes(world.directories)
    for move in evened(world.plan, world.directories, world.held, RACKS, MOVES):
        free = after(free, move, disks)
        assert by_place[move.target].takes
        assert free[disks[move.target]] >= by_place[move.target].reserve_bytes


@few_examples
@given(worlds(), st.integers(0, 3))
def test_fewer_moves_are_the_first_of_more(world: World, count: int) -> None:
    arguments = (world.plan, world.directories, world.held, RACKS)
    assert evened(*arguments, count) == evened(*arguments, MOVES)[:count]


def test_the_replica_that_makes_two_directories_the_most_alike_goes() -> None:
    plan, where = held((A, 90 * MiB), (A, 45 * MiB), (A, 10 * MiB), (B, 5 * MiB))
    moves = evened(plan, [directory(A, 0), directory(B, 100 * MiB)], where, RACKS, 1)
    assert moved(moves) == [(1, A, B)]


def test_a_replica_larger_than_the_difference_stays() -> None:
    plan, where = held((A, 100 * MiB))
    assert evened(plan, [directory(A, 0), directory(B, 100 * MiB)], where, RACKS, MOVES) == []
    assert len(evened(plan, [directory(A, 0), directory(B, 100 * MiB + 1)], where, RACKS, MOVES)) == 1


def test_a_small_replica_is_not_worth_a_move() -> None:
    plan, where = held((A, MiB - 1), (A, MiB))
    moves = evened(plan, [directory(A, 0), directory(B, GiB)], where, RACKS, MOVES)
    assert [each.partition[1] for each in moves] == [1]


def test_the_reserve_of_the_target_stays_free() -> None:
    target = Directory(B, "b", 100 * MiB, reserve_bytes=50 * MiB)
    plan, where = held((A, 51 * MiB), (A, 40 * MiB))
    assert moved(evened(plan, [directory(A, 0), target], where, RACKS, MOVES)) == [(1, A, B)]


def test_a_broker_that_has_the_partition_gets_no_second_replica_of_it() -> None:
    where = {A: {("t", 0): 10 * MiB}, (2, "/a"): {("t", 0): 10 * MiB}}
    directories = [directory(A, 0), directory((2, "/a"), 100 * MiB)]
    assert evened({("t", 0): (1, 2)}, directories, where, RACKS, MOVES) == []


def test_replicas_stay_in_as_many_racks() -> None:
    where = {A: {("t", 0): 10 * MiB}, (3, "/a"): {("t", 0): 10 * MiB}}
    directories = [directory(A, 0), directory((3, "/a"), 0), directory((5, "/a"), 100 * MiB)]
    racks = {1: "x", 3: "y", 5: "y"}
    assert moved(evened({("t", 0): (1, 3)}, directories, where, racks, MOVES)) == [(0, (3, "/a"), (5, "/a"))]


def test_one_replica_of_a_partition_moves_at_a_time() -> None:
    where = {A: {("t", 0): 10 * MiB}, (2, "/a"): {("t", 0): 10 * MiB}}
    empty = [directory((each, "/a"), 100 * MiB) for each in (3, 4)]
    directories = [directory(A, 0), directory((2, "/a"), 0), *empty]
    assert len(evened({("t", 0): (1, 2)}, directories, where, {}, MOVES)) == 1


def test_directories_of_one_disk_share_what_is_free() -> None:
    other = (2, "/c")
    plan, where = held((other, 90 * MiB), (other, 90 * MiB), (other, 90 * MiB))
    shared = [directory(A, 200 * MiB, disk="one"), directory(B, 200 * MiB, disk="one"), directory(other, 0)]
    apart = [replace(each, disk=f"{each.place}") for each in shared]
    assert len(evened(plan, shared, where, RACKS, MOVES)) == 1
    assert len(evened(plan, apart, where, RACKS, MOVES)) == 2


def test_between_equally_empty_directories_the_same_brokers_is_taken() -> None:
    plan, where = held(((2, "/a"), 10 * MiB))
    directories = [directory(A, 100 * MiB), directory((2, "/a"), 0), directory((2, "/b"), 100 * MiB)]
    assert moved(evened(plan, directories, where, RACKS, MOVES)) == [(0, (2, "/a"), (2, "/b"))]


def test_a_plan_names_directories_where_there_is_a_choice() -> None:
    directories = [directory(A, 0), directory(B, 0), directory((2, "/c"), 0)]
    current = {("t", 0): (2, 1), ("t", 1): (1,), ("t", 2): (2,)}
    moves = [Move(("t", 0), 1, A, B), Move(("t", 1), 1, A, (2, "/c")), Move(("t", 2), 1, (2, "/c"), B)]
    plan, log_dirs = plan_of(current, moves, directories)
    assert plan == {("t", 0): (2, 1), ("t", 1): (2,), ("t", 2): (1,)}
    assert log_dirs == {("t", 0, 1): "/b", ("t", 2, 1): "/b"}


def test_whether_a_replica_may_go_to_a_broker_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all brokers have all partitions most pairs of directories allow nothing: asked anew for each move and each
    pair, a thousand moves of 30,000 replicas took minutes."""
    asked: Counter[tuple[Replicas, int, int]] = Counter()

    def counting(replicas: Replicas, source: int, target: int, racks: Racks) -> bool:
        asked[replicas, source, target] += 1
        return may_move(replicas, source, target, racks)

    may_move = evening.may_move
    monkeypatch.setattr(evening, "may_move", counting)
    brokers, paths, count = (1, 2, 3), ("/a", "/b", "/c"), 60
    plan = {("t", index): brokers for index in range(count)}
    where: dict[Place, dict[Partition, int]] = {}
    for (topic, index), broker_id in product(plan, brokers):
        where.setdefault((broker_id, paths[index % 7 % 3]), {})[topic, index] = (index + 1) * MiB
    directories = [directory(place, 10 * GiB - number**3 * 9 * MiB) for number, place in enumerate(sorted(where))]
    assert len(evened(plan, directories, where, {}, MOVES)) > 20
    assert asked.total() <= count * len(brokers) ** 2
