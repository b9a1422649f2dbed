"""Small models are planned as well as can be: every move and swap is looked at, from several beginnings. Compiled."""

from __future__ import annotations

import numpy as np

from penstock.guardian.plan.columns import (
    BROKER,
    DISK,
    LEADER,
    LEAVES,
    OVERLOAD,
    PARTITION,
)
from penstock.guardian.plan.machine_code import compiled, inner
from penstock.guardian.plan.model import Array
from penstock.guardian.plan.passes import WORTH
from penstock.guardian.plan.permits import lead_forbids, may_change
from penstock.guardian.plan.pools import Pools
from penstock.guardian.plan.score import draw, overloads, total
from penstock.guardian.plan.state import State
from penstock.guardian.plan.steps import (
    NOWHERE,
    come_change,
    disk_step_change,
    lead,
    lead_change,
    leave_change,
    put,
    swap,
    swap_change,
)

LEAD, PUT, SWAP = range(3)
KICK_LEAST, KICK_DRAWN = 3, 8
"""Random steps, which may make the score larger, before a search begins anew: at least, and up to how many more."""


@compiled
def whole(s: State) -> float:
    """The score with what lies above limits."""
    return total(s) + s.numbers[OVERLOAD] * overloads(s)


@inner
def better_place(s: State, pools: Pools, r: int) -> tuple[int, float]:
    """The disk where replica r is best, and how the score changes; NOWHERE if it may not go anywhere."""
    best, least = disk_step_change(s, r)
    if s.replicas[r, LEAVES]:
        best, least = NOWHERE, np.inf
    gone = leave_change(s, r)
    for b in pools.takers:
        d, change = come_change(s, r, b, np.inf)
        if d >= 0 and gone + change < least:
            best, least = d, gone + change
    return best, least


@inner
def best_step(s: State, pools: Pools) -> tuple[int, int, int]:
    """The best of all steps: its kind, NOWHERE if none makes the score smaller, and what it is about."""
    kind, one, other, least = NOWHERE, NOWHERE, NOWHERE, -WORTH
    for r in range(len(s.replicas)):
        p = s.replicas[r, PARTITION]
        if not may_change(s, r):
            continue
        if s.partitions[p, LEADER] != r and lead_forbids(s, p, r) == 0:
            change = lead_change(s, p, r)
            if change < least:
                kind, one, other, least = LEAD, p, r, change
        d, change = better_place(s, pools, r)
        if d >= 0 and change < least:
            kind, one, other, least = PUT, r, d, change
        for q in range(r):
            if s.replicas[q, BROKER] != s.replicas[r, BROKER]:
                change = swap_change(s, r, q)
                if change < least:
                    kind, one, other, least = SWAP, r, q, change
    return kind, one, other


@inner
def descend(s: State, pools: Pools) -> None:
    """Makes the best of all steps, again and again, until none makes the score smaller."""
    while True:
        kind, one, other = best_step(s, pools)
        if kind == LEAD:
            lead(s, one, other)
        elif kind == PUT:
            put(s, one, other)
        elif kind == SWAP:
            swap(s, one, other)
        else:
            return


@inner
def kick(s: State, pools: Pools) -> None:
    """A few steps at random that the rules allow."""
    for _ in range(KICK_LEAST + draw(s, KICK_DRAWN)):
        r = draw(s, len(s.replicas))
        p = s.replicas[r, PARTITION]
        if not may_change(s, r):
            continue
        if draw(s, 3) == 0:
            if s.partitions[p, LEADER] != r and lead_forbids(s, p, r) == 0:
                lead(s, p, r)
            continue
        d, _change = come_change(s, r, pools.takers[draw(s, len(pools.takers))], np.inf)
        if d >= 0:
            put(s, r, d)


@inner
def restore(s: State, disks: Array, leaders: Array) -> None:
    """Puts everything where it was."""
    for r in range(len(disks)):
        if s.replicas[r, DISK] != disks[r]:
            put(s, r, disks[r])
    for p in range(len(leaders)):
        if s.partitions[p, LEADER] != leaders[p]:
            lead(s, p, leaders[p])


@compiled
def polish(s: State, pools: Pools, restarts: int) -> None:
    """Descends from where the state is and from other beginnings, and leaves it at the best end;
    a quarter of the beginnings, one after the other, without a better end are enough."""
    descend(s, pools)
    best, disks, leaders = whole(s), s.replicas[:, DISK].copy(), s.partitions[:, LEADER].copy()
    misses = 0
    for _ in range(restarts):
        if 4 * misses > restarts:
            break
        kick(s, pools)
        descend(s, pools)
        score = whole(s)
        if score < best - WORTH:
            best, disks, leaders = score, s.replicas[:, DISK].copy(), s.partitions[:, LEADER].copy()
            misses = 0
        else:
            misses += 1
            restore(s, disks, leaders)
