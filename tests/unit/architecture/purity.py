"""The rules of the pure rooms, checked on the syntax tree: no world inside, nothing that differs from run to run.

A pure room gets its time, its randomness and its disk from outside, so that the same events always give the same
effects. What would break that can be seen in the source: an import of a module that reaches the world, a call of a
function whose answer depends on the process, a loop straight over a set.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

PURE_ROOMS = (
    "config",
    "protocol",
    "records",
    "log",
    "quota",
    "raft",
    "metadata",
    "security",
    "replication",
    "coordinator",
    "placement",
    "tiered",
    "node",
    "guardian/core",
    "guardian/plan",
    "guardian/telemetry",
    "guardian/twin",
)
"""Rooms, and the part of one, that are pure."""
WORLD = frozenset(
    """
    asyncio concurrent ctypes fcntl ftplib glob http io mmap multiprocessing os pathlib pickle psutil queue random
    resource sched secrets select selectors shutil signal socket socketserver sqlite3 ssl subprocess tempfile threading
    time urllib uuid uvloop
    """.split()  # noqa: SIM905 - this many read better as words
)
ALLOWED_NAMES = {
    "uuid": {"UUID", "SafeUUID"},
    "io": {"BytesIO"},
    "random": {"Random"},
    "urllib.parse": {"parse_qsl", "unquote", "urlsplit"},  # takes a text apart
}
"""Names that may be taken from a module of the world: types, and what stays in memory."""
PROCESS_DEPENDENT = frozenset({"id", "hash", "open", "uuid1", "uuid4", "Random", "breakpoint", "input"})
"""Functions whose answer depends on the process. A generator of random numbers is given, never made."""
CLOCK_METHODS = frozenset({"now", "utcnow", "today"})
SET_MAKERS = frozenset({"set", "frozenset"})
SET_METHODS = frozenset({"intersection", "union", "difference", "symmetric_difference"})


class Offence(NamedTuple):
    """A line that breaks a rule, and which."""

    line: int
    rule: str


def offences(source: str) -> list[Offence]:
    """Every offence in the source of a pure module, in order."""
    return sorted(offence for node in ast.walk(ast.parse(source)) for offence in found_in(node))


def found_in(node: ast.AST) -> Iterator[Offence]:
    """The offences of one node of the tree."""
    match node:
        case ast.Import() | ast.ImportFrom():
            yield from import_offences(node)
        case ast.Call():
            yield from call_offences(node)
        case ast.For() | ast.AsyncFor() | ast.comprehension() if makes_a_set(node.iter):
            yield Offence(node.iter.lineno, "iterates over a set")
        case ast.AsyncFunctionDef() | ast.Await():
            yield Offence(node.lineno, "is a coroutine")


def import_offences(node: ast.Import | ast.ImportFrom) -> Iterator[Offence]:
    """Imports of modules that reach the world."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] in WORLD:
                yield Offence(node.lineno, f"imports {alias.name}")
    elif node.level == 0 and str(node.module).partition(".")[0] in WORLD:
        for alias in node.names:
            if alias.name not in ALLOWED_NAMES.get(str(node.module), set()):
                yield Offence(node.lineno, f"imports {alias.name} from {node.module}")


def call_offences(node: ast.Call) -> Iterator[Offence]:
    """Calls whose answer depends on the process, the clock or the world."""
    name = called(node)
    plain = isinstance(node.func, ast.Name)
    if name in PROCESS_DEPENDENT and (plain or name in ("uuid1", "uuid4")):
        yield Offence(node.lineno, f"calls {name}()")
    elif name in CLOCK_METHODS and not plain and not node.args:
        yield Offence(node.lineno, f"reads a clock by {name}()")


def called(node: ast.expr) -> str:
    """The last name of what is called; empty when it has none."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def makes_a_set(node: ast.expr) -> bool:
    """Whether an expression is plainly a set: its order changes with PYTHONHASHSEED."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        return called(node) in (SET_MAKERS if isinstance(node.func, ast.Name) else SET_METHODS)
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor)
        and (makes_a_set(node.left) or makes_a_set(node.right))
    )
