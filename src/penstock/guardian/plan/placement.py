"""Where the partitions of a new topic go, or those by which a topic grows: by what brokers carry, and by what comes.

First all leaders, then the second replicas of all partitions, and so on: each goes to the broker where the sum of
squares, over all resources, of what is used in shares rises least: so the emptiest take most, and a broker that is full
of one thing is not chosen for another. On a broker it is the disk with most room. Racks and hosts first take one
replica each, as far as there are any; capacities at the 95th percentile, numbers of replicas, cordoned, drained,
excluded and pinned brokers are kept. Nothing is drawn: the same input gives the same answer.

What a replica will cost is taken from the cluster: what leaders and followers there cost for each byte written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.guardian.plan import rules as names
from penstock.guardian.plan.model import (
    BYTES,
    CPU,
    DISK_READ,
    DISK_WRITE,
    LOAD_COLUMNS,
    NET_IN,
    NET_OUT,
    PEAK,
    Array,
    Model,
)
from penstock.guardian.plan.recomputed import coming
from penstock.guardian.plan.rules import Rules
from penstock.guardian.plan.state import LEADERS_WEIGHT
from penstock.guardian.plan.verifier import flying

CAPACITY_RULES = (names.CPU_CAPACITY, names.NET_IN_CAPACITY, names.NET_OUT_CAPACITY)


class NoPlace(Exception):
    """A replica finds no broker; the text says which, and what stands against it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic as it is to be: `partitions` in all, and `rate`, the bytes/s that producers will write to all of them."""

    topic: str
    partitions: int
    factor: int
    rate: float


@dataclass(frozen=True, slots=True)
class Placement:
    """Disks of the replicas of each new partition, the leader first; what each will cost; and what was estimated."""

    numbers: tuple[int, ...]
    disks: tuple[tuple[int, ...], ...]
    leading: Array
    following: Array
    estimates: tuple[str, ...]


def place(model: Model, rules: Rules, wanted: Wanted) -> Placement:
    """Places what the topic has more than now. Raises NoPlace."""
    begin = len(existing(model, wanted.topic))
    leading, following, estimates = expected(model, wanted)
    room = Room(model, rules, wanted, leading, following)
    numbers = tuple(range(begin, wanted.partitions))
    found: list[list[int]] = [[] for _ in numbers]
    for position in range(wanted.factor):
        for number, disks in zip(numbers, found, strict=True):
            load = leading if position == 0 else following
            disks.append(room.best(disks, load, number))
            room.take(disks[-1], load, leads=position == 0)
    return Placement(numbers, tuple(map(tuple, found)), leading, following, estimates)


def existing(model: Model, topic: str) -> Array:
    """The indexes of a topic's partitions."""
    if topic not in model.topics:
        return np.zeros(0, np.int64)
    return np.flatnonzero(model.topic == model.topics.index(topic))


def expected(model: Model, wanted: Wanted) -> tuple[Array, Array, tuple[str, ...]]:
    """What a new replica will cost as a leader and as a follower, and how that was estimated."""
    rate = wanted.rate / wanted.partitions
    leads = model.leads()
    written = model.leading[leads, NET_IN].sum()
    if written > 0:
        leading = model.leading[leads].sum(axis=0) / written * rate
        of_followers = model.following[~leads, NET_IN].sum()
        following = model.following[~leads].sum(axis=0) / of_followers * rate if of_followers > 0 else leading.copy()
        estimates = ("a new replica is taken to cost, for each byte written, what replicas here cost on average",)
        return leading, following, estimates
    leading, following = np.zeros(LOAD_COLUMNS), np.zeros(LOAD_COLUMNS)
    for load in (leading, following):
        load[[NET_IN, DISK_WRITE, PEAK + NET_IN, PEAK + DISK_WRITE]] = rate
    leading[[NET_OUT, PEAK + NET_OUT]] = rate * wanted.factor
    estimate = "nothing is written here yet: a new replica is taken to cost network and disk writes only, read once"
    return leading, following, (estimate,)


