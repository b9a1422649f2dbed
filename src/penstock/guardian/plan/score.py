"""What a change of place is worth: compiled, a few dozen multiplications each; see `state` for the sum it changes."""

from __future__ import annotations

import numpy as np

from penstock.guardian.plan.columns import (
    AT_PEAK,
    BAND,
    BROKER,
    BROKER_PEAKS,
    DISK,
    DISK_AT_PEAK,
    DISK_LIMIT,
    DISK_PEAKS,
    DISK_SCALE,
    DISK_WEIGHT,
    END_DISK,
    FIRST_DISK,
    LEADER,
    LEADER_COST,
    LEADERS,
    LIMIT,
    MOST,
    OF_BROKER,
    ORIGIN_BROKER,
    ORIGIN_DISK,
    ORIGIN_LEADER,
    OVERLOAD,
    PARTITION,
    SCALE,
    SPREAD_USED,
    TOPIC,
    TOPIC_COST,
    WEIGHTS,
)
from penstock.guardian.plan.machine_code import compiled, inner
from penstock.guardian.plan.model import BYTES, CPU, DISK_READ, DISK_RESOURCES, DISK_WRITE, NET_IN, NET_OUT, PEAK, Array
from penstock.guardian.plan.state import DISK_MOVE_PRICE, State

FIBONACCI = 0x9E3779B97F4A7C15


@inner
def distance(use: float, scale: float, band: float) -> float:
    """The squared distance from a share, beyond the band; 0 where there is no share."""
    if scale == 0.0:
        return 0.0
    beyond = abs(use * scale - 1.0) - band
    return beyond * beyond if beyond > 0.0 else 0.0


@inner
def nearer(use: float, more: float, scale: float, band: float) -> float:
    """How the distance changes when something comes to what is used."""
    return distance(use + more, scale, band) - distance(use, scale, band)


@inner
def overload(peak: float, limit: float) -> float:
    """What is above a limit, as a fraction of it."""
    return (peak - limit) / max(limit, 1e-9) if peak > limit else 0.0


@inner
def broker_change(s: State, b: int, load: Array, leaders: float, sign: float) -> float:
    """How the score of a broker changes when a load comes (sign 1) or goes (-1), with so many leaders."""
    band = s.numbers[BAND]
    change = 0.0
    for k in range(PEAK):
        scale = s.broker_loads[b, SCALE + k]
        if scale > 0.0 and load[k] != 0.0:
            change += s.numbers[WEIGHTS + k] * nearer(s.broker_loads[b, k], sign * load[k], scale, band)
    if leaders != 0.0:
        scale, weight = s.broker_loads[b, SCALE + LEADERS], s.numbers[WEIGHTS + LEADERS]
        change += weight * nearer(s.broker_loads[b, LEADERS], sign * leaders, scale, band)
    over = peak_change(s.broker_loads[b, AT_PEAK], sign * load[PEAK + CPU], s.broker_loads[b, LIMIT])
    over += peak_change(s.broker_loads[b, AT_PEAK + 1], sign * load[PEAK + NET_IN], s.broker_loads[b, LIMIT + 1])
    over += peak_change(s.broker_loads[b, AT_PEAK + 2], sign * load[PEAK + NET_OUT], s.broker_loads[b, LIMIT + 2])
    return change + s.numbers[OVERLOAD] * over


@inner
def peak_change(peak: float, more: float, limit: float) -> float:
    return overload(peak + more, limit) - overload(peak, limit)


@inner
def disk_change(s: State, d: int, load: Array, sign: float) -> float:
    """How the score of a disk changes when a load comes (sign 1) or goes (-1)."""
    band = s.numbers[BAND]
    change = 0.0
    for column, k in enumerate((BYTES, DISK_WRITE, DISK_READ)):
        scale = s.disk_loads[d, DISK_SCALE + column]
        if scale > 0.0 and load[k] != 0.0:
            change += nearer(s.disk_loads[d, column], sign * load[k], scale, band)
    rate = load[PEAK + DISK_WRITE] + load[PEAK + DISK_READ]
    over = peak_change(s.disk_loads[d, DISK_AT_PEAK], sign * load[PEAK + BYTES], s.disk_loads[d, DISK_LIMIT])
    over += peak_change(s.disk_loads[d, DISK_AT_PEAK + 1], sign * rate, s.disk_loads[d, DISK_LIMIT + 1])
    return s.numbers[DISK_WEIGHT] * change + s.numbers[OVERLOAD] * over


@inner
def load_of(s: State, r: int) -> Array:
    """The load of a replica in its present role."""
    return s.leading[r] if s.partitions[s.replicas[r, PARTITION], LEADER] == r else s.following[r]


@inner
def topic_of(s: State, r: int) -> int:
    return s.partitions[s.replicas[r, PARTITION], TOPIC]


@inner
def is_leader(s: State, r: int) -> float:
    return 1.0 if s.partitions[s.replicas[r, PARTITION], LEADER] == r else 0.0


