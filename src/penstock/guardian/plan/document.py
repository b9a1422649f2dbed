"""A plan as JSON: what `kafka-reassign-partitions` reads, and beside it leaders, moves with their reasons, and figures.

Of a partition that is touched, the leader's broker stands first, so that Kafka prefers it. A replica that moves has its
directory; the others have `any`, which changes nothing. `plan.verifier` reads what is made here without sharing a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import isnan
from typing import Any

import numpy as np

from penstock.guardian.plan.columns import (
    AT_PEAK,
    BROKER,
    DISK,
    DISK_AT_PEAK,
    DISK_LIMIT,
    DISK_SCALE,
    HELD,
    LEADER,
    LEADERS,
    LIMIT,
    SCALE,
    SWAPPED,
    TURN,
)
from penstock.guardian.plan.model import BYTES, DISK_RESOURCES, RESOURCES, Array, Model
from penstock.guardian.plan.planner import search
from penstock.guardian.plan.reasons import Reasons
from penstock.guardian.plan.rules import (
    BYTES_CAPACITY,
    CPU_CAPACITY,
    NET_IN_CAPACITY,
    NET_OUT_CAPACITY,
    RATE_CAPACITY,
    Rules,
)
from penstock.guardian.plan.state import State
from penstock.guardian.plan.unmet import unmet_of

VERSION = 1
"""Of Kafka's file."""
ANY = "any"


def plan(model: Model, rules: Rules, seed: int, policy_digest: str | None = None) -> dict[str, Any]:
    """The plan for a model as JSON has it. `rules` name only what the model has. `policy_digest`: of the policy that
    has had its say in the rules; see `policed`."""
    found = search(model, rules, seed)
    changes = Changes.of(model, found.state)
    moves = moves_of(model, changes, Reasons(model, rules, found))
    return {
        "version": VERSION,
        "partitions": partitions_of(model, changes),
        "leaders": leaders_of(model, changes),
        "moves": moves,
        "before": figures(model, found.begin, found.before),
        "after": figures(model, found.state, found.after),
        "violations": [each.document() for each in unmet_of(model, rules, found)],
        "estimates": list(model.estimates),
        "rules": rules.document(),
        "policy": None if policy_digest is None else {"digest": policy_digest},
        "seed": seed,
        "digest": digest(model, rules, seed, policy_digest),
    }


