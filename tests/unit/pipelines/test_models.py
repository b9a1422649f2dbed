"""Models in a pipeline's file: what they read, their order, and everything that is wrong with them at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.cli.main import main
from penstock.errors import ConfigError
from penstock.pipelines.models.graph import ordered
from penstock.pipelines.models.position import Positions, reached
from penstock.pipelines.models.project import Model, Project, Test
from penstock.pipelines.models.references import calls_of, tables_of
from penstock.pipelines.reading import read_pipeline
from penstock.pipelines.turns import turn

GOOD = """
[pipeline]
name = "shop"
[sources.clicks]
topic = "clicks"
format = "json"
schema = "page string"
event_time = "timestamp"
tests = [{ freshness = "timestamp", error_after_seconds = 60 }]
[sources.pages]
table = "lake/pages"
[lake]
directory = "lake"
[alarm]
command = ["page-somebody"]

[models.popular]
sql = "select title, count(*) as views from named group by title"
materialized = "table"
[models.named]
sql = "with v as (select * from views) select v.*, title from v join pages using (page)"
[models.views]
sql_file = "views.sql"
materialized = "incremental"
event_time = "timestamp"
columns = { page = "What was looked at." }
tests = [
  { not_null = "page" },
  { unique = ["partition", "offset"], severity = "warn" },
  { accepted_values = "page", values = ["a", 7, true], where = "offset > 3" },
  { row_count = "clicks", tolerance = 2 },
]
[models.latest]
python = "latest.py:model"
materialized = "incremental"
unique_key = "page"
"""
VIEWS = "select partition, offset, timestamp, value.page as page from clicks;\n"
LATEST = "def model(dbt, session):\n    return dbt.source('clicks').join(dbt.ref('pages'), 'page')\n"


def pipeline_of(directory: Path, text: str) -> tuple[Project | None, list[str]]:
    (directory / "views.sql").write_text(VIEWS)
    (directory / "latest.py").write_text(LATEST)
    file = directory / "p.toml"
    file.write_text(text)
    pipeline, problems = read_pipeline(file, directory / "state")
    return (pipeline.project if pipeline else None), [f"{each.line}: {each.text}" for each in problems]


def test_models_are_read_and_stand_behind_what_they_read(tmp_path: Path) -> None:
    project, problems = pipeline_of(tmp_path, GOOD)
    assert problems == []
    assert project is not None
    models = project.models
    order = list(models)
    assert order.index("views") < order.index("named") < order.index("popular")
    assert models["named"].refs == ("views", "pages")
    assert models["latest"].refs == ("clicks", "pages")
    assert (models["views"].table, models["latest"].unique_key) == (str(tmp_path / "lake/views"), ("page",))
    assert project.results == str(tmp_path / "lake/test_results")
    assert models["views"].tests == (
        Test("not_null", ("page",)),
        Test("unique", ("partition", "offset"), severity="warn"),
        Test("accepted_values", ("page",), ("a", "7", "true"), where="offset > 3"),
        Test("row_count", source="clicks", tolerance=2),
    )
    assert [each for each in (*project.sources, *models) if project.is_stream(each)] == ["clicks", "views", "named"]
    assert project.downstream("views") == ["named", "popular"]
    assert [each.name for each in project.inputs(models["popular"])] == ["views", "pages"]


def test_everything_that_is_wrong_with_models_is_told_at_once(tmp_path: Path) -> None:
    text = """
