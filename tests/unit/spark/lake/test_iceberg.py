"""What is particular to Iceberg: retries, snapshots that are dropped, other readers and writers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from support.lake_tables import CLICKS, NEW_YEAR, load, only, opened, rows, verdict_of, written  # noqa: E402

from penstock.errors import PenstockError  # noqa: E402
from penstock.spark.lake.iceberg import RETRIES, IcebergLake, thinned  # noqa: E402
from penstock.spark.lake.maintenance import Maintenance  # noqa: E402
from penstock.spark.lake.open import open_table  # noqa: E402
from penstock.spark.lake.records import RECORD_SCHEMA, LakeConflictError, with_date  # noqa: E402
from penstock.spark.lake.verify import verify  # noqa: E402


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    lake = opened(tmp_path, "iceberg")
    assert isinstance(lake, IcebergLake)
    return lake


def test_retries_that_somebody_switched_on_are_switched_off_before_a_commit(lake: IcebergLake, tmp_path: Path) -> None:
    with lake.table.transaction() as transaction:
        transaction.set_properties({RETRIES: "4"})
    copies = [opened(tmp_path, "iceberg") for _ in range(2)]
    files = [written(copy, rows(range(10))) for copy in copies]
    copies[0].commit(files[0], {CLICKS: 0}, {CLICKS: 10})
    with pytest.raises(LakeConflictError):
        copies[1].commit(files[1], {CLICKS: 0}, {CLICKS: 10})
    assert verdict_of(lake).rows == 10


def test_superseded_snapshots_are_dropped_and_those_before_a_compaction_kept(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.lake.iceberg.LAKE_SNAPSHOTS_KEPT", 3)
    for start in range(0, 100, 10):
        load(lake, start, start + 10)
    before = lake.table.current_snapshot()
    assert before is not None
    Maintenance(lake, target_bytes=1 << 20, keep_hours=24).run()
    for start in range(100, 200, 10):
        load(lake, start, start + 10)
        assert len(lake.table.snapshots()) <= 8
    assert lake.table.snapshot_by_id(before.snapshot_id) is not None
    old = lake.table.scan(snapshot_id=before.snapshot_id).to_arrow()
    assert sorted(old["offset"].to_pylist()) == list(range(100)), "a reader of it is not cut off"
    assert verdict_of(lake).rows == 200


def test_all_snapshots_but_the_newest_expired_leave_the_progress(lake: IcebergLake) -> None:
    for start in range(0, 50, 10):
        load(lake, start, start + 10, [(start, start + 1, "control")])
    Maintenance(lake, target_bytes=1 << 20, keep_hours=0).run(["expire", "vacuum"])
    assert len(lake.table.snapshots()) == 1
    verdict = verdict_of(lake)
    assert (verdict.clean, verdict.start, verdict.gaps) == (True, 0, {"control": 5})


def test_progress_that_was_forged_shows_in_the_rows(lake: IcebergLake) -> None:
    load(lake, 0, 10, [(9, 10, "control")])
    key = "penstock.progress.test"
    forged = lake.table.properties[key].replace("[[0,0,10,", "[[0,0,12,")
    with lake.table.transaction() as transaction:
        transaction.set_properties({key: forged})
    assert verdict_of(lake).missing_ranges == [(10, 12)]
    with lake.table.transaction() as transaction:
        transaction.set_properties({key: "{}"})
    with pytest.raises(PenstockError, match="the table's progress cannot be read"):
        verdict_of(lake)


def test_readers_of_iceberg_find_rows_by_any_column(tmp_path: Path) -> None:
    lake = opened(tmp_path, "iceberg", columns=with_date(RECORD_SCHEMA), partition_by=["date"])
    assert isinstance(lake, IcebergLake)
    load(lake, 0, 120)
    day = (NEW_YEAR + timedelta(days=1)).date().isoformat()
    for condition, found in (
        ("offset = 7", 1),
        ("topic = 'clicks'", 120),
        (f"date = '{day}'", 50),
        ("partition = 1", 0),
    ):
        assert lake.table.scan(row_filter=condition).to_arrow().num_rows == found


def test_versions_of_a_week_are_left_fewer_the_older() -> None:
    """A commit every ten seconds for eight days, thinned every ten minutes."""
    kept: list[tuple[int, int]] = []
    first, last = 1_700_000_000, 1_700_000_000 + 8 * 86_400
    for start in range(first, last, 600):
        kept += [(second * 1000, second) for second in range(start, start + 600, 10)]
        left = thinned(kept, 25)
        kept = [each for each in kept if each[1] in left]
    ages = [last - second for second in (each[1] for each in kept)]
    assert len([age for age in ages if age <= 250]) >= 25
    assert 25 <= len([age for age in ages if 250 < age <= 1800]) <= 27
    assert 22 <= len([age for age in ages if 1800 < age <= 86_400]) <= 25
    assert 6 <= len([age for age in ages if age > 86_400]) <= 8
    assert max(ages) > 6 * 86_400


def test_tables_of_one_name_share_a_catalog(tmp_path: Path) -> None:
    shared = {"catalog.uri": f"sqlite:///{tmp_path / 'shared.db'}"}
    places = ["a/clicks", "b/clicks", "a/web-x", "a/web_x"]

    def table(place: str, **more: object) -> IcebergLake:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        found = open_table(str(tmp_path / place), "test", format="iceberg", storage_options=shared, **more)  # type: ignore[arg-type]
        assert isinstance(found, IcebergLake)
        return found

    for rows_wanted, place in enumerate(places, 1):
        load(table(place), 0, rows_wanted)
    names = [table(place, create=False).table.name()[1] for place in places]
    assert names[0] == "clicks"
    assert names[2] == "web_x"
    assert len(set(names)) == 4
    for rows_wanted, place in enumerate(places, 1):
        found = only(verify(table(place, create=False)))
        assert (found.clean, found.rows) == (True, rows_wanted)
    with pytest.raises(PenstockError, match=r"there is no Iceberg table at .*c/clicks: its catalog has lake.clicks at"):
        table("c/clicks", create=False)


def test_a_table_is_called_as_its_options_say(tmp_path: Path) -> None:
    named = {"catalog.namespace": "web", "catalog.table": "page_views"}
    lake = opened(tmp_path, "iceberg", storage_options=named)
    assert isinstance(lake, IcebergLake)
    assert lake.table.name() == ("web", "page_views")
    load(lake, 0, 10)
    with pytest.raises(PenstockError, match=r"its catalog has web.page_views at .*; set catalog.table"):
        open_table(str(tmp_path / "other"), "test", format="iceberg", storage_options=named)
