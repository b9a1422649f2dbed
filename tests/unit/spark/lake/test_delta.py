"""What is particular to Delta: progress in files that commits name, tables of before there were such, statistics."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

from deltalake import CommitProperties, DeltaTable, Transaction  # noqa: E402
from support.lake_tables import CLICKS, load, opened, rows, verdict_of, written  # noqa: E402

from penstock.errors import PenstockError  # noqa: E402
from penstock.spark.lake.compaction import bins_of, merge  # noqa: E402
from penstock.spark.lake.delta import PROGRESS_KEY, DeltaLake, add_action  # noqa: E402
from penstock.spark.lake.delta_maintenance import DeltaSteps  # noqa: E402
from penstock.spark.lake.maintenance import Maintenance  # noqa: E402
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, Gap, Statistics  # noqa: E402
from penstock.spark.lake.table import TableFile  # noqa: E402
from penstock.spark.limits import LAKE_SUMMARIES_KEPT  # noqa: E402


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    lake = opened(tmp_path, "delta")
    assert isinstance(lake, DeltaLake)
    return lake


def summaries(lake: DeltaLake, pipeline: str = "test") -> list[Path]:
    return sorted((Path(lake.uri) / "_penstock/progress" / pipeline).glob("*.json"))


def test_the_proof_needs_no_entry_of_the_log_but_the_newest_checkpoint(lake: DeltaLake) -> None:
    for start in range(0, 100, 10):
        load(lake, start, start + 10, [(start, start + 1, "control")])
    lake.table.create_checkpoint()
    for entry in (Path(lake.uri) / "_delta_log").glob("*.json"):
        entry.unlink()
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.start, verdict.end, verdict.gaps) == (True, 0, 100, {"control": 10})


def test_a_log_that_is_kept_for_a_day_is_short_after_expiry_and_a_load_goes_on(lake: DeltaLake) -> None:
    DeltaTable(lake.uri).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 day"})
    lake.refresh()
    for start in range(0, 100, 10):
        load(lake, start, start + 10)
    log = Path(lake.uri, "_delta_log")
    for entry in log.iterdir():
        os.utime(entry, (0, 0))
    Maintenance(opened(Path(lake.uri).parent, "delta"), target_bytes=1 << 20, keep_hours=168).run(["expire"])
    assert len(list(log.glob("*.json"))) == 1
    load(lake, 100, 110)
    assert (verdict_of(lake).clean, verdict_of(lake).rows) == (True, 110)


def test_only_the_newest_summaries_are_kept(lake: DeltaLake) -> None:
    for start in range(3 * LAKE_SUMMARIES_KEPT):
        load(lake, start, start + 1)
    assert len(summaries(lake)) == LAKE_SUMMARIES_KEPT + 1
    assert verdict_of(lake).clean


def test_a_reader_of_an_older_version_whose_summary_is_gone_sees_the_newest(lake: DeltaLake, tmp_path: Path) -> None:
    load(lake, 0, 1)
    reader = opened(tmp_path, "delta", "verify")
    for start in range(1, 3 * LAKE_SUMMARIES_KEPT):
        load(lake, start, start + 1)
    (progress,) = reader.progress().values()
    assert progress.end == 3 * LAKE_SUMMARIES_KEPT


def test_progress_that_was_forged_is_found_out(lake: DeltaLake) -> None:
    load(lake, 0, 10, [(9, 10, "control")])
    (path,) = summaries(lake)
    path.write_text(path.read_text().replace('[9,10,"control"]', '[8,10,"control"]'))
    with pytest.raises(PenstockError, match="is damaged: it is not what the table's commit named"):
        verdict_of(lake)


def test_progress_that_is_gone_is_said(lake: DeltaLake) -> None:
    load(lake, 0, 10)
    summaries(lake)[0].unlink()
    with pytest.raises(PenstockError, match="the table's progress is gone"):
        verdict_of(lake)


def test_an_end_that_was_moved_without_the_summary_is_a_contradiction(lake: DeltaLake) -> None:
    load(lake, 0, 10)
    moved = Transaction(f"penstock/test/{CLICKS.topic_id}/0", 20)
    lake.table.create_write_transaction(
        [], "append", lake.table.schema(), commit_properties=CommitProperties(app_transactions=[moved])
    )
    with pytest.raises(PenstockError, match="transactions of pipeline 'test' end at 20, its summary at 10"):
        verdict_of(lake)


def test_a_summary_that_lost_its_race_is_removed_when_it_is_old(lake: DeltaLake) -> None:
    load(lake, 0, 10)
    lost = lake.summaries.write(lake.all_summaries()[0].after({CLICKS: 10}, {CLICKS: 20}, ()), None)
    assert len(summaries(lake)) == 2
    assert verdict_of(lake).end == 10
    Maintenance(lake, target_bytes=1, keep_hours=24).run(["vacuum"])
    assert len(summaries(lake)) == 2, "it may be of a commit that is under way"
    done = Maintenance(lake, target_bytes=1, keep_hours=0).run(["vacuum"])
    assert done["vacuum"]["summaries"] == 1
    assert all(str(lost.number) not in path.name for path in summaries(lake))
    assert verdict_of(lake).clean


def commit_as_before(lake: DeltaLake, start: int, end: int, gaps: list[tuple[int, int, str]], pipeline: str) -> None:
    """A commit as it was before there were summaries: starts and gaps in the log's entry only."""
    absent = {offset for low, high, _ in gaps for offset in range(low, high)}
    files = written(lake, rows([offset for offset in range(start, end) if offset not in absent]))
    partition = {"topic": "clicks", "topic_id": str(CLICKS.topic_id), "partition": 0}
    told = {"pipeline": pipeline, "partitions": [{**partition, "start": start, "end": end, "gaps": gaps}]}
    lake.table.create_write_transaction(
        [add_action(file, 0) for file in files],
        "append",
        lake.table.schema(),
        commit_properties=CommitProperties(
            custom_metadata={PROGRESS_KEY: json.dumps(told)},
            app_transactions=[Transaction(f"penstock/{pipeline}/{CLICKS.topic_id}/0", end)],
        ),
    )
    lake.refresh()


