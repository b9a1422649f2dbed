"""What a person reads: help texts have one form, and docstrings say what they are about."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.main import make_parser

ROOT = Path(__file__).resolve().parents[3]
BARE_DEFAULT = re.compile(r"\(-?[\d.,]+\)")
"""A default that is only a number in brackets: `(250)`."""
OPTION_WITH_BARE_DEFAULT = re.compile(r"`-{2}[a-z-]+`[^.|()]{0,15}\([\d.,]+\)")
NO_REFERENT = re.compile(r"(It|Its|They|Them|Their|He|She|These|Those|That|There|This one)\b")
"""What a docstring does not begin with: whoever reads it alone cannot know what is meant."""
WIDTH = 80


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and all below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


def problem(action: argparse.Action) -> str | None:
    """What is wrong with the help of one argument."""
    text = action.help or ""
    if not text:
        return "has no help"
    if BARE_DEFAULT.search(text) or re.search(r"\bdefault(s to| is|=)", text):
        return f"write the default as (default: X): {text}"
    is_set = action.default not in (None, False, "", argparse.SUPPRESS) and action.default != []
    if is_set and action.option_strings and "default: " not in text:
        return f"does not name its default: {text}"
    if text.endswith("."):
        return f"a help text is a phrase without a full stop: {text}"
    return None


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (each for each in parser._actions if not isinstance(each, argparse._SubParsersAction))


def test_help_texts_have_one_form() -> None:
    found = [
        f"{parser.prog} {'/'.join(action.option_strings) or action.dest}: {wrong}"
        for parser in parsers(make_parser())
        for action in arguments_of(parser)
        if (wrong := problem(action)) is not None
    ]
    assert not found, "\n".join(found)


def test_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    wide = [
        f"{parser.prog}: {line}"
        for parser in parsers(make_parser())
        for line in parser.format_help().splitlines()
        if len(line) > WIDTH
    ]
    assert not wide, "\n".join(wide)


def test_pages_name_defaults_as_defaults() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{page.relative_to(ROOT)}: {match[0]}"
        for page in pages
        for match in OPTION_WITH_BARE_DEFAULT.finditer(page.read_text())
    ]
    assert not found, "\n".join(found)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield getattr(node, "lineno", 1), text


def test_docstrings_stand_alone() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "src" / "penstock").rglob("*.py"))
        for line, text in docstrings(ast.parse(path.read_text()))
        if NO_REFERENT.match(text)
    ]
    assert not found, "begin with what is meant:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("", None),
        ("interval between updates (250)", 250),
        ("interval between updates, defaults to 250", 250),
        ("interval between updates", 250),
        ("Interval between updates (default: 250).", 250),
    ],
)
def test_a_bad_help_text_is_found(text: str, default: int | None) -> None:
    parser = argparse.ArgumentParser()
    assert problem(parser.add_argument("--interval", help=text, default=default)) is not None


@pytest.mark.parametrize("text", ["It has.", "They are sorted.", "Its name.", "This one waits."])
def test_a_docstring_without_referent_is_found(text: str) -> None:
    (found,) = docstrings(ast.parse(f'def f() -> None:\n    """{text}"""\n'))
    assert NO_REFERENT.match(found[1])
