"""What must be done before anything is balanced: replicas leave what is dead, racks and hosts are spread over, named
topics get their leaders. Every broker is looked at for each. Compiled; what finds no place is returned."""

from __future__ import annotations

import numpy as np

from penstock.guardian.plan.columns import (
    BROKER,
    DISK,
    END,
    FIRST,
    HELD,
    HELD_MAX,
    LEADER,
    LEAVES,
    MAY_LEAD,
    ORIGIN_DISK,
    PARTITION,
    RACK,
    STAYS,
    TAKES,
)
from penstock.guardian.plan.machine_code import compiled, inner
from penstock.guardian.plan.model import Array
from penstock.guardian.plan.permits import lead_forbids, pin_of, spread_after
from penstock.guardian.plan.state import State
from penstock.guardian.plan.steps import NOWHERE, come_change, disk_step_change, lead, lead_change, leave_change, put


@inner
def give_up_lead(s: State, r: int) -> None:
    """Has another replica lead the partition of r, if r leads it and another may."""
    p = s.replicas[r, PARTITION]
    best, least = NOWHERE, np.inf
    if s.partitions[p, LEADER] == r:
        for q in range(s.partitions[p, FIRST], s.partitions[p, END]):
            if q != r and lead_forbids(s, p, q) == 0:
                change = lead_change(s, p, q)
                if change < least:
                    best, least = q, change
    if best >= 0:
        lead(s, p, best)


@inner
def best_place(s: State, r: int, domain: int, more: bool) -> tuple[int, float]:
    """The best disk of all other brokers; with `more`, only where the partition is in more racks or hosts than now."""
    best, least = NOWHERE, np.inf
    now = spread_after(s, r, s.replicas[r, BROKER], domain)
    for b in range(len(s.brokers)):
        if more and spread_after(s, r, b, domain) <= now:
            continue
        d, change = come_change(s, r, b, np.inf)
        if d >= 0 and change < least:
            best, least = d, change
    return best, least


@compiled
def evacuate(s: State, replicas: Array, dead: Array) -> Array:
    """Moves replicas from where nothing may stay, on the same broker if only the disk is dead.

    `dead`: by disk, whether it or its broker is dead. A partition all of whose replicas are on such has nothing to copy
    from. Returns the replicas that stay where they are.
    """
    stuck = np.zeros(len(replicas), np.bool_)
    for i, r in enumerate(replicas):
        if not s.replicas[r, LEAVES]:
            continue
        p = s.replicas[r, PARTITION]
        living = False
        for q in range(s.partitions[p, FIRST], s.partitions[p, END]):
            living = living or not dead[s.replicas[q, ORIGIN_DISK]]
        if not living:
            stuck[i] = True
            continue
        if dead[s.replicas[r, DISK]]:
            give_up_lead(s, r)
        d, change = best_place(s, r, RACK, False)
        if s.brokers[s.replicas[r, BROKER], TAKES] and s.pins[pin_of(s, p), s.replicas[r, BROKER]]:
            other, here = disk_step_change(s, r)
            if other >= 0 and here < change + leave_change(s, r):
                d = other
        if d < 0:
            stuck[i] = True
        else:
            put(s, r, d)
            s.replicas[r, LEAVES] = False
    return replicas[stuck]


@compiled
def widen(s: State, partitions: Array, domain: int, wanted: int) -> None:
    """Moves replicas so that partitions are in as many racks or hosts as they can be."""
    for p in partitions:
        while (
            spread_after(s, s.partitions[p, FIRST], s.replicas[s.partitions[p, FIRST], BROKER], domain)
            < s.partitions[p, wanted]
        ):
            best, disk, least = NOWHERE, NOWHERE, np.inf
            for r in range(s.partitions[p, FIRST], s.partitions[p, END]):
                if s.brokers[s.replicas[r, BROKER], STAYS]:
                    continue
                d, change = best_place(s, r, domain, True)
                if d >= 0 and change + leave_change(s, r) < least:
                    best, disk, least = r, d, change + leave_change(s, r)
            if best < 0:
                break
            put(s, best, disk)


@inner
def best_leader(s: State, b: int, partitions: Array) -> tuple[int, int]:
    """The replica by which broker b best gets one more leader: one that it has, or one to move to a disk of it."""
    best, disk, least = NOWHERE, NOWHERE, np.inf
    for p in partitions:
        old, here = s.partitions[p, LEADER], NOWHERE
        for q in range(s.partitions[p, FIRST], s.partitions[p, END]):
            if s.replicas[q, BROKER] == b:
                here = q
        if here == NOWHERE:
            d, change = come_change(s, old, b, np.inf)
            if d >= 0 and change + leave_change(s, old) < least:
                best, disk, least = old, d, change + leave_change(s, old)
        elif here != old and lead_forbids(s, p, here) == 0:
            change = lead_change(s, p, here)
            if change < least:
                best, disk, least = here, NOWHERE, change
    return best, disk


@compiled
def raise_leaders(s: State, row: int, partitions: Array) -> None:
    """Gives each broker that may lead its leaders of a named topic."""
    for b in range(len(s.brokers)):
        while s.brokers[b, MAY_LEAD] and s.leader_counts[row, b] < s.leaders_min[row]:
            best, disk = best_leader(s, b, partitions)
            if best < 0:
                break
            if disk < 0:
                lead(s, s.replicas[best, PARTITION], best)
            else:
                put(s, best, disk)


@compiled
def thin_out(s: State, replicas: Array) -> None:
    """Moves replicas, in this order, from brokers that have more of them than they may."""
    for r in replicas:
        b = s.replicas[r, BROKER]
        if s.brokers[b, HELD] > s.brokers[b, HELD_MAX] and not s.replicas[r, LEAVES]:
            d, _change = best_place(s, r, RACK, False)
            if d >= 0:
                put(s, r, d)
