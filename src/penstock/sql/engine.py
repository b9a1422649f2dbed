"""Runs SQL over topics: a DuckDB in memory, whose tables are the topics that the statements name.

    with Engine("127.0.0.1:9092") as engine:
        for result in engine.run('select count(*) from "my.topic-1"'):
            for batch in result.batches: ...

All topics that the statements name are opened before the first of them runs, so all see the records of one moment.
DuckDB may touch neither files nor the network nor this process's variables; what does not fit its memory spills into a
temporary directory that goes with the engine.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import duckdb
import pyarrow as pa
from duckdb import ExpectedResultType

from penstock.client.client import READ_COMMITTED, READ_UNCOMMITTED
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError, ErrorCode, PenstockError, RequestError
from penstock.spark.read.fetching import Connect
from penstock.sql import values
from penstock.sql.limits import (
    SQL_JSON_SAMPLE_RECORDS,
    SQL_MEMORY,
    SQL_RESULT_BATCH_ROWS,
    SQL_STOP_TIMEOUT_S,
    SQL_TOPICS_MAX,
)
from penstock.sql.topics import COLUMNS, Opened, Read, TopicTable, open_topics

Answer = TypeVar("Answer")
CLIENT_ID = "penstock-sql"
JSON = "json"
NAME = r'"(?:[^"]|"")*"|[^".\s]+'
TABLE = re.compile(rf"(?P<parts>(?:{NAME})(?:\.(?:{NAME}))*)(?:\s+AS\s.*)?", re.DOTALL)
POSITION = re.compile(r"\n\nLINE (?P<line>\d+): (?P<text>.*)\n(?P<before>\s*)\^", re.DOTALL)
COLUMN_OFFSET = re.compile(r'(?<!["\w])offset(?!["\w])(?!\s+\d)', re.IGNORECASE)
"""Where `offset` may be meant as the column: without quotes, and without a number behind it as after LIMIT."""
MISSING = re.compile(r"Table with name (?P<name>\S+) does not exist")


class SqlError(PenstockError):
    """A statement that cannot be run: why, and where in it, in one line."""

    code = ErrorCode.INVALID_REQUEST


@dataclass(frozen=True, slots=True)
class Settings:
    """How an engine reads and what it may use.

    Attributes:
        read: "auto", "broker" or "files", as of the source's `penstock.read`; `log_dirs` likewise.
        committed: leave out what transactions have not committed.
        in_order: times never go back within a partition, so a filter's latest time ends the reading too.
        memory: what DuckDB may hold before it spills, as it writes it ("1GiB").
        files: let statements read and write files of this machine.
        sample: records from which the columns of JSON values are learnt.
    """

    read: str = "auto"
    log_dirs: tuple[str, ...] = ()
    committed: bool = False
    in_order: bool = False
    memory: str = SQL_MEMORY
    files: bool = False
    sample: int = SQL_JSON_SAMPLE_RECORDS
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement answered: the names of its columns and Arrow batches, to be read once."""

    names: tuple[str, ...]
    schema: Any
    batches: Iterator[Any]


