"""Where replicas are to lie: plans made from where they lie now. Pure: no cluster is asked here.

A plan says the replicas of each partition in order; the first is the preferred leader. What need not move stays. Plans
are written and read in the JSON of kafka-reassign-partitions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.common import UsageError

if TYPE_CHECKING:
    from penstock.client.client import Partition

Replicas = tuple[int, ...]
Racks = Mapping[int, str | None]
Plan = Mapping[tuple[str, int], Replicas]
VERSION = 1


def parse_plan(text: str, source: str) -> dict[Partition, Replicas]:
    """Reads a plan. Raises UsageError naming `source`, the partition, and what it should be like."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}") from None
    entries = value.get("partitions") if isinstance(value, dict) else None
    if not isinstance(entries, list) or value.get("version", VERSION) != VERSION:
        example = '{"version": 1, "partitions": [{"topic": "clicks", "partition": 0, "replicas": [1, 2]}]}'
        raise UsageError(f"{source} is not a plan: it must be like {example}")
    plan: dict[Partition, Replicas] = {}
    for place, entry in enumerate(entries):
        key, replicas = parse_entry(entry, f"{source}, partitions[{place}]")
        if key in plan:
            raise UsageError(f"{source}: {key[0]}-{key[1]} is there twice")
        plan[key] = replicas
    if not plan:
        raise UsageError(f"{source} names no partition")
    return plan


def parse_entry(entry: Any, where: str) -> tuple[Partition, Replicas]:
    """One partition of a plan. Raises UsageError."""
    wanted = (("topic", str), ("partition", int), ("replicas", list))
    for name, type_ in wanted:
        if not isinstance(entry, dict) or type(entry.get(name)) is not type_:
            raise UsageError(f"{where} must have topic, partition and replicas; {name} is missing or of another kind")
    replicas = tuple(entry["replicas"])
    partition = f"{entry['topic']}-{entry['partition']}"
    if not replicas or any(type(each) is not int or each < 0 for each in replicas):
        raise UsageError(f"{where}: replicas of {partition} must be broker ids, at least one")
    if len(set(replicas)) < len(replicas):
        raise UsageError(f"{where}: a broker is there twice among the replicas of {partition}")
    if any(directory != "any" for directory in entry.get("log_dirs", ())):
        raise UsageError(f"{where}: log_dirs of {partition} can only be any: the broker chooses the directory")
    return (entry["topic"], entry["partition"]), replicas


def plan_json(plan: Mapping[Partition, Sequence[int]]) -> dict[str, Any]:
    """A plan as kafka-reassign-partitions reads it."""
    entries = [{"topic": name, "partition": index, "replicas": list(plan[name, index])} for name, index in sorted(plan)]
    return {"version": VERSION, "partitions": entries}


def changed(before: Plan, after: Plan) -> dict[Partition, Replicas]:
    """What of a plan is not so already."""
    return {key: replicas for key, replicas in after.items() if before.get(key) != replicas}


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


def least_loaded(load: Counter[int], chosen: Sequence[int], racks: Racks) -> int:
    """The broker for one more replica: of a rack that has none yet if there is one, then the one that has least."""
    used = {racks.get(each) for each in chosen}
    free = [each for each in load if each not in chosen]
    found = min(free, key=lambda each: (racks.get(each) in used, load[each], each))
    load[found] += 1
    return found


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


def rack_count(replicas: Iterable[int], racks: Racks) -> int:
    """Over how many racks replicas lie."""
    return len({racks.get(each) for each in replicas})


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


def first(replicas: Replicas, broker: int) -> Replicas:
    """The replicas with a broker as the first, the others in their order."""
    return (broker, *(each for each in replicas if each != broker))


def demoted(current: Plan, broker: int, in_sync: Mapping[Partition, Sequence[int]]) -> dict[Partition, Replicas]:
    """Replicas reordered so that a broker is preferred nowhere: it goes last, and who leads least goes first.

    Only who is in sync comes into question; partitions of which no other is in sync stay as they are.
    """
    leads = Counter(replicas[0] for replicas in current.values() if replicas)
    plan = dict(current)
    for key in sorted(current):
        able = [each for each in current[key] if each != broker and each in in_sync[key]]
        if current[key][:1] == (broker,) and able:
            chosen = min(able, key=lambda each: (leads[each], current[key].index(each)))
            leads[chosen] += 1
            others = (each for each in current[key] if each not in (chosen, broker))
            plan[key] = (chosen, *others, broker)
    return plan


def emptied(current: Plan, broker: int, targets: Sequence[int], racks: Racks) -> dict[Partition, Replicas]:
    """One broker's replicas moved to the targets, each to the one that has least. What it has not, stays.

    Raises UsageError when a partition has a replica on every target already.
    """
    load = Counter(dict.fromkeys(targets, 0))
    load.update(each for replicas in current.values() for each in replicas if each in load)
    plan = dict(current)
    for key in sorted(current):
        others = [each for each in current[key] if each != broker]
        if len(others) == len(current[key]):
            continue
        if all(each in others for each in targets):
            have = ",".join(map(str, current[key]))
            raise UsageError(f"{key[0]}-{key[1]} has replicas on {have}, and no other broker is up that could take one")
        plan[key] = (*others, least_loaded(load, others, racks))
    return plan


def promoted(current: Plan, broker: int, brokers: Sequence[int]) -> dict[Partition, Replicas]:
    """Replicas reordered so that a broker is preferred for its share; others give from the most they have."""
    plan = dict(current)
    leads: dict[int, list[Partition]] = {each: [] for each in brokers}
    for key in sorted(plan):
        leads.setdefault(plan[key][0], []).append(key)
    share = len(plan) // max(1, len(brokers))
    while len(leads[broker]) < share:
        for giver in sorted(leads, key=lambda each: (-len(leads[each]), each)):
            found = next((each for each in reversed(leads[giver]) if broker in plan[each]), None)
            if giver != broker and found is not None and len(leads[giver]) > len(leads[broker]) + 1:
                leads[giver].remove(found)
                leads[broker].append(found)
                plan[found] = first(plan[found], broker)
                break
        else:
            break
    return plan


def filled_up(current: Plan, broker: int, brokers: Sequence[int], racks: Racks) -> dict[Partition, Replicas]:
    """Replicas moved to one broker from those that have most, until it has its share."""
    plan = dict(current)
    holders: dict[int, list[Partition]] = {each: [] for each in brokers}
    for key in sorted(plan):
        for each in plan[key]:
            holders.setdefault(each, []).append(key)
    share = sum(map(len, plan.values())) // max(1, len(brokers))
    while len(holders[broker]) < share:
        for giver in sorted(holders, key=lambda each: (-len(holders[each]), each)):
            if len(holders[giver]) <= len(holders[broker]) + 1:
                continue
            found = given(plan, holders[giver], giver, broker, racks)
            if found is not None:
                key, replicas = found
                plan[key] = replicas
                holders[giver].remove(key)
                holders[broker].append(key)
                break
        else:
            break
    return plan


def given(
    plan: Plan, keys: Sequence[Partition], giver: int, taker: int, racks: Racks
) -> tuple[Partition, Replicas] | None:
    """A partition that one broker can give to another, with its replicas then."""
    for key in reversed(keys):
        after = tuple(taker if each == giver else each for each in plan[key])
        if taker not in plan[key] and rack_count(after, racks) >= rack_count(plan[key], racks):
            return key, after
    return None
