"""What a plan leaves broken, each with the rules that stand against mending it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from penstock.guardian.limits import PLAN_CONFLICTS_MAX
from penstock.guardian.plan.columns import (
    AT_PEAK,
    BROKER,
    BROKER_PEAKS,
    DISK,
    DISK_AT_PEAK,
    DISK_LIMIT,
    DISK_PEAKS,
    HELD,
    HELD_MAX,
    HOST,
    LEADER,
    LIMIT,
    MAY_LEAD,
    RACK,
    SCALE,
)
from penstock.guardian.plan.conflicts import Conflicts
from penstock.guardian.plan.model import PEAK, Array, Model, place_text
from penstock.guardian.plan.planner import Search
from penstock.guardian.plan.rules import (
    ALIVE,
    BYTES_CAPACITY,
    CPU_CAPACITY,
    DRAINED,
    HOSTS,
    LEADERS_MIN,
    NET_IN_CAPACITY,
    NET_OUT_CAPACITY,
    NO_COPY,
    PINNED,
    RACKS,
    RATE_CAPACITY,
    REPLICAS_MAX,
    Rules,
)

BROKER_RULES = (CPU_CAPACITY, NET_IN_CAPACITY, NET_OUT_CAPACITY)
DISK_RULES = (BYTES_CAPACITY, RATE_CAPACITY)


@dataclass(frozen=True, slots=True)
class Unmet:
    """A rule that is broken after a plan.

    Attributes:
        rule: its name. place: what it is broken for: `topic-3`, `broker 4`, `broker 4, /data`.
        text: a sentence. conflict: the smallest set of rules that stand against mending it, this one among them; none
            where there is a way that the search has not found.
    """

    rule: str
    place: str
    text: str
    conflict: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return {"rule": self.rule, "place": self.place, "text": self.text, "conflict": list(self.conflict)}


Finding = tuple[Unmet, Callable[[], tuple[str, ...]]]
"""What is broken, and how to find the rules against mending it."""


def unmet_of(model: Model, rules: Rules, search: Search) -> list[Unmet]:
    """All that is broken, the conflicts of the first few worked out."""
    conflicts = Conflicts(model, rules, search.state)
    found: list[Unmet] = []
    for unmet, why in everything(model, rules, search, conflicts):
        conflict = why() if len(found) < PLAN_CONFLICTS_MAX else ()
        found.append(replace(unmet, conflict=tuple(dict.fromkeys((unmet.rule, *conflict))) if conflict else ()))
    return found


def everything(model: Model, rules: Rules, search: Search, conflicts: Conflicts) -> Iterator[Finding]:
    """Each broken rule, and how to find what stands against mending it."""
    for r in search.stuck:
        yield stuck(model, rules, search, int(r)), partial(against, model, conflicts, int(r))
    for rule, partitions, domain in ((RACKS, search.narrow, RACK), (HOSTS, search.crowded, HOST)):
        for p in partitions:
            yield (
                Unmet(rule, partition_text(model, p), f"{partition_text(model, p)} is spread over too few {rule}"),
                partial(widest, model, conflicts, int(p), domain),
            )
    yield from overfull(model, search, conflicts)
    yield from short_of_leaders(model, rules, search, conflicts)


def partition_text(model: Model, p: int) -> str:
    return f"{model.topics[model.topic[p]]}-{model.number[p]}"


def stuck(model: Model, rules: Rules, search: Search, r: int) -> Unmet:
    """A replica that should have left and could not."""
    b, d = search.state.replicas[r, BROKER], search.state.replicas[r, DISK]
    dead = not model.brokers.alive[b] or not model.disks.alive[d]
    broker_id = int(model.brokers.ids[b])
    rule = ALIVE if dead else DRAINED if broker_id in rules.drained else PINNED
    name = f"{partition_text(model, model.partition[r])} on {place_text(model, d)}"
    why = {ALIVE: "which is dead", DRAINED: "which is drained", PINNED: "to which it is not pinned"}[rule]
    return Unmet(rule, name, f"{name}, {why}, finds no other place")


def against(model: Model, conflicts: Conflicts, r: int) -> tuple[str, ...]:
    mine = slice(*model.first[model.partition[r] : model.partition[r] + 2])
    living = model.disks.alive[model.disk[mine]] & model.brokers.alive[model.broker[mine]]
    return conflicts.for_replica(r) if living.any() else (NO_COPY,)


def widest(model: Model, conflicts: Conflicts, p: int, domain: int) -> tuple[str, ...]:
    """The fewest rules that keep a partition from being in one more rack or host."""
    each = [conflicts.for_replica(r, domain) for r in range(model.first[p], model.first[p + 1])]
    return min((rules for rules in each if rules), key=len, default=())


def overfull(model: Model, search: Search, conflicts: Conflicts) -> Iterator[Finding]:
    """Brokers and disks above a capacity, and brokers with too many replicas."""
    state = search.state
    over = state.broker_loads[:, AT_PEAK:LIMIT] > room(state.broker_loads[:, LIMIT:SCALE])
    for b, k in zip(*np.nonzero(over), strict=True):
        name = f"broker {model.brokers.ids[b]}"
        used = state.broker_loads[b, AT_PEAK + k] / state.broker_loads[b, LIMIT + k]
        load = state.leading[:, PEAK + BROKER_PEAKS[k]]
        yield (
            Unmet(BROKER_RULES[k], name, f"{name} has {used:.2f} of what {BROKER_RULES[k]} allows"),
            partial(heaviest, conflicts, np.flatnonzero(state.replicas[:, BROKER] == b), load),
        )
    over = state.disk_loads[:, DISK_AT_PEAK:DISK_LIMIT] > room(
        state.disk_loads[:, DISK_LIMIT : DISK_LIMIT + DISK_PEAKS]
    )
    for d, k in zip(*np.nonzero(over), strict=True):
        name = place_text(model, d)
        used = state.disk_loads[d, DISK_AT_PEAK + k] / state.disk_loads[d, DISK_LIMIT + k]
        yield (
            Unmet(DISK_RULES[k], name, f"{name} has {used:.2f} of what {DISK_RULES[k]} allows"),
            partial(heaviest, conflicts, np.flatnonzero(state.replicas[:, DISK] == d), state.price),
        )
    for b in np.flatnonzero(state.brokers[:, HELD] > state.brokers[:, HELD_MAX]):
        name = f"broker {model.brokers.ids[b]}"
        text = f"{name} has {state.brokers[b, HELD]} replicas, {state.brokers[b, HELD_MAX]} are allowed"
        yield (
            Unmet(REPLICAS_MAX, name, text),
            partial(heaviest, conflicts, np.flatnonzero(state.replicas[:, BROKER] == b), -state.price),
        )


def room(limits: Array) -> Array:
    """The limits with what rounding may add."""
    result: Array = limits * (1 + 1e-9) + 1e-9
    return result


def heaviest(conflicts: Conflicts, replicas: Array, load: Array) -> tuple[str, ...]:
    """What keeps replicas where they are, the heaviest looked at first."""
    return conflicts.for_load(replicas[np.argsort(-load[replicas], kind="stable")])


def short_of_leaders(model: Model, rules: Rules, search: Search, conflicts: Conflicts) -> Iterator[Finding]:
    """Brokers that lead too few partitions of a named topic: there are too few, or rules are against all of them."""
    may_lead = search.state.brokers[:, MAY_LEAD] > 0
    for row, (topic, least) in enumerate(rules.leaders_per_broker_min.items()):
        mine = np.flatnonzero(model.topic == model.topics.index(topic))
        counts = search.state.leader_counts[row]
        for b in np.flatnonzero(may_lead & (counts < least)):
            name = f"broker {model.brokers.ids[b]}"
            text = f"{name} leads {counts[b]} of {topic}, it is to lead {least} at least"
            if len(mine) < least * int(may_lead.sum()):
                yield Unmet(LEADERS_MIN, f"{topic} on {name}", text), lambda: (LEADERS_MIN,)
            else:
                leaders = search.state.partitions[mine, LEADER]
                why = partial(conflicts.for_leaders, int(b), leaders)
                yield Unmet(LEADERS_MIN, f"{topic} on {name}", text), why
