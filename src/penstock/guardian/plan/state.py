"""The arrays that the compiled loops work on: what is fixed, what the rules say, and where everything is now.

The score of a state, which a plan makes smaller, is one sum:

- for each broker and resource, and for each disk and resource, the squared distance from its share, beyond the width
  within which nothing needs to be done. A share goes by capacity; a distance of 0.2 is a fifth of the share.
- what lies above a capacity at its 95th percentile, as a fraction of it, times `OVERLOAD_WEIGHT`: so all of it goes
  first that can.
- replicas of one topic on a broker above what is usual, each as much as `Goals.topic_price` says.
- what it costs to get there: the bytes of replicas that are not where they were, in units of an average broker.

So a move is worth making if it makes the sum smaller, and the search ends where no move that it looks at does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.guardian.plan.columns import (
    AT_PEAK,
    BAND,
    BROKER,
    BROKER_LOADS,
    BROKER_PEAKS,
    DISK,
    DISK_AT_PEAK,
    DISK_LIMIT,
    DISK_LOADS,
    DISK_SCALE,
    DISK_WEIGHT,
    HELD,
    HELD_MAX,
    LEADER,
    LEADER_COST,
    LEADERS,
    LIMIT,
    NAMED,
    NUMBERS,
    OVERLOAD,
    SCALE,
    TOPIC,
    TOPIC_COST,
    WEIGHTS,
    WITHIN,
)
from penstock.guardian.plan.model import (
    BYTES,
    CPU,
    DISK_READ,
    DISK_RESOURCES,
    DISK_WRITE,
    LOAD_COLUMNS,
    NET_IN,
    NET_OUT,
    PEAK,
    Array,
    Model,
)
from penstock.guardian.plan.rules import Rules

OVERLOAD_WEIGHT = 1_000.0
LEADERS_WEIGHT = 0.1
"""Numbers of leaders matter less than what leaders do."""
BAND_SHARE = 0.8
"""The search aims at this part of `Goals.within`, so that it ends inside."""
DISK_MOVE_PRICE = 0.3
"""Another disk of the same broker costs no network."""
MOVE_OVERHEAD = 0.25
"""What each move costs besides its bytes, in average replicas."""
LEADER_PRICE = 0.05
"""What a leadership costs, in average replicas."""
NO_SHARE = 1e-12
"""A share of so few cores, bytes or bytes a second is none: nothing is divided by it."""


class State(NamedTuple):
    """See the module's head; `columns` says what stands in the tables."""

    leading: Array
    """The loads of replicas as leaders."""
    following: Array
    """The loads of replicas as followers."""
    replicas: Array
    partitions: Array
    brokers: Array
    disks: Array
    topics: Array
    broker_loads: Array
    disk_loads: Array
    price: Array
    """What it costs to move each replica to another broker."""
    pins: Array
    """By row and broker: may a topic's replicas be there. The first row allows all."""
    leaders_min: Array
    leader_counts: Array
    """By named topic and broker."""
    spread_keys: Array
    spread_counts: Array
    """A hash table: how many replicas of a topic are on a broker."""
    numbers: Array
    scratch: Array
    random: Array
    tally: Array


