"""How long `penstock verify` takes on a large table, and in how much memory.

Makes a table of records of 100 B, each row with its own offset (values repeat, so that making it is quick), then runs
the command in a process of its own and reports seconds and peak memory.

    python bench/verify.py --rows 100000000 --format delta
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa

from penstock.spark.lake.files import DataFileWriter
from penstock.spark.lake.open import open_table
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, TopicPartition
from penstock.spark.lake.table import LakeTable

TOPIC_ID = UUID(int=1)
PARTITIONS = 4
ROWS_PER_FILE = 2_000_000
BATCH_ROWS = 100_000


def file_of(lake: LakeTable, partition: int, start: int) -> list[DataFile]:
    """A file of ROWS_PER_FILE records of a partition, from an offset on."""
    value = np.random.default_rng(start).integers(0, 256, 100, dtype=np.uint8).tobytes()
    headers = pa.array([[]], RECORD_SCHEMA.field("headers").type)
    with DataFileWriter(lake.destination(), RECORD_SCHEMA) as writer:
        for first in range(start, start + ROWS_PER_FILE, BATCH_ROWS):
            offsets = np.arange(first, first + BATCH_ROWS, dtype=np.int64)
            columns = [
                pa.repeat("clicks", BATCH_ROWS),
                pa.repeat(str(TOPIC_ID), BATCH_ROWS),
                pa.repeat(pa.scalar(partition, pa.int32()), BATCH_ROWS),
                pa.array(offsets),
                pa.array(1_700_000_000_000_000 + offsets * 1000).cast(pa.timestamp("us", "UTC")),
                pa.repeat(pa.scalar(0, pa.int32()), BATCH_ROWS),
                pa.nulls(BATCH_ROWS, pa.binary()),
                pa.repeat(value, BATCH_ROWS),
                headers.take(pa.array(np.zeros(BATCH_ROWS, np.int64))),
            ]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA))
        return writer.close()


def make(directory: Path, rows: int, table_format: str) -> LakeTable:
    """A table of `rows` records in PARTITIONS partitions."""
    lake = open_table(str(directory), "bench", format=table_format)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for at in range(max(1, rows // ROWS_PER_FILE)):
        partition = at % PARTITIONS
        where = TopicPartition("clicks", TOPIC_ID, partition)
        start, ends[partition] = ends[partition], ends[partition] + ROWS_PER_FILE
        lake.commit(file_of(lake, partition, start), {where: start}, {where: ends[partition]})
    return lake


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--format", choices=["delta", "iceberg"], default="delta")
    parser.add_argument("--directory", type=Path, help="keep the table here, or use the one that is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.directory or Path(temporary) / "clicks"
        if not directory.exists():
            make(directory, arguments.rows, arguments.format)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "penstock", "verify", str(directory), "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        seconds = time.perf_counter() - began
        told = json.loads(done.stdout)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = sum(each["rows"] for each in told["partitions"])
        figures = {
            "rows": rows,
            "clean": told["clean"],
            "seconds": round(seconds, 2),
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
            "peak_mb": used.ru_maxrss // 1024,
            "table_mb": sum(path.stat().st_size for path in directory.rglob("*.parquet")) // 2**20,
        }
        print(json.dumps(figures))
        return 0 if told["clean"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
