"""What a class leaves to its subclasses is an abstract method, which a type checker and Python itself see."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(path for top in ("src", "simulator") for path in (ROOT / top).rglob("*.py"))


def raised_when_called(source: str) -> list[int]:
    """The lines that raise NotImplementedError."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Raise) and node.exc is not None and "NotImplementedError" in ast.unparse(node.exc)
    ]


def test_no_method_says_only_when_called_that_it_is_missing() -> None:
    texts = {path: text for path in MODULES if "NotImplementedError" in (text := path.read_text())}
    found = [f"{path.relative_to(ROOT)}:{line}" for path, text in texts.items() for line in raised_when_called(text)]
    assert found == [], "use abc.abstractmethod or a Protocol"
    assert len(MODULES) > 500


@pytest.mark.parametrize(
    "line", ["raise NotImplementedError", "raise NotImplementedError('later')", "raise NotImplementedError from None"]
)
def test_one_that_does_is_found(line: str) -> None:
    assert raised_when_called(f"def work():\n    {line}\n") == [2]


@pytest.mark.parametrize("line", ["return NotImplemented", "raise ValueError", "raise"])
def test_others_are_not(line: str) -> None:
    assert raised_when_called(f"def work():\n    {line}\n") == []
