"""The steps of a search: what one move, leadership or swap would change of the score, and doing it. Compiled."""

from __future__ import annotations

import numpy as np

from penstock.guardian.plan.columns import (
    AT_PEAK,
    BROKER,
    DISK,
    DISK_AT_PEAK,
    DISK_TAKES,
    END_DISK,
    FIRST_DISK,
    HELD,
    LEADER,
    LEADERS,
    MOVES,
    NAMED,
    OF_BROKER,
    PARTITION,
    SWAPPED,
    TAKES,
    TOPIC,
    TURN,
)
from penstock.guardian.plan.machine_code import inner
from penstock.guardian.plan.model import BYTES, CPU, DISK_READ, DISK_WRITE, NET_IN, NET_OUT, PEAK, Array
from penstock.guardian.plan.permits import NO_ROOM, broker_forbids, broker_overflows, disk_forbids, may_leave, permitted
from penstock.guardian.plan.score import (
    broker_change,
    disk_change,
    is_leader,
    lead_price,
    load_of,
    price_of,
    spread_change,
    spread_slot,
    topic_of,
)
from penstock.guardian.plan.state import State

NOWHERE = -1


@inner
def leave_change(s: State, r: int) -> float:
    """How the score changes where replica r is, if it goes to another broker; its price there is taken back."""
    load = load_of(s, r)
    change = broker_change(s, s.replicas[r, BROKER], load, is_leader(s, r), -1.0)
    change += disk_change(s, s.replicas[r, DISK], load, -1.0)
    return change - price_of(s, r, s.replicas[r, DISK])


@inner
def best_disk(s: State, r: int, b: int, load: Array) -> tuple[int, float]:
    """The disk of broker b where replica r changes the score least, with its price, or NOWHERE."""
    best, least = NOWHERE, np.inf
    for d in range(s.brokers[b, FIRST_DISK], s.brokers[b, END_DISK]):
        if d != s.replicas[r, DISK] and disk_forbids(s, d, load) == 0:
            change = disk_change(s, d, load, 1.0) + price_of(s, r, d)
            if change < least:
                best, least = d, change
    return best, least


@inner
def come_change(s: State, r: int, b: int, bound: float) -> tuple[int, float]:
    """The disk of another broker where replica r would go, and how the score changes there; NOWHERE if it may not.

    `bound`: where already the broker changes the score by more, its disks are not looked at, for speed.
    """
    if not s.brokers[b, TAKES]:
        return NOWHERE, np.inf
    load = load_of(s, r)
    of_broker = broker_change(s, b, load, is_leader(s, r), 1.0)
    if of_broker > bound or not permitted(s, r, b, load):
        return NOWHERE, np.inf
    d, change = best_disk(s, r, b, load)
    if d < 0:
        return NOWHERE, np.inf
    change += of_broker
    return d, change + spread_change(s, topic_of(s, r), s.replicas[r, BROKER], b)


@inner
def disk_step_change(s: State, r: int) -> tuple[int, float]:
    """The best other disk of the same broker, and how the score changes; NOWHERE if there is none."""
    if not may_leave(s, r):
        return NOWHERE, np.inf
    load = load_of(s, r)
    d, change = best_disk(s, r, s.replicas[r, BROKER], load)
    return d, change + disk_change(s, s.replicas[r, DISK], load, -1.0) - price_of(s, r, s.replicas[r, DISK])


@inner
def lead_change(s: State, p: int, r: int) -> float:
    """How the score changes if replica r leads p."""
    old = s.partitions[p, LEADER]
    gone, come = s.scratch[0], s.scratch[1]
    gone[:] = s.following[old] - s.leading[old]
    come[:] = s.leading[r] - s.following[r]
    change = broker_change(s, s.replicas[old, BROKER], gone, -1.0, 1.0) + disk_change(
        s, s.replicas[old, DISK], gone, 1.0
    )
    change += broker_change(s, s.replicas[r, BROKER], come, 1.0, 1.0) + disk_change(s, s.replicas[r, DISK], come, 1.0)
    return change + lead_price(s, p, r) - lead_price(s, p, old)


@inner
def add(s: State, b: int, d: int, load: Array, sign: float) -> None:
    """Adds a load to the sums of a broker and a disk, or takes it away."""
    for k in range(PEAK):
        s.broker_loads[b, k] += sign * load[k]
    s.broker_loads[b, AT_PEAK] += sign * load[PEAK + CPU]
    s.broker_loads[b, AT_PEAK + 1] += sign * load[PEAK + NET_IN]
    s.broker_loads[b, AT_PEAK + 2] += sign * load[PEAK + NET_OUT]
    s.disk_loads[d, 0] += sign * load[BYTES]
    s.disk_loads[d, 1] += sign * load[DISK_WRITE]
    s.disk_loads[d, 2] += sign * load[DISK_READ]
    s.disk_loads[d, DISK_AT_PEAK] += sign * load[PEAK + BYTES]
    s.disk_loads[d, DISK_AT_PEAK + 1] += sign * (load[PEAK + DISK_WRITE] + load[PEAK + DISK_READ])


