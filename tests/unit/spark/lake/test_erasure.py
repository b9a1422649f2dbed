"""Erasure: the rows are gone, every other is there, and verify is clean, beside loads and compactions."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
pytest.importorskip("duckdb", reason="needs penstock[sql]")

from support.lake_tables import CLICKS, load, opened, rows, verdict_of, written  # noqa: E402

from penstock.errors import ConfigError, PenstockError  # noqa: E402
from penstock.spark.lake import erasure as erasing  # noqa: E402
from penstock.spark.lake import folding  # noqa: E402
from penstock.spark.lake.certificates import Certificate, Certificates  # noqa: E402
from penstock.spark.lake.erasure import Erasure  # noqa: E402
from penstock.spark.lake.iceberg import IcebergLake  # noqa: E402
from penstock.spark.lake.maintenance import Maintenance  # noqa: E402
from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.reading import batches_of  # noqa: E402
from penstock.spark.lake.records import RECORD_SCHEMA, LakeConflictError, TopicPartition, with_date  # noqa: E402
from penstock.spark.lake.table import LakeTable, TableFile  # noqa: E402
from penstock.spark.lake.verify import verify  # noqa: E402

pytestmark = pytest.mark.parametrize("table_format", ["delta", "iceberg"])
TENTH = "decode(key) like 'k%3'"
"""Of every ten keys one."""


@pytest.fixture
def lake(tmp_path: Path, table_format: str) -> LakeTable:
    lake = opened(tmp_path, table_format)
    for start in (0, 10, 20):
        load(lake, start, start + 10, [(start + 5, start + 6, "control")])
    return lake


def again(lake: LakeTable) -> LakeTable:
    return open_table(lake.uri, "erase", format=lake.format, create=False)


def erased(lake: LakeTable, where: str = TENTH, **more: object) -> Certificate:
    return Erasure(again(lake), where, **more).run()  # type: ignore[arg-type]


def offsets_of(lake: LakeTable) -> list[int]:
    return sorted(o for batch in batches_of(again(lake), ["offset"]) for o in batch.column("offset").to_pylist())


def vacuumed(lake: LakeTable) -> dict[str, object]:
    return Maintenance(again(lake), target_bytes=1 << 20, keep_hours=1000).run(["vacuum"])["vacuum"]


def test_rows_are_gone_and_the_others_are_there(lake: LakeTable) -> None:
    certificate = erased(lake, reference="request 17")
    stay = [offset for offset in range(30) if offset % 10 not in (3, 5)]
    assert offsets_of(lake) == stay
    verdict = verdict_of(lake)
    assert verdict.clean, verdict
    assert verdict.gaps == {"control": 3, "erased": 3}
    assert (certificate.rows, certificate.files_rewritten, certificate.reference) == (3, 3, "request 17")
    assert certificate.clean_version == again(lake).version
    load(lake_of_its_load(lake), 30, 40)
    assert verdict_of(lake).clean
    assert erased(lake, "decode(key) = 'k33'").files_rewritten == 1


def lake_of_its_load(lake: LakeTable) -> LakeTable:
    return open_table(lake.uri, "test", format=lake.format, create=False)


def test_files_without_such_rows_stay_as_they_are(lake: LakeTable) -> None:
    before = {file.path for file in again(lake).files()}
    assert erased(lake, "decode(key) = 'k13'").files_rewritten == 1
    assert len(before & {file.path for file in again(lake).files()}) == 2
    version = again(lake).version
    nothing = erased(lake, "decode(key) = 'nobody'")
    assert (nothing.rows, nothing.files_rewritten, again(lake).version) == (0, 0, version)


def test_a_file_of_which_nothing_stays_is_not_replaced(lake: LakeTable) -> None:
    erased(lake, '"offset" between 10 and 19')
    assert len(again(lake).files()) == 2
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.rows, verdict.gaps["erased"]) == (True, 18, 9)


def test_a_row_that_comes_back_is_told(lake: LakeTable) -> None:
    erased(lake)
    loads = lake_of_its_load(lake)
    loads.commit(written(loads, rows([13])), {CLICKS: 30}, {CLICKS: 30})
    assert verdict_of(lake).in_gap_ranges == [(13, 14)]


def test_a_condition_may_name_a_list(lake: LakeTable) -> None:
    persons = pa.array([b"k1", b"k22", b"nobody"])
    assert erased(lake, "key in (select value from persons)", lists={"persons": persons}).rows == 2
    assert verdict_of(lake).clean


def test_a_condition_that_joins_takes_its_rows_and_no_others(lake: LakeTable) -> None:
    """DuckDB gives the rows of some joins in another order than it was given them."""
    load(lake_of_its_load(lake), 30, 9030)
    persons = pa.array([b"k%d" % offset for offset in range(0, 9030, 3)])
    erased(lake, 'exists (select 1 from persons where value = key and "offset" >= 0)', lists={"persons": persons})
    assert offsets_of(lake) == [offset for offset in range(9030) if offset % 3 and offset not in (5, 15, 25)]
    assert verdict_of(lake).clean


def test_a_condition_that_changes_its_mind_is_refused(lake: LakeTable) -> None:
    load(lake_of_its_load(lake), 30, 1030)
    version = again(lake).version
    with pytest.raises(PenstockError, match="other rows when it is asked again"):
        erased(lake, "random() < 0.5")
    assert again(lake).version == version


@pytest.mark.parametrize("sealed", [False, True])
def test_a_row_that_is_there_twice_goes_twice(lake: LakeTable, monkeypatch: pytest.MonkeyPatch, sealed: bool) -> None:
    if sealed:
        monkeypatch.setattr(folding, "LAKE_GAPS_PER_PIPELINE", 2)
    loads = lake_of_its_load(lake)
    loads.commit(written(loads, rows([3])), {CLICKS: 30}, {CLICKS: 30})
    assert verdict_of(lake).duplicates == 1
    assert bool(again(lake).progress()[CLICKS].sealed) == sealed
    assert erased(lake, "decode(key) = 'k3'").rows == 2
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.gaps["erased"]) == (True, 1), verdict


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("key = ", "syntax error"),
        ("partition = 1) or (partition = 0", "syntax error"),
        ("true) union (select 1", "syntax error"),
        ("nosuch = 1", "nosuch"),
        ("row_number() over () = 1", "window"),
        ("key = key; drop table x", "syntax error"),
        ("key in (select content from read_blob('/etc/passwd'))", "disabled|not found|Permission"),
        ("offset", "written in quotes"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_and_nothing_is_done(lake: LakeTable, where: str, why: str) -> None:
    version = again(lake).version
    with pytest.raises(ConfigError, match=f"the condition cannot be evaluated: .*({why})"):
        erased(lake, where)
    assert again(lake).version == version


def test_an_empty_condition_is_refused(lake: LakeTable) -> None:
    with pytest.raises(ConfigError, match="the condition is empty"):
        erased(lake, " ")


def test_a_null_is_not_erased(lake: LakeTable) -> None:
    assert erased(lake, "headers[1].key = 'x'").rows == 0
    assert erased(lake, "not (headers is null)").rows == 0
    assert verdict_of(lake).rows == 27


def test_partition_values_and_columns_that_came_later_count(tmp_path: Path, table_format: str) -> None:
    lake = opened(tmp_path, table_format, columns=with_date(RECORD_SCHEMA), partition_by=["date"])
    load(lake, 0, 100)
    lake.add_columns([pa.field("page", pa.string())])
    lake.refresh()
    assert erased(lake, "date = date '2026-01-02' and page is null and \"offset\" >= 90").rows == 10
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.rows) == (True, 90)
    assert {file.partition_values["date"] for file in again(lake).files()} == {"2026-01-01", "2026-01-02"}


def test_several_pipelines_and_sealed_gaps_stay_clean(tmp_path: Path, table_format: str) -> None:
    """Gaps of long ago are folded into a fingerprint, which the erased offsets are added to."""
    lake = opened(tmp_path, table_format)
    backfill = opened(tmp_path, table_format, "backfill")
    gaps = [(offset, offset + 1, "control") for offset in range(20_000, 32_000, 2)]
    load(lake, 20_000, 32_000, gaps)
    load(backfill, 0, 100)
    other = TopicPartition("clicks", UUID(int=1), 1)
    load(lake, 0, 10, partition=other)
    assert lake.loaded().partitions[CLICKS].sealed, "nothing is sealed: the test shows less than it says"
    erased(lake, TENTH)
    verdicts = verify(again(lake))
    assert [each.clean for each in verdicts] == [True, True]
    assert [each.gaps.get("erased") for each in verdicts] == [10 + 1200, 1]


def test_a_load_and_a_compaction_in_between_leave_nothing(lake: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each commit of the erasure a load has just committed, and once a compaction has taken its files."""
    loads = lake_of_its_load(lake)
    from penstock.spark.lake.maintenance import steps_of

    turns = iter(range(100))

    def disturbed(mine: LakeTable) -> object:
        steps = steps_of(mine)
        replace = steps.replace

        def replaced(files: Sequence[TableFile], *more: object) -> bool:
            turn = next(turns)
            if turn == 0:
                Maintenance(again(lake), target_bytes=1 << 20, keep_hours=24).run(["compact"])
            if turn < 3:
                loads.refresh()
                load(loads, 30 + turn * 10, 40 + turn * 10)
            return replace(files, *more)  # type: ignore[arg-type]

        steps.replace = replaced  # type: ignore[method-assign,assignment]
        return steps

    monkeypatch.setattr(erasing, "steps_of", disturbed)
    erased(lake)
    verdict = verdict_of(lake)
    assert verdict.clean, verdict
    assert not [offset for offset in offsets_of(lake) if offset % 10 == 3]
    assert verdict.end > 30


