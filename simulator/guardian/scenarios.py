"""The scenarios of Guardian, by name."""

from __future__ import annotations

from typing import NamedTuple


class GuardianScenario(NamedTuple):
    """What a seed of the name runs: `doc` says it, for the page about the simulator."""

    name: str
    doc: str


GUARDIAN_SCENARIOS = {
    each.name: each
    for each in (
        GuardianScenario(
            "guardian",
            "admins register, change and remove clusters, and ask again, of any node and under the same id, until they "
            "are answered. Every fourth seed aims at moments in which two nodes might act: an answer is lost, or a "
            "pre-vote is late, while a node wavers between two leaders",
        ),
        GuardianScenario(
            "governed",
            "plans are carried out on two clusters of three brokers, which die, stand still and are cut off, too, "
            "under producers that want all replicas in sync. Now and then a plan is paused, bounded or cancelled",
        ),
    )
}
