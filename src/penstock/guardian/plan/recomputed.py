"""The figures of a plan, computed anew from the model, the rules and the places of replicas; for the verifier.

Written apart from the search: whole columns with numpy, nothing carried on from step to step. What a share, a limit and
the score are is said in `state`; only the constants of the score are taken from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.guardian.plan import rules as names
from penstock.guardian.plan.applied import Places
from penstock.guardian.plan.form import BROKER_COLUMNS, DISK_COLUMNS
from penstock.guardian.plan.model import (
    BYTES,
    CPU,
    DISK_READ,
    DISK_RESOURCES,
    DISK_WRITE,
    NET_IN,
    NET_OUT,
    PEAK,
    Array,
    Model,
)
from penstock.guardian.plan.rules import Rules
from penstock.guardian.plan.state import (
    BAND_SHARE,
    DISK_MOVE_PRICE,
    LEADER_PRICE,
    LEADERS_WEIGHT,
    MOVE_OVERHEAD,
    NO_SHARE,
    OVERLOAD_WEIGHT,
)

ROUNDED = 6e-5
"""By how much a figure may differ: it has four digits behind the point."""
CLOSE = 1e-6
"""The relative difference that sums may have because they were added in another order."""
BROKER_CAPACITIES = (
    (names.CPU_CAPACITY, CPU, "cpu_capacity", "cpu"),
    (names.NET_IN_CAPACITY, NET_IN, "net_in_capacity", "net"),
    (names.NET_OUT_CAPACITY, NET_OUT, "net_out_capacity", "net"),
)
"""Rule, resource, attribute of the brokers, and attribute of the rules' capacity."""
CAPACITIES = (*(rule for rule, *_ in BROKER_CAPACITIES), names.BYTES_CAPACITY, names.RATE_CAPACITY)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the figures go by, the same before and after: who takes part, shares, and what the rules allow.

    Attributes:
        takers: brokers that take part. broker_shares, disk_shares: a row each, 0 where there is no share.
        broker_limits, disk_limits: what may be used at the 95th percentile, less what is on its way there.
        price: of moving each replica to another broker. most: replicas of each topic that a broker may well have.
    """

    takers: int
    disk_takers: int
    broker_shares: Array
    disk_shares: Array
    broker_limits: Array
    disk_limits: Array
    price: Array
    most: Array


def coming(model: Model, rules: Rules, flying: Mapping[int, Any]) -> Array:
    """The 95th percentiles of what is on its way to each broker."""
    found = np.zeros((len(model.brokers.ids), PEAK))
    for p, flight in flying.items():
        mine = slice(model.first[p], model.first[p + 1])
        here = set(model.brokers.ids[model.broker[mine]].tolist())
        for b in np.flatnonzero(np.isin(model.brokers.ids, [each for each in flight.replicas if each not in here])):
            found[b] += model.leading[mine, PEAK:].max(axis=0)
    return found


def standing_of(model: Model, rules: Rules, leaves: Array, on_its_way: Array) -> Standing:
    """`leaves`: whether each replica is to leave its place, whatever else."""
    brokers, disks, ids = model.brokers, model.disks, model.brokers.ids
    takes = brokers.alive & ~np.isin(ids, [*rules.drained, *rules.excluded_brokers, *rules.cordoned])
    disk_takes = disks.alive & takes[disks.broker]
    counts = takes[model.broker] | leaves
    load = model.load()
    totals = [load[counts, k].sum() for k in range(PEAK)] + [np.count_nonzero(counts[model.leader])]
    of_disk = np.stack([disks.bytes_capacity, disks.rate_capacity, disks.rate_capacity], axis=1) * disk_takes[:, None]
    summed = np.stack([np.bincount(disks.broker, column, len(ids)) for column in of_disk.T], axis=1)
    one = np.ones(len(ids))
    of_broker = [brokers.cpu_capacity, *summed.T, brokers.net_in_capacity, brokers.net_out_capacity, one]
    takers, share = max(int(takes.sum()), 1), rules.capacity
    limits = [getattr(brokers, field) * getattr(share, part) for _, _, field, part in BROKER_CAPACITIES]
    limits_left = np.stack(limits, axis=1) - on_its_way[:, [k for _, k, _, _ in BROKER_CAPACITIES]]
    more = on_its_way[disks.broker]
    disk_limits = [
        disks.bytes_capacity * share.bytes - more[:, BYTES],
        disks.rate_capacity * share.disk_rate - more[:, DISK_WRITE] - more[:, DISK_READ],
    ]
    average = totals[BYTES] / takers
    part = load[:, BYTES] / average if average > 0 else np.zeros(model.replicas)
    usual = np.bincount(model.topic[model.partition], minlength=len(model.topics)) / takers
    return Standing(
        takers,
        max(int(disk_takes.sum()), 1),
        shares_of(np.stack(of_broker, axis=1) * takes[:, None], np.array(totals)),
        shares_of(of_disk, np.array(totals)[list(DISK_RESOURCES)]),
        limits_left,
        np.stack(disk_limits, axis=1),
        rules.goals.bytes_price * (part + MOVE_OVERHEAD * takers / model.replicas),
        np.maximum(np.ceil(2 * usual), np.ceil(usual) + 2),
    )


def shares_of(capacity: Array, totals: Array) -> Array:
    """All load, divided by capacity, column by column; 0 for less than anybody would call a share."""
    sums = np.maximum(capacity.sum(axis=0), np.finfo(float).tiny)
    found = capacity * totals / sums
    return np.where(found > NO_SHARE, found, 0)


@dataclass(frozen=True, slots=True)
class Used:
    """What is used where things are so: medians of brokers (leaders last) and of disks, and 95th percentiles."""

    brokers: Array
    disks: Array
    broker_peaks: Array
    disk_peaks: Array
    held: Array


def used(model: Model, load: Array, places: Places) -> Used:
    """`load`: of each replica in its role at these places."""
    count, disks = len(model.brokers.ids), len(model.disks.broker)
    of_brokers = [np.bincount(places.broker, load[:, k], count) for k in range(PEAK)]
    of_brokers.append(np.bincount(places.broker[places.leader], minlength=count).astype(float))
    of_disks = [np.bincount(places.disk, load[:, k], disks) for k in DISK_RESOURCES]
    peaks = [np.bincount(places.broker, load[:, PEAK + k], count) for _, k, _, _ in BROKER_CAPACITIES]
    rate = load[:, PEAK + DISK_WRITE] + load[:, PEAK + DISK_READ]
    disk_peaks = [np.bincount(places.disk, each, disks) for each in (load[:, PEAK + BYTES], rate)]
    return Used(
        np.stack(of_brokers, axis=1), np.stack(of_disks, axis=1), np.stack(peaks, axis=1),
        np.stack(disk_peaks, axis=1), np.bincount(places.broker, minlength=count),
    )  # fmt: skip


def score(model: Model, rules: Rules, standing: Standing, use: Used, places: Places) -> float:
    """The sum that a plan makes smaller; see `state`."""
    goals, average_replica = rules.goals, standing.takers / model.replicas
    unit = average_replica * goals.bytes_price
    weights = np.ones(len(BROKER_COLUMNS))
    weights[-1] = LEADERS_WEIGHT
    band = goals.within * BAND_SHARE
    found = (beyond(use.brokers, standing.broker_shares, band).sum(axis=0) * weights).sum()
    found += beyond(use.disks, standing.disk_shares, band).sum() * standing.takers / standing.disk_takers
    for peaks, limits in ((use.broker_peaks, standing.broker_limits), (use.disk_peaks, standing.disk_limits)):
        found += OVERLOAD_WEIGHT * (np.maximum(peaks - limits, 0) / np.maximum(limits, 1e-9)).sum()
    brokers = len(model.brokers.ids)
    keys, counts = np.unique(model.topic[model.partition] * brokers + places.broker, return_counts=True)
    found += goals.topic_price * unit * np.maximum(counts - standing.most[keys // brokers], 0).sum()
    away = places.broker != model.broker
    turned = ~away & (places.disk != model.disk)
    found += standing.price[away].sum() + DISK_MOVE_PRICE * standing.price[turned].sum()
    return float(found + LEADER_PRICE * unit * np.count_nonzero(places.leader != model.leader))


def beyond(use: Array, shares: Array, band: float) -> Array:
    """The squared distances from shares beyond a band."""
    has = shares > 0
    away = np.abs(use / np.where(has, shares, 1) - 1) - band
    return np.where(has & (away > 0), away, 0) ** 2


@dataclass(frozen=True, slots=True)
class Figures:
    """What a plan says of the cluster, before or after: in shares, and the most that is used of each capacity."""

    brokers: Array
    disks: Array
    held: Array
    fullest: Mapping[str, float]
    score: float

    @classmethod
    def of(cls, model: Model, rules: Rules, standing: Standing, load: Array, places: Places) -> Figures:
        """`load`: of each replica in its role at these places."""
        use = used(model, load, places)
        return cls(
            in_shares(use.brokers, standing.broker_shares),
            in_shares(use.disks, standing.disk_shares),
            use.held,
            dict(zip(CAPACITIES, fullest(standing, use), strict=True)),
            score(model, rules, standing, use, places),
        )


def wrong_figures(model: Model, right: Figures, said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each figure that is not what comes out: the part of the plan, and a sentence."""
    ids, disks = model.brokers.ids, model.disks
    rows = [{"broker": each} for each in ids.tolist()]
    if right_order(said["brokers"], rows):
        yield from wrong_rows("brokers", BROKER_COLUMNS, said["brokers"], right.brokers)
        for each, held in zip(said["brokers"], right.held.tolist(), strict=True):
            if each["replicas"] != held:
                yield "brokers", wrong(f"the number of replicas of broker {each['broker']}", each["replicas"], held)
    else:
        yield "brokers", "they are not the brokers of the model, by id"
    rows = [{"broker": b, "dir": name} for b, name in zip(ids[disks.broker].tolist(), disks.dirs, strict=True)]
    if right_order(said["disks"], rows):
        yield from wrong_rows("disks", DISK_COLUMNS, said["disks"], right.disks)
    else:
        yield "disks", "they are not the disks of the model, by broker and path"
    yield from wrong_summary(right, said)


