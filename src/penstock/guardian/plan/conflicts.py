"""Why something that a rule demands cannot be: the smallest set of rules that together forbid it.

For each place where a replica might go, the search knows the rules against it, as a mask. A set of rules is in conflict
with the demand if each place is forbidden by one of them at least; the smallest such set is named, so that a person
sees what to change. It is the smallest given where everything else is after the plan: whether moving ten others would
make room is not looked at here (the search has tried).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from penstock.guardian.limits import PLAN_CONFLICT_REPLICAS_MAX
from penstock.guardian.plan.columns import BROKER, END_DISK, FIRST_DISK, FREE, PARTITION, RESTS
from penstock.guardian.plan.machine_code import compiled
from penstock.guardian.plan.model import Array, Model
from penstock.guardian.plan.permits import TAKES_NONE, broker_forbids, disk_forbids
from penstock.guardian.plan.rules import ALIVE, CORDONED, DRAINED, EXCLUDED, FORBIDDERS, IN_FLIGHT, MOVED, POLICY, Rules
from penstock.guardian.plan.score import load_of
from penstock.guardian.plan.state import State

BITS = {rule: 1 << number for number, rule in enumerate(FORBIDDERS)}


@compiled
def masks_of(s: State, r: int) -> Array:
    """By disk, the rules against replica r there. Its own broker has all of them."""
    found = np.empty(len(s.disks), np.int64)
    load = load_of(s, r)
    for b in range(len(s.brokers)):
        of_broker = -1 if s.replicas[r, BROKER] == b else broker_forbids(s, r, b, load)
        for d in range(s.brokers[b, FIRST_DISK], s.brokers[b, END_DISK]):
            found[d] = of_broker if of_broker < 0 else of_broker | disk_forbids(s, d, load)
    return found


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Finds the rules in conflict for what a search has left undone."""

    model: Model
    rules: Rules
    state: State

    def for_replica(self, r: int, wider: int | None = None) -> tuple[str, ...]:
        """The smallest set of rules that keep replica r from every place; none if there is a place.

        `wider`: RACK or HOST, if only places count where none of the partition is yet.
        """
        return smallest(self.places(r, wider))

    def for_load(self, replicas: Array) -> tuple[str, ...]:
        """The smallest set of rules that keep all of these replicas from every place."""
        found: set[int] = set()
        for r in replicas[:PLAN_CONFLICT_REPLICAS_MAX]:
            found |= self.places(int(r), None)
        return smallest(found)

    def for_leaders(self, b: int, replicas: Array) -> tuple[str, ...]:
        """The smallest set of rules that keep these leaders from broker b."""
        found: set[int] = set()
        for r in replicas[:PLAN_CONFLICT_REPLICAS_MAX]:
            first, last = self.model.disks.first[b], self.model.disks.first[b + 1]
            found |= {self.named(int(r), d, mask) for d, mask in self.masks(int(r)) if first <= d < last}
        return smallest(found)

    def places(self, r: int, wider: int | None) -> set[int]:
        """The different masks of all places for a replica."""
        state = self.state
        taken = set()
        if wider is not None:
            p = state.replicas[r, PARTITION]
            mine = state.replicas[self.model.first[p] : self.model.first[p + 1], BROKER]
            taken = {int(each) for each in state.brokers[mine, wider]}
        of_disk = self.model.disks.broker
        return {
            self.named(r, d, mask)
            for d, mask in self.masks(r)
            if wider is None or int(state.brokers[of_disk[d], wider]) not in taken
        }

    def masks(self, r: int) -> Iterable[tuple[int, int]]:
        """Disks of other brokers with the rules against replica r there."""
        return ((d, int(mask)) for d, mask in enumerate(masks_of(self.state, r)) if mask >= 0)

    def named(self, r: int, d: int, mask: int) -> int:
        """The mask with the rule that stands behind a place that takes nothing, or a replica that may not move."""
        brokers, disks = self.model.brokers, self.model.disks
        b = disks.broker[d]
        if mask & TAKES_NONE:
            mask &= ~TAKES_NONE
            broker_id = int(brokers.ids[b])
            if not brokers.alive[b] or not disks.alive[d]:
                mask |= BITS[ALIVE]
            mask |= BITS[DRAINED] * (broker_id in self.rules.drained)
            mask |= BITS[CORDONED] * (broker_id in self.rules.cordoned)
            mask |= BITS[EXCLUDED] * (broker_id in self.rules.excluded_brokers)
        if mask & BITS[EXCLUDED] and not self.state.partitions[self.state.replicas[r, PARTITION], FREE]:
            p = self.state.replicas[r, PARTITION]
            topic, number = self.model.topics[self.model.topic[p]], int(self.model.number[p])
            if any((each.topic, each.partition) == (topic, number) for each in self.rules.kept):
                mask = mask & ~BITS[EXCLUDED] | BITS[POLICY]
            elif topic not in self.rules.excluded_topics:
                mask = mask & ~BITS[EXCLUDED] | BITS[IN_FLIGHT]
        elif mask & BITS[EXCLUDED] and self.state.replicas[r, RESTS]:
            mask = mask & ~BITS[EXCLUDED] | BITS[MOVED]
        return mask


def smallest(masks: set[int]) -> tuple[str, ...]:
    """The smallest set of rules of which each mask has one; none if a mask has no rule. Of equal sets, the first."""
    if not masks or 0 in masks:
        return ()
    bits = [bit for bit in BITS.values() if any(mask & bit for mask in masks)]
    for size in range(1, len(bits) + 1):
        for chosen in combinations(bits, size):
            if all(mask & sum(chosen) for mask in masks):
                return tuple(rule for rule, bit in BITS.items() if bit & sum(chosen))
    return ()