[pipeline]
job = "load"
[options]
[sources.clicks]
topic = "clicks"
[sources.both]
topic = "a"
table = "b"
[sources.flat]
table = "c"
schema = "a int"
[models.Clicks]
sql = "select 1"
[models.a]
sql = "select * from b"
[models.b]
sql = "select * from c, clicsk"
[models.c]
sql = "select * from a"
materialized = "incremntal"
[models.d]
sql = "select * from flat"
sql_file = "views.sql"
latest_by = "x"
[models.e]
python = "latest.py:modle"
tests = [{ unique = "x", not_null = "y" }, { accepted_values = "z" }, { freshness = "t", values = ["a"] }]
[models."f-g"]
sql = "select 1; select 2"
[models.h]
sql = "select 1; select 2"
late_seconds = 5
"""
    _, problems = pipeline_of(tmp_path, text)
    told = "\n".join(problems)
    for part in (
        "3: a file has a job, or [models]: put them into two files",
        "4: [options] is for a job, and this file has [models]",
        "7: source both: either topic or table says what it is",
        "12: source flat: schema is for a topic",
        "13: models Clicks has the name of sources clicks: each needs its own".replace("models", "model").replace(
            "sources", "source"
        ),
        "17: model b reads clicsk, which is unknown; did you mean clicks?",
        'materialized is "incremntal", it must be one of view, table, incremental',
        "models read each other in a circle: ",
        "22: model d: one of sql, sql_file and python says what it is",
        'latest_by is for materialized = "incremental"',
        "latest.py has no modle; did you mean model?: a function is wanted",
        "a test of e must be one of not_null, unique, accepted_values, freshness, row_count",
        "test accepted_values of e needs values",
        "test freshness of e needs error_after_seconds",
        "test freshness of e: values is for accepted_values",
        '"f-g" is no name of a table',
        "model h: the query has several statements: one is wanted, a SELECT",
        "h: late_seconds needs event_time",
    ):
        assert part in told, part
    assert [part for part in ("a reads b reads c reads a", "b reads c reads a reads b") if part in told] or (
        "c reads a reads b reads c" in told
    )


def test_what_an_incremental_model_needs_is_told(tmp_path: Path) -> None:
    text = '[sources.t]\ntable = "t"\n[models.m]\nsql = "select * from t"\nmaterialized = "incremental"\n'
    assert "nothing that it reads is a stream" in pipeline_of(tmp_path, text)[1][0]
    assert pipeline_of(tmp_path, text.replace('"t"\n', '"t"\nstream = true\n', 1))[1] == []
    counted = text.replace("incremental", "table") + 'tests = [{ row_count = "t" }]'
    assert pipeline_of(tmp_path, counted)[1] == [
        "6: test row_count of m: t is no topic that it reads (m reads none)",
    ]
    assert pipeline_of(tmp_path, '[sources.t]\ntable = "t"\n')[1] == [
        "0: there are no models: [models.NAME] declares one"
    ]
    twice = text.replace("incremental", "table") + 'table = "x"\n[models.n]\nsql = "select 1"\ntable = "x"\n'
    assert pipeline_of(tmp_path, twice + 'materialized = "table"')[1] == ["9: model n has the table of model m"]


def test_validate_names_the_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline_of(tmp_path, GOOD)
    assert main(["pipeline", "validate", str(tmp_path / "p.toml")]) == 0
    assert "shop, 2 sources, 4 models: valid" in capsys.readouterr().out


QUERIES = {
    "select * from clicks": ["clicks"],
    "with c as (select * from clicks) select * from c, d x join e on 1 = 1, f": ["clicks", "d", "e", "f"],
    "with clicks as (select * from clicks) select * from clicks": ["clicks"],
    "with a(x, y) as (select 1, 2 from t), b as (select x from a) select * from b union all select * from a": ["t"],
    "select * from (with n as (select * from m) select * from n) s, n": ["m", "n"],
    "select extract(year from ts), a is distinct from b from t lateral view explode(m) x as k, v where y in "
    "(select z from u)": ["t", "u"],
    "from a select *": ["a"],
    "select * from range(10) r, values_t": ["values_t"],
    "select * from (select 1) q, (b join c)": ["b", "c"],
    "select trim(both ' ' from n), 'from x' from `my t`.z -- from k\n/* from l */": ["my t.z"],
    "select count(*) from a group by x, y having max(z) > (select 1 from b) order by p, q": ["a", "b"],
    "select * from a left anti join b using (k), lateral (select a.k from c)": ["a", "b", "c"],
    "select * from a union (select * from b except table d)": ["a", "b", "d"],
}


@pytest.mark.parametrize("query", QUERIES)
def test_the_tables_of_a_query_are_found(query: str) -> None:
    assert sorted(tables_of(query)) == sorted(QUERIES[query])


def test_a_query_whose_brackets_do_not_match_is_refused() -> None:
    for query in ("select (1", "select 1)"):
        with pytest.raises(ConfigError, match="bracket"):
            tables_of(query)


def reads_by_variable(dbt: object, session: object) -> None:
    name = "clicks"
    dbt.ref(name)  # type: ignore[attr-defined]


def takes_one(dbt: object) -> None: ...


def test_a_python_model_writes_out_what_it_reads() -> None:
    with pytest.raises(ConfigError, match="ref takes a name in quotes"):
        calls_of(reads_by_variable)
    with pytest.raises(ConfigError, match=r"must take two parameters: def takes_one\(dbt, session\)"):
        calls_of(takes_one)


def test_every_cycle_is_found() -> None:
    order, cycles = ordered({"a": ["b"], "b": ["a"], "c": ["d", "a"], "d": ["c"], "e": ["e"], "f": ["x"]})
    assert sorted(order) == list("abcdef")
    assert sorted(sorted(set(walk)) for walk in cycles) == [["a", "b"], ["c", "d"], ["e"]]
    assert all(walk[0] == walk[-1] for walk in cycles)


def test_a_checkpoint_says_what_was_read(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "9").write_text('v1\n{}\n{"version": 1, "topics": {"clicks": {"id": null, "offsets": {"0": 4}}}}\n-')
    table = '{"format": 1, "table": "id", "version": 7, "index": 0, "snapshot": false}'
    (offsets / "10").write_text(f'v1\n{{}}\n{{"clicks": {{"0": 9, "1": 3}}}}\n{table}')
    found = reached(str(tmp_path), {})
    assert (found.topics, found.tables) == ({"clicks": {0: 9, 1: 3}}, {"id": 7})
    assert reached(str(tmp_path / "none"), {}).topics == {}
    positions = Positions(tmp_path)
    assert positions.read("m") == {}
    positions.write("m", {"clicks": {0: (4, 9)}})
    assert positions.read("m") == {"clicks": {0: (4, 9)}}


def test_who_waits_comes_before_who_has_just_worked(tmp_path: Path) -> None:
    order: list[str] = []
    waits, never = threading.Event(), threading.Event()

    def live() -> None:
        with turn(tmp_path, never, waits.set):
            order.append("live")

    with turn(tmp_path, never):
        thread = threading.Thread(target=live)
        thread.start()
        assert waits.wait(30)
    with turn(tmp_path, never):
        order.append("backfill")
    thread.join()
    assert order == ["live", "backfill"]
    stopped = threading.Event()
    stopped.set()
    with turn(tmp_path, never), turn(tmp_path, stopped) as mine:
        assert not mine


def test_a_view_is_not_what_a_backfill_makes() -> None:
    assert not Model("m").appends
