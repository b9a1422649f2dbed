"""A stream of a lake table's changes without Spark, driven as Spark drives it: every added row once, in any event."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from deltalake import DeltaTable, write_deltalake  # noqa: E402
from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: E402

from penstock.errors import ConfigError  # noqa: E402
from penstock.spark.frames.options import FrameOptions  # noqa: E402
from penstock.spark.frames.read_options import parse  # noqa: E402
from penstock.spark.frames.reader import history_of, schema_of  # noqa: E402
from penstock.spark.frames.sink import Written, commit, opened, target_of  # noqa: E402
from penstock.spark.frames.stream_position import Position, from_json  # noqa: E402
from penstock.spark.frames.stream_reader import StreamReader  # noqa: E402
from penstock.spark.lake.batches import QueryBatch  # noqa: E402
from penstock.spark.lake.iceberg import IcebergLake  # noqa: E402
from penstock.spark.lake.maintenance import Maintenance  # noqa: E402
from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.scan import UnreadableError  # noqa: E402

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> FrameOptions:
    return FrameOptions(str(tmp_path / "pages"), request.param)


def add(table: FrameOptions, *files: Sequence[int]) -> None:
    """One commit with these files."""
    lake = opened(table, COLUMNS)
    target = target_of(lake, COLUMNS)
    written: list[Written] = [
        target.write([pa.RecordBatch.from_pydict({"id": list(ids)}, schema=COLUMNS)]) for ids in files
    ]
    assert commit(lake, target, written, QueryBatch())


def flat(batches: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(batches))


class Query:
    """What Spark does: its log of offsets survives, the reader does not."""

    def __init__(self, path: str, **options: str) -> None:
        self.path, self.options = path, options
        self.offsets: list[str] = []
        self.done = 0
        self.restart()

    def restart(self) -> None:
        """A new driver with the same checkpoint: the last batch runs again if it was not noted as done."""
        options = parse({"path": self.path, **self.options}, stream=True)
        self.reader = StreamReader(options, schema_of(options, history_of(options)))
        self.first = json.dumps(self.reader.initialOffset())

    def plan(self, *, limited: bool = True) -> bool:
        """Writes the end of the next batch to the log; False if there is nothing new."""
        start = self.offsets[-1] if self.offsets else self.first
        limit = self.reader.getDefaultReadLimit() if limited else ReadAllAvailable()
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit))
        if end == start and self.offsets:
            return False
        self.offsets.append(end)
        return True

    def run(self) -> list[int]:
        """The rows of the last planned batch."""
        start = self.offsets[-2] if len(self.offsets) > 1 else self.first
        parts = self.reader.partitions(json.loads(start), json.loads(self.offsets[-1]))
        return [each for part in parts for some in self.reader.read(part) for each in some.column("id").to_pylist()]

    def all(self) -> list[list[int]]:
        """Batches until nothing is new."""
        batches = []
        while self.plan():
            batches.append(self.run())
        return [each for each in batches if each]


def test_a_stream_has_what_there_is_and_then_what_is_added(table: FrameOptions) -> None:
    add(table, [1, 2], [3])
    add(table, [4])
    query = Query(table.path)
    assert [sorted(each) for each in query.all()] == [[1, 2, 3, 4]]
    assert query.all() == []
    add(table, [5])
    add(table, [6])
    assert query.all() == [[5, 6]]
    query.restart()
    assert query.all() == []
    add(table, [7])
    assert query.all() == [[7]]


@pytest.mark.parametrize(("start", "wanted"), [("earliest", [1, 2, 3, 4]), ("latest", []), ("2", [3, 4])])
def test_it_begins_where_it_is_told(table: FrameOptions, start: str, wanted: list[int]) -> None:
    add(table, [1, 2])  # version 1: Delta's 0 made the table
    add(table, [3])
    add(table, [4])
    query = Query(table.path, startingVersion=start)
    assert flat(query.all()) == wanted
    add(table, [5])
    assert flat(query.all()) == [5]


def test_it_begins_at_a_time_and_not_at_a_version_that_is_none(table: FrameOptions) -> None:
    add(table, [1])
    assert flat(Query(table.path, startingTimestamp="2001-01-01").all()) == [1]
    assert Query(table.path, startingTimestamp="2999-01-01").all() == []
    with pytest.raises(UnreadableError, match="has no version 99"):
        Query(table.path, startingVersion="99")


def test_batches_are_limited_by_files_and_bytes_and_repeated_the_same(table: FrameOptions) -> None:
    add(table, [1], [2], [3])
    add(table, [4], [5], [6])
    for options in ({"maxFilesPerTrigger": "2"}, {"maxBytesPerTrigger": "1"}):
        for start in ({}, {"startingVersion": "earliest"}):
            query, seen = Query(table.path, **options, **start), []
            while query.plan():
                first = query.run()
                query.restart()
                assert query.run() == first
                assert len(first) <= (2 if "maxFilesPerTrigger" in options else 1)
                seen += first
            assert sorted(seen) == [1, 2, 3, 4, 5, 6]
    query = Query(table.path, maxFilesPerTrigger="1")
    assert query.plan(limited=False)
    assert len(query.run()) == 6


def test_the_first_batch_is_repeated_from_where_it_began(table: FrameOptions) -> None:
    add(table, [1])
    query = Query(table.path, startingVersion="latest")
    add(table, [2])
    assert query.plan()
    add(table, [3])
    query.restart()  # "latest" is after 3 by now
    assert query.run() == [2]
    assert query.all() == [[3]]


def test_a_batch_ends_for_good_where_available_now_began(table: FrameOptions) -> None:
    add(table, [1])
    query = Query(table.path)
    query.reader.prepareForTriggerAvailableNow()
    add(table, [2])
    assert query.all() == [[1]]
    query.restart()
    assert query.all() == [[2]]


def test_compaction_adds_nothing(table: FrameOptions) -> None:
    for each in range(4):
        add(table, [each])
    query = Query(table.path, startingVersion="earliest", maxFilesPerTrigger="2")
    assert query.plan()
    assert query.run() == [0, 1]
    lake = open_table(table.path, "test", format=table.table_format, create=False, records=False)
    assert Maintenance(lake, target_bytes=1 << 20, keep_hours=24).run()["compact"]["files_merged"] == 4
    add(table, [4])
    query.restart()
    assert flat(query.all()) == [2, 3, 4]
    assert sorted(flat(Query(table.path).all())) == [0, 1, 2, 3, 4]


def test_rows_taken_away_are_an_error_unless_they_are_passed_over(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for each in (1, 2):
        write_deltalake(path, pa.table({"id": [each]}), mode="append")
    queries = {name: Query(path, **{name: "true"}) for name in ("ignoreDeletes", "skipChangeCommits")}
    plain = Query(path)
    assert [flat(query.all()) for query in (*queries.values(), plain)] == [[1, 2]] * 3
    DeltaTable(path).delete("id = 1")  # the whole file
    with pytest.raises(UnreadableError, match=r"version 2 of the table at .* deleted rows.*\n  set ignoreDeletes or"):
        plain.all()
    assert [each.all() for each in queries.values()] == [[], []]
    write_deltalake(path, pa.table({"id": [3, 4]}), mode="append")
    assert [each.all() for each in queries.values()] == [[[3, 4]], [[3, 4]]]
    DeltaTable(path).delete("id = 3")  # writes what is left anew
    with pytest.raises(UnreadableError, match=r"replaced or deleted rows.*\n  set skipChangeCommits"):
        queries["ignoreDeletes"].all()
    assert queries["skipChangeCommits"].all() == []


def test_rows_taken_from_an_iceberg_table_are_an_error_too(tmp_path: Path) -> None:
    table = FrameOptions(str(tmp_path / "t"), "iceberg")
    add(table, [1])
    add(table, [2])
    plain, lax = Query(table.path), Query(table.path, ignoreDeletes="true")
    assert [flat(each.all()) for each in (plain, lax)] == [[1, 2], [1, 2]]
    lake = opened(table, COLUMNS)
    assert isinstance(lake, IcebergLake)
    lake.table.delete("id = 1")
    with pytest.raises(UnreadableError, match="deleted rows"):
        plain.all()
    assert lax.all() == []
    add(table, [3])
    assert lax.all() == [[3]]


def test_versions_of_which_an_iceberg_table_forgot_the_snapshots_are_told_if_nothing_was_removed(
    tmp_path: Path,
) -> None:
    table = FrameOptions(str(tmp_path / "t"), "iceberg")
    add(table, [0])
    query, late = Query(table.path, maxFilesPerTrigger="3"), Query(table.path)
    assert [each.all() for each in (query, late)] == [[[0]]] * 2
    for each in range(1, 5):
        add(table, [each])
    lake = opened(table, COLUMNS)
    assert isinstance(lake, IcebergLake)

    def forget() -> None:
        old = [each.snapshot_id for each in lake.table.snapshots()[:-1]]
        lake.table.maintenance.expire_snapshots().by_ids(old).commit()

    forget()
    assert query.all() == [[1, 2, 3], [4]]
    lake.table.delete("id = 0")
    add(table, [5])
    lake.refresh()
    forget()
    with pytest.raises(UnreadableError, match=r"snapshots .* from version 2 on have expired"):
        late.all()


def test_a_version_that_the_log_forgot_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for each in range(3):
        write_deltalake(path, pa.table({"id": [each]}), mode="append")
    query = Query(path, startingVersion="1", maxFilesPerTrigger="1")
    assert query.plan()
    DeltaTable(path).create_checkpoint()
    for version in (0, 1, 2):
        if version < 2:
            (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    query.restart()
    with pytest.raises(UnreadableError, match=r"version 1 of the table at .* is no longer in its log"):
        query.run()
    assert flat(Query(path, startingVersion="earliest").all()) == [2]


def test_a_table_made_anew_or_put_back_is_refused(table: FrameOptions, tmp_path: Path) -> None:
    add(table, [1])
    copy = tmp_path / "copy"
    shutil.copytree(table.path, copy)
    catalog = tmp_path / "catalog.db"
    kept = catalog.read_bytes() if catalog.exists() else b""
    add(table, [2])
    add(table, [3])
    query = Query(table.path)
    assert flat(query.all()) == [1, 2, 3]
    shutil.rmtree(table.path)
    shutil.copytree(copy, table.path)
    if kept:
        catalog.write_bytes(kept)
    for again in (False, True):
        if again:
            query.restart()
        with pytest.raises(UnreadableError, match="whose newest is 1: an older copy of it was put back"):
            query.all()
    shutil.rmtree(table.path)
    catalog.unlink(missing_ok=True)
    for each in range(5):
        add(table, [each])
    for again in (False, True):
        if again:
            query.restart()
        with pytest.raises(UnreadableError, match="it was dropped and made again, or is another one"):
            query.all()


def test_a_file_that_was_vacuumed_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1]}))
    query = Query(path)
    assert query.plan()
    for each in (tmp_path / "t").glob("*.parquet"):
        each.unlink()
    with pytest.raises(UnreadableError, match="is gone: the version that has it was vacuumed"):
        query.run()


def test_positions_are_kept_as_they_are() -> None:
    begin = Position("t", 3, 1, snapshot=True)
    for each in (begin, Position("t", 4, files=7, initial=True), Position("t", 5, begin=begin)):
        assert from_json(json.loads(json.dumps(each.to_json()))) == each


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"clicks": {"0": 7}}, "a position that nobody can read"),
        ({"format": 2}, "a position of format 2; this Penstock knows 1"),
        ({"format": 1, "table": "t", "version": -1, "index": 0, "snapshot": False}, "nobody can read"),
        ({"format": 1, "table": "t", "version": "1", "index": 0, "snapshot": False}, "nobody can read"),
        ({"format": 1, "table": "t", "version": 1}, "nobody can read"),
    ],
)
def test_what_is_no_position_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        from_json(given)
