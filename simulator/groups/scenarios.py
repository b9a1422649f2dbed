"""The scenarios of simulated groups: a cluster with its faults, the groups, and what befalls their members."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.cluster import faults as cluster_faults
from simulator.cluster.clocks import MARKERS_STAY_MS
from simulator.cluster.scenarios import CRASHES, DISKS, NETWORK, Scenario
from simulator.groups import faults
from simulator.groups.churn import CLASSIC, CONSUMER

PURE = ((CLASSIC,), (CONSUMER,))


@dataclass(frozen=True)
class GroupScenario(Scenario):
    """One scenario.

    Attributes:
        protocols: of the groups, one group each: the protocols of its members.
        sizes: how many members a group has. churn_interval_ms: bounds of the time until something happens to a member.
        cleaned: the log of the groups is compacted all the time, by each of its replicas for itself.
        assignment_step: members beyond which a group is assigned in steps; None: as usual.
    """

    admins: int = 1
    protocols: tuple[tuple[str, ...], ...] = PURE
    sizes: tuple[int, ...] = (2, 3, 4)
    churn_interval_ms: tuple[int, int] = (200, 1_500)
    load_ms: int = 10_000
    assignment_step: int | None = None
    cleaned: bool = False


COORDINATOR = (faults.coordinator_killed, faults.coordinator_killed, faults.coordinator_stopped)

CLEANED = {
    "log_roll_ms": 300,
    "log_initial_task_delay_ms": 0,
    "log_cleaner_backoff_ms": 100,
    "log_cleaner_min_cleanable_ratio": 0.01,
    "log_cleaner_delete_retention_ms": MARKERS_STAY_MS,
    "log_segment_delete_delay_ms": 500,
}
"""Segments end after a fraction of a second, and the cleaner has something to do all the time. Delete markers outlive
every replica that is away."""

GROUP_SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        GroupScenario("groups-calm", "members come and go; the cluster is well", nodes=(3,), load_ms=8_000),
        GroupScenario(
            "groups",
            "brokers that coordinate groups die and stop, members come and go",
            kinds=COORDINATOR,
            at_once_max=1,
        ),
        GroupScenario(
            "groups-zombies",
            "coordinators stand still and are cut off, and so do members",
            kinds=(
                *(faults.coordinator_paused, faults.coordinator_paused, faults.coordinator_cut_off),
                *(cluster_faults.broken_connections, cluster_faults.partition),
            ),
            session_ms=(3_000,),
        ),
        GroupScenario(
            "groups-migration",
            "members of both protocols in one group, which goes from one to the other and back",
            kinds=COORDINATOR,
            at_once_max=1,
            protocols=((CLASSIC, CONSUMER), (CLASSIC, CLASSIC, CLASSIC, CONSUMER)),
        ),
        GroupScenario(
            "groups-large",
            "groups are assigned in steps; coordinators die, stand still and are cut off between them",
            kinds=(*COORDINATOR, faults.coordinator_paused, faults.coordinator_cut_off),
            at_once_max=1,
            protocols=((CONSUMER,), (CONSUMER,)),
            sizes=(4, 5, 6),
            churn_interval_ms=(100, 1_000),
            assignment_step=1,
        ),
        GroupScenario(
            "groups-cleaned",
            "the log of the groups is compacted all the time, while coordinators die and stop and machines lose power",
            kinds=(*COORDINATOR, cluster_faults.kill, cluster_faults.power_loss),
            durable=True,
            at_once_max=1,
            churn_interval_ms=(200, 800),
            load_ms=5_000,
            settings=CLEANED,
            cleaned=True,
        ),
        GroupScenario(
            "groups-storm",
            "everything at once",
            kinds=(
                *COORDINATOR,
                *(faults.coordinator_paused, faults.coordinator_cut_off),
                *NETWORK,
                *CRASHES,
                *DISKS,
                *(cluster_faults.power_loss, cluster_faults.silent_connections, cluster_faults.write_fails),
            ),
            at_once_max=3,
            durable=True,
        ),
    )
}
