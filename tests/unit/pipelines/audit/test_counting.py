"""The parts of the completeness audit, without brokers: buckets, producers' counts, files of a lake, the table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

import numpy as np
from support.lake_tables import CLICKS, NEW_YEAR, load, opened, rows, written

from penstock.errors import PenstockError
from penstock.pipelines.audit import lake, producer
from penstock.pipelines.audit.compare import compared
from penstock.pipelines.audit.lake import LakeFiles
from penstock.pipelines.audit.producer import BUCKET_MS, ProducerCounts, add_said, encoded
from penstock.pipelines.audit.table import Count, CountsTable, Key
from penstock.pipelines.audit.tally import Tally, add_times
from penstock.pipelines.jobs.audit import JOB, check
from penstock.spark.lake.erasure import Erasure
from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.open import open_table
from penstock.spark.lake.records import LakeConflictError

START_MS = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
NEW_YEAR_MS = int(NEW_YEAR.timestamp() * 1000)
GRACE_MS = 900_000


def test_a_bucket_begins_with_its_first_millisecond_also_before_1970() -> None:
    tally = Tally()
    times = [-1, -BUCKET_MS, 0, BUCKET_MS - 1, BUCKET_MS]
    add_times(tally, "t", np.array(times), -BUCKET_MS)
    assert tally == {("t", -BUCKET_MS): 2, ("t", 0): 2, ("t", BUCKET_MS): 1}
    only = Tally()
    add_times(only, "t", np.array(times), BUCKET_MS)
    assert only == {("t", BUCKET_MS): 1}


def test_what_a_producer_says_twice_counts_once_and_its_next_process_adds() -> None:
    said: producer.Said = {}
    for first in ProducerCounts("web"), ProducerCounts("web"):
        first.delivered("t", START_MS + 5, 3)
        early = first.records()
        first.delivered("t", START_MS + 7)
        late = first.records()
        assert first.records() == []
        assert add_said(said, [value for _, value in [*late, *early, *late]]) == 0
        assert early[0][0] == late[0][0], "a compacted topic keeps the last"
    assert sorted(said.values()) == [4, 4]
    assert {(topic, bucket) for _, topic, bucket in said} == {("t", START_MS)}


def test_a_producer_of_many_buckets_goes_on_under_another_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "AUDIT_BUCKETS_PER_PRODUCER", 2)
    counts, said = ProducerCounts("web"), producer.Said()
    for bucket in (0, 1, 2, 0):
        counts.delivered("t", START_MS + bucket * BUCKET_MS)
    add_said(said, [value for _, value in counts.records()])
    assert sorted(bucket for _, _, bucket in said) == [START_MS, START_MS] + [START_MS + n * BUCKET_MS for n in (1, 2)]
    assert sum(said.values()) == 4


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"[]",
        b"7",
        b"\xff",
        b"[" * 100_000,
        encoded("c", "t", 5, 1)[1],
        encoded("c", "t", START_MS, -1)[1],
        encoded("c", "t", BUCKET_MS * (1 << 60), 1)[1],
        encoded("c", "t", START_MS, 1)[1].replace(b'"version": 1', b'"version": 2'),
        encoded("c", "t", START_MS, 1)[1].replace(b'"records": 1', b'"records": true'),
    ],
)
def test_what_is_no_count_is_told_and_changes_nothing(value: bytes | None) -> None:
    said: producer.Said = {}
    assert add_said(said, [value, encoded("c", "t", START_MS, 2)[1]]) == 1
    assert said == {("c", "t", START_MS): 2}


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_is_the_sum_of_its_files_each_read_once(
    tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a second file, a compaction, an erasure, and a row that is there twice."""
    pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
    pytest.importorskip("duckdb", reason="needs penstock[sql]")
    read: list[str] = []
    counted = lake._counted
    monkeypatch.setattr(lake, "_counted", lambda table, file: read.append(file.path) or counted(table, file))
    table = opened(tmp_path, table_format)
    kept = tmp_path / "kept.parquet"

    def found(files: LakeFiles, since_ms: int = NEW_YEAR_MS) -> list[int]:
        tally = files.count(table.uri, table_format, {}, ["clicks"], since_ms)
        files.save()
        return [n for _, n in sorted(tally.items())]

    load(table, 0, 60)
    assert found(LakeFiles(kept)) == [50, 10]
    load(table, 60, 120)
    assert found(LakeFiles(kept)) == [50, 50, 20]
    assert len(read) == 2, "the first file is known by a later process"
    Maintenance(table, target_bytes=1 << 20, keep_hours=168).run(["compact"])
    assert found(LakeFiles(kept)) == [50, 50, 20]
    Erasure(open_table(table.uri, "erase", format=table_format, create=False), '"offset" = 3').run()
    assert found(LakeFiles(kept)) == [49, 50, 20]
    table.refresh()
    table.commit(written(table, rows([119])), {CLICKS: 120}, {CLICKS: 121})
    assert found(LakeFiles(kept)) == [49, 50, 21], "one that is there twice is counted twice"
    assert found(LakeFiles(kept), NEW_YEAR_MS + 2 * 86_400_000) == [21]
    kept.write_bytes(b"no Parquet")
    assert found(LakeFiles(kept)) == [49, 50, 21], "it only saves work"


