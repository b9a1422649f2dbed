"""Keeps a lake table small and quick while loads go on: compaction, expiry of old versions, vacuum.

Every step leaves the table's rows and its pipelines' progress as they are, so `penstock verify` says the same before
and after. What a running job has written and not committed yet looks like an orphan; only its age tells, so nothing is
deleted that is younger than `keep_hours`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from penstock.spark.lake.certificates import Certificates
from penstock.spark.lake.clustering import Cluster
from penstock.spark.lake.steps import Figures, Steps
from penstock.spark.lake.table import LakeTable, reading

KEEP_HOURS_MIN = 24
"""Longer than a job, with a margin for clocks that differ."""


class Maintenance:
    """One run over a table. A step's figures tell what it did, or with `dry_run` would do.

    `cluster`: how compaction sorts the rows of a file; None: as the table says, else as they came.
    Raises ConfigError if the table's rows cannot be sorted so.
    """

    def __init__(
        self,
        lake: LakeTable,
        *,
        target_bytes: int,
        keep_hours: float,
        dry_run: bool = False,
        cluster: Cluster | None = None,
    ) -> None:
        self._cluster = Cluster.parse(lake.cluster_by) if cluster is None else cluster
        if self._cluster is not None:
            self._cluster.check(lake.columns, lake.partition_by)
        self._lake = lake
        self._target_bytes = target_bytes
        self._keep_hours = keep_hours
        self._dry_run = dry_run
        self._steps = steps_of(lake)

    def run(self, steps: Sequence[str] = ("compact", "expire", "vacuum")) -> dict[str, Figures]:
        """Runs the steps in this order; returns each one's figures."""
        doing: dict[str, Callable[[], Figures]] = {
            "compact": lambda: self._steps.compact(self._target_bytes, self._dry_run, self._cluster),
            "expire": lambda: self._steps.expire(self._keep_hours, self._dry_run),
            "vacuum": lambda: self._steps.vacuum(self._keep_hours, self._dry_run) | self._forget_erased(),
        }
        done: dict[str, Figures] = {}
        for name in steps:
            began = time.perf_counter()
            with reading(self._lake):
                figures = doing[name]()
            done[name] = figures | {"seconds": f"{time.perf_counter() - began:.1f}"}
        return done

    def _forget_erased(self) -> Figures:
        """Deletes the files that hold rows which were erased, once their deadline has passed, whatever `keep_hours`.

        A certificate is closed when they all are gone; of an erasure without an end, which may still be running and
        writing it, not before a day has passed.
        """
        certificates = Certificates(self._lake.destination())
        now_ms = int(time.time() * 1000)
        deleted: set[str] = set()
        left: set[str] = set()
        for each in certificates.all():
            if each.old_files_deleted_ms is not None or each.deadline_ms > now_ms or not each.old_files:
                continue
            named = self._steps.forget(each.old_files, each.ended_ms or now_ms, self._dry_run)
            deleted.update(path for path in each.old_files if path not in named)
            left.update(named)
            over = each.ended_ms is not None or each.began_ms < now_ms - KEEP_HOURS_MIN * 3_600_000
            if over and not named and not self._dry_run:
                with suppress(FileExistsError):  # another run over the table closed it
                    certificates.write(replace(each, old_files_deleted_ms=now_ms))
        figures: Figures = {"erased_files": len(deleted), "erased_files_still_named": len(left)}
        return {name: count for name, count in figures.items() if count}


def steps_of(lake: LakeTable) -> Steps:
    """The steps of a table's format."""
    from penstock.spark.lake.delta import DeltaLake

    if isinstance(lake, DeltaLake):
        from penstock.spark.lake.delta_maintenance import DeltaSteps

        return DeltaSteps(lake)
    from penstock.spark.lake.iceberg import IcebergLake
    from penstock.spark.lake.iceberg_maintenance import IcebergSteps

    assert isinstance(lake, IcebergLake)
    return IcebergSteps(lake)
