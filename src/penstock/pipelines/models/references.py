"""What a step reads: the names of tables in a query, and the `ref` and `source` calls of a Python function.

The query is looked at word by word: a name stands for a table behind FROM or JOIN, and behind a comma in a FROM clause.
A common table expression is visible behind its own end, as in Spark, so `with clicks as (select * from clicks)` reads
the step `clicks`. Spark's own parser would know more, but needs a Java process, which `penstock pipeline validate` does
without; a test holds the two against each other.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import ConfigError

TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?"(?:[^"\\]|\\.)*")
    |`(?P<quoted>(?:[^`]|``)*)`
    |(?P<word>\w+)
    |(?P<mark>\|>|.)""",
    re.VERBOSE | re.DOTALL,
)
ENDS_FROM = frozenset(
    {
        *("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT", "MINUS", "WINDOW"),
        *("CLUSTER", "DISTRIBUTE", "SORT", "SELECT", "PIVOT", "UNPIVOT", "|>"),
    }
)
"""What a comma behind is no longer between tables."""
NO_TABLES = frozenset({"VALUES", "SELECT", "WITH", "FROM", "TABLE"})
"""What stands in the place of a table's name and is none."""
BEFORE_TABLE = ("(", "UNION", "ALL", "INTERSECT", "EXCEPT")
"""Where `TABLE clicks` is a query."""
CALLS = ("ref", "source")


@dataclass(frozen=True, slots=True)
class _Token:
    """A word of a query. `key` is what it means: upper case for a word, itself for a mark, empty for a quoted name."""

    text: str
    key: str
    is_name: bool


@dataclass(slots=True)
class _Frame:
    """What is between two brackets: what it may name, and where in it we are."""

    names: set[str] = field(default_factory=set)
    seen_select: bool = False
    wants_table: bool = False
    in_from: bool = False
    in_with: bool = False
    defines: str | None = None
    """The common table expression whose query the next bracket holds."""
    closes: str | None = None
    """The one that this bracket itself holds, to be named outside when it ends."""


def tables_of(query: str) -> list[str]:
    """The tables that a query reads, each once, in order; `a.b` for a name of several parts.

    Raises ConfigError for a query that has several statements, or brackets that do not match.
    """
    tokens = _tokens(query)
    found: dict[str, None] = {}
    frames = [_Frame()]
    at = 0
    while at < len(tokens):
        at = _step(tokens, at, frames, found)
    if len(frames) > 1:
        raise ConfigError("a bracket of the query is not closed")
    return list(found)


def _tokens(query: str) -> list[_Token]:
    found = []
    for match in TOKEN.finditer(query):
        kind = match.lastgroup
        if kind == "quoted":
            found.append(_Token(match["quoted"].replace("``", "`"), "", True))
        elif kind == "word":
            found.append(_Token(match["word"], match["word"].upper(), not match["word"].isdecimal()))
        elif kind != "blank":
            found.append(_Token(match[0], "'" if kind == "text" else match[0], False))
    while found and found[-1].key == ";":
        found.pop()
    if any(each.key == ";" for each in found):
        raise ConfigError("the query has several statements: one is wanted, a SELECT")
    return found


def _step(tokens: Sequence[_Token], at: int, frames: list[_Frame], found: dict[str, None]) -> int:
    """Looks at one token; returns where the next one is."""
    token, frame = tokens[at], frames[-1]
    before = tokens[at - 1].key if at else "("
    if token.key == "(":
        frames.append(_Frame(wants_table=frame.wants_table, closes=frame.defines))
        frame.wants_table, frame.defines = False, None
    elif token.key == ")":
        _close(frames)
    elif frame.wants_table:
        return _table(tokens, at, frames, found)
    elif frame.in_with and before in ("WITH", "RECURSIVE", ",") and token.is_name and token.key != "RECURSIVE":
        frame.defines = token.text.lower()
        if at + 1 < len(tokens) and tokens[at + 1].key == "(":  # names of its columns
            return _behind_bracket(tokens, at + 1)
    else:
        _turn(frame, token.key, before)
    return at + 1


def _turn(frame: _Frame, key: str, before: str) -> None:
    """Notes where in a query a word leads."""
    if key == "WITH" and before in ("(", ")"):
        frame.in_with = True
    elif key == "FROM" and (frame.seen_select or before == "(") and before != "DISTINCT":
        frame.seen_select = frame.wants_table = frame.in_from = True
        frame.in_with = False
    elif key == "JOIN" and before != ".":
        frame.wants_table = frame.in_from = True
    elif key in ("TABLE", ","):
        frame.wants_table = frame.in_from if key == "," else before in BEFORE_TABLE
    elif key in ENDS_FROM or (key == "VIEW" and before == "LATERAL"):
        frame.in_from = False
        if key == "SELECT":
            frame.seen_select, frame.in_with = True, False


def _close(frames: list[_Frame]) -> None:
    if len(frames) == 1:
        raise ConfigError("the query closes a bracket that it has not opened")
    inner = frames.pop()
    if inner.closes is not None:
        frames[-1].names.add(inner.closes)


def _behind_bracket(tokens: Sequence[_Token], at: int) -> int:
    depth = 0
    for place in range(at, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[place].key, 0)
        if not depth:
            return place + 1
    return len(tokens)


def _table(tokens: Sequence[_Token], at: int, frames: list[_Frame], found: dict[str, None]) -> int:
    """Reads what stands where a table is wanted; returns where what follows it is."""
    frame, token = frames[-1], tokens[at]
    if token.key == "LATERAL":
        frame.wants_table = len(tokens) <= at + 1 or tokens[at + 1].key != "VIEW"
        return at + 1
    frame.wants_table = False
    if token.key in NO_TABLES or not token.is_name:
        if token.key == "WITH":
            frame.in_with = True
        elif token.key in ("FROM", "TABLE"):
            frame.seen_select = frame.wants_table = True
            frame.in_from = token.key == "FROM"
        elif token.key == "SELECT":
            frame.seen_select = True
        return at + 1
    parts = [token.text]
    at += 1
    while at + 1 < len(tokens) and tokens[at].key == "." and tokens[at + 1].is_name:
        parts.append(tokens[at + 1].text)
        at += 2
    if at < len(tokens) and tokens[at].key == "(":  # a function that gives a table
        return at
    name = ".".join(parts)
    frame.in_from = True
    if len(parts) > 1 or not any(name.lower() in each.names for each in frames):
        found.setdefault(name)
    return at


def calls_of(function: Callable[..., Any]) -> list[str]:
    """The names in `dbt.ref("…")` and `dbt.source("…")` of a Python step, where `dbt` is its first parameter.

    Raises ConfigError for a function that takes other parameters than two, or a name that is not written out.
    """
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2:
        raise ConfigError(f"{function.__name__} must take two parameters: def {function.__name__}(dbt, session)")
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found: dict[str, None] = {}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda each: (each.lineno, each.col_offset)):
        if not (isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == parameters[0]):
            continue
        name = node.args[-1] if node.args else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            raise ConfigError(f"line {node.lineno} of {function.__name__}: {node.func.attr} takes a name in quotes")
        found.setdefault(name.value)
    return list(found)