@inner
def count_leader(s: State, p: int, b: int, more: int) -> None:
    s.broker_loads[b, LEADERS] += more
    row = s.topics[s.partitions[p, TOPIC], NAMED]
    if row >= 0:
        s.leader_counts[row, b] += more


@inner
def put(s: State, r: int, d: int) -> None:
    """Moves replica r to a disk, and all sums with it."""
    load, source, target = load_of(s, r), s.replicas[r, BROKER], s.disks[d, OF_BROKER]
    add(s, source, s.replicas[r, DISK], load, -1.0)
    add(s, target, d, load, 1.0)
    if source != target:
        p = s.replicas[r, PARTITION]
        s.brokers[source, HELD] -= 1
        s.brokers[target, HELD] += 1
        if is_leader(s, r) > 0.0:
            count_leader(s, p, source, -1)
            count_leader(s, p, target, 1)
        slot = spread_slot(s, s.partitions[p, TOPIC], source, False)
        if slot >= 0:
            s.spread_counts[slot] -= 1
        slot = spread_slot(s, s.partitions[p, TOPIC], target, True)
        if slot >= 0:
            s.spread_counts[slot] += 1
    s.replicas[r, BROKER], s.replicas[r, DISK] = target, d
    s.tally[MOVES] += 1
    s.replicas[r, TURN] = s.tally[MOVES]
    s.replicas[r, SWAPPED] = NOWHERE


@inner
def lead(s: State, p: int, r: int) -> None:
    """Makes replica r the leader of p."""
    old = s.partitions[p, LEADER]
    add(s, s.replicas[old, BROKER], s.replicas[old, DISK], s.leading[old], -1.0)
    add(s, s.replicas[old, BROKER], s.replicas[old, DISK], s.following[old], 1.0)
    add(s, s.replicas[r, BROKER], s.replicas[r, DISK], s.following[r], -1.0)
    add(s, s.replicas[r, BROKER], s.replicas[r, DISK], s.leading[r], 1.0)
    count_leader(s, p, s.replicas[old, BROKER], -1)
    count_leader(s, p, s.replicas[r, BROKER], 1)
    s.partitions[p, LEADER] = r
    s.tally[MOVES] += 1


@inner
def swap_change(s: State, x: int, y: int) -> float:
    """How the score changes if two replicas on different brokers change places; infinite where a rule forbids it."""
    a, b, d, e = s.replicas[x, BROKER], s.replicas[y, BROKER], s.replicas[x, DISK], s.replicas[y, DISK]
    if s.replicas[x, PARTITION] == s.replicas[y, PARTITION] or not s.disks[d, DISK_TAKES] or not s.disks[e, DISK_TAKES]:
        return np.inf
    one, other = load_of(s, x), load_of(s, y)
    if broker_forbids(s, x, b, one) & ~NO_ROOM or broker_forbids(s, y, a, other) & ~NO_ROOM:
        return np.inf
    more, less = s.scratch[0], s.scratch[1]
    more[:] = one - other  # what b and e get
    less[:] = other - one
    if overflows(s, b, e, more) or overflows(s, a, d, less):
        return np.inf
    leaders = is_leader(s, x) - is_leader(s, y)
    change = broker_change(s, b, more, leaders, 1.0) + disk_change(s, e, more, 1.0)
    change += broker_change(s, a, less, -leaders, 1.0) + disk_change(s, d, less, 1.0)
    change += spread_change(s, topic_of(s, x), a, b) + spread_change(s, topic_of(s, y), b, a)
    change += price_of(s, x, e) + price_of(s, y, d)
    return change - price_of(s, x, d) - price_of(s, y, e)


@inner
def overflows(s: State, b: int, d: int, load: Array) -> bool:
    """Whether a load, parts of which may be negative, would exceed a capacity."""
    return broker_overflows(s, b, load) != 0 or disk_forbids(s, d, load) != 0


@inner
def swap(s: State, x: int, y: int) -> None:
    """Has two replicas change places."""
    d, e = s.replicas[x, DISK], s.replicas[y, DISK]
    put(s, x, e)
    put(s, y, d)
    s.replicas[x, SWAPPED], s.replicas[y, SWAPPED] = y, x