def state_of(model: Model, rules: Rules, seed: int) -> State:
    """The state in which a plan begins."""
    brokers, disks = model.brokers, model.disks
    count, topics = len(brokers.ids), len(model.topics)
    at = {int(each): index for index, each in enumerate(brokers.ids)}
    topic_at = {name: index for index, name in enumerate(model.topics)}

    drained, excluded, cordoned = (
        flags(count, [at[each] for each in ids]) for ids in (rules.drained, rules.excluded_brokers, rules.cordoned)
    )
    living = brokers.alive & ~drained
    takes = living & ~excluded & ~cordoned
    disk_takes = disks.alive & takes[disks.broker]
    excluded_topics = flags(topics, [topic_at[each] for each in rules.excluded_topics])
    flying_at = partitions_of(model, [(each.topic, each.partition) for each in rules.in_flight])
    flying = flags(len(model.topic), flying_at)
    kept = flags(len(model.topic), partitions_of(model, [(each.topic, each.partition) for each in rules.kept]))
    free = ~excluded_topics[model.topic] & ~flying & ~kept & with_a_copy(model)

    pin, pins = pins_of(model, rules, at, topic_at)
    leaves = misplaced(model, rules, model.broker, model.disk) & ~flying[model.partition]

    factor = np.diff(model.first)
    racks = len(np.unique(brokers.rack[living])) if rules.racks else 1
    hosts = len(np.unique(brokers.host[living])) if rules.hosts else 1
    named = np.full(topics, -1, np.int64)
    for row, name in enumerate(rules.leaders_per_broker_min):
        named[topic_at[name]] = row
    load = model.load()
    shares = Shares(model, load, takes, leaves)
    rests = resting(model, rules) & ~leaves
    most = np.full(count, rules.replicas_per_broker_max or np.iinfo(np.int64).max, np.int64)
    replicas = np.stack(
        [model.partition, model.broker, model.disk, model.broker, model.disk, leaves,
         np.full(model.replicas, -1), np.zeros(model.replicas), rests], axis=1,
    ).astype(np.int64)  # fmt: skip
    partitions = np.stack(
        [model.first[:-1], model.first[1:], model.topic, model.leader, model.leader, free,
         np.minimum(factor, racks), np.minimum(factor, hosts)], axis=1,
    ).astype(np.int64)  # fmt: skip
    held = np.bincount(model.broker, minlength=count)
    of_brokers = np.stack(
        [
            disks.first[:-1],
            disks.first[1:],
            brokers.rack,
            brokers.host,
            takes,
            living & ~excluded,
            excluded,
            most,
            held,
        ],
        axis=1,
    ).astype(np.int64)
    broker_loads, disk_loads = np.zeros((count, BROKER_LOADS)), np.zeros((len(disks.broker), DISK_LOADS))
    broker_loads[:, LIMIT:SCALE], disk_loads[:, DISK_LIMIT:DISK_SCALE] = limits_of(model, rules)
    broker_loads[:, SCALE:], disk_loads[:, DISK_SCALE:] = shares.broker_scale(), shares.disk_scale()
    state = State(
        leading=model.leading,
        following=model.following,
        replicas=replicas,
        partitions=partitions,
        brokers=of_brokers,
        disks=np.stack([disks.broker, disk_takes], axis=1).astype(np.int64),
        topics=np.stack([pin, named, shares.topic_most()], axis=1),
        broker_loads=broker_loads,
        disk_loads=disk_loads,
        price=shares.prices(rules),
        pins=pins,
        leaders_min=np.array([*rules.leaders_per_broker_min.values(), 0], np.int64),
        leader_counts=np.zeros((len(rules.leaders_per_broker_min) + 1, count), np.int64),
        spread_keys=np.full(spread_size(model), -1, np.int64),
        spread_counts=np.zeros(spread_size(model), np.int64),
        numbers=shares.numbers(rules),
        scratch=np.zeros((2, LOAD_COLUMNS)),
        random=np.array([seed], np.uint64),
        tally=np.zeros(2, np.int64),
    )
    keep_room(state, model, rules, at)
    add_up(state)
    return state


def flags(count: int, set_at: list[int]) -> Array:
    found = np.zeros(count, np.bool_)
    found[np.array(set_at, np.int64)] = True
    return found


def partitions_of(model: Model, names: list[tuple[str, int]]) -> list[int]:
    """The indexes of partitions that the model has."""
    found = []
    topic_at = {name: index for index, name in enumerate(model.topics)}
    for topic, number in names:
        start, end = np.searchsorted(model.topic, [topic_at[topic], topic_at[topic] + 1])
        found.append(int(start + np.searchsorted(model.number[start:end], number)))
    return found


def resting(model: Model, rules: Rules) -> Array:
    """Whether each replica has moved lately."""
    found = np.zeros(model.replicas, np.bool_)
    indexes = partitions_of(model, [(each.topic, each.partition) for each in rules.moved])
    for each, p in zip(rules.moved, indexes, strict=True):
        mine = slice(model.first[p], model.first[p + 1])
        found[mine] |= model.brokers.ids[model.broker[mine]] == each.broker
    return found