def test_a_load_that_planned_before_plans_again(lake: LakeTable) -> None:
    """Its commit would write progress without the erased gaps."""
    loads = lake_of_its_load(lake)
    loads.refresh()
    before = loads.ends()
    files = written(loads, rows(range(30, 40)))
    erased(lake)
    try:
        loads.commit(files, {CLICKS: 30}, {CLICKS: 40})
    except LakeConflictError:
        loads.refresh()
        assert loads.ends() == before, "the load would take it for another copy of itself"
        load(loads, 30, 40)
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.end, verdict.gaps["erased"]) == (True, 40, 3)


def test_the_old_files_go_at_the_deadline(lake: LakeTable) -> None:
    later = erased(lake, "decode(key) = 'k1'", deadline_hours=5.0)
    assert all(os.path.exists(os.path.join(lake.uri, path)) for path in later.old_files)
    assert "erased_files" not in vacuumed(lake)
    due = erased(lake, "decode(key) = 'k12'")
    assert vacuumed(lake)["erased_files"] == 1
    assert not os.path.exists(os.path.join(lake.uri, due.old_files[0]))
    assert os.path.exists(os.path.join(lake.uri, later.old_files[0]))
    states = [each.old_files_deleted_ms is not None for each in Certificates(lake.destination()).all()]
    assert states == [False, True]
    assert verdict_of(lake).clean
    assert "erased_files" not in vacuumed(lake)
    Maintenance(again(lake), target_bytes=1 << 20, keep_hours=0).run(["vacuum"])
    assert len(Certificates(lake.destination()).all()) == 2, "no vacuum deletes them"
    assert load(lake_of_its_load(lake), 30, 40)


