"""Files of stores that delta-rs has a client for; a directory stands in for one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import ConfigError
from penstock.spark.lake.destination import table_uri
from penstock.spark.lake.stores import filesystem_of, is_unfinished


def test_a_small_file_is_written_at_once(tmp_path: Path) -> None:
    """As a summary of a load's progress is; delta-rs's own files refuse what Arrow makes of it."""
    system = filesystem_of(tmp_path.as_uri(), {})
    with system.open_output_stream("a/summary.json") as file:
        file.write(b"{}")
    assert (tmp_path / "a" / "summary.json").read_bytes() == b"{}"


def test_arrow_writes_parquet_and_reads_it(tmp_path: Path) -> None:
    system = filesystem_of(tmp_path.as_uri(), {})
    rows = pa.table({"value": [b"x" * 1000] * 5000, "offset": list(range(5000))})
    with system.open_output_stream("a/rows.parquet") as file, pq.ParquetWriter(file, rows.schema) as writer:
        writer.write_table(rows)
    with system.open_input_file("a/rows.parquet") as file:
        assert pq.read_table(file).equals(rows)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("_delta_log/.00000000000000000001.json.tmp.3", True),
        ("site=a/.part-1.parquet.tmp.1", True),
        (".x.tmp.12", True),
        ("site=a/part-1.parquet", False),
        ("_delta_log/00000000000000000001.json", False),
        ("a.tmp.1", False),
        (".tmp.1/part-1.parquet", False),
        (".x.tmp.", False),
    ],
)
def test_a_file_that_was_never_closed_is_known_by_its_name(path: str, expected: bool) -> None:
    assert is_unfinished(path) is expected


@pytest.mark.parametrize("name", ["my lake", "données", "a#b", "a?b"])
def test_a_path_on_hdfs_that_two_clients_take_for_two_places_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="a path on HDFS cannot have"):
        table_uri(f"hdfs://namenode:8020/{name}/clicks")


def test_other_paths_on_hdfs_are_taken_as_they_are() -> None:
    assert table_uri("hdfs://namenode:8020/my%20lake/a=1,b/clicks/") == "hdfs://namenode:8020/my%20lake/a=1,b/clicks"
