"""What holds for a lake table of either format: one atomic commit, no two copies, progress that nothing removes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from support.lake_tables import CLICKS, load, only, opened, rows, verdict_of, written  # noqa: E402

from penstock.errors import ConfigError, PenstockError  # noqa: E402
from penstock.records.run import SeenEpoch  # noqa: E402
from penstock.spark.lake.maintenance import Maintenance  # noqa: E402
from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.reading import batches_of  # noqa: E402
from penstock.spark.lake.records import (  # noqa: E402
    DIVERGED,
    RECORD_SCHEMA,
    Gap,
    LakeConflictError,
    with_date,
)
from penstock.spark.lake.table import LakeTable  # noqa: E402
from penstock.spark.lake.verify import verify  # noqa: E402

FORMATS = ["delta", "iceberg"]
pytestmark = pytest.mark.parametrize("table_format", FORMATS)


@pytest.fixture
def lake(tmp_path: Path, table_format: str) -> LakeTable:
    return opened(tmp_path, table_format)


def maintained(lake: LakeTable, *steps: str) -> dict[str, dict[str, object]]:
    """As `penstock lake maintain` does it, at once and without mercy for what is young."""
    again = open_table(lake.uri, "maintain", format=lake.format, create=False)
    return Maintenance(again, target_bytes=1 << 20, keep_hours=0).run(steps)


def test_a_commit_moves_the_end_for_everybody(lake: LakeTable, tmp_path: Path, table_format: str) -> None:
    assert lake.end(CLICKS) is None
    load(lake, 5, 15)
    other = opened(tmp_path, table_format)
    assert (lake.end(CLICKS), other.end(CLICKS), other.ends()) == (15, 15, {CLICKS: 15})
    assert opened(tmp_path, table_format, "another").ends() == {}


def test_of_two_copies_that_planned_the_same_only_one_commits(
    lake: LakeTable, tmp_path: Path, table_format: str
) -> None:
    copy = opened(tmp_path, table_format)
    load(lake, 0, 10)
    with pytest.raises(LakeConflictError, match="another copy of the pipeline is running"):
        load(copy, 0, 10)
    verdict = verdict_of(lake)
    assert verdict.clean
    assert verdict.rows == 10


def test_of_many_that_race_each_range_is_committed_once(lake: LakeTable, tmp_path: Path, table_format: str) -> None:
    """Threads commit at the same moment, over and over: the loser must not be tried again behind our back."""
    outcomes: list[str] = []
    barrier = threading.Barrier(4)
    for start in (0, 10, 20):
        copies = [opened(tmp_path, table_format) for _ in range(4)]
        files = [written(copy, rows(range(start, start + 10))) for copy in copies]

        def race(copy: LakeTable, mine: object, start: int = start) -> None:
            barrier.wait()
            try:
                copy.commit(mine, {CLICKS: start}, {CLICKS: start + 10})  # type: ignore[arg-type]
                outcomes.append(f"{start} committed")
            except LakeConflictError:
                outcomes.append(f"{start} stopped")

        threads = [threading.Thread(target=race, args=pair) for pair in zip(copies, files, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [outcomes.count(f"{start} {how}") for how in ("committed", "stopped")] == [1, 3]
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.rows) == (True, 30)


def test_two_pipelines_that_race_both_commit(lake: LakeTable, tmp_path: Path, table_format: str) -> None:
    backfill = opened(tmp_path, table_format, "backfill")
    load(lake, 100, 110)
    load(backfill, 0, 10)
    load(lake, 110, 120)
    verdict = verdict_of(lake)
    assert verdict.clean
    assert verdict.pipelines == {"backfill": (0, 10), "test": (100, 120)}
    assert verdict.not_loaded_ranges == [(10, 100)]
    load(backfill, 10, 100)
    assert verdict_of(lake).not_loaded_ranges == []


def test_a_commit_without_files_moves_ends_and_races_too(lake: LakeTable, tmp_path: Path, table_format: str) -> None:
    copy = opened(tmp_path, table_format)
    load(lake, 0, 10, [(0, 10, "deleted")])
    with pytest.raises(LakeConflictError):
        load(copy, 0, 10, [(0, 10, "deleted")])
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.gaps) == (True, {"deleted": 10})


def test_columns_are_added_once_whoever_asks(lake: LakeTable, tmp_path: Path, table_format: str) -> None:
    load(lake, 0, 5)
    copy = opened(tmp_path, table_format)
    lake.add_columns([pa.field("page", pa.string()), pa.field("visits", pa.int64())])
    copy.add_columns([pa.field("page", pa.string())])
    copy.refresh()
    assert copy.columns.names[-2:] == ["page", "visits"]
    with pytest.raises(PenstockError, match="column page is string in the table and cannot become int64"):
        copy.add_columns([pa.field("page", pa.int64())])
    batch = rows(range(5, 10)).append_column("page", pa.array(["/"] * 5))
    copy.commit(written(copy, batch), {CLICKS: 5}, {CLICKS: 10})
    pages = [
        value for each in batches_of(copy, ["offset", "page"], "clicks") for value in each.column("page").to_pylist()
    ]
    assert sorted(map(str, pages)) == ["/"] * 5 + ["None"] * 5
    assert verdict_of(lake).clean


def test_files_of_before_a_nested_column_are_merged_and_read_with_nulls_in_it(
    lake: LakeTable, table_format: str
) -> None:
    load(lake, 0, 5)
    lake.add_columns([pa.field("tags", pa.list_(pa.string())), pa.field("client", pa.struct([("os", pa.string())]))])
    lake.refresh()
    load(lake, 5, 10)
    assert maintained(lake, "compact")["compact"]["files_merged"] == 2
    lake.refresh()
    found = [row for each in batches_of(lake, ["tags", "client"]) for row in each.to_pylist()]
    assert found == [{"tags": None, "client": None}] * 10


def test_a_job_writes_one_file_a_date(tmp_path: Path, table_format: str) -> None:
    lake = opened(tmp_path, table_format, columns=with_date(RECORD_SCHEMA), partition_by=["date"])
    load(lake, 0, 120)
    assert sorted(file.partition_values["date"] for file in lake.files() if file.partition_values["date"]) == [
        "2026-01-01",
        "2026-01-02",
        "2026-01-03",
    ]
    dates = {str(date) for batch in batches_of(lake, ["date"]) for date in batch.column("date").to_pylist()}
    assert dates == {"2026-01-01", "2026-01-02", "2026-01-03"}
    assert maintained(lake, "compact")["compact"]["files_merged"] == 0
    load(lake, 120, 140)
    assert maintained(lake, "compact")["compact"]["files_merged"] == 2
    assert verdict_of(lake).clean


def test_rows_of_a_topic_are_read_again_and_again(lake: LakeTable) -> None:
    load(lake, 0, 20)
    for _ in range(2):
        assert sum(batch.num_rows for batch in batches_of(lake, ["value"], "clicks")) == 20
    assert list(batches_of(lake, ["value"], "orders")) == []


def test_maintenance_between_the_commits_of_a_load_changes_nothing(lake: LakeTable) -> None:
    """The load goes on with the table as it had opened it, as a running one does."""
    for step, start in enumerate(range(0, 120, 10)):
        load(lake, start, start + 10, [(start + 4, start + 5, "control")])
        lake.destination()
        maintained(lake, ("compact", "expire", "vacuum")[step % 3])
        verdict = verdict_of(lake)
        assert (verdict.clean, verdict.rows, verdict.end) == (True, (step + 1) * 9, start + 10)
        assert verdict.gaps == {"control": step + 1}
    maintained(lake, "compact", "expire", "vacuum")
    lake.refresh()
    assert len(lake.files()) == 1
    offsets = [value for batch in batches_of(lake, ["offset"]) for value in batch.column("offset").to_pylist()]
    assert offsets == [offset for offset in range(120) if offset % 10 != 4], "the order of the offsets is kept"


def test_vacuum_removes_orphans_and_keeps_what_is_young(lake: LakeTable) -> None:
    load(lake, 0, 10)
    (orphan,) = written(lake, rows(range(10, 20)))
    path = Path(lake.uri) / orphan.path
    again = open_table(lake.uri, "maintain", format=lake.format, create=False)
    Maintenance(again, target_bytes=1 << 20, keep_hours=24).run()
    assert path.exists(), "it may be of a job that runs"
    os.utime(path, (0, 0))
    Maintenance(again, target_bytes=1 << 20, keep_hours=24).run()
    assert not path.exists()
    assert verdict_of(lake).clean


def test_a_compaction_that_lost_its_files_to_another_does_nothing(lake: LakeTable) -> None:
    from penstock.spark.lake.compaction import bins_of, merge
    from penstock.spark.lake.maintenance import steps_of

    for start in (0, 10, 20):
        load(lake, start, start + 10)
    one, two = (open_table(lake.uri, "maintain", format=lake.format, create=False) for _ in range(2))
    (files,) = bins_of(one.files(), 1 << 20)
    merged = [merge(each, files) for each in (one, two)]
    assert steps_of(one)._replace(files, merged[0])  # type: ignore[attr-defined]
    assert not steps_of(two)._replace(files, merged[1])  # type: ignore[attr-defined]
    load(lake, 30, 40)
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.rows) == (True, 40)


def test_thousands_of_gaps_stay_small_and_proven(
    lake: LakeTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("penstock.spark.lake.folding.LAKE_GAPS_PER_PIPELINE", 16)
    monkeypatch.setattr("penstock.spark.lake.folding.LAKE_SEALED_PER_PIPELINE", 4)
    for start in range(0, 1200, 100):
        load(lake, start, start + 100, [(at, at + 1, "control") for at in range(start, start + 100, 10)])
    (progress,) = lake.progress().values()
    assert len(progress.gaps) <= 16
    assert len(progress.sealed) <= 4
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.gaps) == (True, {"control": 120})


def test_a_table_that_is_not_there_is_named(tmp_path: Path, table_format: str) -> None:
    with pytest.raises(PenstockError, match=r"there is no \w+ table at"):
        opened(tmp_path, table_format, create=False)
    with pytest.raises(ConfigError, match="cannot be partitioned by date"):
        opened(tmp_path, table_format, partition_by=["date"])


def test_a_file_that_vanished_from_the_table_is_missing(lake: LakeTable) -> None:
    for start in (0, 10, 20):
        load(lake, start, start + 10)
    if lake.format == "delta":
        from deltalake.transaction import RemoveAction

        victim = lake.files()[1]
        lake.table.create_write_transaction(  # type: ignore[attr-defined]
            [RemoveAction(victim.path, True, 0, victim.size_bytes, {})],
            "append",
            lake.table.schema(),  # type: ignore[attr-defined]
        )
    else:
        lake.table.delete("offset >= 10 and offset < 20")  # type: ignore[attr-defined]
    verdict = verdict_of(lake)
    assert (verdict.missing, verdict.missing_ranges) == (10, [(10, 20)])


def test_statistics_that_lie_deceive_no_proof(lake: LakeTable) -> None:
    """The file holds 0 to 9, and says 0 to 19."""
    from dataclasses import replace

    (file,) = written(lake, rows(range(10)))
    lake.commit([replace(file, high={**file.high, "offset": 19}, rows=20)], {CLICKS: 0}, {CLICKS: 20})
    assert only(verify(lake)).missing_ranges == [(10, 20)]


def test_what_diverged_is_kept_shown_and_no_gap(lake: LakeTable, tmp_path: Path, table_format: str) -> None:
    load(lake, 0, 100)
    lake.commit([], {CLICKS: 100}, {CLICKS: 100}, epochs={CLICKS: SeenEpoch(5, 100)})
    assert opened(tmp_path, table_format).loaded().partitions[CLICKS].last_epoch == SeenEpoch(5, 100)
    load(lake, 100, 110)
    assert lake.loaded().partitions[CLICKS].last_epoch == SeenEpoch(5, 100), "nothing newer was seen"
    lake.commit([], {CLICKS: 110}, {CLICKS: 110}, [Gap(CLICKS, 90, 110, DIVERGED)])
    folded = opened(tmp_path, table_format).loaded().partitions[CLICKS]
    assert (folded.last_epoch, folded.diverged, folded.gaps) == (None, [(90, 110)], [])
    load(lake, 110, 120, [(110, 111, "control")])
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.rows, verdict.diverged_ranges) == (True, 119, [(90, 110)])
    assert verdict.gaps == {"control": 1}


def test_ranges_that_diverged_stay_few(lake: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.lake.folding.LAKE_DIVERGED_PER_PARTITION", 2)
    for end in (10, 20, 30, 40):
        load(lake, end - 10, end)
        lake.commit([], {CLICKS: end}, {CLICKS: end}, [Gap(CLICKS, end - 2, end, DIVERGED)])
    assert verdict_of(lake).diverged_ranges == [(8, 30), (38, 40)]


def test_what_a_commit_names_is_on_the_disk(tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut could leave a table that names what is not there."""
    synced: set[int] = set()
    force = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        force(descriptor)

    monkeypatch.setattr("penstock.spark.lake.durable.os.fsync", fsync)
    above = tmp_path / "tables" / "web"
    lake = opened(above, table_format, columns=with_date(RECORD_SCHEMA), partition_by=["date"])
    assert {path.stat().st_ino for path in (tmp_path, tmp_path / "tables", above)} <= synced
    load(lake, 0, 120)
    lake.add_columns([pa.field("page", pa.string())])
    load(lake, 120, 140)
    maintained(lake, "compact", "expire")
    below = [path for path in Path(lake.uri).rglob("*") if not path.name.endswith(".tmp")]
    assert sorted(str(path.relative_to(lake.uri)) for path in below if path.stat().st_ino not in synced) == []