def test_a_table_of_before_there_were_summaries_is_proven_and_goes_on(lake: DeltaLake, tmp_path: Path) -> None:
    commit_as_before(lake, 0, 10, [(3, 4, "control")], "test")
    commit_as_before(lake, 10, 20, [], "test")
    commit_as_before(lake, 100, 110, [(105, 106, "compacted")], "other")
    assert verdict_of(lake).gaps == {"control": 1, "compacted": 1}
    assert lake.ends() == {CLICKS: 20}
    load(lake, 20, 30, [(25, 26, "control")])
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.gaps) == (True, {"control": 2, "compacted": 1})
    commit_as_before(lake, 110, 120, [], "other")
    assert verdict_of(lake).clean, "an earlier Penstock may go on with its own pipeline"
    load(opened(tmp_path, "delta", "other"), 120, 130)
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.pipelines) == (True, {"other": (100, 130), "test": (0, 30)})


def test_a_change_of_the_table_by_others_does_not_stop_a_load(lake: DeltaLake) -> None:
    load(lake, 0, 10)
    DeltaTable(lake.uri).alter.set_table_properties({"delta.logRetentionDuration": "interval 90 days"})
    load(lake, 10, 20)
    opened(Path(lake.uri).parent, "delta", "other").add_columns([pa.field("page", pa.string())])
    load(lake, 20, 30)
    assert verdict_of(lake).rows == 30


COLUMNS = pa.schema(
    [
        *RECORD_SCHEMA,
        pa.field("text", pa.string()),
        pa.field("ratio", pa.float64()),
        pa.field("seen", pa.bool_()),
        pa.field("day", pa.date32()),
    ]
)


