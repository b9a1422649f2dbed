"""Whom the search looks at: the replicas of each broker, and the brokers that may take some, also rack by rack."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.guardian.plan.columns import (
    BROKER,
    FREE,
    PARTITION,
    RACK,
    TAKES,
)
from penstock.guardian.plan.machine_code import compiled, inner
from penstock.guardian.plan.model import Array
from penstock.guardian.plan.score import draw
from penstock.guardian.plan.state import State


class Pools(NamedTuple):
    """Slices by index: `members[starts[b]:starts[b + 1]]` were on broker b when the pools were made."""

    starts: Array
    members: Array
    takers: Array
    rack_starts: Array
    rack_takers: Array


def pools_of(state: State) -> Pools:
    """The pools of a state."""
    starts, members = sort_by(state.replicas[:, BROKER], len(state.brokers))
    takers = np.flatnonzero(state.brokers[:, TAKES])
    rack_starts, order = sort_by(state.brokers[takers, RACK], int(state.brokers[:, RACK].max(initial=0)) + 1)
    return Pools(starts, members, takers, rack_starts, takers[order])


@compiled
def sort_by(keys: Array, count: int) -> tuple[Array, Array]:
    """Indexes sorted by small keys, stable, and where each key's begin."""
    starts = np.zeros(count + 1, np.int64)
    for key in keys:
        starts[key + 1] += 1
    for key in range(count):
        starts[key + 1] += starts[key]
    free = starts.copy()
    order = np.empty(len(keys), np.int64)
    for index, key in enumerate(keys):
        order[free[key]] = index
        free[key] += 1
    return starts, order


@inner
def tries_of(pools: Pools, most: int) -> int:
    """How many targets are looked at: all where there are few."""
    return min(len(pools.takers), most)


@inner
def target(s: State, pools: Pools, r: int, attempt: int, tries: int) -> int:
    """A broker that may take replica r: one after the other where all are looked at, else drawn, half of them from the
    rack where r is, since there it may always stay."""
    if tries == len(pools.takers):
        return pools.takers[attempt]
    rack = s.brokers[s.replicas[r, BROKER], RACK]
    start, end = pools.rack_starts[rack], pools.rack_starts[rack + 1]
    if attempt & 1 and end > start:
        return pools.rack_takers[start + draw(s, end - start)]
    return pools.takers[draw(s, len(pools.takers))]


@inner
def member(s: State, pools: Pools, b: int) -> int:
    """A replica of broker b that may move, drawn, or -1."""
    start, end = pools.starts[b], pools.starts[b + 1]
    if end == start:
        return -1
    r = pools.members[start + draw(s, end - start)]
    return r if s.replicas[r, BROKER] == b and s.partitions[s.replicas[r, PARTITION], FREE] else -1
