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
            "three nodes of Guardian whose leader is killed, stands still, is cut off and gets a wrong clock, while "
            "clusters are registered and changed. Every fourth seed aims at moments in which two nodes might act: an "
            "answer is lost, or a pre-vote is late, while a node wavers between two leaders",
        ),
        GuardianScenario(
            "governed",
            "the same three nodes carry out plans on two clusters of three brokers, which die, stand still and are cut "
            "off, too, under producers that want all replicas in sync",
        ),
    )
}
