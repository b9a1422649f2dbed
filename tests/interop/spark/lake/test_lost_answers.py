"""An answer of the store, or of the catalog, that is lost on its way loses no data and doubles none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")

from support.faulty_store import Fault
from support.lake_tables import CLICKS, load, only, rows, written
from support.lossy_lake import COMMITS, MAKINGS, LossyLake

from penstock.errors import PenstockError
from penstock.spark.frames.options import FrameOptions
from penstock.spark.frames.sink import commit, opened, target_of
from penstock.spark.lake.batches import QueryBatch
from penstock.spark.lake.maintenance import Maintenance
from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.table import LakeTable
from penstock.spark.lake.verify import verify
from penstock.spark.load.jobs import Result
from penstock.spark.load.load import Load, LoadOptions
from penstock.spark.load.plan import Plan
from penstock.spark.load.tables import Target
from penstock.spark.load.work import JobPlan

APPLIED = [Fault.UNANSWERED, Fault.REPEATED]
FORMATS = ["delta", "iceberg"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyLake]:
    with LossyLake(tmp_path_factory.mktemp("lossy")) as lake:
        yield lake


@pytest.fixture
def name(place: LossyLake, request: pytest.FixtureRequest) -> Iterator[str]:
    yield re.sub(r"\W", "_", request.node.name)
    place.calm()


def check(lake: LakeTable, rows_wanted: int) -> None:
    verdict = only(verify(lake))
    assert (verdict.clean, verdict.rows) == (True, rows_wanted), verdict


def job(lake: LakeTable, start: int, end: int) -> Callable[[], int]:
    """The commit of a job as a load makes it, which discards what it may."""
    target = Target(lake, None)
    files = written(lake, rows(range(start, end)))
    plan = Plan(starts={CLICKS: start}, ends={CLICKS: end})
    load = Load.__new__(Load)
    load.options = LoadOptions("x:1", ["clicks"], lake.uri, "test")
    told = JobPlan({}, False, {"name": "raw"}, [target.plan()], {"clicks": 0}, [])
    return lambda: load._commit(plan, [target], {"clicks": 0}, told, Result(files={(0, False): files}))


@pytest.mark.parametrize("fault", [*APPLIED, Fault.FAILED, Fault.CUT])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_commit_whose_answer_is_lost_is_a_success(
    place: LossyLake, name: str, table_format: str, fault: Fault
) -> None:
    lake = place.open(name, table_format)
    load(lake, 0, 20)
    commit = job(lake, 20, 40)
    place.lose(COMMITS[table_format], fault)
    commit()
    assert not place.waiting
    assert lake.end(CLICKS) == 40
    load(lake, 40, 60)
    check(place.open(name, table_format), 60)


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_commit_that_lands_when_its_load_has_given_up_is_not_doubled(
    place: LossyLake, name: str, table_format: str
) -> None:
    lake = place.open(name, table_format)
    load(lake, 0, 20)
    commit = job(lake, 20, 40)
    place.lose(COMMITS[table_format], Fault.LATE, times=12)  # as often as any client tries
    with suppress(PenstockError):
        commit()
    place.calm()
    again = place.open(name, table_format)
    assert again.end(CLICKS) == 40
    check(again, 40)


@pytest.mark.parametrize("fault", APPLIED)
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_commit_after_which_another_copy_went_on_is_known(
    place: LossyLake, name: str, table_format: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost, and before the table is asked a copy of the load has committed on top."""
    lake = place.open(name, table_format)
    load(lake, 0, 20)
    commit = job(lake, 20, 40)
    refresh = type(lake).refresh
    copies = [place.open(name, table_format)]

    def overtaken(table: LakeTable) -> None:
        if table is lake and copies and not place.waiting:
            copy = copies.pop()
            refresh(copy)
            load(copy, 40, 50)
        refresh(table)

    monkeypatch.setattr(type(lake), "refresh", overtaken)
    place.lose(COMMITS[table_format], fault)
    commit()
    assert lake.end(CLICKS) in (40, 50)
    check(place.open(name, table_format), 50 if not copies else 40)


@pytest.mark.parametrize("fault", APPLIED)
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_compaction_whose_answer_is_lost_is_a_success(
    place: LossyLake, name: str, table_format: str, fault: Fault
) -> None:
    lake = place.open(name, table_format)
    for start in (0, 20, 40):
        load(lake, start, start + 20)
    place.lose(COMMITS[table_format], fault)
    done = Maintenance(lake, target_bytes=1 << 20, keep_hours=168).run(("compact",))
    assert not place.waiting
    assert (done["compact"]["files_merged"], len(lake.files())) == (3, 1)
    check(place.open(name, table_format), 60)


@pytest.mark.parametrize("fault", APPLIED)
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_table_whose_making_went_unanswered_is_there(
    place: LossyLake, name: str, table_format: str, fault: Fault
) -> None:
    place.lose(MAKINGS[table_format], fault)
    load(place.open(name, table_format), 0, 20)
    assert not place.waiting
    check(place.open(name, table_format), 20)


@pytest.mark.parametrize("fault", APPLIED)
@pytest.mark.parametrize("table_format", FORMATS)
def test_columns_whose_adding_went_unanswered_are_there(
    place: LossyLake, name: str, table_format: str, fault: Fault
) -> None:
    import pyarrow as pa

    lake = place.open(name, table_format)
    load(lake, 0, 20)
    place.lose(COMMITS[table_format], fault)
    lake.add_columns([pa.field("page", pa.string())])
    assert not place.waiting
    assert "page" in lake.columns.names
    check(place.open(name, table_format), 20)


def test_a_summary_that_cannot_be_deleted_spoils_no_commit(
    place: LossyLake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.lake.summaries.LAKE_SUMMARIES_KEPT", 1)
    lake = place.open(name, "delta")
    for start in (0, 10, 20):
        load(lake, start, start + 10)
    place.lose(r"(DELETE|POST) /lake.*(progress|\?delete)", Fault.REFUSED, times=12)
    load(lake, 30, 40)
    assert lake.end(CLICKS) == 40
    check(place.open(name, "delta"), 40)


@pytest.mark.parametrize("fault", [*APPLIED, Fault.FAILED])
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_batch_whose_commit_loses_its_answer_is_there_once(
    place: LossyLake, name: str, table_format: str, fault: Fault
) -> None:
    told = FrameOptions(f"s3://lake/{name}", table_format, storage_options=place.options(table_format))
    columns = rows([0]).schema
    batches = [QueryBatch("q", 0, "clicks"), QueryBatch(), QueryBatch("q", 1, "clicks")]
    for number, batch in enumerate(batches):
        lake = opened(told, columns)
        target = target_of(lake, columns)
        report = target.write([rows([number])])
        place.lose(COMMITS[table_format], fault)
        assert commit(lake, target, [report], batch)
        assert not place.waiting
        if batch.query is not None:
            again = opened(told, columns)
            assert not commit(again, target_of(again, columns), [target.write([rows([number])])], batch)
    found = opened(told, columns)
    offsets = [each for some in batches_of(found, ["offset"]) for each in some.column("offset").to_pylist()]
    assert sorted(offsets) == [0, 1, 2]
    held = {each.path for each in found.destination().list("") if re.match(r"part-", each.path)}
    assert held == {each.path for each in found.files()}