def with_a_copy(model: Model) -> Array:
    """Whether each partition has a replica that lives: else there is nothing to copy."""
    living = model.brokers.alive[model.broker] & model.disks.alive[model.disk]
    return np.bincount(model.partition, living, len(model.topic)) > 0


def misplaced(model: Model, rules: Rules, broker: Array, disk: Array) -> Array:
    """Whether each replica, if it is on this broker and disk, lies where nothing may stay."""
    ids = model.brokers.ids[broker]
    found = ~model.brokers.alive[broker] | ~model.disks.alive[disk] | np.isin(ids, list(rules.drained))
    for name, allowed in rules.pinned.items():
        found |= (model.topic == model.topics.index(name))[model.partition] & ~np.isin(ids, list(allowed))
    return np.asarray(found)


def pins_of(model: Model, rules: Rules, at: dict[int, int], topic_at: dict[str, int]) -> tuple[Array, Array]:
    """For each topic a row, and the rows: which brokers may have its replicas."""
    pin = np.zeros(len(model.topics), np.int64)
    pins = np.ones((len(rules.pinned) + 1, len(model.brokers.ids)), np.bool_)
    for row, (name, ids) in enumerate(rules.pinned.items(), start=1):
        pin[topic_at[name]] = row
        pins[row] = flags(len(model.brokers.ids), [at[each] for each in ids])
    return pin, pins


def limits_of(model: Model, rules: Rules) -> tuple[Array, Array]:
    """What may be used of each broker and of each disk at the 95th percentile."""
    brokers, disks, share = model.brokers, model.disks, rules.capacity
    of_brokers = [
        brokers.cpu_capacity * share.cpu,
        brokers.net_in_capacity * share.net,
        brokers.net_out_capacity * share.net,
    ]
    of_disks = [disks.bytes_capacity * share.bytes, disks.rate_capacity * share.disk_rate]
    return np.stack(of_brokers, axis=1), np.stack(of_disks, axis=1)


def spread_size(model: Model) -> int:
    """Slots of the table of topics on brokers: a power of two, so that half of it at most is used at first."""
    possible = min(model.replicas, len(model.topics) * len(model.brokers.ids))
    return 1 << (2 * possible + 1024).bit_length()


class Shares:
    """What a fair share is: of all load that may move or lies on brokers that take part, by capacity."""

    def __init__(self, model: Model, load: Array, takes: Array, leaves: Array) -> None:
        self._model = model
        self._takes = takes
        disks = model.disks
        counts = takes[model.broker] | leaves
        self._load = load
        self._total = np.zeros(LEADERS + 1)
        self._total[:PEAK] = load[counts, :PEAK].sum(axis=0)
        self._total[LEADERS] = np.count_nonzero(counts[model.leader])
        self._count = max(int(np.count_nonzero(takes)), 1)
        self._disk_takes = disks.alive & takes[disks.broker]
        self._bytes = np.where(self._disk_takes, disks.bytes_capacity, 0)
        self._rate = np.where(self._disk_takes, disks.rate_capacity, 0)

    def broker_scale(self) -> Array:
        brokers, disks = self._model.brokers, self._model.disks
        count = len(brokers.ids)
        capacity = np.zeros((count, LEADERS + 1))
        capacity[:, CPU] = brokers.cpu_capacity
        capacity[:, NET_IN] = brokers.net_in_capacity
        capacity[:, NET_OUT] = brokers.net_out_capacity
        capacity[:, BYTES] = np.bincount(disks.broker, self._bytes, count)
        capacity[:, DISK_WRITE] = capacity[:, DISK_READ] = np.bincount(disks.broker, self._rate, count)
        capacity[:, LEADERS] = 1
        capacity[~self._takes] = 0
        return scale_of(capacity, self._total)

    def disk_scale(self) -> Array:
        capacity = np.stack([self._bytes, self._rate, self._rate], axis=1)
        return scale_of(capacity, self._total[list(DISK_RESOURCES)])

    def topic_most(self) -> Array:
        """How many replicas of each topic a broker may hold before they are too many."""
        model = self._model
        share = np.bincount(model.topic[model.partition], minlength=len(model.topics)) / self._count
        return np.maximum(np.ceil(2 * share), np.ceil(share) + 2).astype(np.int64)

    def average_replica(self) -> float:
        """What one average replica is of an average broker."""
        return self._count / max(self._model.replicas, 1)

    def numbers(self, rules: Rules) -> Array:
        goals, replica = rules.goals, self.average_replica() * rules.goals.bytes_price
        found = np.ones(NUMBERS)
        found[WEIGHTS + LEADERS] = LEADERS_WEIGHT
        found[DISK_WEIGHT] = self._count / max(int(np.count_nonzero(self._disk_takes)), 1)
        found[WITHIN], found[BAND] = goals.within, goals.within * BAND_SHARE
        found[TOPIC_COST] = goals.topic_price * replica
        found[LEADER_COST] = LEADER_PRICE * replica
        found[OVERLOAD] = OVERLOAD_WEIGHT
        return found

    def prices(self, rules: Rules) -> Array:
        average_bytes = self._total[BYTES] / self._count
        part = self._load[:, BYTES] / average_bytes if average_bytes > 0 else np.zeros(len(self._load))
        return rules.goals.bytes_price * (part + MOVE_OVERHEAD * self.average_replica())


