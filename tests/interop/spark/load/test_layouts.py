"""Tables partitioned by event time and columns, and clustered: the load's guarantee holds through their life."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
pytest.importorskip("duckdb", reason="needs penstock[sql]")

import pyarrow.parquet as pq
from interop.spark.load.support import caught_up, options, proof, publish_values, rows
from support.lake_readers import READERS, excused, missing

from penstock.cli.main import main
from penstock.errors import ConfigError
from penstock.spark.lake.erasure import Erasure
from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.open import open_table
from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.table import LakeTable
from penstock.spark.load.load import Load
from penstock.testing.broker import LocalBroker

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "load-a-topic.md"
OWN = "Spark, by `penstock-lake`"
"""Proven by the tests of that source."""
HOUR_MS = 3_600_000
NEW_YEAR_MS = 1_767_225_600_000
COUNTRIES = ("de", "fr", "", "a/b=c ü", None)
SCHEMA = "country string, at bigint, page string, ms bigint"
HOW: dict[str, Any] = {
    "format": "json",
    "schema": SCHEMA,
    "partition_by": ["hour(at)", "country"],
    "cluster_by": ["page", "ms"],
    "event_time": "at",
    "late_after_ms": HOUR_MS,
}


def value(at: int) -> bytes:
    told: dict[str, Any] = {"at": NEW_YEAR_MS + (at % 3) * HOUR_MS, "page": f"p{at * 7 % 50}", "ms": at}
    if (country := COUNTRIES[at % len(COUNTRIES)]) is not None:
        told["country"] = country
    return json.dumps(told).encode()


def publish(broker: LocalBroker, topic: str, start: int, end: int) -> None:
    for partition in range(3):
        some = [value(at) for at in range(start, end) if at % 3 == partition]
        publish_values(broker, topic, *some, partition=partition, timestamp_ms=NEW_YEAR_MS + 2 * HOUR_MS)


def verified(broker: LocalBroker, lake: LakeTable, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `penstock verify` says of the table and of every value in it."""
    capsys.readouterr()
    code = main(
        ["verify", lake.uri, "--table-format", lake.format, "--broker", broker.bootstrap, "--values", "all", "--json"]
    )
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0, "\n".join(str({k: v for k, v in each.items() if v}) for each in told["partitions"])
    return told


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_partitioned_and_clustered_table_through_its_life(
    broker: LocalBroker, topic: str, tmp_path: Path, table_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    how = HOW | {"table_format": table_format}
    where = tmp_path / "clicks"
    publish(broker, topic, 0, 150)
    publish_values(broker, topic, b'{"country":"%s"}' % (b"x" * 300))
    with Load(None, options(broker, topic, where, **how)) as load:
        caught_up(load)
        assert proof(load).rows == 151
        values = {(f.partition_values["at_hour"], f.partition_values["country"]) for f in load.lake.files()}
        empty = {None} if table_format == "delta" else {None, ""}
        hours = [f"2026-01-01-0{hour}" for hour in range(3)]
        assert values == {(hour, country) for hour in hours for country in {"de", "fr", "a/b=c ü"} | empty}
        found = rows(load, "at", "at_hour", "late")
        assert {(row["at"], row["at_hour"], row["late"]) for row in found} == {
            (NEW_YEAR_MS + at * HOUR_MS, hours[at], at == 0) for at in range(3)
        }
        for start in (150, 180):
            publish(broker, topic, start, start + 30)
            caught_up(load)
    verified(broker, load.lake, capsys)
    _compacted(load.lake)
    verified(broker, load.lake, capsys)
    lake = open_table(str(where), "erase", format=table_format, create=False)
    assert Erasure(lake, "country = 'de' and page = 'p0'").run().rows == 5
    told = verified(broker, lake, capsys)
    assert sum(each["gaps"].get("erased", 0) for each in told["partitions"]) == 5
    publish(broker, topic, 210, 240)
    plain = {"format": "json", "table_format": table_format, "new_fields": "quarantine"}
    with Load(None, options(broker, topic, where, **plain)) as load:  # it need not be told again
        caught_up(load)
        assert load.lake.partition_by == ("at_hour", "country")
    verified(broker, load.lake, capsys)
    _read_by_all(load.lake)
    for wrong in ({"partition_by": ["day(at)"]}, {"cluster_by": ["ms"]}, {"late_after_ms": 5, "event_time": "at"}):
        with pytest.raises(ConfigError, match=r"cannot be made so|cannot change that"):
            Load(None, options(broker, topic, where, **(plain | wrong)))


def _compacted(lake: LakeTable) -> None:
    """Each partition value's files become one, whose rows are sorted as the load was told."""
    again = open_table(lake.uri, "maintain", format=lake.format, create=False)
    before = sorted(str(row) for batch in batches_of(again, ["offset", "page", "late"]) for row in batch.to_pylist())
    Maintenance(again, target_bytes=1 << 20, keep_hours=168).run(["compact"])
    again.refresh()
    files = again.files()
    assert len({tuple(file.partition_values.items()) for file in files}) == len(files)
    for file in files:
        with again.file_systems().open_input_file(file.path) as source:
            read = pq.ParquetFile(source).read().select(["page", "ms"])
        assert read.equals(read.sort_by([("page", "ascending"), ("ms", "ascending")]))
    assert before == sorted(
        str(r) for batch in batches_of(again, ["offset", "page", "late"]) for r in batch.to_pylist()
    )


def _read_by_all(lake: LakeTable) -> None:
    """Every reader that is installed gives the table's own count and sum."""
    own = [row["ms"] for batch in batches_of(lake, ["ms"]) for row in batch.to_pylist()]
    for name, read in READERS[lake.format].items():
        found = read(lake.uri)
        if found is not None:
            assert found == (len(own), sum(own)), name


@pytest.mark.parametrize(("table_format", "name"), [(each, name) for each, some in READERS.items() for name in some])
def test_no_reader_is_left_out_silently(table_format: str, name: str) -> None:
    """A program that is excused is told of by the page; whatever else is missing is told here, and fails under CI."""
    why = missing(name, table_format)
    if why is None or excused(name):
        return
    assert os.environ.get("CI") != "true", why
    pytest.skip(f"{name} was not tried with {table_format}: {why}")


def test_the_page_names_the_programs_that_read_these_tables() -> None:
    section = PAGE.read_text().split("| program |", 1)[1].split("\n\n", 1)[0]
    lines = [[cell.strip() for cell in line.split("|")[1:4]] for line in section.splitlines()[2:]]
    told = {name: cells for name, *cells in lines}
    for at, table_format in enumerate(("delta", "iceberg")):
        assert {name for name, cells in told.items() if cells[at].startswith("yes")} == {*READERS[table_format], OWN}


def test_rows_too_many_for_a_row_group_are_sorted_through_spill_files(
    broker: LocalBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.spark.lake import compaction

    monkeypatch.setattr(compaction, "LAKE_ROW_GROUP_ROWS", 16)
    more: dict[str, Any] = {"format": "json", "schema": SCHEMA, "cluster_by": ["ms", "page"], "z_order": True}
    with Load(None, options(broker, topic, tmp_path / "t", **more)) as load:
        for start in (0, 60):
            publish(broker, topic, start, start + 60)
            caught_up(load)
        Maintenance(load.lake, target_bytes=1 << 20, keep_hours=168).run(["compact"])
        load.lake.refresh()
        (file,) = load.lake.files()
        table = pq.read_table(tmp_path / "t" / file.path)
        places = compaction.Cluster(("ms", "page"), True).order(table)
        assert places.tolist() == list(range(120)), "it is in the order already"
        assert proof(load).rows == 120