def wrong_summary(right: Figures, said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Extremes, capacities and the score, where they are not what comes out."""
    for part, columns, table in (("shares", BROKER_COLUMNS, right.brokers), ("disk_shares", DISK_COLUMNS, right.disks)):
        for k, name in enumerate(columns):
            due = extremes(table[:, k])
            told = np.array((None, None) if said[part][name] is None else said[part][name], float)
            if differs(told, due).any():
                yield part, wrong(f"the least and the most of {name}", told, due)
    for rule, most in right.fullest.items():
        if differs(np.array(said["capacity"][rule], float), np.array(most)).any():
            yield "capacity", wrong(f"the most that is used of {rule}", said["capacity"][rule], most)
    if abs(said["score"] - right.score) > CLOSE + CLOSE * abs(right.score):
        yield "score", wrong("the score", said["score"], right.score)


def right_order(said: list[Mapping[str, Any]], rows: list[dict[str, Any]]) -> bool:
    """Whether the entries are of these brokers or disks."""
    return len(said) == len(rows) and all(
        all(each[key] == value for key, value in row.items()) for each, row in zip(said, rows, strict=True)
    )


def wrong_rows(
    part: str, columns: tuple[str, ...], said: list[Mapping[str, Any]], right: Array
) -> Iterator[tuple[str, str]]:
    """Figures of brokers or disks that are not what comes out."""
    told = np.array([[each[name] for name in columns] for each in said], float)
    for row, k in zip(*np.nonzero(differs(told, right)), strict=True):
        place = f"broker {said[row]['broker']}" + (f", {said[row]['dir']}" if "dir" in said[row] else "")
        yield part, wrong(f"{columns[k]} of {place}, in shares,", told[row, k], right[row, k])


def in_shares(use: Array, shares: Array) -> Array:
    """What is used, in shares; NaN where there is none."""
    has = shares > 0
    return np.where(has, use / np.where(has, shares, 1), np.nan)


def extremes(column: Array) -> Array:
    known = column[~np.isnan(column)]
    return np.array([known.min(), known.max()]) if len(known) else np.full(2, np.nan)


def fullest(standing: Standing, use: Used) -> list[float]:
    """For each capacity the most that is used, in what is allowed."""
    found = []
    for peaks, limits in ((use.broker_peaks, standing.broker_limits), (use.disk_peaks, standing.disk_limits)):
        for peak, limit in zip(peaks.T, limits.T, strict=True):
            usable = limit > 0
            found.append(float((peak[usable] / limit[usable]).max(initial=0)))
    return found


def differs(said: Array, right: Array) -> Array:
    """Where figures differ by more than rounding; NaN is what is not there."""
    there, due = ~np.isnan(said), ~np.isnan(right)
    with np.errstate(invalid="ignore"):
        far = np.abs(said - right) > ROUNDED + CLOSE * np.abs(right)
    return np.asarray((there != due) | (there & far))


def wrong(what: str, said: Any, right: Any) -> str:
    return f"{what} is {said} in the plan, and {right} comes out"
