"""Events are one line each, for a person or as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from penstock.server.logs import configure, events


@pytest.fixture(autouse=True)
def the_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger("penstock")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])


def test_a_line_for_a_person() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    events("server.lane").info("slow append", directory=0, path="/a b", empty="", quote='"')
    line = stream.getvalue()
    assert line[:2].isdigit()
    assert line[12:] == ' INFO  server.lane: slow append directory=0 path="/a b" empty="" quote="\\""\n'


def test_a_line_for_a_program() -> None:
    stream = io.StringIO()
    configure(json_lines=True, stream=stream)
    try:
        raise ValueError("a bug")
    except ValueError:
        events("server").error("broke", trace=True, operation="append")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["event"], line["operation"]) == ("ERROR", "broke", "append")
    assert "ValueError: a bug" in line["trace"]


def test_a_line_break_in_a_field_does_not_break_the_line() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    events("server").warning("refused", peer="a\nINJECTED line")
    assert stream.getvalue().count("\n") == 1


def test_what_is_below_the_level_costs_no_formatting() -> None:
    class Loud:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    configure(stream=io.StringIO())
    events("server").debug("detail", value=Loud())
