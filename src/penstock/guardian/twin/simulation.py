"""A plan, carried out on a model: copies flow through disks and network at fair rates, beside what is there anyhow.

Nothing is drawn and no time passes: between two events all rates stay as they are, so the next event (a copy that has
caught up) is computed, everything is moved on to it, and rates are shared anew. A copy reads from the disk of the
partition's leader, goes out of its broker, into the other broker and onto its disk; one between disks of a broker needs
no network. What is written to the partition meanwhile must be copied, too; a copy that is slower than its writers never
ends. Copies begin in the plan's order, where both brokers have fewer than `copies_per_broker`. A new leader leads when
the copies of its partition have ended. The medians of the model are what is there anyhow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.guardian.limits import TWIN_LOOKED_AT_MAX
from penstock.guardian.plan.model import BYTES, DISK_READ, DISK_WRITE, NET_IN, NET_OUT, Array, Model
from penstock.guardian.twin.links import fair_rates

LEAST = 0.05
"""The part of a link that copies get even if what is there anyhow needs all of it: a full disk serves all a little."""
TIME_CLOSE = 1e-9
"""Copies whose ends differ by this part of the time until then end at once."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a plan is carried out.

    Attributes:
        rate: bytes/s that each broker may copy in, and out; None: as much as there is room for.
        copies_per_broker: copies from or to a broker at once.
    """

    rate: float | None = None
    copies_per_broker: int = 5


@dataclass(frozen=True, slots=True)
class Links:
    """All links of a cluster, one after the other: disks, network in and out of each broker, and the same two as far as
    copies may use them."""

    disks: int
    brokers: int

    @property
    def count(self) -> int:
        return self.disks + 4 * self.brokers

    def copy(self, source: int, target: int, ends: tuple[int, int]) -> list[int]:
        """The links of a copy from disk to disk; `ends` are their brokers."""
        if ends[0] == ends[1]:
            return [source, target, -1, -1, -1, -1]
        inward, outward = self.disks + ends[1], self.disks + self.brokers + ends[0]
        return [source, target, inward, outward, inward + 2 * self.brokers, outward + 2 * self.brokers]


@dataclass(slots=True)
class Copy:
    """A replica on its way."""

    move: int
    replica: int
    target: int
    links: list[int]
    left: float
    grows: float
    began: float


@dataclass(slots=True)
class Outcome:
    """What came of it.

    Attributes:
        seconds: when the last copy ended. ends: when each move ended, by its place in the plan; NaN: never.
        copied: bytes of each move that went over. peaks: by kind of link the most used and when; see `Peak`.
        begin, end: what is used of each link by what is there anyhow, as a fraction.
        full: the same for bytes on disks, at first, at most (while copies are on both), and at last.
        carried: bytes that copies have sent over each link.
    """

    seconds: float
    ends: Array
    copied: Array
    peaks: dict[str, Peak]
    begin: Array
    end: Array
    full: tuple[Array, Array, Array]
    carried: Array
    disk: Array
    leader: Array


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that is used of a kind of link: which, as a fraction of its capacity, and when first, in seconds."""

    link: int = -1
    fraction: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class Twin:
    """The cluster while it goes on."""

    model: Model
    settings: Settings
    links: Links = field(init=False)
    capacity: Array = field(init=False)
    base: Array = field(init=False)
    lives: Array = field(init=False)
    disk: Array = field(init=False)
    leader: Array = field(init=False)
    bytes_on: Array = field(init=False)
    most_bytes: Array = field(init=False)
    busy: Array = field(init=False)

    def __post_init__(self) -> None:
        model, brokers, disks = self.model, self.model.brokers, self.model.disks
        self.links = Links(len(disks.broker), len(brokers.ids))
        cap = np.inf if self.settings.rate is None else self.settings.rate
        throttle = np.full(2 * self.links.brokers, min(cap, 1e300))
        self.capacity = np.concatenate(
            [disks.rate_capacity, brokers.net_in_capacity, brokers.net_out_capacity, throttle]
        ).astype(float)
        self.base = np.zeros(self.links.count)
        self.disk, self.leader = model.disk.copy(), model.leader.copy()
        self.lives = disks.alive & brokers.alive[disks.broker]
        self.add_up(model.load() * self.lives[model.disk][:, None])
        self.bytes_on = np.bincount(model.disk, model.load()[:, BYTES], self.links.disks)
        self.most_bytes = self.bytes_on.copy()
        self.busy = np.zeros(self.links.brokers, np.int64)

    def add_up(self, load: Array) -> None:
        """What all replicas use of all links; those on what is dead use nothing."""
        disks, brokers = self.links.disks, self.links.brokers
        b = self.model.broker
        self.base[:disks] = np.bincount(self.disk, load[:, DISK_WRITE] + load[:, DISK_READ], disks)
        self.base[disks : disks + brokers] = np.bincount(b, load[:, NET_IN], brokers)
        self.base[disks + brokers : disks + 2 * brokers] = np.bincount(b, load[:, NET_OUT], brokers)

    def put(self, r: int, load: Array, sign: float) -> None:
        """A load comes to where replica r is, or goes."""
        d = self.disk[r]
        if not self.lives[d]:
            return
        b = self.model.disks.broker[d]
        self.base[d] += sign * (load[DISK_WRITE] + load[DISK_READ])
        self.base[self.links.disks + b] += sign * load[NET_IN]
        self.base[self.links.disks + self.links.brokers + b] += sign * load[NET_OUT]

    def load(self, r: int) -> Array:
        p = self.model.partition[r]
        found: Array = self.model.leading[r] if self.leader[p] == r else self.model.following[r]
        return found

    def land(self, copy: Copy) -> None:
        """A copy has caught up: the replica is there, and no longer where it was."""
        r, load = copy.replica, self.load(copy.replica)
        self.put(r, load, -1.0)
        self.bytes_on[self.disk[r]] -= load[BYTES]
        self.disk[r] = copy.target
        self.put(r, load, 1.0)

    def lead(self, p: int, r: int) -> None:
        """Replica r leads partition p."""
        old = int(self.leader[p])
        for each, load, sign in (
            (old, self.model.leading[old], -1.0),
            (old, self.model.following[old], 1.0),
            (r, self.model.following[r], -1.0),
            (r, self.model.leading[r], 1.0),
        ):
            self.put(each, load, sign)
        self.leader[p] = r

    def source(self, p: int) -> int:
        """The disk from which a partition is copied: its leader's, or -1 where that does not live."""
        d = int(self.disk[self.leader[p]])
        return d if self.lives[d] else -1