def test_files_that_a_compaction_took_before_are_old_files_too(tmp_path: Path, table_format: str) -> None:
    """They have the rows as well; not so what a running load has written, which a commit will name."""
    lake = opened(tmp_path, table_format, columns=with_date(RECORD_SCHEMA), partition_by=["date"])
    for start, end in ((0, 10), (10, 20), (20, 50), (50, 80)):
        load(lake, start, end)
    before = {file.path for file in again(lake).files()}
    Maintenance(again(lake), target_bytes=1 << 20, keep_hours=1000).run(["compact"])
    loads = lake_of_its_load(lake)
    running = written(loads, rows([3]))
    certificate = erased(lake, "decode(key) in ('k3', 'k13') and date = date '2026-01-01'")
    assert len(certificate.old_files) == 3
    assert len(before & set(certificate.old_files)) == 2
    assert vacuumed(lake)["erased_files"] == 3
    assert not any(os.path.exists(os.path.join(lake.uri, path)) for path in certificate.old_files)
    assert os.path.exists(os.path.join(lake.uri, running[0].path))
    assert verdict_of(lake).clean


def test_old_files_that_are_named_again_stay_and_the_certificate_stays_open(lake: LakeTable) -> None:
    """By a restored version of a Delta table, or a branch or tag of an Iceberg one: they have others' rows, too."""
    before = again(lake)
    snapshot = before.table.current_snapshot() if isinstance(before, IcebergLake) else None
    if isinstance(before, IcebergLake):
        assert snapshot is not None
        before.table.manage_snapshots().create_tag(snapshot.snapshot_id, "before").commit()
    certificate = erased(lake, "decode(key) = 'k13'")
    (old,) = certificate.old_files
    now = again(lake)
    if not isinstance(now, IcebergLake):
        now.table.restore(before.version)  # type: ignore[attr-defined]
    assert vacuumed(lake)["erased_files_still_named"] == 1
    assert os.path.exists(os.path.join(lake.uri, old))
    assert [each.old_files_deleted_ms for each in Certificates(lake.destination()).all()] == [None]
    if isinstance(now, IcebergLake):
        assert snapshot is not None
        now.refresh()
        assert now.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == 27
        now.table.manage_snapshots().remove_tag("before").commit()
    else:
        now.refresh()
        now.table.restore(certificate.clean_version)  # type: ignore[attr-defined]
    assert vacuumed(lake)["erased_files"] == 1
    assert not os.path.exists(os.path.join(lake.uri, old))
    assert verdict_of(lake).clean


