"""The hard rules as the search asks them: may this replica go there, may it lead. Compiled.

A rule that is broken already may not be broken further: what has come to be in too few racks may move within them.
"""

from __future__ import annotations

from penstock.guardian.plan.columns import (
    AT_PEAK,
    BROKER,
    DISK,
    DISK_AT_PEAK,
    DISK_LIMIT,
    DISK_TAKES,
    END,
    FIRST,
    FREE,
    HELD,
    HELD_MAX,
    HOST,
    HOSTS_WANTED,
    LEADER,
    LEAVES,
    LIMIT,
    MAY_LEAD,
    NAMED,
    PARTITION,
    PIN,
    RACK,
    RACKS_WANTED,
    RESTS,
    STAYS,
    TAKES,
    TOPIC,
)
from penstock.guardian.plan.machine_code import inner
from penstock.guardian.plan.model import BYTES, CPU, DISK_READ, DISK_WRITE, NET_IN, NET_OUT, PEAK, Array
from penstock.guardian.plan.rules import (
    BYTES_CAPACITY,
    CORDONED,
    CPU_CAPACITY,
    EXCLUDED,
    FORBIDDERS,
    HOSTS,
    LEADERS_MIN,
    NET_IN_CAPACITY,
    NET_OUT_CAPACITY,
    PINNED,
    RACKS,
    RATE_CAPACITY,
    REPLICAS_MAX,
    SAME_BROKER,
)
from penstock.guardian.plan.score import is_leader, topic_of
from penstock.guardian.plan.state import State

ON_BROKER, ON_HOST, ON_RACK, OVER_CPU, OVER_IN, OVER_OUT, OVER_RATE, OVER_BYTES, OVER_COUNT, TAKES_NONE, OFF_PIN = (
    1 << FORBIDDERS.index(rule)
    for rule in (
        *(SAME_BROKER, HOSTS, RACKS, CPU_CAPACITY, NET_IN_CAPACITY, NET_OUT_CAPACITY, RATE_CAPACITY, BYTES_CAPACITY),
        *(REPLICAS_MAX, CORDONED, PINNED),
    )
)
MAY_NOT_MOVE, FEW_LEADERS = 1 << FORBIDDERS.index(EXCLUDED), 1 << FORBIDDERS.index(LEADERS_MIN)
NO_ROOM = OVER_CPU | OVER_IN | OVER_OUT | OVER_RATE | OVER_BYTES | OVER_COUNT
"""What a swap may make room for."""


@inner
def exceeds(peak: float, more: float, limit: float) -> bool:
    """Whether something more would be above a limit. What brings nothing may always come."""
    return more > 0.0 and peak + more > limit


@inner
def spread_after(s: State, r: int, b: int, domain: int) -> int:
    """In how many racks or hosts the partition of r is if r is on broker b."""
    start, end = s.partitions[s.replicas[r, PARTITION], FIRST], s.partitions[s.replicas[r, PARTITION], END]
    found = 0
    for q in range(start, end):
        mine = s.brokers[b if q == r else s.replicas[q, BROKER], domain]
        seen = False
        for earlier in range(start, q):
            other = s.brokers[b if earlier == r else s.replicas[earlier, BROKER], domain]
            seen = seen or other == mine
        if not seen:
            found += 1
    return found


@inner
def narrows(s: State, r: int, b: int, domain: int, wanted: int) -> bool:
    """Whether the partition of r would be in fewer racks or hosts, and in fewer than it is to be."""
    if s.brokers[s.replicas[r, BROKER], domain] == s.brokers[b, domain]:
        return False
    after = spread_after(s, r, b, domain)
    if after >= s.partitions[s.replicas[r, PARTITION], wanted]:
        return False
    return after < spread_after(s, r, s.replicas[r, BROKER], domain)


