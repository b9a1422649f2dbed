"""All limits: that each stands in a room that uses it, says what becomes of what exceeds it, and is heeded."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src" / "penstock"
PLACES = (
    "client",
    "coordinator",
    "guardian",
    "log",
    "metadata",
    "node",
    "pipelines",
    "protocol",
    "quota",
    "raft",
    "records",
    "replication",
    "security",
    "server",
    "spark",
    "sql",
)
"""Rooms with limits: each has its own."""


def limits_of(module: str) -> Iterator[tuple[str, bool]]:
    """The constants of a module in capital letters, and whether a docstring follows each."""
    body = ast.parse(module).body
    for number, node in enumerate(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
            after = body[number + 1] if number + 1 < len(body) else None
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            yield node.targets[0].id, said


def test_rooms_with_limits_are_these() -> None:
    assert sorted(path.parent.name for path in SOURCE.glob("*/limits.py")) == list(PLACES)


@pytest.mark.parametrize("room", PLACES)
def test_each_limit_says_what_it_bounds(room: str) -> None:
    found = list(limits_of((SOURCE / room / "limits.py").read_text()))
    assert found
    assert [name for name, said in found if not said] == []


def test_each_limit_is_heeded_and_named_once() -> None:
    names = [name for room in PLACES for name, _ in limits_of((SOURCE / room / "limits.py").read_text())]
    assert len(names) == len(set(names))
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if "messages" not in path.parts)
    used = re.findall(r"\b[A-Z][A-Z0-9_]+\b", text)
    counts = {name: used.count(name) for name in names}
    assert [name for name, count in counts.items() if count < 2] == [], "a limit that nothing looks at"


def test_a_limit_stands_in_the_room_that_uses_it() -> None:
    """The command line has none: what bounds a command stands in the room whose work it is."""
    for room in PLACES:
        text = "\n".join(path.read_text() for place in (room, "cli") for path in (SOURCE / place).rglob("*.py"))
        for name, _ in limits_of((SOURCE / room / "limits.py").read_text()):
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{room} does not use its own {name}"


def test_a_limit_without_a_word_is_found() -> None:
    assert list(limits_of('A_MAX = 1\n"""Beyond it, none."""\nB_MAX = 2\nlower = 3\n')) == [
        ("A_MAX", True),
        ("B_MAX", False),
    ]
