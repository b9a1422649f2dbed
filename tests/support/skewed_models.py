"""Models of clusters that are out of balance: by how much is known, and the same seed makes the same one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    Brokers,
    Disks,
    Model,
)

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a model is, and how uneven.

    Attributes:
        skew: brokers hold from 1 - skew to 1 + skew of what they would if all held the same.
        fill: what is used of capacities on average, at the 95th percentile.
        spread: how different partitions are: the sigma of their log-normal rates.
    """

    brokers: int
    partitions: int
    factor: int = 3
    disks: int = 4
    racks: int = 3
    topics: int = 100
    skew: float = 0.55
    fill: float = 0.35
    spread: float = 0.8
    seed: int = 1


def skewed(shape: Shape) -> Model:
    """A model of this shape, each partition in as many racks as it can be."""
    random = np.random.default_rng(shape.seed)
    rack = np.arange(shape.brokers) % shape.racks
    broker = placed(random, shape, rack)
    count = shape.partitions * shape.factor
    partition = np.repeat(np.arange(shape.partitions), shape.factor)
    topic = np.sort(random.integers(0, shape.topics, shape.partitions))
    first = np.searchsorted(topic, topic)
    disk = broker * shape.disks + random.integers(0, shape.disks, count)
    leader = np.arange(shape.partitions) * shape.factor
    leading, following = loads(random, shape, partition)
    capacity = leading[leader].sum(axis=0) + following.sum(axis=0) - following[leader].sum(axis=0)
    capacity = capacity[PEAK:] / shape.fill / shape.brokers
    rate = capacity[DISK_WRITE] + capacity[DISK_READ]
    each = np.ones(shape.brokers)
    return Model(
        Brokers(
            np.arange(shape.brokers), rack, np.arange(shape.brokers), np.ones(shape.brokers, np.bool_),
            np.zeros(shape.brokers, np.bool_), each * capacity[CPU], each * capacity[NET_IN], each * capacity[NET_OUT],
            tuple(f"rack-{number}" for number in range(shape.racks)),
        ),
        Disks(
            np.repeat(np.arange(shape.brokers), shape.disks), np.arange(shape.brokers + 1) * shape.disks,
            tuple(f"/data/{number}" for _ in range(shape.brokers) for number in range(shape.disks)),
            np.full(shape.brokers * shape.disks, capacity[BYTES] / shape.disks),
            np.full(shape.brokers * shape.disks, rate / shape.disks), np.ones(shape.brokers * shape.disks, np.bool_),
        ),
        tuple(f"topic-{number:06}" for number in range(shape.topics)),
        topic, np.arange(shape.partitions) - first, np.arange(shape.partitions + 1) * shape.factor,
        partition, broker, disk, leader, leading, following,
    )  # fmt: skip


def placed(random: np.random.Generator, shape: Shape, rack: Array) -> Array:
    """A broker for each replica, by weight: the replicas of a partition in different racks, or on different brokers."""
    weight = 1 + shape.skew * (2 * random.random(shape.brokers) - 1)
    members = [np.flatnonzero(rack == each) for each in range(shape.racks)]
    edges = [np.cumsum(weight[each]) for each in members]
    found = np.full((shape.partitions, shape.factor), -1, np.int64)
    begin = random.integers(0, shape.racks, shape.partitions)
    for position in range(shape.factor):
        wanted = (begin + position) % shape.racks
        for each in range(shape.racks):
            mine = np.flatnonzero(wanted == each)
            drawn = np.searchsorted(edges[each], random.random(len(mine)) * edges[each][-1])
            for _ in range(shape.factor):
                clash = (found[mine, :position] == members[each][drawn][:, None]).any(axis=1)
                drawn = np.where(clash, (drawn + 1) % len(members[each]), drawn)
            found[mine, position] = members[each][drawn]
    return found.reshape(-1)


def loads(random: np.random.Generator, shape: Shape, partition: Array) -> tuple[Array, Array]:
    """The loads of all replicas as leaders and as followers: what their partitions carry, log-normal."""
    rate = random.lognormal(0, shape.spread, shape.partitions)[partition]
    fan_out = random.lognormal(0.5, 0.3, shape.partitions)[partition]
    kept = random.lognormal(0, 0.5, shape.partitions)[partition]
    leading = np.empty((len(partition), LOAD_COLUMNS))
    leading[:, BYTES] = rate * kept * 1_000 * MIB
    leading[:, DISK_WRITE] = leading[:, NET_IN] = rate * MIB / 10
    leading[:, DISK_READ] = rate * fan_out * MIB / 200
    leading[:, NET_OUT] = rate * (fan_out + shape.factor - 1) * MIB / 10
    leading[:, CPU] = 1e-3 * rate * (0.5 + 0.2 * fan_out)
    following = leading.copy()
    following[:, [DISK_READ, NET_OUT]] = 0
    following[:, CPU] *= 0.4
    for load in (leading, following):
        load[:, PEAK:] = load[:, :PEAK] * 1.3
    return leading, following
