"""Maintenance of an Iceberg table, as far as pyiceberg can.

pyiceberg 0.12 expires snapshots but deletes no file, and has no rewriting of data files and no search for orphans.
Compaction overwrites files (`iceberg_overwrite`): one snapshot takes the parts away and adds the merged file. Vacuum
lists the table's directory and deletes old files to which neither a snapshot that is left nor the metadata log refers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from penstock.spark.lake.clustering import Cluster
from penstock.spark.lake.compaction import bins_of, merge
from penstock.spark.lake.iceberg import IcebergLake
from penstock.spark.lake.iceberg_overwrite import overwrite
from penstock.spark.lake.records import DataFile, LakeConflictError
from penstock.spark.lake.steps import Erased, Figures, Steps
from penstock.spark.lake.table import TableFile

COMMIT_TRIES = 10
REPLACE_TRIES = 100
"""A load may commit several times a second, and each commit of it is in the way of an erasure's."""
OWN = "_penstock/"
"""What vacuum leaves alone."""


class IcebergSteps(Steps):
    """The steps on one table."""

    def __init__(self, lake: IcebergLake) -> None:
        self._lake = lake

    def compact(self, target_bytes: int, dry_run: bool, cluster: Cluster | None = None) -> Figures:
        bins = bins_of(self._lake.files(), target_bytes)
        if dry_run:
            return {"files_to_merge": sum(map(len, bins)), "into": len(bins)}
        merged = lost = 0
        for files in bins:
            file = merge(self._lake, files, cluster)
            if self._replace(files, file):
                merged += len(files)
            else:  # the merged file is left to vacuum: no file is deleted that a commit was to name
                lost += len(files)
        return {"files_merged": merged, "into": len(bins), "left_to_others": lost}

    def _replace(self, files: list[TableFile], merged: DataFile) -> bool:
        """Replaces the parts by the merged file. Returns False if another writer has changed one of them."""
        told = {"penstock.compaction": str(len(files))}
        for _ in range(COMMIT_TRIES):
            replaced = overwrite(self._lake, files, [merged], {}, told)
            if replaced is not None:
                return replaced
        return False

    def replace(self, files: Sequence[TableFile], added: Sequence[DataFile], erased: Erased) -> bool:
        for _ in range(REPLACE_TRIES):
            self._lake.refresh()
            properties = self._lake.erased_properties(erased.rows)
            replaced = overwrite(self._lake, files, added, properties, {"penstock.erasure": erased.id})
            if replaced is not None:
                return replaced
        raise LakeConflictError(f"other writers of {self._lake.uri} got in between {REPLACE_TRIES} times")

    def former(self) -> list[TableFile]:
        lake = self._lake
        named = {lake.location_of(file.path) for file in lake.files()}
        manifests = {m.manifest_path: m for s in lake.table.snapshots() for m in s.manifests(lake.table.io)}
        files: set[str] = set()
        for manifest in manifests.values():
            files |= self._files_of(manifest)
        root = lake.location_of("")
        # they have the partition columns themselves
        return [TableFile(path.removeprefix(root), 0) for path in sorted(files - named) if path.startswith(root)]

    def forget(self, files: Sequence[str], before_ms: int, dry_run: bool) -> Sequence[str]:
        lake = self._lake
        lake.refresh()
        kept = {reference.snapshot_id for reference in lake.table.metadata.refs.values()}
        snapshots = lake.table.snapshots()
        needed: set[str] = set()
        for snapshot in snapshots:
            if snapshot.snapshot_id in kept:
                for manifest in snapshot.manifests(lake.table.io):
                    needed |= self._files_of(manifest, living=True)
        left = [path for path in files if lake.location_of(path) in needed]
        if dry_run:
            return left
        old = [s.snapshot_id for s in snapshots if s.timestamp_ms < before_ms and s.snapshot_id not in kept]
        if old:  # else they would name files that are gone
            lake.table.maintenance.expire_snapshots().by_ids(old).commit()
        where = lake.destination()
        for path in files:
            if path not in left:
                where.delete(path)
        return left

    def expire(self, keep_hours: float, dry_run: bool) -> Figures:
        table = self._lake.table
        table.refresh()
        before = datetime.now() - timedelta(hours=keep_hours)
        old = [each for each in table.snapshots() if each.timestamp_ms < before.timestamp() * 1000]
        kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
        old = [each for each in old if each.snapshot_id not in kept]
        if old and not dry_run:
            table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in old]).commit()
        return {"snapshots_to_expire" if dry_run else "snapshots_expired": len(old)}

    def vacuum(self, keep_hours: float, dry_run: bool) -> Figures:
        lake = self._lake
        where = lake.destination()
        older_than_ms = int((time.time() - keep_hours * 3600) * 1000)
        listed = where.list("")  # before what is referred to
        old = [each.path for each in listed if each.modified_ms < older_than_ms and not each.path.startswith(OWN)]
        lake.refresh()
        needed = self._referred()
        orphans = [path for path in old if lake.location_of(path) not in needed]
        for path in [] if dry_run else orphans:
            where.delete(path)
        return {"files_to_delete" if dry_run else "files_deleted": len(orphans)}

    def _referred(self) -> set[str]:
        """Every file that the table's metadata names: data, manifests, manifest lists, metadata, statistics."""
        table = self._lake.table
        needed = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
        needed |= {each.statistics_path for each in table.metadata.statistics}
        seen: set[str] = set()
        for snapshot in table.snapshots():
            needed.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                needed.add(manifest.manifest_path)
                if manifest.manifest_path not in seen:
                    seen.add(manifest.manifest_path)
                    needed |= self._files_of(manifest)
        return needed

    def _files_of(self, manifest: Any, *, living: bool = False) -> set[str]:
        entries = manifest.fetch_manifest_entry(self._lake.table.io, discard_deleted=living)
        return {entry.data_file.file_path for entry in entries}
