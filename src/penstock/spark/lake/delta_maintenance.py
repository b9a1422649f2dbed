"""Maintenance of a Delta table.

Compaction writes the merged file itself (delta-rs's own would put the newest rows first) and replaces its parts in one
commit that changes no data. An erasure's commit replaces files, too, and writes the summaries of the pipelines whose
rows it takes: a load that commits at the same moment plans again. Of two commits that take away the same file only one
may win, whoever makes them, `OPTIMIZE` of another program included: so both follow on no version but one that was seen
to have the files, and are tried again with the newest. A load only adds files, so no compaction stands in its way.

Expiry writes a checkpoint and removes log entries older than `delta.logRetentionDuration`; it does not need
`keep_hours`, which only concerns data files. Vacuum deletes data files that no version of the kept hours refers to,
and progress summaries that no commit named.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from penstock.errors import PenstockError
from penstock.spark.lake.clustering import Cluster
from penstock.spark.lake.compaction import bins_of, merge
from penstock.spark.lake.delta import COMPACTION, LOG_DIRECTORY, DeltaLake, add_action, remove_action
from penstock.spark.lake.destination import values_in
from penstock.spark.lake.records import DataFile, LakeConflictError
from penstock.spark.lake.steps import Erased, Figures, Steps
from penstock.spark.lake.stores import is_unfinished
from penstock.spark.lake.summaries import Stored, application
from penstock.spark.lake.table import TableFile

COMPACTION_KEY = "penstock.compaction"
ERASURE_KEY = "penstock.erasure"
MARK_KEY = "penstock.mark"
"""By which a commit whose answer was lost is found in the log."""
REPLACE_TRIES = 100
"""A load may commit several times a second, and each commit of it is in the way of these."""


class DeltaSteps(Steps):
    """The steps on one table."""

    def __init__(self, lake: DeltaLake) -> None:
        self._lake = lake

    def compact(self, target_bytes: int, dry_run: bool, cluster: Cluster | None = None) -> Figures:
        bins = bins_of(self._lake.files(), target_bytes)
        merged = lost = 0
        for files in [] if dry_run else bins:
            file = merge(self._lake, files, cluster)
            if self._replace(files, file):
                merged += len(files)
            else:  # the merged file is left to vacuum: no file is deleted that a commit was to name
                lost += len(files)
        if dry_run:
            return {"files_to_merge": sum(map(len, bins)), "into": len(bins)}
        return {"files_merged": merged, "into": len(bins), "left_to_others": lost}

    def _replace(self, files: list[TableFile], merged: DataFile) -> bool:
        """Replaces the parts by the merged file. Returns False if another writer has changed one of them."""
        told = {COMPACTION_KEY: str(len(files))}
        try:
            return self._exchange(files, [merged], told, dict, data_change=False)
        except LakeConflictError:
            return False  # the next maintenance may have more luck

    def replace(self, files: Sequence[TableFile], added: Sequence[DataFile], erased: Erased) -> bool:
        lake = self._lake
        if lake.table.metadata().configuration.get("delta.appendOnly", "false").lower() == "true":
            raise PenstockError(f"the table at {lake.uri} has delta.appendOnly: rows cannot be erased from it")
        pairs: list[tuple[Stored, Stored]] = []

        def numbers() -> dict[str, int]:
            pairs[:] = lake.write_erased(erased.rows)
            return {application(now.summary.pipeline): now.number for _, now in pairs}

        if not self._exchange(files, added, {ERASURE_KEY: erased.id}, numbers, data_change=True):
            return False
        for before, now in pairs:
            with suppress(OSError):  # they stay for vacuum; the commit is done
                lake.summaries.drop_older(before, now)
        return True

    def _exchange(
        self,
        files: Sequence[TableFile],
        added: Sequence[DataFile],
        told: Mapping[str, str],
        numbers: Callable[[], Mapping[str, int]],
        *,
        data_change: bool,
    ) -> bool:
        """Puts files in the place of others in one commit, which follows on a version that was seen to have those.

        delta-rs lets a commit follow on one that took the same files away. So it may not try again by itself: each try
        is one of the table as it is then.

        Args:
            files: those that go.
            added: those that come.
            told: metadata of the commit, for people.
            numbers: makes, for each try, the application transactions that the commit sets.
            data_change: whether the rows are others afterwards.

        Returns False if one of the files is there no longer. Raises LakeConflictError after REPLACE_TRIES.
        """
        lake = self._lake
        wanted = {file.path for file in files}
        mark = uuid.uuid4().hex
        for _ in range(REPLACE_TRIES):
            lake.refresh()
            if not wanted <= {file.path for file in lake.files()}:
                return False
            now_ms = int(time.time() * 1000)
            actions: list[AddAction | RemoveAction] = [
                *(add_action(file, now_ms, data_change=data_change) for file in added),
                *(remove_action(file, now_ms, data_change=data_change) for file in files),
            ]
            taken = {COMPACTION: lake.version, **numbers()}
            properties = CommitProperties(
                custom_metadata={**told, MARK_KEY: mark},
                max_commit_retries=0,
                app_transactions=[Transaction(name, number, last_updated=now_ms) for name, number in taken.items()],
            )
            by = list(lake.partition_by) or None
            known = lake.version
            try:
                schema = lake.table.schema()
                lake.table.create_write_transaction(actions, "append", schema, by, commit_properties=properties)
            except (DeltaError, OSError) as error:
                lake.refresh()  # the answer may be lost: the log says
                entries = lake.table.history(lake.version - known or 1)
                if not any(entry.get(MARK_KEY) == mark for entry in entries):
                    if isinstance(error, CommitFailedError):
                        continue
                    raise
            lake.refresh()
            lake.sync_log(known + 1)
            return True
        raise LakeConflictError(f"other writers of {lake.uri} got in between {REPLACE_TRIES} times")

    def former(self) -> list[TableFile]:
        lake = self._lake
        named = {file.path for file in lake.files()}
        # without `full` these are the log's tombstones alone, and not what a running load has written
        removed = lake.table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False, full=False)
        return [TableFile(path, 0, values_in(path, lake.partition_by)) for path in removed if path not in named]

    def forget(self, files: Sequence[str], before_ms: int, dry_run: bool) -> Sequence[str]:
        self._lake.refresh()
        named = {file.path for file in self._lake.files()}
        where = self._lake.destination()
        for path in [] if dry_run else files:
            if path not in named:
                where.delete(path)
        return [path for path in files if path in named]

    def expire(self, keep_hours: float, dry_run: bool) -> Figures:
        if dry_run:
            return {"would": "write a checkpoint and remove expired log entries"}
        table = self._lake.table
        table.create_checkpoint()
        checkpoint = f"{LOG_DIRECTORY}/{self._lake.version:020d}.checkpoint.parquet"
        self._lake.destination().sync(checkpoint, f"{LOG_DIRECTORY}/_last_checkpoint", LOG_DIRECTORY)
        table.cleanup_metadata()
        return {"checkpoint_of_version": self._lake.version}

    def vacuum(self, keep_hours: float, dry_run: bool) -> Figures:
        lake = self._lake
        lake.refresh()
        deleted = lake.table.vacuum(
            retention_hours=round(keep_hours), dry_run=dry_run, enforce_retention_duration=False, full=True
        )
        older_than_ms = int((time.time() - keep_hours * 3600) * 1000)
        orphans = lake.summaries.orphans(lake.stored(), older_than_ms)
        unfinished = self._unfinished(older_than_ms)
        for path in [] if dry_run else [*orphans, *unfinished]:
            lake.summaries.delete(path)
        lake.refresh()
        count = len(deleted) + len(unfinished)
        return {"files_to_delete" if dry_run else "files_deleted": count, "summaries": len(orphans)}

    def _unfinished(self, older_than_ms: int) -> list[str]:
        """Files on HDFS, begun before a time, that a killed writer left without their names."""
        if not self._lake.uri.startswith("hdfs://"):
            return []
        listed = self._lake.destination().list("")
        return [each.path for each in listed if is_unfinished(each.path) and each.modified_ms < older_than_ms]
