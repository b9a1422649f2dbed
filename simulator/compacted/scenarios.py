"""The scenarios of clusters with compacted topics."""

from __future__ import annotations

from simulator.cluster import faults
from simulator.cluster.scenarios import Scenario

CLEANED = {
    "log_initial_task_delay_ms": 0,
    "log_cleaner_backoff_ms": 100,
    "log_segment_delete_delay_ms": 500,
    "log_retention_check_interval_ms": 700,
}
"""The cleaner has something to do all the time, and old files go soon."""

COMPACTED_SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "compacted",
            "topics of keys are compacted all the time, by each replica for itself, while partitions move between"
            " brokers, and these die, lose power, stand still and are cut off; disks are cold, full and slow",
            nodes=(3, 4),
            kinds=(
                *2 * (faults.power_loss, faults.torn_write, faults.torn_write, faults.kill),
                *(faults.pause, faults.isolation, faults.slow_link, faults.cold_disk, faults.cold_disk),
                *(faults.disk_full, faults.power_loss_of_all),
            ),
            durable=True,
            load_ms=8_000,
            admins=1,
            moves=True,
            settings=CLEANED,
            limits={"CLEANING_AGAIN_MS": 1_000},
            stall_probability=0.02,
        ),
        Scenario(
            "compacted-moves",
            "the same topics, whose replicas move between the log directories of their brokers: closed segments,"
            " cleaned ones too, are copied as files; brokers and machines die on the way",
            nodes=(3,),
            kinds=(
                *2 * (faults.power_loss, faults.torn_write, faults.kill),
                *(faults.stop, faults.isolation, faults.cold_disk, faults.fsync_fails),
            ),
            durable=True,
            load_ms=8_000,
            admins=1,
            disks=(2, 3),
            directory_moves=True,
            settings=CLEANED,
            limits={"CLEANING_AGAIN_MS": 1_000, "MOVE_FILES_MIN_BYTES": 600, "MOVE_READ_BYTES": 700},
            stall_probability=0.01,
        ),
    )
}
