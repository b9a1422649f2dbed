"""What lake tables hold. A data file never changes: it is counted once, and a table is the sum of its files.

So what a compaction moves stays, what an erasure takes goes, and what is in two files is there twice. The counts of
files are kept in a file of the pipeline's directory; without it all files that may have rows of the time are read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.pipelines.audit.tally import US_PER_MS, Tally, add_rows
from penstock.spark.lake.open import open_table
from penstock.spark.lake.reading import BATCH_ROWS, as_rows
from penstock.spark.lake.table import LakeTable, TableFile, reading

NEEDED = ("topic", "timestamp")
KEPT = pa.schema(
    [("table", pa.string()), ("file", pa.string()), ("topic", pa.string()), ("bucket", pa.int64()), ("n", pa.int64())]
)


class LakeFiles:
    """Counts files of lake tables.

    Args:
        kept: the file that has what was counted before.
    """

    def __init__(self, kept: Path) -> None:
        self._path = kept
        self._files: dict[tuple[str, str], Tally] = {}
        self._read()

    def count(
        self, uri: str, table_format: str, storage_options: Mapping[str, str], topics: Collection[str], since_ms: int
    ) -> Tally:
        """The records of a table by topic and bucket. Raises PenstockError for one that cannot be read."""
        lake = open_table(
            uri, "audit", format=table_format, create=False, records=False, storage_options=storage_options
        )
        with reading(lake):
            table = f"{lake.uri} {lake.identity}"
            spans = lake.spans(["timestamp"])
            known, found = self._files, {}
            for file in lake.files():
                if _is_before(spans.get(file.path, {}).get("timestamp"), since_ms):
                    continue
                key = (table, file.path)
                found[key] = known[key] if key in known else _counted(lake, file)
        for key in [key for key in known if key[0].rsplit(" ", 1)[0] == lake.uri]:
            del known[key]
        known |= found
        total = Tally()
        for tally in found.values():
            total.update({k: n for k, n in tally.items() if k[0] in topics and k[1] >= since_ms})
        return total

    def _read(self) -> None:
        try:
            rows = pq.read_table(self._path)
        except (OSError, pa.ArrowInvalid):
            return  # it only saves work
        if rows.schema.names != KEPT.names:
            return
        for table, file, topic, bucket, n in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            tally = self._files.setdefault((table, file), Tally())
            if n:
                tally[topic, bucket] = n

    def save(self) -> None:
        """Keeps the counts of the files, each that has none with a row of 0."""
        rows = [
            (*key, topic, bucket, n)
            for key, tally in self._files.items()
            for (topic, bucket), n in (tally or {("", 0): 0}).items()
        ]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(KEPT)
        fresh = self._path.with_suffix(".new")
        pq.write_table(pa.table([list(column) for column in columns], schema=KEPT), fresh)
        os.replace(fresh, self._path)


def _is_before(span: tuple[object, object] | None, since_ms: int) -> bool:
    """Whether a file has only rows of before a time, by what is told of its times."""
    return span is not None and isinstance(span[1], int) and span[1] < since_ms * US_PER_MS


def _counted(lake: LakeTable, file: TableFile) -> Tally:
    tally = Tally()
    schema = pa.schema([lake.columns.field(name) for name in NEEDED])
    with lake.file_systems().open_input_file(file.path) as source:
        parquet = pq.ParquetFile(source)
        present = [name for name in NEEDED if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(BATCH_ROWS, columns=present):
            add_rows(tally, as_rows(batch, schema, file), 0)
    return tally
