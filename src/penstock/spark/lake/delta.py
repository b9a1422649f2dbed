"""A Delta table that is its own checkpoint.

Each commit adds the data files of one bounded job and, atomically with them, moves the end offset of every partition
that the job read. The ends are Delta application transactions, one a (pipeline, topic id, partition), with the next
offset as the version: they survive log clean-up and checkpoints, and two writers that plan from the same end conflict,
so that one of them fails. The commit's metadata repeats them for people and for `penstock verify`, with where each
partition began and which offsets do legally not exist.

A commit that was lost on the way back (the process died after it) is simply seen at the next plan: the ends moved.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction

from penstock.errors import PenstockError
from penstock.spark.lake.records import (
    RECORD_SCHEMA,
    DataFile,
    Gap,
    LakeConflictError,
    Progress,
    Statistics,
    TopicPartition,
)

PROGRESS_KEY = "penstock.progress"


class LakeTable:
    """One Delta table and the progress of the pipelines that feed it."""

    def __init__(self, table: DeltaTable, pipeline: str) -> None:
        self.table = table
        self.pipeline = pipeline
        self.directory = urlsplit(table.table_uri).path if "://" in table.table_uri else table.table_uri

    @classmethod
    def open(
        cls, uri: str, pipeline: str, *, create: bool = True, storage_options: Mapping[str, str] | None = None
    ) -> LakeTable:
        """Opens the table, creating it with RECORD_SCHEMA if it is missing and `create` says so.

        Raises PenstockError when it is missing, or has other columns.
        """
        options = dict(storage_options) if storage_options else None
        try:
            table = DeltaTable(uri, storage_options=options)
        except TableNotFoundError:
            if not create:
                raise PenstockError(f"there is no Delta table at {uri}") from None
            table = DeltaTable.create(uri, RECORD_SCHEMA, mode="ignore", storage_options=options)
        found = set(pa.schema(table.schema().to_arrow()).names)
        missing = [name for name in RECORD_SCHEMA.names if name not in found]
        if missing:
            raise PenstockError(f"the table at {uri} is not a load's: it has no column {', '.join(missing)}")
        return cls(table, pipeline)

    def refresh(self) -> None:
        """Sees the commits that others have made since."""
        self.table.update_incremental()

    def end(self, partition: TopicPartition) -> int | None:
        """The next offset to load of a partition, or None if none of it was ever loaded."""
        end = self.table.transaction_version(self._application(partition))
        return None if end is None else int(end)

    def commit(
        self,
        files: Iterable[DataFile],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        gaps: Sequence[Gap] = (),
    ) -> int:
        """Adds files and moves ends in one atomic commit; returns the table's new version.

        Args:
            files: what the tasks wrote.
            starts: where the plan began, a partition; the table must still end there.
            ends: the next offset of each partition after this commit.
            gaps: offsets within the ranges that legally carry no record.

        Raises:
            LakeConflictError: the table no longer ends where the plan began.
        """
        for partition, start in starts.items():
            end = self.end(partition)
            if end is not None and end != start:
                raise LakeConflictError(self._conflict(partition, start, end))
        now_ms = int(time.time() * 1000)
        properties = CommitProperties(
            custom_metadata={PROGRESS_KEY: self._metadata(starts, ends, gaps)},
            max_commit_retries=100,
            app_transactions=[
                Transaction(self._application(partition), end, last_updated=now_ms) for partition, end in ends.items()
            ],
        )
        actions: list[Any] = [_add_action(file, now_ms) for file in files]
        try:
            self.table.create_write_transaction(actions, "append", self.table.schema(), commit_properties=properties)
        except CommitFailedError as error:
            self.refresh()
            moved = [(p, s, e) for p, s in starts.items() if (e := self.end(p)) is not None and e != s]
            if moved:
                raise LakeConflictError(self._conflict(*moved[0])) from error
            raise LakeConflictError(f"another writer committed at the same time: {error}") from error
        self.refresh()
        return int(self.table.version())

    def progress(self) -> dict[TopicPartition, Progress]:
        """Every commit's metadata folded together, of all pipelines that feed the table."""
        folded: dict[TopicPartition, Progress] = {}
        for entry in reversed(self.table.history()):
            text = entry.get(PROGRESS_KEY)
            for item in json.loads(text)["partitions"] if text is not None else ():
                partition = TopicPartition(item["topic"], UUID(item["topic_id"]), item["partition"])
                known = folded.setdefault(partition, Progress(item["start"], item["end"], []))
                known.start = min(known.start, item["start"])
                known.end = max(known.end, item["end"])
                known.gaps += [Gap(partition, *gap) for gap in item["gaps"]]
        return folded

    def _application(self, partition: TopicPartition) -> str:
        return f"penstock/{self.pipeline}/{partition.topic_id}/{partition.partition}"

    def _conflict(self, partition: TopicPartition, start: int, end: int) -> str:
        return (
            f"{partition.topic}-{partition.partition} of pipeline {self.pipeline!r} ends at {end} in the table, "
            f"but this load planned from {start}: another copy of the pipeline is running"
        )

    def _metadata(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], gaps: Sequence[Gap]
    ) -> str:
        partitions = [
            {
                "topic": partition.topic,
                "topic_id": str(partition.topic_id),
                "partition": partition.partition,
                "start": starts[partition],
                "end": end,
                "gaps": [(gap.start, gap.end, gap.reason) for gap in gaps if gap.partition == partition],
            }
            for partition, end in sorted(ends.items())
        ]
        return json.dumps({"pipeline": self.pipeline, "partitions": partitions}, separators=(",", ":"))


def _add_action(file: DataFile, now_ms: int) -> AddAction:
    stats = {
        "numRecords": file.rows,
        "minValues": dict(file.low),
        "maxValues": dict(file.high),
        "nullCount": dict.fromkeys(Statistics.COLUMNS, 0),
    }
    return AddAction(file.path, file.size_bytes, {}, now_ms, True, json.dumps(stats))
