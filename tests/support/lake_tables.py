"""Lake tables for tests: rows of one topic, loaded range by range as a load would."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from penstock.spark.lake.files import DataFileWriter
from penstock.spark.lake.open import open_table
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, Gap, LakeConflictError, TopicPartition
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import PartitionVerdict, verify

CLICKS = TopicPartition("clicks", UUID(int=1), 0)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ROWS_A_DAY = 50


def rows(offsets: Iterable[int], partition: TopicPartition = CLICKS, **more: Any) -> pa.RecordBatch:
    """Records of these offsets; each ROWS_A_DAY of them are of another day."""
    made = [
        {
            "topic": partition.topic,
            "topicId": str(partition.topic_id),
            "partition": partition.partition,
            "offset": offset,
            "timestamp": NEW_YEAR + timedelta(days=offset // ROWS_A_DAY),
            "timestampType": 0,
            "key": b"k%d" % offset,
            "value": b"v%d" % offset,
            "headers": None,
            **more,
        }
        for offset in offsets
    ]
    return pa.RecordBatch.from_pylist(made, schema=RECORD_SCHEMA)


def written(lake: LakeTable, *batches: pa.RecordBatch) -> list[DataFile]:
    """Files of a table with these rows, which no commit names yet."""
    with DataFileWriter(lake.destination(), batches[0].schema) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def load(
    lake: LakeTable,
    start: int,
    end: int,
    gaps: Sequence[tuple[int, int, str]] = (),
    partition: TopicPartition = CLICKS,
) -> int:
    """One job: all offsets of [start, end) but those in gaps."""
    absent = {offset for low, high, _ in gaps for offset in range(low, high)}
    present = [offset for offset in range(start, end) if offset not in absent]
    files = written(lake, rows(present, partition)) if present else []
    return lake.commit(files, {partition: start}, {partition: end}, [Gap(partition, *gap) for gap in gaps])


def opened(directory: Path, table_format: str, pipeline: str = "test", **more: Any) -> LakeTable:
    return open_table(str(directory / "clicks"), pipeline, format=table_format, **more)


def only(verdicts: list[PartitionVerdict]) -> PartitionVerdict:
    assert len(verdicts) == 1, verdicts
    return verdicts[0]


def verdict_of(lake: LakeTable) -> PartitionVerdict:
    """The verdict on a table of one partition, as anybody sees it who opens it now."""
    options = getattr(lake, "storage_options", {})
    return only(verify(open_table(lake.uri, "verify", format=lake.format, create=False, storage_options=options)))


def raced(copies: Sequence[LakeTable], files: Sequence[list[DataFile]]) -> int:
    """Has copies of a table commit files for the same offsets at once; how many did, while the others conflicted."""
    barrier = threading.Barrier(len(copies))
    outcomes: list[bool] = []

    def commit(copy: LakeTable, own: list[DataFile]) -> None:
        barrier.wait()
        try:
            copy.commit(own, {CLICKS: 0}, {CLICKS: 10})
            outcomes.append(True)
        except LakeConflictError:
            outcomes.append(False)

    threads = [threading.Thread(target=commit, args=each) for each in zip(copies, files, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == len(copies)
    return sum(outcomes)
