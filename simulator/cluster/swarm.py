"""Swarm testing: what may happen to a cluster is drawn from the seed, so that no fault hides behind another.

A cluster that suffers everything at once seldom comes far in any one direction. So each seed leaves most faults out,
and weighs the others; it draws how long they last, and settings by which rare things happen all the time: metadata
snapshots after some hundred bytes, segments of a few batches, one controller, long lags and short sessions, disks that
stall, and in a third of the seeds steps of one to three where the code takes hundreds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import penstock.log.limits
import penstock.metadata.limits
import penstock.node.limits
import penstock.replication.limits
from simulator.cluster.chaos_admins import EVERYTHING, SMALL_METADATA_SEGMENT_BYTES, create_too_much
from simulator.cluster.scenarios import BALANCED, STORM, Scenario

SEED = 0x5A12
STEPS = (
    "METADATA_RECORDS_PER_STEP",
    "LEADERSHIP_CHANGES_PER_STEP",
    "FOLLOWERS_OPENED_PER_STEP",
    "LAGGING_PER_STEP",
    "PARTITIONS_PER_STEP",
    "ISR_CHANGES_PER_REQUEST_MAX",
    "DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX",
    "DIRECTORY_ASSIGNMENTS_PER_STEP",
    "FOLLOWED_PER_FETCH_MAX",
    "MOVES_AT_ONCE_MAX",
)
"""Limits of how much is done at once: whatever they are, the rest follows."""
ROOMS = (penstock.log.limits, penstock.metadata.limits, penstock.node.limits, penstock.replication.limits)
REFUSED_SEEDS = 5
"""In each so manyth seed the metadata log refuses what an admin asks for."""
SMALL_METADATA_SEGMENTS = {"internal_metadata_log_segment_bytes": SMALL_METADATA_SEGMENT_BYTES}
DURATIONS_MS = ((50, 1_000), (50, 4_000), (1_000, 9_000))


def drawn(scenario: Scenario, seed: int) -> Scenario:
    """The scenario of a seed, by the same name."""
    random = Random(SEED ^ seed)
    kinds = sorted(set(STORM), key=lambda kind: kind.__name__)
    some = random.sample(kinds, random.randint(1, 5))
    chaos_admins = random.choice((0, 1, 2))
    refuses = seed % REFUSED_SEEDS == 0
    return replace(
        scenario,
        nodes=(random.choice((3, 3, 4, 5)),),
        controllers=random.choice((0, 0, 1, 3)),
        kinds=tuple(kind for kind in some for _ in range(random.randint(1, 3))),
        at_once_max=random.randint(1, 4),
        duration_ms=random.choice(DURATIONS_MS),
        session_ms=(random.choice((3_000, 3_000, 9_000)),),
        durable=True,
        eligible=(random.randrange(2),),
        moves=random.random() < 0.3,
        disks=(random.choice((1, 2, 3)),),
        directory_moves=random.random() < 0.3,
        chaos_admins=1 if refuses else chaos_admins,
        disruptions=(*EVERYTHING, *4 * (create_too_much,)) if refuses else EVERYTHING,
        settings=_settings(random) | (BALANCED if chaos_admins else {}) | (SMALL_METADATA_SEGMENTS if refuses else {}),
        topic_configs=_topic_configs(random),
        limits={name: random.randint(1, 3) for name in STEPS} if random.random() < 0.34 else {},
        stall_probability=random.choice((0.0, 0.0, 0.01, 0.05)),
        reboots=random.random() < 0.5,
    )


def _settings(random: Random) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "replica_lag_time_max_ms": random.choice((800, 1_500, 5_000, 15_000)),
        "log_retention_check_interval_ms": 700,
    }
    if random.random() < 0.6:
        settings["metadata_log_max_record_bytes_between_snapshots"] = random.randint(600, 6_000)
    return settings


def _topic_configs(random: Random) -> dict[str, str]:
    configs = {}
    if random.random() < 0.5:
        configs["segment.index.bytes"] = random.choice(("24", "96", "240"))
        if random.random() < 0.4:
            configs["retention.bytes"] = random.choice(("5000", "20000"))
    return configs


@contextmanager
def small_limits(values: Mapping[str, int]) -> Iterator[None]:
    """Gives limits other values for a while, in every module that has taken them over."""
    changed: list[tuple[Any, str, int]] = []
    for name, value in values.items():
        before = next(getattr(room, name) for room in ROOMS if hasattr(room, name))
        modules = [module for key, module in list(sys.modules.items()) if key.startswith("penstock.")]
        for module in modules:
            if module.__dict__.get(name) == before:
                changed.append((module, name, before))
                setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, before in changed:
            setattr(module, name, before)