@inner
def price_of(s: State, r: int, d: int) -> float:
    """What it costs that a replica ends on this disk."""
    if s.replicas[r, ORIGIN_DISK] == d:
        return 0.0
    return s.price[r] * DISK_MOVE_PRICE if s.disks[d, OF_BROKER] == s.replicas[r, ORIGIN_BROKER] else s.price[r]


@inner
def lead_price(s: State, p: int, r: int) -> float:
    """What it costs that this replica ends as the leader."""
    return 0.0 if s.partitions[p, ORIGIN_LEADER] == r else s.numbers[LEADER_COST]


@inner
def spread_slot(s: State, t: int, b: int, make: bool) -> int:
    """Where the table keeps how many replicas of a topic a broker has; -1: nowhere, which stands for none."""
    mask = len(s.spread_keys) - 1
    key = t * len(s.brokers) + b
    slot = (key * 0x9E3779B1 >> 7) & mask
    while s.spread_keys[slot] != key:
        if s.spread_keys[slot] < 0:
            if not make or s.tally[SPREAD_USED] * 8 > 7 * mask:
                return -1
            s.tally[SPREAD_USED] += 1
            s.spread_keys[slot] = key
            break
        slot = (slot + 1) & mask
    return slot


@inner
def spread_change(s: State, t: int, source: int, target: int) -> float:
    """How the score changes when a replica of a topic goes from one broker to another."""
    change = 0.0
    slot = spread_slot(s, t, source, False)
    if slot >= 0 and s.spread_counts[slot] > s.topics[t, MOST]:
        change -= s.numbers[TOPIC_COST]
    slot = spread_slot(s, t, target, False)
    if slot >= 0 and s.spread_counts[slot] >= s.topics[t, MOST]:
        change += s.numbers[TOPIC_COST]
    return change


@compiled
def count_spread(s: State) -> None:
    """Fills the table of topics on brokers."""
    for r in range(len(s.replicas)):
        slot = spread_slot(s, topic_of(s, r), s.replicas[r, BROKER], True)
        if slot >= 0:
            s.spread_counts[slot] += 1


@inner
def total(s: State) -> float:
    """The score of the state, but for what lies above limits."""
    band = s.numbers[BAND]
    found = 0.0
    for b in range(len(s.brokers)):
        for k in range(LEADERS + 1):
            found += s.numbers[WEIGHTS + k] * distance(s.broker_loads[b, k], s.broker_loads[b, SCALE + k], band)
    for d in range(len(s.disks)):
        for column in range(3):
            found += s.numbers[DISK_WEIGHT] * distance(
                s.disk_loads[d, column], s.disk_loads[d, DISK_SCALE + column], band
            )
    for slot in range(len(s.spread_keys)):
        if s.spread_keys[slot] >= 0:
            t = s.spread_keys[slot] // len(s.brokers)
            found += s.numbers[TOPIC_COST] * max(s.spread_counts[slot] - s.topics[t, MOST], 0)
    for r in range(len(s.replicas)):
        found += price_of(s, r, s.replicas[r, DISK])
    for p in range(len(s.partitions)):
        found += lead_price(s, p, s.partitions[p, LEADER])
    return found


@inner
def overloads(s: State) -> float:
    """What lies above limits, summed as fractions of them."""
    found = 0.0
    for b in range(len(s.brokers)):
        for k in range(len(BROKER_PEAKS)):
            found += overload(s.broker_loads[b, AT_PEAK + k], s.broker_loads[b, LIMIT + k])
    for d in range(len(s.disks)):
        for k in range(2):
            found += overload(s.disk_loads[d, DISK_AT_PEAK + k], s.disk_loads[d, DISK_LIMIT + k])
    return found


@inner
def own_cost(s: State, b: int, band: float) -> float:
    """What a broker, its disks left aside, is away from its shares beyond a width, and above limits."""
    found, row = 0.0, s.broker_loads[b]
    for k in range(LEADERS + 1):
        found += s.numbers[WEIGHTS + k] * distance(row[k], row[SCALE + k], band)
    for k in range(len(BROKER_PEAKS)):
        found += s.numbers[OVERLOAD] * overload(row[AT_PEAK + k], row[LIMIT + k])
    return found


@inner
def broker_cost(s: State, b: int, band: float) -> float:
    """What a broker and its disks are away from their shares beyond a width, and above limits."""
    found = own_cost(s, b, band)
    for d in range(s.brokers[b, FIRST_DISK], s.brokers[b, END_DISK]):
        row = s.disk_loads[d]
        for k in range(len(DISK_RESOURCES)):
            found += s.numbers[DISK_WEIGHT] * distance(row[k], row[DISK_SCALE + k], band)
        for k in range(DISK_PEAKS):
            found += s.numbers[OVERLOAD] * overload(row[DISK_AT_PEAK + k], row[DISK_LIMIT + k])
    return found


@inner
def draw(s: State, below: int) -> int:
    """A number from 0 to below - 1: splitmix64 on the seed."""
    s.random[0] += np.uint64(FIBONACCI)
    x = s.random[0]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return int((x >> np.uint64(33)) % np.uint64(below))
