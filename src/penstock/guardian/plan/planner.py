"""The planner: repairs first, then rounds of passes from cheap to dear, until a round finds nothing more worth it.

Everything is drawn from the seed, so the same model, rules and seed give the same plan. What comes out is where the
replicas and leaders are to be; `plan.document` says it as moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.guardian.limits import (
    PLAN_RESTARTS_MAX,
    PLAN_RESTARTS_WORK,
    PLAN_ROUNDS_MAX,
    PLAN_SMALL_WORK,
    PLAN_SOURCES_MAX,
    PLAN_SWAPS_MAX,
    PLAN_TARGETS_MAX,
)
from penstock.guardian.plan.columns import (
    BROKER,
    DISK,
    DISK_TAKES,
    FREE,
    HELD,
    HELD_MAX,
    HOST,
    HOSTS_WANTED,
    LEAVES,
    RACK,
    RACKS_WANTED,
    SPREAD_USED,
    TAKES,
)
from penstock.guardian.plan.model import Array, Model
from penstock.guardian.plan.passes import broker_costs, fill, move_disks, move_leaders, relieve, swap_pairs
from penstock.guardian.plan.polish import polish, whole
from penstock.guardian.plan.pools import pools_of
from penstock.guardian.plan.repair import evacuate, raise_leaders, thin_out, widen
from penstock.guardian.plan.rules import Rules
from penstock.guardian.plan.score import count_spread
from penstock.guardian.plan.state import State, add_up, misplaced, state_of

WORTHWHILE_ROUND = 0.002
"""The fraction of the score by which a round must lower it for another one to follow."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a search has ended with.

    Attributes:
        begin: where everything is; its tables of loads and brokers count. state: where it is to be.
        before, after: the score at the beginning and at the end.
        rounds: rounds over all brokers.
        evacuated, widened: replicas that had to leave and partitions that had to spread, for the reasons of moves.
        stuck: replicas that found no place. narrow: partitions in too few racks. crowded: on too few hosts.
    """

    begin: State
    state: State
    before: float
    after: float
    rounds: int
    evacuated: Array
    widened: Array
    stuck: Array
    narrow: Array
    crowded: Array


def search(model: Model, rules: Rules, seed: int) -> Search:
    """Searches for better places; see the module's head. `rules` name only what `model` has."""
    state = state_of(model, rules, seed)
    count_spread(state)
    before = whole(state)
    begin = state._replace(
        brokers=state.brokers.copy(), broker_loads=state.broker_loads.copy(), disk_loads=state.disk_loads.copy()
    )
    dead = ~model.disks.alive | ~model.brokers.alive[model.disks.broker]
    leaving = largest_first(state, np.flatnonzero(state.replicas[:, LEAVES]))
    stuck = evacuate(state, leaving, dead)
    widened = np.concatenate([narrow_of(state, model, *each) for each in domains(rules)])
    repair(state, model, rules)
    rounds = balance(state)
    if len(stuck) or any(len(narrow_of(state, model, *each)) for each in domains(rules)):
        evacuate(state, stuck, dead)  # there may be room by now
        repair(state, model, rules)
        rounds += balance(state)
    add_up(state)
    recount_spread(state)
    broker, disk = state.replicas[:, BROKER], state.replicas[:, DISK]
    stuck = stuck[misplaced(model, rules, broker, disk)[stuck]]
    narrow, crowded = (narrow_of(state, model, *each) for each in domains(rules))
    return Search(begin, state, before, whole(state), rounds, leaving, np.unique(widened), stuck, narrow, crowded)


def recount_spread(state: State) -> None:
    """Fills the table of topics on brokers anew: a search that moves very much may have filled it up."""
    state.spread_keys[:] = -1
    state.spread_counts[:] = 0
    state.tally[SPREAD_USED] = 0
    count_spread(state)


def domains(rules: Rules) -> tuple[tuple[int, bool, int], tuple[int, bool, int]]:
    """Over what partitions are to be spread: its column, whether the rules ask for it, and the column of how far."""
    return (RACK, rules.racks, RACKS_WANTED), (HOST, rules.hosts, HOSTS_WANTED)


def largest_first(state: State, replicas: Array) -> Array:
    return replicas[np.argsort(-state.price[replicas], kind="stable")]


def narrow_of(state: State, model: Model, domain: int, asked: bool, wanted: int) -> Array:
    """Partitions that are in fewer racks or hosts than they are to be."""
    if not asked:
        return np.zeros(0, np.int64)
    return np.flatnonzero(
        (distinct(state, model, domain) < state.partitions[:, wanted]) & (state.partitions[:, FREE] > 0)
    )


def distinct(state: State, model: Model, domain: int) -> Array:
    """In how many racks or hosts each partition is."""
    where = state.brokers[:, domain]
    count = int(where.max(initial=0)) + 1
    key = np.sort(model.partition * count + where[state.replicas[:, BROKER]])
    first = np.ones(len(key), np.bool_)
    first[1:] = key[1:] != key[:-1]
    return np.bincount(key[first] // count, minlength=len(model.topic))


def repair(state: State, model: Model, rules: Rules) -> None:
    """Thins out brokers with too many replicas, spreads partitions over racks and hosts, gives brokers their leaders;
    as far as there are places for it."""
    full = state.brokers[:, HELD] > state.brokers[:, HELD_MAX]
    surplus = np.flatnonzero(full[state.replicas[:, BROKER]])
    thin_out(state, surplus[np.argsort(state.price[surplus], kind="stable")])
    for domain, asked, wanted in domains(rules):
        widen(state, narrow_of(state, model, domain, asked, wanted), domain, wanted)
    for row, name in enumerate(rules.leaders_per_broker_min):
        mine = (model.topic == model.topics.index(name)) & (state.partitions[:, FREE] > 0)
        raise_leaders(state, row, np.flatnonzero(mine))


def balance(state: State) -> int:
    """Rounds of passes; returns how many."""
    if not state.brokers[:, TAKES].any():
        return 0
    score = whole(state)
    rounds = 0
    while rounds < PLAN_ROUNDS_MAX:
        rounds += 1
        steps = one_round(state, swaps=rounds > 1)
        last, score = score, whole(state)
        if steps == 0 or last - score <= WORTHWHILE_ROUND * last:
            break
    work = len(state.replicas) * int(state.disks[:, DISK_TAKES].sum())
    if work <= PLAN_SMALL_WORK:
        polish(state, pools_of(state), min(PLAN_RESTARTS_MAX, PLAN_RESTARTS_WORK // max(work, 1)))
    return rounds


def one_round(state: State, swaps: bool) -> int:
    """One of each pass, over the brokers that are not where they should be, the worst first; returns the steps.

    A swap copies two replicas, so swaps are for what is left when everything else has been tried.
    """
    steps = 0
    passes: list[tuple[Any, int | None]] = [
        (move_leaders, None),
        (move_disks, None),
        (relieve, PLAN_TARGETS_MAX),
        (fill, PLAN_SOURCES_MAX),
        (swap_pairs, PLAN_SWAPS_MAX),
    ]
    for work, most in passes if swaps else passes[:-1]:
        costs = broker_costs(state)
        order = np.argsort(-costs, kind="stable")
        order = order[costs[order] > 0]
        if len(order) == 0:
            break
        pools = pools_of(state)
        steps += work(state, pools, order) if most is None else work(state, pools, order, most)
    return steps