def digest(model: Model, rules: Rules, seed: int, policy_digest: str | None = None) -> str:
    """A hash of all that a plan depends on."""
    policy = "" if policy_digest is None else f" {policy_digest}"
    return "sha256:" + sha256(f"{model.digest()} {rules.text()} {seed}{policy}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Changes:
    """Where everything is to be, and the replicas and partitions that are to change.

    Attributes:
        broker, disk, leader: as in a model, after the plan.
        moved: replicas that go to another broker, in the order in which that was found. turned: those that go to
            another disk of theirs. led: partitions that another replica is to lead.
        partner: of each replica, the one with which it changes places, or -1.
    """

    broker: Array
    disk: Array
    leader: Array
    moved: Array
    turned: Array
    led: Array
    partner: Array

    @classmethod
    def of(cls, model: Model, state: State) -> Changes:
        broker, disk, leader = state.replicas[:, BROKER], state.replicas[:, DISK], state.partitions[:, LEADER]
        moved = np.flatnonzero(broker != model.broker)
        moved = moved[np.argsort(state.replicas[moved, TURN], kind="stable")]
        turned = np.flatnonzero((broker == model.broker) & (disk != model.disk))
        partner = state.replicas[:, SWAPPED].copy()
        other = np.maximum(partner, 0)
        trade = (partner >= 0) & (broker == model.broker[other]) & (broker[other] == model.broker)
        trade &= partner[other] == np.arange(model.replicas)  # the other may have been swapped once more
        partner[~trade | (broker == model.broker)] = -1
        return cls(broker, disk, leader, moved, turned, np.flatnonzero(leader != model.leader), partner)


def partitions_of(model: Model, changes: Changes) -> list[dict[str, Any]]:
    """The partitions that change, as Kafka's file has them."""
    touched = np.unique(np.concatenate([model.partition[changes.moved], model.partition[changes.turned], changes.led]))
    ids, disks, dirs = model.brokers.ids[changes.broker].tolist(), changes.disk.tolist(), model.disks.dirs
    moves, first, leader = (changes.disk != model.disk).tolist(), model.first.tolist(), changes.leader.tolist()
    found = []
    for p in touched.tolist():
        replicas = [leader[p], *(r for r in range(first[p], first[p + 1]) if r != leader[p])]
        found.append(
            {
                "topic": model.topics[model.topic[p]],
                "partition": int(model.number[p]),
                "replicas": [ids[r] for r in replicas],
                "log_dirs": [dirs[disks[r]] if moves[r] else ANY for r in replicas],
            }
        )
    return found


def leaders_of(model: Model, changes: Changes) -> list[dict[str, Any]]:
    """The partitions that another broker is to lead."""
    after = model.brokers.ids[changes.broker[changes.leader]]
    before = model.brokers.ids[model.broker[model.leader]]
    return [
        {"topic": model.topics[model.topic[p]], "partition": int(model.number[p]), "broker": int(after[p])}
        for p in np.flatnonzero(after != before)
    ]


def moves_of(model: Model, changes: Changes, reasons: Reasons) -> list[dict[str, Any]]:
    """Every move, the cheapest kind first, and what must be before what might be."""
    found: list[dict[str, Any]] = []
    ids, dirs, topics = model.brokers.ids.tolist(), model.disks.dirs, model.topics

    def add(kind: str, p: int, ends: tuple[dict[str, Any], dict[str, Any]], size_bytes: float, why: str) -> None:
        name = {"topic": topics[model.topic[p]], "partition": int(model.number[p])}
        move = {"id": len(found) + 1, **name, "kind": kind, "from": ends[0], "to": ends[1]}
        found.append({**move, "bytes": int(size_bytes), "why": why})

    old, new = model.broker[model.leader[changes.led]], changes.broker[changes.leader[changes.led]]
    whys = reasons.of_leaders(changes.led)
    for p, a, b, why in zip(changes.led.tolist(), old.tolist(), new.tolist(), whys, strict=True):
        add("leader", p, ({"broker": ids[a]}, {"broker": ids[b]}), 0, why)
    for kind, replicas, whys in (
        ("disk", changes.turned, reasons.of_disks(changes.turned)),
        ("replica", changes.moved, reasons.of_replicas(changes.moved, changes.partner)),
    ):
        sizes = np.where(model.leads()[replicas], model.leading[replicas, BYTES], model.following[replicas, BYTES])
        disks = zip(model.disk[replicas].tolist(), changes.disk[replicas].tolist(), strict=True)
        swaps = (changes.partner[replicas] >= 0).tolist()
        of = model.partition[replicas].tolist()
        for p, (d, e), swap, size, why in zip(of, disks, swaps, sizes.tolist(), whys, strict=True):
            ends = [{"broker": ids[model.disks.broker[each]], "dir": dirs[each]} for each in (d, e)]
            add("swap" if swap else kind, p, (ends[0], ends[1]), size, why)
    return found


def figures(model: Model, state: State, score: float) -> dict[str, Any]:
    """How far everything is from its share (1 is the share; None: it has none), and what is used of capacities."""
    columns = (*RESOURCES, "leaders")
    of_brokers = relative(state.broker_loads[:, : LEADERS + 1], state.broker_loads[:, SCALE:])
    names = [RESOURCES[k] for k in DISK_RESOURCES]
    of_disks = relative(state.disk_loads[:, : len(names)], state.disk_loads[:, DISK_SCALE:])
    brokers = [
        {"broker": broker, **dict(zip(columns, row, strict=True)), "replicas": held}
        for broker, row, held in zip(
            model.brokers.ids.tolist(), plain(of_brokers), state.brokers[:, HELD].tolist(), strict=True
        )
    ]
    disks = [
        {"broker": broker, "dir": name, **dict(zip(names, row, strict=True))}
        for broker, name, row in zip(
            model.brokers.ids[model.disks.broker].tolist(), model.disks.dirs, plain(of_disks), strict=True
        )
    ]
    return {
        "score": round(float(score), 6),
        "shares": {name: extremes(of_brokers[:, k]) for k, name in enumerate(columns)},
        "disk_shares": {name: extremes(of_disks[:, k]) for k, name in enumerate(names)},
        "capacity": fullest(state),
        "brokers": brokers,
        "disks": disks,
    }


def relative(use: Array, scale: Array) -> Array:
    """What is used, in shares; NaN where there is none."""
    return np.where(scale > 0, use * scale, np.nan)


def plain(table: Array) -> list[list[float | None]]:
    return [[None if isnan(each) else round(each, 4) for each in row] for row in table.tolist()]


def extremes(column: Array) -> list[float] | None:
    """The least and the most of a column; None where nobody has a share."""
    known = column[~np.isnan(column)]
    return [round(float(known.min()), 4), round(float(known.max()), 4)] if len(known) else None


def fullest(state: State) -> dict[str, float]:
    """For each capacity the most that is used at the 95th percentile, in what the rules allow."""
    found = {}
    for k, rule in enumerate((CPU_CAPACITY, NET_IN_CAPACITY, NET_OUT_CAPACITY)):
        found[rule] = most_of(state.broker_loads[:, AT_PEAK + k], state.broker_loads[:, LIMIT + k])
    for k, rule in enumerate((BYTES_CAPACITY, RATE_CAPACITY)):
        found[rule] = most_of(state.disk_loads[:, DISK_AT_PEAK + k], state.disk_loads[:, DISK_LIMIT + k])
    return found


def most_of(peak: Array, limit: Array) -> float:
    usable = limit > 0
    return round(float(np.max(peak[usable] / limit[usable], initial=0)), 4)