@inner
def broker_forbids(s: State, r: int, b: int, load: Array) -> int:
    """The rules against replica r on broker b, whichever its disk there: a mask, 0 for none. `load` comes with it."""
    mask = 0
    p = s.replicas[r, PARTITION]
    if not s.brokers[b, TAKES]:
        mask |= TAKES_NONE
    if not may_leave(s, r):
        mask |= MAY_NOT_MOVE
    if not s.pins[pin_of(s, p), b]:
        mask |= OFF_PIN
    for q in range(s.partitions[p, FIRST], s.partitions[p, END]):
        if q != r and s.replicas[q, BROKER] == b:
            mask |= ON_BROKER
    if narrows(s, r, b, RACK, RACKS_WANTED):
        mask |= ON_RACK
    if narrows(s, r, b, HOST, HOSTS_WANTED):
        mask |= ON_HOST
    if s.brokers[b, HELD] >= s.brokers[b, HELD_MAX]:
        mask |= OVER_COUNT
    if loses_leader(s, r):
        mask |= FEW_LEADERS
    return mask | broker_overflows(s, b, load)


@inner
def broker_overflows(s: State, b: int, load: Array) -> int:
    """The capacities of a broker that a load would exceed."""
    mask = 0
    if exceeds(s.broker_loads[b, AT_PEAK], load[PEAK + CPU], s.broker_loads[b, LIMIT]):
        mask |= OVER_CPU
    if exceeds(s.broker_loads[b, AT_PEAK + 1], load[PEAK + NET_IN], s.broker_loads[b, LIMIT + 1]):
        mask |= OVER_IN
    if exceeds(s.broker_loads[b, AT_PEAK + 2], load[PEAK + NET_OUT], s.broker_loads[b, LIMIT + 2]):
        mask |= OVER_OUT
    return mask


@inner
def disk_overflows(s: State, d: int, load: Array) -> int:
    """The capacities of a disk that a load would exceed."""
    mask, row = 0, s.disk_loads[d]
    if exceeds(row[DISK_AT_PEAK], load[PEAK + BYTES], row[DISK_LIMIT]):
        mask |= OVER_BYTES
    if exceeds(row[DISK_AT_PEAK + 1], load[PEAK + DISK_WRITE] + load[PEAK + DISK_READ], row[DISK_LIMIT + 1]):
        mask |= OVER_RATE
    return mask


@inner
def disk_forbids(s: State, d: int, load: Array) -> int:
    """The rules against a load on a disk: a mask, 0 for none."""
    mask = disk_overflows(s, d, load)
    return mask if s.disks[d, DISK_TAKES] else mask | TAKES_NONE


@inner
def loses_leader(s: State, r: int) -> bool:
    """Whether the broker of r would have too few leaders of a named topic without r."""
    row = s.topics[topic_of(s, r), NAMED]
    if row < 0 or is_leader(s, r) == 0.0 or s.replicas[r, LEAVES]:
        return False
    return s.leader_counts[row, s.replicas[r, BROKER]] <= s.leaders_min[row]


@inner
def lead_forbids(s: State, p: int, r: int) -> int:
    """The rules against replica r as the leader of p, which it does not lead yet: a mask, 0 for none."""
    mask, old = 0, s.partitions[p, LEADER]
    b = s.replicas[r, BROKER]
    if not s.brokers[b, MAY_LEAD] or s.replicas[r, LEAVES] or not may_change(s, old):
        mask |= MAY_NOT_MOVE
    if loses_leader(s, old):
        mask |= FEW_LEADERS
    more = s.scratch[0]
    more[:] = s.leading[r] - s.following[r]
    return mask | broker_overflows(s, b, more) | disk_overflows(s, s.replicas[r, DISK], more)


@inner
def pin_of(s: State, p: int) -> int:
    """The row of brokers on which a partition may be."""
    return s.topics[s.partitions[p, TOPIC], PIN]


@inner
def may_leave(s: State, r: int) -> bool:
    """Whether a replica may go to another disk or broker at all."""
    return may_change(s, r) and s.replicas[r, RESTS] == 0


@inner
def may_change(s: State, r: int) -> bool:
    """Whether a replica may be touched at all."""
    return s.partitions[s.replicas[r, PARTITION], FREE] != 0 and s.brokers[s.replicas[r, BROKER], STAYS] == 0


@inner
def permitted(s: State, r: int, b: int, load: Array) -> bool:
    """`broker_forbids` is 0, found out as early as possible."""
    p = s.replicas[r, PARTITION]
    if not s.brokers[b, TAKES] or s.brokers[b, HELD] >= s.brokers[b, HELD_MAX] or not s.pins[pin_of(s, p), b]:
        return False
    for q in range(s.partitions[p, FIRST], s.partitions[p, END]):
        if s.replicas[q, BROKER] == b:
            return False
    return broker_forbids(s, r, b, load) == 0
