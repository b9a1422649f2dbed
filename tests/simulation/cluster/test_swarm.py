"""What is drawn for a swarm: all of it comes up, and small limits last as long as the run."""

from __future__ import annotations

from penstock.node import committed, limits
from simulator.cluster.scenarios import SCENARIOS, STORM
from simulator.cluster.swarm import STEPS, drawn, small_limits
from simulator.cluster.world import ClusterWorld
from simulator.world.machine import Machine

SWARM = SCENARIOS["swarm"]
SNAPSHOTS = "metadata_log_max_record_bytes_between_snapshots"


def test_everything_is_drawn_in_some_seeds_and_left_out_in_others() -> None:
    seeds = [drawn(SWARM, seed) for seed in range(100)]
    assert {kind for each in seeds for kind in each.kinds} == set(STORM)
    assert all(len(set(each.kinds)) < len(set(STORM)) for each in seeds)
    assert 20 < sum(bool(each.limits) for each in seeds) < 50
    assert 30 < sum(SNAPSHOTS in each.settings for each in seeds) < 80
    assert 5 < sum("retention.bytes" in each.topic_configs for each in seeds) < 40
    assert {each.controllers for each in seeds} == {0, 1, 3}
    assert {each.reboots for each in seeds} == {False, True}
    assert drawn(SWARM, 7) == drawn(SWARM, 7)


def test_small_limits_hold_in_every_module_until_the_run_is_over() -> None:
    before = limits.METADATA_RECORDS_PER_STEP
    with small_limits(dict.fromkeys(STEPS, 2)):
        assert (limits.METADATA_RECORDS_PER_STEP, committed.METADATA_RECORDS_PER_STEP) == (2, 2)
    assert (before, before) == (limits.METADATA_RECORDS_PER_STEP, committed.METADATA_RECORDS_PER_STEP)


def count(machine: Machine, folder: str, ending: str) -> int:
    names = [path for disk in machine.disks for path in disk.paths()]
    return sum(path.startswith(folder) and path.endswith(ending) for path in names)


def test_a_swarm_has_snapshots_and_segments() -> None:
    seed = next(
        seed
        for seed in range(1, 100)
        if drawn(SWARM, seed).topic_configs == {"segment.index.bytes": "24"}
        and SNAPSHOTS in drawn(SWARM, seed).settings
    )
    world = ClusterWorld(seed, SWARM)
    world.run()
    assert sum(count(each, "__cluster_metadata-0", ".checkpoint") for each in world.machines) > len(world.machines)
    assert sum(count(each, "orders-", ".log") for each in world.machines) > 2 * len(world.machines)
