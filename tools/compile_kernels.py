"""Has numba compile the planner's loops, so that they are in its cache before tests run in several processes.

Each process would compile them by itself otherwise, for most of a minute, within the time limit of its first test.
"""

from __future__ import annotations

from support.skewed_models import Shape, skewed
from support.small_models import model_of

from penstock.guardian.plan.document import plan
from penstock.guardian.plan.rules import Rules
from penstock.guardian.twin.simulation import Settings, simulate


def main() -> None:
    """Makes a plan of a model that is searched completely and of others that are not, and looks what one would do."""
    plan(model_of([((0, 1), 10), ((0, 1), 10), ((0, 2), 10)], racks=[0, 0, 0], disks=2), Rules(racks=False), 1)
    plan(skewed(Shape(21, 2000, disks=2, topics=20)), Rules(), 1)
    model = skewed(Shape(7, 60, disks=2, racks=3, topics=3))
    simulate(model, plan(model, Rules(), 1), Settings())


if __name__ == "__main__":
    main()