def with_values(offset: int, **values: Any) -> pa.RecordBatch:
    batch = rows([offset])
    for field in COLUMNS:
        if field.name not in batch.schema.names:
            batch = batch.append_column(field, pa.array([values.get(field.name)], field.type))
    return batch


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "a" * 40),
        ("text", "b"),
        ("text", "\U0010ffff" * 40),
        ("ratio", 0.5),
        ("seen", True),
        ("day", date(2026, 1, 2)),
    ],
    ids=["long", "short", "last", "ratio", "seen", "day"],
)
def test_readers_that_prune_files_by_statistics_find_every_value(tmp_path: Path, name: str, value: object) -> None:
    """Files in which a column is null, or has values that no JSON holds, lie beside the one that is looked for."""
    lake = opened(tmp_path, "delta", columns=COLUMNS)
    others: list[Mapping[str, Any]] = [{}, {"ratio": float("nan")}, {"ratio": float("inf"), "text": "c"}]
    batches = [with_values(at, **each) for at, each in enumerate([*others, {name: value}])]
    files = [file for batch in batches for file in written(lake, batch)]
    lake.commit(files, {CLICKS: 0}, {CLICKS: len(files)})
    found = lake.table.to_pyarrow_table(filters=[(name, "=", value)])  # type: ignore[attr-defined]
    assert found["offset"].to_pylist() == [len(others)]
    nulls = lake.table.to_pyarrow_dataset().to_table(filter=pa.compute.field("text").is_null())  # type: ignore[attr-defined]
    assert nulls.num_rows == sum(batch.column("text").null_count for batch in batches)


def test_statistics_cover_what_json_cannot_hold() -> None:
    statistics = Statistics()
    statistics.add(with_values(0, ratio=float("-inf"), text="x" * 100))
    statistics.add(with_values(1, ratio=float("nan"), text="a"))
    assert json.loads(json.dumps([statistics.low, statistics.high], allow_nan=False))
    assert statistics.low["ratio"] < -1e308
    assert statistics.high["ratio"] > 1e308
    assert statistics.low["text"] == "a"
    assert statistics.high["text"] > "x" * 100


@pytest.mark.parametrize("stranger", ["compaction", "load", "loads"])
def test_a_compaction_follows_on_no_version_that_it_has_not_seen(
    lake: DeltaLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stranger: str
) -> None:
    """A stranger commits between its last look and its commit: `OPTIMIZE`, a load once, or each time."""
    for start in (0, 10, 20):
        load(lake, start, start + 10)
    mine = opened(tmp_path, "delta", "maintain")
    assert isinstance(mine, DeltaLake)
    (files,) = bins_of(mine.files(), 1 << 20)
    merged = merge(mine, files)
    look = mine.files
    turns = iter(range(1000))

    def disturbed() -> list[TableFile]:
        seen, turn = look(), next(turns)
        if stranger == "compaction" and turn == 0:
            DeltaTable(lake.uri).optimize.compact()
        elif stranger == "loads" or (stranger == "load" and turn == 0):
            load(lake, 30 + turn, 31 + turn)
        return seen

    monkeypatch.setattr(mine, "files", disturbed)
    monkeypatch.setattr("penstock.spark.lake.delta_maintenance.REPLACE_TRIES", 3)
    assert DeltaSteps(mine)._replace(files, merged) == (stranger == "load")
    assert next(turns) == {"compaction": 2, "load": 2, "loads": 3}[stranger], "how often it was tried"
    lake.refresh()
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.rows) == (True, {"compaction": 30, "load": 31, "loads": 33}[stranger])


def test_a_compaction_whose_answer_was_lost_is_done(lake: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in (0, 10):
        load(lake, start, start + 10)
    (files,) = bins_of(lake.files(), 1 << 20)
    commit = DeltaTable.create_write_transaction

    def lost(*args: Any, **more: Any) -> None:
        commit(*args, **more)
        raise OSError("the answer was lost")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    assert DeltaSteps(lake)._replace(files, merge(lake, files))
    assert (verdict_of(lake).clean, verdict_of(lake).rows, len(lake.files())) == (True, 20, 1)


def test_a_gap_of_a_commit_is_clipped_to_what_it_loaded(lake: DeltaLake, tmp_path: Path) -> None:
    files = written(lake, rows(range(5)))
    lake.commit(files, {CLICKS: 0}, {CLICKS: 5}, [Gap(CLICKS, 4, 9, "compacted")])
    assert isinstance(files[0], DataFile)
    load(lake, 5, 8)
    (progress,) = lake.progress().values()
    assert [(gap.start, gap.end) for gap in progress.gaps] == [(4, 5)]


def test_a_table_that_forgets_idle_pipelines_is_refused(lake: DeltaLake, tmp_path: Path) -> None:
    load(lake, 0, 10)
    lake.table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 7 days"})
    lake.refresh()
    for attempt in (lambda: load(lake, 10, 20), lambda: opened(tmp_path, "delta")):
        with pytest.raises(PenstockError, match=r"has delta.setTransactionRetentionDuration = interval 7 days"):
            attempt()