class Engine:
    """See the module's head. Raises ConfigError for settings that DuckDB refuses."""

    def __init__(self, bootstrap: str, settings: Settings = Settings(), security: ClientSecurity = UNSECURED) -> None:
        self.read = Read()
        self._settings = settings
        isolation = READ_COMMITTED if settings.committed else READ_UNCOMMITTED
        timeout_ms, log_dirs = settings.timeout_ms, settings.log_dirs
        self._connect = Connect(bootstrap, CLIENT_ID, timeout_ms, isolation, settings.read, log_dirs, security)
        self._tables: dict[str, Opened] = {}
        self._topics: list[str] = []
        self._spill = tempfile.TemporaryDirectory(prefix="penstock-sql-")
        try:
            self._duckdb = duckdb.connect(config=self._config())
            self._duckdb.execute("set timezone = 'UTC'; set enable_progress_bar = false; create schema json")
        except duckdb.Error as error:
            self._spill.cleanup()
            raise ConfigError(one_line(error)) from None

    def _config(self) -> dict[str, Any]:
        return {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "enable_external_access": str(self._settings.files).lower(),
            "memory_limit": self._settings.memory,
            "python_enable_replacements": "false",  # or a table could be a variable of this process
            "temp_directory": self._spill.name,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._duckdb.close()
        self._spill.cleanup()

    def run(self, text: str) -> Iterator[Result]:
        """Runs statements, separated by semicolons, one when the result of the one before has been read.

        Raises SqlError for a wrong statement, RequestError for a topic that does not exist, and what reading raises.
        """
        try:
            statements = self._duckdb.extract_statements(text)
        except duckdb.Error as error:
            raise SqlError(one_line(error) + self._quoting(text)) from None
        self._open([each.query for each in statements])
        for each in statements:
            answers = set(each.expected_result_type)
            yield self._run(each.query, shows=answers == {ExpectedResultType.QUERY_RESULT})

    def _run(self, statement: str, *, shows: bool) -> Result:
        while True:
            try:
                if not shows:  # such as CREATE TABLE
                    self._stoppable(lambda: self._duckdb.execute(statement))
                    return Result((), pa.schema([]), iter(()))
                reader = self._stoppable(lambda: self._duckdb.sql(statement).to_arrow_reader(SQL_RESULT_BATCH_ROWS))
                return Result(tuple(reader.schema.names), reader.schema, self._batches(reader, statement))
            except duckdb.Error as error:
                found = MISSING.search(str(error))  # of some statements DuckDB does not tell the tables beforehand
                if found is None or not self._opens(_unquoted(found["name"])):
                    raise self._explained(error, statement) from None

    def _batches(self, reader: Any, statement: str) -> Iterator[Any]:
        while True:
            try:
                batch = self._stoppable(lambda: next(reader, None))
            except (duckdb.Error, OSError, ValueError) as error:  # what fails while rows are read comes through Arrow
                raise self._explained(error, statement) from None
            if batch is None:
                return
            yield batch

    def _stoppable(self, work: Callable[[], Answer]) -> Answer:
        """Does DuckDB's work on a thread of its own: a thread that is within DuckDB hears no signals.

        Ctrl-C here interrupts the work, and gives it a moment to end.
        """
        done: Future[Answer] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="penstock-sql", daemon=True).start()
        try:
            return done.result()
        except KeyboardInterrupt:
            self._duckdb.interrupt()
            wait([done], SQL_STOP_TIMEOUT_S)
            raise

    def _explained(self, error: Exception, statement: str) -> Exception:
        """The error to show for one of DuckDB's."""
        if self.read.failure is not None:
            return self.read.failure
        found = MISSING.search(str(error))
        if found is None:
            return SqlError(one_line(error) if "LINE " in str(error) else self._placed(error, statement))
        missing = _unquoted(found["name"])
        named = [parts for parts in self._named(statement) if parts[-1] == missing.rpartition(".")[2]]
        parts = named[0] if named else (missing,)
        dotted, where = ".".join(parts), f"at {self._connect.bootstrap}"
        if dotted in self._topics:
            return SqlError(f'a name with dots is quoted: "{dotted}"')
        nearest = did_you_mean(parts[-1], self._topics)
        return RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {dotted} {where}{nearest}")

    def _placed(self, error: Exception, statement: str) -> str:
        """The error in one line; where in the statement it is, DuckDB tells when it only explains it."""
        try:
            self._duckdb.execute(f"explain\n{statement}")
        except duckdb.Error as other:
            if str(other).startswith(str(error)):
                return one_line(other, lines_before=1)
        return one_line(error)

    def _named(self, statement: str) -> list[tuple[str, ...]]:
        """The tables that a statement names, as (schema, table) or (table,)."""
        try:
            found = self._duckdb.get_table_names(statement, qualified=True)
        except duckdb.Error:
            return []  # it will say why when it is run
        named = []
        for each in sorted(found):
            if (match := TABLE.fullmatch(each)) is not None:
                named.append(tuple(_unquoted(part) for part in re.findall(NAME, match["parts"])))
        return named

    def _open(self, statements: Sequence[str]) -> None:
        """Makes tables of the topics that the statements name."""
        named = {parts for statement in statements for parts in self._named(statement)}
        everything = any(re.match(r"\s*show\s+(all\s+)?tables", each, re.IGNORECASE) for each in statements)
        if named or everything:
            asyncio.run(self._open_topics(named, everything))
        for schema in sorted(parts[1] for parts in named if len(parts) == 2 and parts[0].lower() == JSON):
            if (topic := self._topic(schema)) is not None:
                self._open_values(topic)

    def _opens(self, name: str) -> bool:
        """Makes a table of a topic; False when there is no such topic, or it is a table already."""
        before = len(self._tables)
        asyncio.run(self._open_topics({(name,)}, False))
        return len(self._tables) > before

    def _quoting(self, text: str) -> str:
        """What more to say of a statement that cannot be parsed: a topic with a dash or a dot, or the column that is a
        word of SQL, may need quotes.
        """
        with suppress(PenstockError):
            asyncio.run(self._open_topics(set(), False))
        for topic in self._topics:
            if not topic.isidentifier() and re.search(rf'(?<!["\\w]){re.escape(topic)}(?!["\\w])', text):
                return f"\n  a name with dots or dashes is quoted: {values.quoted(topic)}"
        if COLUMN_OFFSET.search(text):
            return '\n  the column is written "offset", with quotes: offset alone is a word of SQL'
        return ""

    async def _open_topics(self, named: set[tuple[str, ...]], everything: bool) -> None:
        connect = self._connect
        async with connect.client() as client:
            self._topics = await client.topic_names()
            of_topics = [parts[-1] for parts in named if len(parts) == 1 or parts[-2].lower() in (JSON, "main")]
            wanted = {topic for name in of_topics if (topic := self._topic(name)) is not None}
            if everything:
                wanted.update(self._topics[:SQL_TOPICS_MAX])
            opened = await open_topics(client, sorted(wanted), connect.isolation)
        by_name: dict[str, str] = {}
        for each in opened:
            other = by_name.setdefault(each.name.lower(), each.name)
            if other != each.name:  # names of tables have no case
                raise SqlError(f"topics {other} and {each.name} cannot be used together: SQL takes them for one")
            self._tables[each.name] = each
            self._duckdb.register(each.name, self._table(each))

    def _open_values(self, topic: str) -> None:
        """Learns the columns of a topic's values from a sample, and makes their view."""
        try:
            self._duckdb.register("sample", self._table(self._tables[topic].sample(self._settings.sample)))
            structure, count = self._duckdb.execute(values.LEARN).fetchone() or (None, 0)
            shape = values.learnt(topic, structure, count)
            self._duckdb.execute(values.view(topic, shape, COLUMNS))
        except duckdb.Error as error:
            raise self._explained(error, "") from None
        finally:
            with suppress(duckdb.Error):
                self._duckdb.unregister("sample")

    def _table(self, opened: Opened) -> TopicTable:
        return TopicTable(self._connect, opened, self.read, in_order=self._settings.in_order)

    def _topic(self, name: str) -> str | None:
        """The topic that a name in a statement means: exactly, or but for the case of its letters."""
        if name in self._topics:
            return name
        alike = [topic for topic in self._topics if topic.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None


def one_line(error: Exception, lines_before: int = 0) -> str:
    """DuckDB's message as one line: what is wrong, and at which line and column of the statement."""
    text = str(error)
    found = POSITION.search(text)
    where = ""
    if found is not None:
        column = len(found["before"]) - len(f"LINE {found['line']}: ") + 1
        where = f" (line {int(found['line']) - lines_before}, column {column})"
        text = text[: found.start()]
    return " ".join(text.split()) + where


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
