"""One broker emptied, or filled again: of preferred leaderships (`demoted`, `promoted`), of replicas (`emptied`,
`filled_up`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from penstock.errors import UsageError
from penstock.placement.plan import Partition, Plan, Racks, Replicas, first, least_loaded, rack_count


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
    """Moves one broker's replicas to the targets, each to the one with the fewest. Other replicas stay.

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
    """Moves replicas to one broker from those that have the most, until it has its share."""
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
