"""The scenarios of clusters with client quotas."""

from __future__ import annotations

from simulator.cluster import faults
from simulator.cluster.scenarios import CONTROLLER, Scenario

KINDS = (*CONTROLLER, faults.kill, faults.pause, faults.isolation, faults.broken_connections)
CHECKPOINTS = {"metadata_log_max_record_bytes_between_snapshots": 2_000}

QUOTA_SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "quotas",
            "clients exceed their quotas of all kinds, and an admin changes quotas through any broker; nodes die, "
            "stand still and are cut off, the active controller more often than others; checkpoints are written often",
            nodes=(3, 3, 4),
            kinds=KINDS,
            durable=True,
            load_ms=8_000,
            admins=1,
            settings=CHECKPOINTS,
        ),
        Scenario(
            "quotas-roles",
            "the same, where controllers are processes of their own, and count what brokers forward to them",
            nodes=(2, 3),
            controllers=3,
            kinds=KINDS,
            durable=True,
            load_ms=6_000,
            admins=1,
            settings=CHECKPOINTS,
        ),
    )
}
