"""How the partitions of a consumer group are divided among its members: pure functions of a `GroupSpec`.

An assignor gets who subscribes to what and who has what, and returns what each member should have. The results are
those of Apache Kafka's assignors of the same name, given the same order of members and topics; ours is the order of
their ids, so that a coordinator which takes over computes the same.

- `range` gives neighbouring partitions, the same numbers of each topic to the same member where that is possible.
- `uniform` balances the number of partitions and moves as few as possible. It does not look at racks, and neither does
  Kafka's since 4.0.

They work in steps, so that a large group keeps nobody waiting: `assign` goes through all of them at once.
Source: KIP-848, section "Assignors"; RangeAssignor and UniformAssignor of Apache Kafka 4.3.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from penstock.coordinator.group.assignors.range import assign_ranges
from penstock.coordinator.group.assignors.spec import GroupSpec, Pace, Partitions, Steps, at_once
from penstock.coordinator.group.assignors.uniform import assign_uniformly

Assignor = Callable[[GroupSpec, Pace], Steps[Mapping[str, Partitions]]]
"""Gives the partitions of each member; a member that is missing from the result gets none."""

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the name that members ask for."""


def assign(assignor: str, spec: GroupSpec) -> Mapping[str, Partitions]:
    """Computes the assignment of each member in one step."""
    return at_once(ASSIGNORS[assignor](spec, Pace(sys.maxsize)))


def preferred_assignor(choice: Sequence[str], counts: Mapping[str, int]) -> str:
    """The assignor that most members ask for, of those that the broker has; of equals, or if none does, its first."""
    wanted = [name for name in choice if counts.get(name)]
    return max(wanted, key=lambda name: counts[name], default=choice[0])


__all__ = ["ASSIGNORS", "Assignor", "GroupSpec", "Pace", "Partitions", "Steps", "assign", "preferred_assignor"]
