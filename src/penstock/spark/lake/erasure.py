"""Takes rows out of a load's table for good, beside the running load, so that `penstock verify` stays clean.

An erasure looks at every file of the current version, writes those anew that hold rows of its condition, and commits a
few of them at a time: each commit replaces files and records in the pipelines' progress, atomically with it, which
offsets have no row any more (gaps of reason ERASED). A file that a compaction took meanwhile is left alone, and the
file that has its rows now is looked at. It ends when every file of a version has been looked at. An erasure that was
stopped has erased what it has erased; run again, it finds the rest.

The rows stay in the old files, which older versions name, until those are deleted: each erasure leaves a certificate
in the table (see `certificates`) with the time until which that must be done, and `penstock lake maintain` does it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import PenstockError
from penstock.spark.lake.certificates import Certificate, Certificates
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.erasure_condition import Condition
from penstock.spark.lake.files import DataFileWriter
from penstock.spark.lake.maintenance import steps_of
from penstock.spark.lake.offsets import joined, partitions_of, runs_of
from penstock.spark.lake.ranges import Range, union
from penstock.spark.lake.reading import BATCH_ROWS, as_rows
from penstock.spark.lake.records import DataFile, TopicPartition
from penstock.spark.lake.steps import Erased
from penstock.spark.lake.table import LakeTable, TableFile, reading
from penstock.spark.limits import LAKE_ERASURE_BYTES_PER_COMMIT, LAKE_ERASURE_ROUNDS

HOUR_MS = 3_600_000


class Erasure:
    """One erasure of a load's table.

    Args:
        lake: the table.
        where: SQL, as it stands behind WHERE; it is kept nowhere, for it may name a person.
        lists: what the condition may name as tables of one column `value`.
        reference: what the operator wants to read in the certificate: the number of a request, no person.
        deadline_hours: when the old files must be gone.

    Raises ConfigError for a condition that cannot be evaluated.
    """

    def __init__(
        self,
        lake: LakeTable,
        where: str,
        *,
        lists: Mapping[str, pa.Array] | None = None,
        reference: str = "",
        deadline_hours: float = 0.0,
    ) -> None:
        self._lake = lake
        self._steps = steps_of(lake)
        self._certificates = Certificates(lake.destination())
        self._condition = Condition(where, lake.columns, lists)
        self._reference = reference
        self._deadline_hours = deadline_hours

    def count(self) -> tuple[int, int]:
        """How many rows it would take, and of how many files."""
        with reading(self._lake), self._condition:
            counts = [self._condition.count(self._lake, file) for file in self._lake.files()]
        return sum(counts), sum(1 for each in counts if each)

    def run(self) -> Certificate:
        """Erases; returns the certificate.

        Raises PenstockError when other writers replaced files faster than they could be looked at, or the table cannot
        be read. What was committed until then is erased, and the certificate in the table says how much.
        """
        now_ms = _now_ms()
        certificate = Certificate(
            id=uuid.uuid4().hex,
            reference=self._reference,
            table=self._lake.identity,
            began_ms=now_ms,
            deadline_ms=now_ms + round(self._deadline_hours * HOUR_MS),
        )
        seen: set[str] = set()
        with self._condition:
            for _ in range(LAKE_ERASURE_ROUNDS):
                with reading(self._lake):
                    self._lake.refresh()
                    version = self._lake.version
                    new = [file for file in self._lake.files() if file.path not in seen]
                    if not new:
                        ended = replace(certificate.naming(self._former()), ended_ms=_now_ms(), clean_version=version)
                        return self._certificates.write(ended)
                    for some in self._with_matches(new, seen):
                        certificate = self._take(some, certificate, seen)
        raise PenstockError(
            f"{self._lake.uri} got new files faster than they could be looked at: "
            f"{certificate.rows:,} rows are erased, run the erasure again"
        )

    def _former(self) -> list[str]:
        """Files with such rows that were taken out of the table by others, as by a compaction, and are still there."""
        former = self._steps.former()
        there = {each.path for each in self._lake.destination().list("")} if former else set()
        return [file.path for file in former if file.path in there and self._condition.count(self._lake, file)]

    def _with_matches(self, files: Sequence[TableFile], seen: set[str]) -> Iterator[list[tuple[TableFile, int]]]:
        """Files with rows to erase, and how many, a few of them at a time; adds those without to `seen`."""
        found: list[tuple[TableFile, int]] = []
        size = 0
        for file in files:
            count = self._condition.count(self._lake, file)
            if not count:
                seen.add(file.path)
                continue
            if found and size + file.size_bytes > LAKE_ERASURE_BYTES_PER_COMMIT:
                yield found
                found, size = [], 0
            found.append((file, count))
            size += file.size_bytes
        if found:
            yield found

    def _take(self, found: Sequence[tuple[TableFile, int]], certificate: Certificate, seen: set[str]) -> Certificate:
        """Writes files anew without the rows and commits that; the certificate names the old ones first."""
        files = [file for file, _ in found]
        added: list[DataFile] = []
        gone: dict[TopicPartition, list[Any]] = {}
        for file, count in found:
            added += self._rewritten(file, count, gone)
        erased = {partition: joined(np.concatenate(runs)) for partition, runs in gone.items()}
        counts = {partition: int((runs[:, 1] - runs[:, 0]).sum()) for partition, runs in erased.items()}
        told = self._certificates.write(certificate.naming([file.path for file in files]))
        ranges = {partition: union(_ranges(runs)) for partition, runs in erased.items()}  # a duplicate is one gap
        if not self._steps.replace(files, added, Erased(told.id, ranges)):
            return told  # the rewritten files are left to vacuum
        seen.update(file.path for file in added)
        return self._certificates.write(told.counting(counts, len(files)))

    def _rewritten(self, file: TableFile, count: int, gone: dict[TopicPartition, list[Any]]) -> list[DataFile]:
        """Writes the rows of a file that stay into a new one, if any stays; adds the others' offsets to `gone`.

        Raises PenstockError if those others are not `count`.
        """
        where = self._lake.destination()
        by = [name for name in where.partition_by if not where.keeps_partition_columns]
        columns = self._lake.columns
        schema = pa.schema([field for field in columns if field.name not in by])
        flat = Destination(where.uri, where.storage_options)
        with (
            DataFileWriter(flat, schema, dict(file.partition_values)) as writer,
            self._lake.file_systems().open_input_file(file.path) as source,
        ):
            for batch in pq.ParquetFile(source).iter_batches(BATCH_ROWS, use_threads=False):
                rows = as_rows(batch, columns, file)
                taken = self._condition.matches(rows)
                count -= taken.true_count
                for partition, offsets in partitions_of(rows.filter(taken)):
                    gone.setdefault(partition, []).append(runs_of(offsets))
                writer.write(rows.filter(pc.invert(taken)).select(schema.names))
            if count:
                raise PenstockError(
                    "the condition takes other rows when it is asked again: it depends on more than a row"
                )
            return writer.close()


def _ranges(runs: Any) -> list[Range]:
    return [(int(start), int(end)) for start, end in runs.tolist()]


def _now_ms() -> int:
    return int(time.time() * 1000)
