"""A plan, applied to its model move by move, and its other parts held against what comes out. For the verifier."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.guardian.plan.form import Misfit
from penstock.guardian.plan.model import BYTES, Array, Model

KINDS = ("leader", "disk", "replica", "swap")
ORDER = {"leader": 0, "disk": 1, "replica": 2, "swap": 2}
"""Moves are told from cheap to dear."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where replicas and leaders are: broker and disk of each replica, the leading replica of each partition.

    `loads` has what each replica costs there, once somebody has asked (`load_of`); many checks do.
    """

    broker: Array
    disk: Array
    leader: Array
    loads: list[Array] = field(default_factory=list)


class Applied:
    """The plan, applied to the model move by move, and held against its other parts. Its form has been checked."""

    def __init__(self, model: Model, plan: Mapping[str, Any]) -> None:
        self._model = model
        self._plan = plan
        self._topic = {name: t for t, name in enumerate(model.topics)}
        self._starts = np.searchsorted(model.topic, np.arange(len(model.topics) + 1)).tolist()
        self._numbers = model.number.tolist()
        self._first = model.first.tolist()
        self._leaders = model.leader.tolist()
        self._brokers = model.broker.tolist()
        self._ids = model.brokers.ids.tolist()
        ids = model.brokers.ids[model.disks.broker].tolist()
        self._disk = {name: d for d, name in enumerate(zip(ids, model.disks.dirs, strict=True))}
        self._broker_of_disk = model.disks.broker.tolist()
        self._disks = model.disk.tolist()

    def places(self) -> Places:
        """Where everything is after the moves. Raises Misfit."""
        model, moves = self._model, self._plan["moves"]
        self.check_order(moves)
        targets: dict[int, int] = {}
        for move in moves:
            if move["kind"] != "leader":
                r, target = self.move(move)
                if r in targets:
                    raise Misfit(name_of(move), f"move {move['id']}: the replica moves twice")
                targets[r] = target
        self.check_swaps(moves)
        disk, leader = model.disk.copy(), model.leader.copy()
        disk[list(targets)] = list(targets.values())
        broker = model.disks.broker[disk]
        ids = model.brokers.ids[broker].tolist()
        led: set[int] = set()
        for move in moves:
            if move["kind"] == "leader":
                p = self.partition(move)
                if p in led:
                    raise Misfit(name_of(move), f"move {move['id']}: the leader changes twice")
                led.add(p)
                leader[p] = self.new_leader(move, p, ids)
        after = Places(broker, disk, leader)
        self.compare(after)
        return after

    def check_order(self, moves: list[Mapping[str, Any]]) -> None:
        """Moves are numbered from 1, of a known kind, and from cheap to dear. Raises Misfit."""
        before = 0
        for number, move in enumerate(moves, start=1):
            if move["id"] != number:
                raise Misfit(name_of(move), f"the move with id {move['id']} is number {number}")
            if move["kind"] not in KINDS:
                raise Misfit(
                    name_of(move), f"move {number}: it is of the kind {move['kind'][:40]!r}, there are {KINDS}"
                )
            if ORDER[move["kind"]] < before:
                raise Misfit(name_of(move), f"move {number}: a {move['kind']} move comes after one that costs more")
            before = ORDER[move["kind"]]

    def check_swaps(self, moves: list[Mapping[str, Any]]) -> None:
        """For each replica that goes in exchange, one comes. Raises Misfit."""
        ways = Counter((each["from"]["broker"], each["to"]["broker"]) for each in moves if each["kind"] == "swap")
        for (source, target), count in ways.items():
            if ways[target, source] != count:
                text = f"{count} replicas go in exchange from broker {source} to {target}, {ways[target, source]} come"
                raise Misfit(f"broker {source}", text)

    def replicas(self, p: int) -> range:
        return range(self._first[p], self._first[p + 1])

    def partition(self, entry: Mapping[str, Any]) -> int:
        """The index of a partition. Raises Misfit."""
        t = self._topic.get(entry["topic"])
        if t is not None:
            start, end = self._starts[t], self._starts[t + 1]
            p = bisect_left(self._numbers, entry["partition"], start, end)
            if p < end and self._numbers[p] == entry["partition"]:
                return p
        raise Misfit(name_of(entry), f"the model has no {name_of(entry)}")

    def disk(self, end: Mapping[str, Any], move: Mapping[str, Any]) -> int:
        found = self._disk.get((end["broker"], end["dir"]))
        if found is None:
            raise Misfit(
                name_of(move), f"move {move['id']}: the model has no broker {end['broker']}, {end['dir'][:80]}"
            )
        return found

    def move(self, move: Mapping[str, Any]) -> tuple[int, int]:
        """The replica that a move is about, and the disk to which it goes. Raises Misfit."""
        p = self.partition(move)
        source, target = self.disk(move["from"], move), self.disk(move["to"], move)
        found = [r for r in self.replicas(p) if self._disks[r] == source]
        if len(found) != 1:
            raise Misfit(name_of(move), f"move {move['id']}: the partition has no replica where it is said to be")
        if source == target:
            raise Misfit(name_of(move), f"move {move['id']}: the replica stays where it is")
        r = found[0]
        size = self._model.leading if self._leaders[p] == r else self._model.following
        if move["bytes"] != int(size[r, BYTES]):
            raise Misfit(name_of(move), f"move {move['id']}: the replica has {int(size[r, BYTES])} bytes")
        kinds = ("disk",) if self._broker_of_disk[source] == self._broker_of_disk[target] else ("replica", "swap")
        if move["kind"] not in kinds:
            raise Misfit(name_of(move), f"move {move['id']}: it is not of the kind {move['kind']}")
        return r, target

    def new_leader(self, move: Mapping[str, Any], p: int, ids: list[int]) -> int:
        """The replica that is to lead. `ids`: the brokers of replicas after the moves. Raises Misfit."""
        if self._ids[self._brokers[self._leaders[p]]] != move["from"]["broker"]:
            raise Misfit(name_of(move), f"move {move['id']}: another broker leads the partition")
        if move["bytes"] != 0:
            raise Misfit(name_of(move), f"move {move['id']}: who leads costs no bytes, the plan says {move['bytes']}")
        found = [r for r in self.replicas(p) if ids[r] == move["to"]["broker"]]
        if len(found) != 1:
            raise Misfit(name_of(move), f"move {move['id']}: the new leader has no replica")
        if found[0] == self._leaders[p]:
            raise Misfit(name_of(move), f"move {move['id']}: the replica leads already")
        return found[0]

    def compare(self, after: Places) -> None:
        """Holds what Kafka is told against what the moves come to. Raises Misfit."""
        model, brokers = self._model, self._model.brokers.ids
        differs = (after.disk != model.disk) | (after.broker != model.broker)
        expected = set(np.unique(model.partition[differs]).tolist())
        expected |= set(np.flatnonzero(after.leader != model.leader).tolist())
        ids, disks, changed = brokers[after.broker].tolist(), after.disk.tolist(), differs.tolist()
        leaders, dirs = after.leader.tolist(), model.disks.dirs
        told: set[int] = set()
        for entry in self._plan["partitions"]:
            p = self.partition(entry)
            if p in told or p not in expected:
                raise Misfit(name_of(entry), "Kafka is told twice" if p in told else "it does not change")
            told.add(p)
            where = {ids[r]: r for r in self.replicas(p)}
            if len(where) != len(self.replicas(p)) or sorted(where) != sorted(entry["replicas"]):
                raise Misfit(name_of(entry), "its replicas are not where the moves lead")
            if entry["replicas"][0] != ids[leaders[p]]:
                raise Misfit(name_of(entry), "the leader's broker is not the first")
            if len(entry["log_dirs"]) != len(entry["replicas"]):
                raise Misfit(name_of(entry), "there must be a log dir, or `any`, for each replica")
            for broker, name in zip(entry["replicas"], entry["log_dirs"], strict=True):
                r = where[broker]
                if name != (dirs[disks[r]] if changed[r] else "any"):
                    raise Misfit(name_of(entry), f"{name[:80]} is not the log dir to which the moves lead")
        if expected != told:
            raise Misfit(partition_name(model, min(expected - told)), "it changes, and Kafka is not told")
        self.compare_leaders(after)

    def compare_leaders(self, after: Places) -> None:
        """Holds the list of leaders against the moves. Raises Misfit."""
        model, brokers = self._model, self._model.brokers.ids
        old, new = brokers[model.broker[model.leader]], brokers[after.broker[after.leader]]
        told = {(each["topic"], each["partition"]): each["broker"] for each in self._plan["leaders"]}
        due = {(model.topics[model.topic[p]], int(model.number[p])): int(new[p]) for p in np.flatnonzero(old != new)}
        if told != due or len(told) != len(self._plan["leaders"]):
            raise Misfit("leaders", "they are not those to which the moves lead")


def name_of(entry: Mapping[str, Any]) -> str:
    return f"{entry['topic'][:255]}-{entry['partition']}"


def partition_name(model: Model, p: int) -> str:
    return f"{model.topics[model.topic[p]]}-{model.number[p]}"