class Room:
    """What is used of brokers and disks, and where one more replica had best go."""

    def __init__(self, model: Model, rules: Rules, wanted: Wanted, leading: Array, following: Array) -> None:
        brokers, disks, share = model.brokers, model.disks, rules.capacity
        self._model, self._wanted, self._rules = model, wanted, rules
        count = len(brokers.ids)
        shut = [*rules.drained, *rules.excluded_brokers, *rules.cordoned]
        self._takes = brokers.alive & ~np.isin(brokers.ids, shut)
        if wanted.topic in rules.pinned:
            self._takes = self._takes & np.isin(brokers.ids, list(rules.pinned[wanted.topic]))
        load = model.load()
        self._use = np.stack([np.bincount(model.broker, load[:, k], count) for k in range(PEAK)], axis=1)
        self._peak = np.stack([np.bincount(model.broker, load[:, PEAK + k], count) for k in (CPU, NET_IN, NET_OUT)], 1)
        self._leads = np.bincount(model.broker[model.leader], minlength=count)
        rate = load[:, PEAK + DISK_WRITE] + load[:, PEAK + DISK_READ]
        self._disk = np.stack(
            [np.bincount(model.disk, each, len(disks.broker)) for each in (load[:, PEAK + BYTES], rate)], axis=1
        )
        self._held = np.bincount(model.broker, minlength=count)
        mine = np.isin(model.partition, existing(model, wanted.topic))
        self._topic = np.bincount(model.broker[mine], minlength=count)
        self._limits = np.stack([brokers.cpu_capacity * share.cpu, brokers.net_in_capacity * share.net,
                                 brokers.net_out_capacity * share.net], axis=1)  # fmt: skip
        self._disk_limits = np.stack([disks.bytes_capacity * share.bytes, disks.rate_capacity * share.disk_rate], 1)
        on_its_way = coming(model, rules, flying(model, rules))
        self._limits = self._limits - on_its_way[:, [CPU, NET_IN, NET_OUT]]
        more = on_its_way[disks.broker]
        coming_to_disks = np.stack([more[:, BYTES], more[:, DISK_WRITE] + more[:, DISK_READ]], axis=1)
        self._disk_limits = self._disk_limits - coming_to_disks
        self._shares = self._targets(leading, following)
        self._leaders_share = max((len(model.topic) + wanted.partitions) / max(int(self._takes.sum()), 1), 1.0)
        replicas = wanted.partitions * wanted.factor / max(int(self._takes.sum()), 1)
        self._most = max(np.ceil(2 * replicas), np.ceil(replicas) + 2)

    def _targets(self, leading: Array, following: Array) -> Array:
        """What each broker is to have of each resource when all is there, by capacity."""
        brokers, disks, wanted = self._model.brokers, self._model.disks, self._wanted
        of_disks = [np.bincount(disks.broker, each * disks.alive, len(brokers.ids))
                    for each in (disks.bytes_capacity, disks.rate_capacity, disks.rate_capacity)]  # fmt: skip
        capacity = np.stack([brokers.cpu_capacity, *of_disks, brokers.net_in_capacity, brokers.net_out_capacity], 1)
        capacity = capacity * self._takes[:, None]
        new = wanted.partitions * (leading[:PEAK] + (wanted.factor - 1) * following[:PEAK])
        total = self._use[self._takes].sum(axis=0) + new
        found: Array = capacity * total / np.maximum(capacity.sum(axis=0), 1e-300)
        return found

    def best(self, taken: list[int], load: Array, number: int) -> int:
        """The disk for one more replica of a partition, others of which are on the disks `taken`. Raises NoPlace."""
        model, brokers = self._model, self._model.brokers
        there = model.disks.broker[taken]
        against = {
            names.ALIVE + ", cordoned, drained, excluded or pinned elsewhere": ~self._takes,
            names.SAME_BROKER: np.isin(np.arange(len(brokers.ids)), there),
            names.REPLICAS_MAX: self._held >= (self._rules.replicas_per_broker_max or np.iinfo(np.int64).max),
            **{rule: self._peak[:, k] + load[PEAK + (CPU, NET_IN, NET_OUT)[k]] > self._limits[:, k]
               for k, rule in enumerate(CAPACITY_RULES)},
            f"{names.BYTES_CAPACITY}, {names.RATE_CAPACITY}": self._no_disk(load),
        }  # fmt: skip
        free = ~np.any(list(against.values()), axis=0)
        if not free.any():
            counts = ", ".join(f"{rule}: {int(each.sum())}" for rule, each in against.items() if each.any())
            raise NoPlace(f"{self._wanted.topic}-{number} finds no broker for replica {len(taken) + 1} of "
                          f"{self._wanted.factor}; brokers that may not take it: {counts}")  # fmt: skip
        for asked, domain in ((self._rules.racks, brokers.rack), (self._rules.hosts, brokers.host)):
            elsewhere = free & ~np.isin(domain, domain[there])
            free = elsewhere if asked and elsewhere.any() else free
        few = free & (self._topic < self._most)
        chosen = np.flatnonzero(few if few.any() else free)
        change = np.where(self._shares[chosen] > 0, load[:PEAK] / np.maximum(self._shares[chosen], 1e-300), 0)
        has = np.where(self._shares[chosen] > 0, self._use[chosen] / np.maximum(self._shares[chosen], 1e-300), 0)
        worse = (change * (2 * has + change)).sum(axis=1)
        if not taken:  # a leader
            worse = worse + LEADERS_WEIGHT * (2 * self._leads[chosen] + 1) / self._leaders_share**2
        # of brokers that are as good, the one with fewer replicas of this topic, and of those the one with the lower id
        order = np.lexsort((chosen, self._topic[chosen], np.round(worse, 9)))
        return self._best_disk(int(chosen[order[0]]), load)

    def _fits(self, load: Array) -> Array:
        more = np.array([load[PEAK + BYTES], load[PEAK + DISK_WRITE] + load[PEAK + DISK_READ]])
        return self._model.disks.alive & (self._disk + more <= self._disk_limits).all(axis=1)

    def _no_disk(self, load: Array) -> Array:
        """Brokers no disk of which has room."""
        disks = self._model.disks
        return np.bincount(disks.broker, self._fits(load), len(self._model.brokers.ids)) == 0

    def _best_disk(self, broker: int, load: Array) -> int:
        """The disk of a broker that will be used least, of what is used most of it."""
        first, last = self._model.disks.first[broker], self._model.disks.first[broker + 1]
        mine = first + np.flatnonzero(self._fits(load)[first:last])
        return int(mine[np.argmin((self._disk[mine] / self._disk_limits[mine]).max(axis=1))])

    def take(self, disk: int, load: Array, *, leads: bool) -> None:
        """A replica is there now."""
        b = self._model.disks.broker[disk]
        self._use[b] += load[:PEAK]
        self._peak[b] += load[[PEAK + CPU, PEAK + NET_IN, PEAK + NET_OUT]]
        self._disk[disk] += (load[PEAK + BYTES], load[PEAK + DISK_WRITE] + load[PEAK + DISK_READ])
        self._held[b] += 1
        self._topic[b] += 1
        self._leads[b] += leads