def scale_of(capacity: Array, total: Array) -> Array:
    """1 / share, by column; 0 where there is no share."""
    whole = capacity.sum(axis=0)
    share = np.divide(capacity * total, whole, out=np.zeros_like(capacity), where=whole > 0)
    return np.divide(1.0, share, out=np.zeros_like(share), where=share > NO_SHARE)


def add_up(state: State) -> None:
    """Computes all sums anew from where the replicas are."""
    count, disks = len(state.brokers), len(state.disks)
    leader, broker, disk = state.partitions[:, LEADER], state.replicas[:, BROKER], state.replicas[:, DISK]
    leads = np.zeros(len(state.replicas), np.bool_)
    leads[leader] = True
    load = np.where(leads[:, None], state.leading, state.following)
    for column in range(PEAK):
        state.broker_loads[:, column] = np.bincount(broker, load[:, column], count)
    state.broker_loads[:, LEADERS] = np.bincount(broker[leader], minlength=count)
    for column, resource in enumerate(BROKER_PEAKS, start=AT_PEAK):
        state.broker_loads[:, column] = np.bincount(broker, load[:, PEAK + resource], count)
    for column, resource in enumerate(DISK_RESOURCES):
        state.disk_loads[:, column] = np.bincount(disk, load[:, resource], disks)
    rate = load[:, PEAK + DISK_WRITE] + load[:, PEAK + DISK_READ]
    state.disk_loads[:, DISK_AT_PEAK] = np.bincount(disk, load[:, PEAK + BYTES], disks)
    state.disk_loads[:, DISK_AT_PEAK + 1] = np.bincount(disk, rate, disks)
    state.brokers[:, HELD] = np.bincount(broker, minlength=count)
    rows = state.topics[state.partitions[:, TOPIC], NAMED]
    state.leader_counts[:] = 0
    which = rows >= 0
    np.add.at(state.leader_counts, (rows[which], broker[leader[which]]), 1)


def keep_room(state: State, model: Model, rules: Rules, at: dict[int, int]) -> None:
    """Lowers the limits of brokers, and of their disks, by what is on its way to them."""
    indexes = partitions_of(model, [(each.topic, each.partition) for each in rules.in_flight])
    for flight, p in zip(rules.in_flight, indexes, strict=True):
        mine = slice(model.first[p], model.first[p + 1])
        load = model.leading[mine].max(axis=0)
        here = {int(each) for each in model.broker[mine]}
        for b in [at[each] for each in flight.replicas if at[each] not in here]:
            state.broker_loads[b, LIMIT:SCALE] -= load[[PEAK + each for each in BROKER_PEAKS]]
            state.brokers[b, HELD_MAX] -= 1
            # nobody says which disk it will be: each keeps the room
            own = slice(model.disks.first[b], model.disks.first[b + 1])
            state.disk_loads[own, DISK_LIMIT:DISK_SCALE] -= [
                load[PEAK + BYTES],
                load[PEAK + DISK_WRITE] + load[PEAK + DISK_READ],
            ]
