"""Reads the sections of models, and says everything that is wrong with them: names, options, references, cycles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.pipelines.job import Option
from penstock.pipelines.limits import TEST_RESULTS_KEEP_DAYS
from penstock.pipelines.models.graph import ordered
from penstock.pipelines.models.project import (
    BATCH_SECONDS,
    ERROR,
    INCREMENTAL,
    MATERIALIZED,
    ROW_COUNT,
    TABLE,
    TESTS,
    VIEW,
    WARN,
    Alarm,
    Model,
    Project,
    Source,
    Test,
)
from penstock.pipelines.models.references import calls_of, tables_of
from penstock.pipelines.registry import find_function

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TEST = (
    Option("not_null", list, None, "Columns, one or several, in which no row may be null."),
    Option("unique", list, None, "Columns whose values no two rows may share; rows with a null are left out."),
    Option("accepted_values", str, None, "A column that has only `values`, or null."),
    Option("values", list, None, "What `accepted_values` accepts."),
    Option("freshness", str, None, "A column of times; the newest is not older than `error_after_seconds`."),
    Option("error_after_seconds", int, None, "See `freshness`.", at_least=1),
    Option("row_count", str, None, "A source that is a topic: as many rows as the model has read offsets of it."),
    Option("sum", str, None, "For `row_count`, a column whose sum is compared instead of the number of rows."),
    Option(
        "tolerance", int, 0, "For `row_count`, how many may be missing (transactions' markers, compaction).", at_least=0
    ),
    Option("where", str, "", "Only rows for which this SQL condition is true are tested."),
    Option("severity", str, ERROR, "What a failure does: stop what depends on it, or only be told.", (ERROR, WARN)),
)
SHARED = (
    Option("event_time", str, None, "Its column of times, by which a backfill cuts ranges."),
    Option(
        "late_seconds",
        int,
        None,
        "How long a stream's windows wait for rows behind the newest event_time (Spark's watermark); later ones are "
        "dropped. Without it Spark keeps all groups for ever.",
        at_least=0,
    ),
    Option("description", str, "", "What it is, for the page."),
    Option("columns", Mapping, {}, "What its columns are, for the page, by name."),
    Option("tests", dict, None, "What must hold, each test a table; see below.", fields=TEST),
)
SOURCE = (
    Option("topic", str, None, "The topic, of the brokers in `[kafka]`.", reads=True),
    Option("table", str, None, "Or the lake table: a directory or URI.", path=True),
    Option(
        "format", str, None, "What a topic's values are; without it `value` is bytes.", ("json", "avro", "jsonschema")
    ),
    Option("schema", str, None, "The fields of `value`: for JSON as DDL, `page string, ms bigint`."),
    Option("schema_registry", str, None, "URL of the schema registry."),
    Option("starting", str, "earliest", "Where the first run of an incremental model begins.", ("earliest", "latest")),
    Option("stream", bool, None, "Whether incremental models read only what is new (default: of topics)."),
    *SHARED,
)
MODEL = (
    Option("sql", str, None, "A SELECT, in which sources and models are tables by their names."),
    Option("sql_file", str, None, "Or a file with it.", path=True),
    Option("python", str, None, "Or a function `model(dbt, session)`: module:function, or file.py:function."),
    Option(
        "materialized",
        str,
        VIEW,
        "`view`: not stored; `table`: made anew by each run; `incremental`: rows of what is new are added, or take the "
        "place of those with their `unique_key`.",
        MATERIALIZED,
    ),
    Option("table", str, None, "Where it is stored, a Delta table (default: NAME in the lake's directory).", path=True),
    Option("unique_key", list, None, "The columns of the key of an incremental model."),
    Option(
        "latest_by", str, None, "Of two rows of a key the one with the greater value stays (default: the newer run's)."
    ),
    Option("partition_by", list, None, "Columns by which a new table's files are apart."),
    Option("batch_size", str, "hour", "What a backfill makes anew at a time.", tuple(BATCH_SECONDS)),
    *SHARED,
)
LAKE = (
    Option(
        "directory",
        str,
        None,
        "Where the models' tables are (default: `tables` in the pipeline's directory).",
        path=True,
    ),
    Option("results", str, None, "The table of test results (default: `test_results` there).", path=True),
    Option(
        "results_keep_days",
        int,
        TEST_RESULTS_KEEP_DAYS,
        "After so many days the results of this pipeline's tests are deleted from the table; 0: never.",
        at_least=0,
        at_most=36_500,
    ),
    Option("storage_options", Mapping, {}, "Options of the object store."),
)
ALARM = (
    Option("command", list, None, "A command that gets each failure as JSON on its standard input."),
    Option("topic", str, None, "A topic that gets it.", writes=True),
)
SECTIONS = ("sources", "models", "lake", "alarm")
LISTS = ("not_null", "unique", "unique_key", "partition_by", "values")
"""Options that may be a single text."""
NEEDS = {"accepted_values": "values", "freshness": "error_after_seconds"}


class Checker(Protocol):
    """Who collects what is wrong with a file; see `penstock.pipelines.reading`."""

    file: Path

    def wrong(self, at: tuple[str | int, ...], text: str) -> None:
        """Notes a fault of the value there."""

    def checked(self, at: tuple[str | int, ...], given: Mapping[str, Any], options: Iterable[Option]) -> dict[str, Any]:
        """The values of a section, with defaults; faults are noted."""


def read_project(checker: Checker, told: Mapping[str, Any], directory: Path) -> Project:
    """The project of a file; meaningless if the checker has problems then.

    Args:
        checker: collects what is wrong.
        told: the file's sections.
        directory: the pipeline's own.
    """
    return _Reader(checker, told, directory).project()


@dataclass(slots=True)
class _Reader:
    checker: Checker
    told: Mapping[str, Any]
    directory: Path

    def project(self) -> Project:
        lake = self.checker.checked(("lake",), self._section("lake"), LAKE)
        alarm = self.checker.checked(("alarm",), self._section("alarm"), ALARM)
        root = (lake["directory"] or str(self.directory / "tables")).rstrip("/")
        sources = {name: self.source(name, given) for name, given in self._nodes("sources")}
        models = {name: self.model(name, given, root) for name, given in self._nodes("models")}
        self._check_names(sources, models)
        order, cycles = ordered({name: each.refs for name, each in models.items()})
        for walk in cycles:
            self.checker.wrong(("models", walk[0]), f"models read each other in a circle: {' reads '.join(walk)}")
        project = Project(
            sources,
            {name: models[name] for name in order},
            lake["results"] or f"{root}/test_results",
            lake["results_keep_days"],
            lake["storage_options"],
            Alarm(tuple(alarm["command"] or ()), alarm["topic"]),
        )
        if self._check_references(project) and not cycles:
            self._check_streams(project)
            self._check_counts(project)
        return project

    def _section(self, name: str) -> Mapping[str, Any]:
        given = self.told.get(name, {})
        return given if isinstance(given, dict) else {}

    def _nodes(self, section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for name, given in self._section(section).items():
            if not NAME.fullmatch(name):
                self.checker.wrong(
                    (section, name), f'"{name}" is no name of a table: letters, digits, underscores only'
                )
            elif not isinstance(given, dict):
                self.checker.wrong((section, name), f"{name} must be a section: [{section}.{name}]")
            else:
                yield name, {key: [v] if key in LISTS and isinstance(v, str) else v for key, v in given.items()}

    def source(self, name: str, given: Mapping[str, Any]) -> Source:
        at = ("sources", name)
        told = self.checker.checked(at, self._with_tests(given), SOURCE)
        if (told["topic"] is None) == (told["table"] is None):
            self.checker.wrong(at, f"source {name}: either topic or table says what it is")
        if told["topic"] is None:
            for option in ("format", "schema", "schema_registry"):
                if told[option] is not None:
                    self.checker.wrong((*at, option), f"source {name}: {option} is for a topic")
        elif told["stream"] is False:
            self.checker.wrong((*at, "stream"), f"source {name}: a topic is a stream")
        self._check_late(at, name, told)
        stream = told["topic"] is not None if told["stream"] is None else told["stream"]
        return Source(name, **{**told, "stream": stream, "tests": self._tests(at, told["tests"])})

    def model(self, name: str, given: Mapping[str, Any], root: str) -> Model:
        at = ("models", name)
        told = self.checker.checked(at, self._with_tests(given), MODEL)
        kind = told["materialized"]
        for option, wanted in (("unique_key", INCREMENTAL), ("latest_by", INCREMENTAL)):
            if told[option] is not None and kind != wanted:
                self.checker.wrong((*at, option), f'model {name}: {option} is for materialized = "{wanted}"')
        if told["latest_by"] is not None and told["unique_key"] is None:
            self.checker.wrong((*at, "latest_by"), f"model {name}: latest_by needs unique_key")
        if kind == VIEW and (told["table"] or told["partition_by"]):
            self.checker.wrong(at, f"model {name}: a view is not stored, so it has no table and no partition_by")
        self._check_late(at, name, told)
        model = Model(
            name,
            materialized=kind,
            table=told["table"] or f"{root}/{name}",
            unique_key=tuple(told["unique_key"] or ()),
            latest_by=told["latest_by"],
            partition_by=tuple(told["partition_by"] or ()),
            batch_size=told["batch_size"],
            tests=self._tests(at, told["tests"]),
            **{option: told[option] for option in ("event_time", "late_seconds", "description", "columns")},
        )
        return self._with_code(at, model, told)

    def _with_code(self, at: tuple[str, str], model: Model, told: Mapping[str, Any]) -> Model:
        """The model with its query or function, and what that reads."""
        ways = [option for option in ("sql", "sql_file", "python") if told[option] is not None]
        if len(ways) != 1:
            self.checker.wrong(at, f"model {model.name}: one of sql, sql_file and python says what it is")
            return model
        where = (*at, ways[0])
        try:
            if ways[0] == "python":
                function = find_function(told["python"], self.checker.file.parent)
                return replace(model, function=function, code=told["python"], refs=tuple(calls_of(function)))
            sql = told["sql"] if ways[0] == "sql" else Path(told["sql_file"]).read_text(encoding="utf-8")
            return replace(model, sql=sql, code=sql.strip(), refs=tuple(tables_of(sql)))
        except OSError as error:
            self.checker.wrong(
                where, f"model {model.name}: sql_file cannot be read: {(error.strerror or str(error)).lower()}"
            )
        except UnicodeDecodeError:
            self.checker.wrong(where, f"model {model.name}: sql_file is no text in UTF-8")
        except ConfigError as error:
            self.checker.wrong(where, f"model {model.name}: {error}")
        return model

    def _with_tests(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options of a node, with single texts in its tests made lists, and values made texts."""
        tests = given.get("tests")
        if not isinstance(tests, list) or not all(isinstance(each, dict) for each in tests):
            return given
        return {**given, "tests": [{key: _listed(key, value) for key, value in each.items()} for each in tests]}

    def _tests(self, at: tuple[str, str], told: Sequence[Mapping[str, Any]] | None) -> tuple[Test, ...]:
        wrong = partial(self.checker.wrong, (*at, "tests"))
        found = []
        for each in told or ():
            kinds = [kind for kind in TESTS if each[kind] is not None]
            if len(kinds) != 1:
                wrong(f"a test of {at[1]} must be one of {', '.join(TESTS)}")
                continue
            (kind,) = kinds
            needed = NEEDS.get(kind)
            if needed is not None and each[needed] is None:
                wrong(f"test {kind} of {at[1]} needs {needed}")
            for option, of in (("values", "accepted_values"), ("error_after_seconds", "freshness"), ("sum", ROW_COUNT)):
                if each[option] is not None and kind != of:
                    wrong(f"test {kind} of {at[1]}: {option} is for {of}")
            columns = each[kind] if isinstance(each[kind], list) else [each[kind]]
            if kind == ROW_COUNT:
                columns = [each["sum"]] if each["sum"] else []
            found.append(
                Test(
                    kind,
                    tuple(columns),
                    tuple(each["values"] or ()),
                    each["error_after_seconds"] or 0,
                    each[ROW_COUNT] or "",
                    each["tolerance"],
                    each["where"],
                    each["severity"],
                )
            )
        return tuple(found)

    def _check_late(self, at: tuple[str, str], name: str, told: Mapping[str, Any]) -> None:
        if told["late_seconds"] is not None and told["event_time"] is None:
            self.checker.wrong((*at, "late_seconds"), f"{name}: late_seconds needs event_time")

    def _check_names(self, sources: Mapping[str, Source], models: Mapping[str, Model]) -> None:
        """Two nodes of one name, be it in another case, or of one table."""
        names: dict[str, str] = {}
        tables: dict[str, str] = {}
        for section, nodes in (("sources", sources), ("models", models)):
            for name, node in nodes.items():
                what = f"{section[:-1]} {name}"
                if (other := names.setdefault(name.lower(), what)) != what:
                    self.checker.wrong((section, name), f"{what} has the name of {other}: each needs its own")
                stored = isinstance(node, Model) and node.materialized != VIEW
                if stored and (other := tables.setdefault(str(node.table), what)) != what:
                    self.checker.wrong((section, name, "table"), f"{what} has the table of {other}")

    def _check_references(self, project: Project) -> bool:
        """Whether all that models read is declared."""
        known = [*project.sources, *project.models]
        right = True
        for model in project.models.values():
            for ref in model.refs:
                if ref not in known:
                    right = False
                    hint = did_you_mean(ref, known) or "; declare it in [sources]"
                    self.checker.wrong(
                        ("models", model.name), f"model {model.name} reads {ref}, which is unknown{hint}"
                    )
        return right

    def _check_streams(self, project: Project) -> None:
        for model in project.models.values():
            if model.materialized == INCREMENTAL and not any(map(project.is_stream, model.refs)):
                text = f"model {model.name} is incremental, and nothing that it reads is a stream: "
                text += f'name a topic, a source with stream = true or a model that appends, or make it a "{TABLE}"'
                self.checker.wrong(("models", model.name, "materialized"), text)

    def _check_counts(self, project: Project) -> None:
        """Row counts need a topic that the model reads itself."""
        for node in project.nodes():
            topics = [each.name for each in project.topics(node)] if isinstance(node, Model) else []
            section = "models" if isinstance(node, Model) else "sources"
            for test in node.tests:
                if test.kind == ROW_COUNT and test.source not in topics:
                    may = f"{node.name} reads {', '.join(topics)}" if topics else f"{node.name} reads none"
                    text = f"test row_count of {node.name}: {test.source} is no topic that it reads ({may})"
                    self.checker.wrong((section, node.name, "tests"), text)


def _listed(key: str, value: Any) -> Any:
    """An option of a test as it is checked."""
    if key == "values" and isinstance(value, list):
        return [str(each).lower() if isinstance(each, bool) else str(each) for each in value]
    return [value] if key in LISTS and isinstance(value, str) else value