def extended(model: Model, wanted: Wanted, placement: Placement) -> Model:
    """The model with what was placed in it."""
    topics = tuple(sorted({*model.topics, wanted.topic}))
    codes = np.array([topics.index(each) for each in model.topics], np.int64)
    mine, factor, count = topics.index(wanted.topic), wanted.factor, len(placement.numbers)
    topic = np.concatenate([codes[model.topic], np.full(count, mine)])
    number = np.concatenate([model.number, np.array(placement.numbers, np.int64)])
    order = np.lexsort((number, topic))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    new = len(model.topic) + np.repeat(np.arange(count), factor)
    partition = rank[np.concatenate([model.partition, new])]
    by_partition = np.argsort(partition, kind="stable")
    disk = np.concatenate([model.disk, np.array(placement.disks, np.int64).reshape(-1)])[by_partition]
    leads = np.concatenate([model.leads(), np.tile(np.arange(factor) == 0, count)])[by_partition]
    loads = [
        np.concatenate([old, np.repeat(one[None, :], count * factor, axis=0)])[by_partition]
        for old, one in ((model.leading, placement.leading), (model.following, placement.following))
    ]
    sizes = np.bincount(partition, minlength=len(order))
    return Model(
        model.brokers, model.disks, topics, topic[order], number[order], np.concatenate([[0], np.cumsum(sizes)]),
        partition[by_partition], model.disks.broker[disk], disk, np.flatnonzero(leads), loads[0], loads[1],
        (*model.estimates, *placement.estimates),
    )  # fmt: skip