def test_a_maintenance_while_it_runs_is_not_in_its_way(lake: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "LAKE_ERASURE_BYTES_PER_COMMIT", 1)
    write = Certificates.write

    def writing(self: Certificates, certificate: Certificate) -> Certificate:
        monkeypatch.setattr(Certificates, "write", write)
        vacuumed(lake)
        monkeypatch.setattr(Certificates, "write", writing)
        return write(self, certificate)

    monkeypatch.setattr(Certificates, "write", writing)
    assert erased(lake).rows == 3
    monkeypatch.undo()
    (certificate,) = Certificates(lake.destination()).all()
    assert (certificate.rows, len(certificate.old_files), certificate.ended_ms is None) == (3, 3, False)
    vacuumed(lake)
    assert not any(os.path.exists(os.path.join(lake.uri, path)) for path in certificate.old_files)
    assert verdict_of(lake).clean


def test_a_certificate_does_not_name_the_person(lake: LakeTable) -> None:
    erased(lake, "decode(key) = 'k13'")
    (path,) = [each.path for each in lake.destination().list("_penstock/erasures")]
    content = lake.destination().read(path)
    assert content is not None
    assert b"k13" not in content
    assert json.loads(content)["partitions"] == {f"clicks/{CLICKS.topic_id}/0": 1}


def test_an_erasure_that_was_stopped_is_finished_by_another(lake: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit, and then the end: its certificate names the old file, and says that it did not end."""
    monkeypatch.setattr(erasing, "LAKE_ERASURE_BYTES_PER_COMMIT", 1)
    monkeypatch.setattr(Certificates, "write", _failing_at(3, Certificates.write))
    with pytest.raises(PenstockError, match="the power failed"):
        erased(lake)
    monkeypatch.undo()
    assert verdict_of(lake).gaps["erased"] == 1
    (stopped,) = Certificates(lake.destination()).all()
    assert (stopped.ended_ms, len(stopped.old_files)) == (None, 1)
    assert erased(lake).rows == 2
    assert verdict_of(lake).clean
    assert vacuumed(lake)["erased_files"] == 3


def _failing_at(turn: int, write: object) -> object:
    turns = iter(range(1, 100))

    def failing(self: Certificates, certificate: Certificate) -> Certificate:
        if next(turns) == turn:
            raise PenstockError("the power failed")
        return write(self, certificate)  # type: ignore[operator,no-any-return]

    return failing