def simulate(model: Model, plan: Mapping[str, Any], settings: Settings) -> Outcome:
    """Carries out a plan that `plan.verifier` has found sound for this model."""
    return Run(model, plan, settings).to_the_end()


class Run:
    """One plan while it is carried out."""

    def __init__(self, model: Model, plan: Mapping[str, Any], settings: Settings) -> None:
        self._model, self._settings = model, settings
        self._twin = Twin(model, settings)
        self._now = 0.0
        self._active: list[Copy] = []
        self._moves = plan["moves"]
        at = {
            (model.topics[t], n): p
            for p, (t, n) in enumerate(zip(model.topic.tolist(), model.number.tolist(), strict=True))
        }
        self._partitions = [at[each["topic"], each["partition"]] for each in self._moves]
        ids = model.brokers.ids[model.disks.broker].tolist()
        disk_at = {name: d for d, name in enumerate(zip(ids, model.disks.dirs, strict=True))}
        self._waiting = []
        self._open: dict[int, int] = {}
        for move, (p, each) in enumerate(zip(self._partitions, self._moves, strict=True)):
            if each["kind"] != "leader":
                source, target = (disk_at[each[end]["broker"], each[end]["dir"]] for end in ("from", "to"))
                mine = range(model.first[p], model.first[p + 1])
                replica = next(r for r in mine if model.disk[r] == source)
                self._waiting.append((move, replica, target))
                self._open[p] = self._open.get(p, 0) + 1
        self._leaders = {p: move for move, p in enumerate(self._partitions) if self._moves[move]["kind"] == "leader"}
        self._ends = np.full(len(self._moves), np.nan)
        self._copied = np.zeros(len(self._moves))
        self._carried = np.zeros(self._twin.links.count)
        self._peaks = {kind: Peak() for kind, _ in self._kinds()}

    def to_the_end(self) -> Outcome:
        """Goes from event to event until nothing moves any more."""
        twin = self._twin
        begin, full = self._fractions(twin.base), self._full(twin.bytes_on)
        for p in [p for p in self._leaders if p not in self._open]:
            self._lead(p)
        self._start()
        self._look(np.zeros(0), np.zeros((0, 6), np.int64))
        while self._active:
            uses = np.array([each.links for each in self._active], np.int64)
            rates = fair_rates(np.maximum(twin.capacity - twin.base, LEAST * twin.capacity), uses)
            self._look(rates, uses)
            if not self._go_on(rates, uses):
                break
            self._start()
        self._look(np.zeros(0), np.zeros((0, 6), np.int64))
        return Outcome(
            float(np.nanmax(self._ends, initial=0.0)), self._ends, self._copied, self._peaks, begin,
            self._fractions(twin.base), (full, self._full(twin.most_bytes), self._full(twin.bytes_on)), self._carried,
            twin.disk, twin.leader,
        )  # fmt: skip

    def _start(self) -> None:
        """Begins the copies for which both brokers have room, in order."""
        twin, rest = self._twin, []
        most, looked_at = self._settings.copies_per_broker, 0
        for at, (move, r, target) in enumerate(self._waiting):
            looked_at += 1
            if looked_at > TWIN_LOOKED_AT_MAX:
                rest.extend(self._waiting[at:])
                break
            p = self._partitions[move]
            here = int(twin.disk[r])
            brokers = self._model.disks.broker
            source = here if brokers[here] == brokers[target] and twin.lives[here] else twin.source(p)
            if source < 0:
                continue  # nothing to copy from: it never ends
            ends = (int(brokers[source]), int(brokers[target]))
            if any(twin.busy[b] >= most for b in ends):
                rest.append((move, r, target))
                continue
            for b in dict.fromkeys(ends):
                twin.busy[b] += 1
            load = twin.load(r)
            links = twin.links.copy(source, target, ends)
            grows = float(self._model.following[r, NET_IN])
            self._active.append(Copy(move, r, target, links, float(load[BYTES]), grows, self._now))
            twin.bytes_on[target] += load[BYTES]
            twin.most_bytes[target] = max(twin.most_bytes[target], twin.bytes_on[target])
        self._waiting = rest

    def _go_on(self, rates: Array, uses: Array) -> bool:
        """Goes on to the next copy that has caught up; False if none ever will."""
        left = np.array([each.left for each in self._active])
        speed = rates - np.array([each.grows for each in self._active])
        due = np.where(left <= 0, 0.0, np.where(speed > 0, left / np.where(speed > 0, speed, 1.0), np.inf))
        step = float(due.min())
        if not np.isfinite(step):
            return False
        self._now += step
        np.add.at(self._carried, uses[uses >= 0], np.repeat(rates * step, (uses >= 0).sum(axis=1)))
        staying = []
        for copy, rate, at in zip(self._active, rates.tolist(), due.tolist(), strict=True):
            self._copied[copy.move] += rate * step
            copy.left -= (rate - copy.grows) * step
            if at <= step * (1 + TIME_CLOSE):
                self._land(copy)
            else:
                staying.append(copy)
        self._active = staying
        return True

    def _land(self, copy: Copy) -> None:
        twin, p = self._twin, self._partitions[copy.move]
        brokers = self._model.disks.broker
        twin.land(copy)
        self._ends[copy.move] = self._now
        for b in dict.fromkeys((int(brokers[copy.links[0]]), int(brokers[copy.links[1]]))):
            twin.busy[b] -= 1
        self._open[p] -= 1
        if self._open[p] == 0 and p in self._leaders:
            self._lead(p)

    def _lead(self, p: int) -> None:
        """The plan's leader of a partition leads it."""
        move = self._leaders[p]
        target = self._moves[move]["to"]["broker"]
        model, twin = self._model, self._twin
        ids = model.brokers.ids[model.disks.broker[twin.disk]]
        r = next(r for r in range(model.first[p], model.first[p + 1]) if ids[r] == target)
        twin.lead(p, r)
        self._ends[move] = self._now

    def _kinds(self) -> Iterator[tuple[str, slice]]:
        disks, brokers = self._twin.links.disks, self._twin.links.brokers
        yield "disk_rate", slice(0, disks)
        yield "net_in", slice(disks, disks + brokers)
        yield "net_out", slice(disks + brokers, disks + 2 * brokers)

    def _fractions(self, use: Array) -> Array:
        real = self._twin.links.disks + 2 * self._twin.links.brokers
        found: Array = use[:real] / self._twin.capacity[:real]
        return found

    def _full(self, use: Array) -> Array:
        found: Array = use / self._model.disks.bytes_capacity
        return found

    def _look(self, rates: Array, uses: Array) -> None:
        """Notes what is used most."""
        use = self._twin.base.copy()
        np.add.at(use, uses[uses >= 0], np.repeat(rates, (uses >= 0).sum(axis=1)))
        fractions = self._fractions(use)
        for kind, where in self._kinds():
            link = int(np.argmax(fractions[where]))
            if fractions[where][link] > self._peaks[kind].fraction * (1 + TIME_CLOSE):
                self._peaks[kind] = Peak(link, float(fractions[where][link]), self._now)
