"""Partitions spread evenly over brokers: replicas, and preferred leaderships."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from penstock.errors import UsageError
from penstock.placement.plan import Partition, Plan, Racks, Replicas, first, least_loaded, rack_count


def spread(
    current: Plan, targets: Sequence[int], racks: Racks, replication_factor: int | None = None
) -> dict[Partition, Replicas]:
    """Spreads partitions evenly over brokers: replicas, and preferred leaderships.

    Each partition keeps what it has on a target and gets as many replicas as it had, or `replication_factor`, on as
    many racks as it can. Raises UsageError when there are too few targets.
    """
    plan = fill(current, targets, racks, replication_factor)
    level(plan, targets, racks)
    level_leaders(plan, targets)
    return plan


def fill(
    current: Plan, targets: Sequence[int], racks: Racks, replication_factor: int | None = None
) -> dict[Partition, Replicas]:
    """Every partition on targets only: what lies elsewhere moves to the target that has least, as the last replica."""
    load = Counter(dict.fromkeys(targets, 0))
    load.update(each for replicas in current.values() for each in replicas if each in load)
    plan: dict[Partition, Replicas] = {}
    for key in sorted(current):
        count = replication_factor or len(current[key])
        if count > len(targets):
            raise UsageError(
                f"{key[0]}-{key[1]} is to have {count} replicas, and there are {len(targets)} brokers for it"
            )
        there = [each for each in current[key] if each in load]
        replicas = there[:count]
        load.subtract(there[count:])
        while len(replicas) < count:
            replicas.append(least_loaded(load, replicas, racks))
        plan[key] = tuple(replicas)
    return plan


def level(plan: dict[Partition, Replicas], targets: Sequence[int], racks: Racks) -> None:
    """Moves replicas from the broker that has most to the one that has least until they differ by one at most."""
    holders: dict[int, list[Partition]] = {each: [] for each in targets}
    for key in sorted(plan):
        for each in plan[key]:
            holders[each].append(key)

    def move(high: int, low: int) -> bool:
        for place in range(len(holders[high]) - 1, -1, -1):
            key = holders[high][place]
            after = tuple(low if each == high else each for each in plan[key])
            if low not in plan[key] and rack_count(after, racks) >= rack_count(plan[key], racks):
                plan[key] = after
                holders[low].append(holders[high].pop(place))
                return True
        return False

    even_out(lambda: {each: len(holders[each]) for each in targets}, move)


def level_leaders(plan: dict[Partition, Replicas], targets: Sequence[int]) -> None:
    """Reorders replicas until the brokers are the first of about as many. No replica moves."""
    leads: dict[int, list[Partition]] = {each: [] for each in targets}
    for key in sorted(plan):
        leads[plan[key][0]].append(key)

    def swap(high: int, low: int) -> bool:
        for place in range(len(leads[high]) - 1, -1, -1):
            key = leads[high][place]
            if low in plan[key]:
                plan[key] = first(plan[key], low)
                leads[low].append(leads[high].pop(place))
                return True
        return False

    even_out(lambda: {each: len(leads[each]) for each in targets}, swap)


def even_out(loads: Callable[[], dict[int, int]], shift: Callable[[int, int], bool]) -> None:
    """Calls `shift(high, low)` for two brokers whose loads differ by more than one, until no such shift works."""
    while True:
        load = loads()
        order = sorted(load, key=lambda each: (load[each], each))
        pairs = ((high, low) for high in reversed(order) for low in order if load[high] - load[low] > 1)
        if not any(shift(high, low) for high, low in pairs):
            return
