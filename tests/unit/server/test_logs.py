"""Events are one line each, for a person or as JSON."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from penstock.events import events
from penstock.server.logs import configure


@pytest.fixture(autouse=True)
def the_logger_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing"):
        monkeypatch.setattr(logging, name, getattr(logging, name))
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
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", line[:23])
    assert line[23:] == ' INFO  server.lane: slow append directory=0 path="/a b" empty="" quote="\\""\n'


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
    events("server").warning("refused", peer="a\nINJECTED line", client="\x1b[2J")
    logging.getLogger("penstock.coordinator").info("%s rebalances: %s", "group", "it\r\nINJECTED\u2028\x1b[2J wants to")
    assert [line.isprintable() for line in stream.getvalue().splitlines()] == [True, True]
    assert stream.getvalue().endswith(r"group rebalances: it\r\nINJECTED\u2028\x1b[2J wants to" + "\n")


def test_no_word_of_a_client_begins_a_line_or_fills_the_log() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    forged = "x\n10:00:00.000 ERROR server: forged \x1b[2J\u2028"
    logging.getLogger("penstock.coordinator").info("%s joins: %s", forged, "y" * 100_000)
    try:
        raise KeyError(forged) from ValueError(forged)
    except KeyError:
        events("server").error("broke", trace=True, name=forged)
    lines = stream.getvalue().splitlines()
    assert not any(line.startswith("10:00:00.000") for line in lines)
    assert "\x1b" not in lines[0]
    assert max(map(len, lines)) < 5_000
    assert sum(not line.startswith("    ") for line in lines) == 2, "one event a line, and tracebacks below theirs"


def test_what_is_below_the_level_costs_no_formatting() -> None:
    class Loud:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    configure(stream=io.StringIO())
    events("server").debug("detail", value=Loud())
