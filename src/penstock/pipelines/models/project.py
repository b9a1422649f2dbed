"""What a pipeline's file declares of models: sources, models, their tests, where tables are, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

VIEW, TABLE, INCREMENTAL = "view", "table", "incremental"
MATERIALIZED = (VIEW, TABLE, INCREMENTAL)
BATCH_SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400}
NOT_NULL, UNIQUE, ACCEPTED_VALUES = "not_null", "unique", "accepted_values"
FRESHNESS, ROW_COUNT = "freshness", "row_count"
TESTS = (NOT_NULL, UNIQUE, ACCEPTED_VALUES, FRESHNESS, ROW_COUNT)
ERROR, WARN = "error", "warn"


@dataclass(frozen=True, slots=True)
class Test:
    """One test of a node.

    Attributes:
        kind: one of TESTS.
        columns: what it looks at; of a row count the column that is summed, if any.
        values: those that are accepted.
        seconds: how old the newest row may be.
        source: the topic's source against whose offsets rows are counted.
        tolerance: by how many rows the count may differ.
        where: only rows of this condition are looked at; empty: all.
        severity: whether a failure stops what depends on the node (ERROR), or is only told (WARN).
    """

    __test__ = False

    kind: str
    columns: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    seconds: int = 0
    source: str = ""
    tolerance: int = 0
    where: str = ""
    severity: str = ERROR

    @property
    def name(self) -> str:
        """As results and pages call it."""
        return f"{self.kind}({', '.join([*([self.source] if self.source else []), *self.columns])})"


@dataclass(frozen=True, slots=True)
class Source:
    """A topic or a lake table that models read. `stream` says whether incremental models read only what is new."""

    name: str
    topic: str | None = None
    table: str | None = None
    format: str | None = None
    schema: str | None = None
    schema_registry: str | None = None
    starting: str = "earliest"
    stream: bool = True
    event_time: str | None = None
    late_seconds: int | None = None
    description: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """A step. It has `sql`, or a `function` that takes (dbt, session); `refs` are the nodes that it reads."""

    name: str
    sql: str = ""
    function: Callable[..., Any] | None = None
    code: str = ""
    """As the file tells it: the query, or module:function."""
    refs: tuple[str, ...] = ()
    materialized: str = VIEW
    table: str = ""
    unique_key: tuple[str, ...] = ()
    latest_by: str | None = None
    partition_by: tuple[str, ...] = ()
    event_time: str | None = None
    late_seconds: int | None = None
    batch_size: str = "hour"
    description: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    tests: tuple[Test, ...] = ()

    @property
    def appends(self) -> bool:
        """Whether its table only grows, so that others can read what is new in it."""
        return self.materialized == INCREMENTAL and not self.unique_key


Node = Source | Model


@dataclass(frozen=True, slots=True)
class Alarm:
    """Who is told of a failure: a command, which gets it as JSON on its standard input, or a topic."""

    command: tuple[str, ...] = ()
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """All models of one file, each behind those that it reads."""

    sources: Mapping[str, Source]
    models: Mapping[str, Model]
    results: str
    """The table of test results."""
    results_keep_days: int = 0
    """After so many days a result is deleted; 0: never."""
    storage_options: Mapping[str, str] = field(default_factory=dict)
    alarm: Alarm = field(default_factory=Alarm)

    def node(self, name: str) -> Node:
        return self.sources[name] if name in self.sources else self.models[name]

    def nodes(self) -> Iterator[Node]:
        """Sources first, then models in order."""
        yield from self.sources.values()
        yield from self.models.values()

    def is_stream(self, name: str) -> bool:
        """Whether an incremental model reads only what is new of a node."""
        node = self.node(name)
        if isinstance(node, Source):
            return node.stream
        return node.appends or (node.materialized == VIEW and any(map(self.is_stream, node.refs)))

    def inputs(self, model: Model) -> Iterator[Node]:
        """What a model reads that is stored: its references, and those of views among them."""
        seen = set()
        waiting = list(model.refs)
        while waiting:
            name = waiting.pop(0)
            if name in seen:
                continue
            seen.add(name)
            node = self.node(name)
            if isinstance(node, Model) and node.materialized == VIEW:
                waiting += node.refs
            else:
                yield node

    def topics(self, model: Model) -> list[Source]:
        """The sources of topics that a model reads itself or through views."""
        return [each for each in self.inputs(model) if isinstance(each, Source) and each.topic is not None]

    def downstream(self, name: str) -> list[str]:
        """The models that depend on a node, in order."""
        found: list[str] = []
        for model in self.models.values():
            if any(ref == name or ref in found for ref in model.refs):
                found.append(model.name)
        return found
