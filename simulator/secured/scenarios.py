"""The scenarios of secured clusters."""

from __future__ import annotations

from simulator.cluster import faults
from simulator.cluster.scenarios import CONTROLLER, Scenario

SECURED_SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "secured",
            "guests log in, do what they may and try what they may not, while an admin changes their rights; nodes die,"
            " stand still and are cut off, the active controller more often than others",
            nodes=(3, 3, 4),
            kinds=(*CONTROLLER, faults.kill, faults.stop, faults.pause, faults.isolation, faults.broken_connections),
            durable=True,
            load_ms=8_000,
            admins=1,
        ),
        Scenario(
            "secured-roles",
            "the same, where controllers are processes of their own, and brokers forward to them what guests ask for",
            nodes=(2, 3),
            controllers=3,
            kinds=(*CONTROLLER, faults.kill, faults.isolation, faults.silent_connections),
            durable=True,
            load_ms=8_000,
            admins=1,
        ),
    )
}
