"""The passes of a round, the cheapest first, each over the brokers that are the furthest from their shares. Compiled.

A pass makes a step only if the score falls by it, so that every round ends, and all of them do.
"""

from __future__ import annotations

import numpy as np

from penstock.guardian.plan.columns import (
    BAND,
    BROKER,
    END,
    END_DISK,
    FIRST,
    FIRST_DISK,
    FREE,
    LEADER,
    LEAVES,
    PARTITION,
    STAYS,
    TAKES,
    WITHIN,
)
from penstock.guardian.plan.machine_code import compiled, inner
from penstock.guardian.plan.model import Array
from penstock.guardian.plan.permits import lead_forbids
from penstock.guardian.plan.pools import Pools, member, target, tries_of
from penstock.guardian.plan.score import broker_cost, draw, own_cost
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

WORTH = 1e-12
"""What the score must fall by: above the noise of its arithmetic."""
MISSES_MAX = 32
"""Replicas that find no better place, one after the other, after which a broker is left as it is."""
DRAWS_MAX = 3
"""Draws without success after which a broker is not filled any more."""


@compiled
def broker_costs(s: State) -> Array:
    """What each broker is away from its shares; 0 for one that is near enough to be left alone."""
    found = np.zeros(len(s.brokers))
    for b in range(len(s.brokers)):
        if broker_cost(s, b, s.numbers[WITHIN]) > 0.0:
            found[b] = broker_cost(s, b, s.numbers[BAND])
    return found


@compiled
def move_leaders(s: State, pools: Pools, order: Array) -> int:
    """Leaderships go to other replicas of their partitions: nothing is copied. Returns how many."""
    steps = 0
    for b in order:
        for i in range(pools.starts[b], pools.starts[b + 1]):
            r = pools.members[i]
            p = s.replicas[r, PARTITION]
            if s.partitions[p, LEADER] != r or s.replicas[r, BROKER] != b:
                continue
            best, least = NOWHERE, -WORTH
            for q in range(s.partitions[p, FIRST], s.partitions[p, END]):
                if q != r and lead_forbids(s, p, q) == 0:
                    change = lead_change(s, p, q)
                    if change < least:
                        best, least = q, change
            if best >= 0:
                lead(s, p, best)
                steps += 1
    return steps


@compiled
def move_disks(s: State, pools: Pools, order: Array) -> int:
    """Replicas go to other disks of their brokers, where these as a whole are near their shares: from others, replicas
    will leave anyhow. Returns how many."""
    steps = 0
    for b in order:
        if s.brokers[b, END_DISK] - s.brokers[b, FIRST_DISK] < 2 or own_cost(s, b, s.numbers[WITHIN]) > 0.0:
            continue
        for i in range(pools.starts[b], pools.starts[b + 1]):
            r = pools.members[i]
            if s.replicas[r, BROKER] == b and not s.replicas[r, LEAVES]:
                d, change = disk_step_change(s, r)
                if d >= 0 and change < -WORTH:
                    put(s, r, d)
                    steps += 1
    return steps


@compiled
def relieve(s: State, pools: Pools, order: Array, targets_max: int) -> int:
    """Replicas leave brokers that have too much, those first that relieve most for what they cost. Returns how many."""
    steps = 0
    most = 0
    for b in order:
        most = max(most, pools.starts[b + 1] - pools.starts[b])
    chosen, worth = np.empty(most, np.int64), np.empty(most)
    for b in order:
        found = 0
        for i in range(pools.starts[b], pools.starts[b + 1]):
            r = pools.members[i]
            if s.replicas[r, BROKER] == b and s.partitions[s.replicas[r, PARTITION], FREE] and not s.brokers[b, STAYS]:
                change = leave_change(s, r)
                if change < -WORTH:
                    chosen[found], worth[found] = r, change / (s.price[r] + WORTH)
                    found += 1
        misses = 0
        for i in np.argsort(worth[:found], kind="mergesort"):
            if misses == MISSES_MAX or broker_cost(s, b, s.numbers[BAND]) <= 0.0:
                break
            gone = send_off(s, pools, chosen[i], targets_max)
            misses = 0 if gone else misses + 1
            steps += gone
    return steps


@inner
def send_off(s: State, pools: Pools, r: int, targets_max: int) -> int:
    """Moves a replica to the best broker of those that are looked at, if that is worth it; 1 if so, else 0."""
    gone = leave_change(s, r)
    if gone >= -WORTH:
        return 0
    best, least = NOWHERE, np.inf
    tries = tries_of(pools, targets_max)
    for attempt in range(tries):
        b = target(s, pools, r, attempt, tries)
        if b != s.replicas[r, BROKER]:
            d, change = come_change(s, r, b, least)
            if d >= 0 and change < least:
                best, least = d, change
    if best < 0 or gone + least >= -WORTH:
        return 0
    put(s, r, best)
    return 1


@compiled
def fill(s: State, pools: Pools, order: Array, sources_max: int) -> int:
    """Replicas of others come to brokers that have too little. Returns how many."""
    steps = 0
    for b in order:
        if not s.brokers[b, TAKES]:
            continue
        misses = 0
        while misses < DRAWS_MAX and broker_cost(s, b, s.numbers[BAND]) > 0.0:
            r, d = best_comer(s, pools, b, sources_max)
            if r < 0:
                misses += 1
            else:
                put(s, r, d)
                steps += 1
    return steps


@inner
def best_comer(s: State, pools: Pools, b: int, sources_max: int) -> tuple[int, int]:
    """The replica, of some that are drawn, that is best moved to broker b, and its disk there; NOWHERE if none is."""
    best, disk, least = NOWHERE, NOWHERE, -WORTH
    for _ in range(sources_max):
        r = member(s, pools, draw(s, len(s.brokers)))
        if r < 0 or s.replicas[r, BROKER] == b or s.brokers[s.replicas[r, BROKER], STAYS]:
            continue
        gone = leave_change(s, r)
        d, change = come_change(s, r, b, least - gone)
        if d >= 0:
            change += gone
            if change < least:
                best, disk, least = r, d, change
    return best, disk


@compiled
def swap_pairs(s: State, pools: Pools, order: Array, pairs_max: int) -> int:
    """Replicas change places where a move would overflow. Returns how many pairs."""
    steps = 0
    for b in order:
        while broker_cost(s, b, s.numbers[BAND]) > 0.0:
            one, other, least = NOWHERE, NOWHERE, -WORTH
            for _ in range(pairs_max):
                x, y = member(s, pools, b), member(s, pools, draw(s, len(s.brokers)))
                if x >= 0 and y >= 0 and s.replicas[y, BROKER] != b:
                    change = swap_change(s, x, y)
                    if change < least:
                        one, other, least = x, y, change
            if one < 0:
                break
            swap(s, one, other)
            steps += 1
    return steps