def test_a_table_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PenstockError):
        LakeFiles(tmp_path / "kept").count(str(tmp_path / "none"), "delta", {}, ["t"], 0)


def key(tier: str, part: str = "", bucket: int = 0, topic: str = "t") -> Key:
    return Key(tier, topic, part, START_MS + bucket * BUCKET_MS)


def test_counts_and_positions_are_one_commit_and_a_second_copy_fails(tmp_path: Path) -> None:
    path = str(tmp_path / "counts")
    first, second = CountsTable(path), CountsTable(path)
    other_day = key("cluster", bucket=144)
    first.commit({key("cluster"): Count(3, START_MS), other_day: Count(1, START_MS)}, {"a": 3})
    with pytest.raises(LakeConflictError, match="another copy of the audit"):
        second.commit({key("cluster"): Count(3, START_MS)}, {"a": 3})
    second.refresh()
    assert (second.position("a"), second.position("b")) == (3, None)
    second.commit({key("cluster"): Count(0, START_MS), key("lake"): Count(5, START_MS)}, {"a": 4})
    second.commit({}, {"b": 9})
    first.refresh()
    assert first.counts([date(2026, 1, 31)]) == {key("lake"): Count(5, START_MS)}
    assert first.counts([date(2026, 2, 1)]) == {other_day: Count(1, START_MS)}, "other days stay"
    assert (first.position("a"), first.position("b")) == (4, 9)
    first.clean(date(2026, 2, 1))
    assert [each.as_py() for each in first.rows()["day"]] == [date(2026, 2, 1)]
    assert first.position("a") == 4


@pytest.mark.parametrize(
    ("has", "changed_ms", "told_ms", "early_ms", "settled"),
    [
        (9, 0, 0, 0, True),
        (9, 0, 0, 1, False),
        (9, GRACE_MS, 0, 0, True),
        (9, 0, BUCKET_MS + 1, 0, False),
        (11, BUCKET_MS + 1, 0, 0, False),
        (11, BUCKET_MS, 0, 0, True),
    ],
    ids=["fewer", "not over", "still coming", "late record", "looked at later", "more"],
)
def test_places_have_time_to_become_alike(  # noqa: PLR0917 - a case of the table
    tmp_path: Path, has: int, changed_ms: int, told_ms: int, early_ms: int, settled: bool
) -> None:
    table = CountsTable(str(tmp_path))
    counts = {
        key("cluster", "1"): Count(4, START_MS),
        key("cluster", "2"): Count(6, START_MS + told_ms),
        key("lake"): Count(has, START_MS + changed_ms),
        key("lake", topic="other"): Count(7, START_MS),
    }
    table.commit(counts, {})
    when = {"since_ms": START_MS, "now_ms": START_MS + BUCKET_MS + GRACE_MS - early_ms, "grace_ms": GRACE_MS}
    (line,) = compared(table.rows(), {"lake": "cluster"}, ["t"], **when)
    assert (line.tier, line.records, line.expected, line.settled) == ("lake", has, 10, settled)
    more = "more" if has > 10 else "fewer"
    assert line.text == f"t 2026-01-31T12:00Z: lake has 1 records {more} than cluster ({has} of 10)"
    assert compared(table.rows(), {"lake": "cluster"}, ["t"], **when | {"since_ms": START_MS + BUCKET_MS}) == []


def test_a_bucket_that_a_tier_lacks_is_told_with_all_its_records(tmp_path: Path) -> None:
    table = CountsTable(str(tmp_path))
    table.commit({key("cluster"): Count(4, START_MS), key("lake", bucket=1): Count(2, START_MS)}, {})
    when = {"since_ms": START_MS, "now_ms": START_MS + 10 * BUCKET_MS, "grace_ms": GRACE_MS}
    lines = compared(table.rows(), {"mirror": "cluster", "lake": "cluster"}, ["t"], **when)
    found = [(each.tier, (each.bucket.minute), each.difference) for each in lines]
    assert found == [("mirror", 0, -4), ("lake", 0, -4), ("lake", 10, 2)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "there is nothing to compare the topics with"),
        ({"audit_topic": "t"}, "topics cannot have the audit_topic itself"),
        ({"audit_topic": "a", "since": "soon"}, "since is 'soon'"),
        ({"mirrors": [{"name": "lake", "bootstrap": "b:1", "prefix": ""}]}, "mirrors need names of their own"),
        ({"mirrors": [{"name": "m", "bootstrap": None, "prefix": ""}]}, "each of mirrors a bootstrap"),
        ({"lakes": [{"table": None, "table_format": "auto", "storage_options": {}}]}, "each of lakes needs a table"),
    ],
)
def test_options_that_make_no_sense_are_told_before_anything_runs(wrong: dict[str, object], said: str) -> None:
    options = {option.name: option.default for option in JOB.options} | {"topics": ["t"]} | wrong
    (problem,) = check(options)
    assert said in problem
