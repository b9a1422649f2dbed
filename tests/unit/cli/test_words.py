"""What people write on a command line, and how values are shown to them."""

from __future__ import annotations

import argparse
import io
import sys

import pytest

from penstock.cli.common import pair, read_properties
from penstock.cli.configs import changes_of, resource_of
from penstock.cli.consume import chosen, json_line, offset_of, writer_of
from penstock.cli.output import counted, fitting, home_relative, paint, print_table, size_text
from penstock.cli.produce import chunks_of_lines
from penstock.cli.times import timestamp_ms, timestamp_text
from penstock.cli.topics import parse_assignment
from penstock.client.admin import Change, ConfigOperation, Resource, ResourceType
from penstock.errors import ConfigError, UsageError
from penstock.records.reader import Record

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW_MS),
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("15m", NOW_MS - 900_000),
        ("-2d", NOW_MS - 2 * 86_400_000),
        ("1970-01-01", 0),
        ("1970-01-01T01:00+01:00", 0),
        ("1970-01-01T00:00:01.5Z", 1500),
    ],
)
def test_times_have_several_forms(text: str, expected: int) -> None:
    assert timestamp_ms(text, "--from", NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "15 minutes", "2026-13-01", "9" * 30, "-m"])
def test_a_time_that_is_none_says_what_would_be(text: str) -> None:
    with pytest.raises(UsageError, match=r"--from .*: it must be like 2026-01-31T08:00Z"):
        timestamp_ms(text, "--from", NOW_MS)


def test_times_are_shown_in_utc() -> None:
    assert timestamp_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert timestamp_text(-1) == "-"
    assert timestamp_text(1 << 61) == str(1 << 61)


def test_one_is_no_plural() -> None:
    assert [counted(count, "record") for count in (0, 1, 2000)] == ["0 records", "1 record", "2,000 records"]


def test_sizes_are_shown_with_their_unit() -> None:
    sizes = [0, 1023, 1024, 1536, 200 * 1024, 1 << 30, 5 << 50]
    assert [size_text(size) for size in sizes] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 KiB", "200 KiB", "1.0 GiB", "5.0 PiB"
    ]  # fmt: skip


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("topic", "partitions"), [("clicks", 3), ("a", 12)], right=("partitions",))
    assert capsys.readouterr().out == "topic   partitions\nclicks           3\na               12\n"


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("text", "31", terminal) == "\x1b[31mtext\x1b[0m"
    assert paint("text", "31", io.StringIO()) == "text"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("text", "31", terminal) == "text"


def test_paths_below_home_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/me")
    assert home_relative("/srv/me/data") == "~/data"
    assert home_relative("/srv/me-too") == "/srv/me-too"


def test_pairs() -> None:
    assert pair("a=b=c", "--config") == ("a", "b=c")
    for text in ("a", "=b", " =b"):
        with pytest.raises(UsageError, match=f"--config {text}: it must be NAME=VALUE"):
            pair(text, "--config")


def test_overrides_win_and_lines_stay_known(tmp_path: object) -> None:
    path = f"{tmp_path}/server.properties"
    with open(path, "w") as file:
        file.write("node.id=1\nlog.dirs=/a\n")
    properties = read_properties(path, ["log.dirs=/b", "num.partitions=3"])
    assert dict(properties) == {"node.id": "1", "log.dirs": "/b", "num.partitions": "3"}
    assert (properties.line_of("node.id"), properties.line_of("log.dirs")) == (1, None)
    with pytest.raises(ConfigError, match=r"cannot read .*: is a directory"):
        read_properties(str(tmp_path))


def test_replica_assignments() -> None:
    assert parse_assignment("1:2,2:3") == [[1, 2], [2, 3]]
    assert parse_assignment(None) == []
    with pytest.raises(UsageError, match="must be broker ids such as 1:2,2:3"):
        parse_assignment("1:x")


def arguments(**values: object) -> argparse.Namespace:
    return argparse.Namespace(**values)


def test_configs_belong_to_a_topic_a_broker_all_brokers_or_a_subscription() -> None:
    assert resource_of(arguments(entity="topics", name="t")) == Resource(ResourceType.TOPIC, "t")
    assert resource_of(arguments(entity="brokers", name="7")).node_id == 7
    assert resource_of(arguments(entity="brokers", name="")).node_id is None
    assert resource_of(arguments(entity="client-metrics", name="s")) == Resource(ResourceType.CLIENT_METRICS, "s")
    for entity, name in (("topics", ""), ("brokers", "one"), ("client-metrics", "")):
        with pytest.raises(UsageError):
            resource_of(arguments(entity=entity, name=name))


def test_changes_of_configs() -> None:
    assert changes_of(arguments(add=["a=1", "b="], delete=["c"])) == [
        Change("a", ConfigOperation.SET, "1"),
        Change("b", ConfigOperation.SET, ""),
        Change("c", ConfigOperation.DELETE, None),
    ]
    with pytest.raises(UsageError, match="nothing to change"):
        changes_of(arguments(add=[], delete=[]))
    with pytest.raises(UsageError, match="a: given twice"):
        changes_of(arguments(add=["a=1"], delete=["a"]))


def test_lines_come_whole_however_the_input_is_cut() -> None:
    def lines(*parts: bytes) -> list[list[bytes]]:
        coming = iter([*parts, b""])
        return list(chunks_of_lines(lambda _: next(coming)))

    assert lines(b"a\nb\n") == [[b"a", b"b"]]
    assert lines(b"a\nb", b"c\nd") == [[b"a"], [b"bc"], [b"d"]]
    assert lines(b"a\r\n\n", b"no end") == [[b"a", b""], [b"no end"]]
    assert lines(b"x", b"y", b"z\n") == [[b"xyz"]]
    assert lines() == []


def test_partitions_and_offsets_that_do_not_exist() -> None:
    assert chosen(None, 3, "t") == [0, 1, 2]
    assert chosen([2, 0, 2], 3, "t") == [0, 2]
    with pytest.raises(UsageError, match="t has partitions 0 to 2, not 3"):
        chosen([3], 3, "t")
    assert offset_of("12") == 12
    for text in ("-1", "first", "1.5"):
        with pytest.raises(UsageError):
            offset_of(text)


RECORD = Record(5, 1_700_000_000_000, b"k", b"v", (("h", b"1"), ("n", None)))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("", b"v\n"),
        ("key,offset", b"k|5|v\n"),
        ("headers,partition", b"h=1,n=null|3|v\n"),
        ("timestamp", b"2023-11-14T22:13:20.000Z|v\n"),
    ],
)
def test_columns_stand_before_the_value(columns: str, expected: bytes) -> None:
    assert writer_of(arguments(json=False, columns=columns, separator="|"))("t", 3, RECORD) == expected


def test_an_unknown_column_says_which_there_are() -> None:
    with pytest.raises(UsageError, match="--print size: it must be some of key,partition,offset"):
        writer_of(arguments(json=False, columns="size", separator="\t"))
    with pytest.raises(UsageError, match="headers; the value always follows them"):
        writer_of(arguments(json=False, columns="key,value", separator="\t"))


def test_a_record_as_json_keeps_every_byte() -> None:
    line = json_line("t", 0, Record(1, 2, None, b"\xff\x00", (("h", "ü".encode()),)))
    assert (
        line
        == (
            '{"topic": "t", "partition": 0, "offset": 1, "timestamp_ms": 2, "key": null, '
            '"value": {"base64": "/wA="}, "headers": [["h", "ü"]]}\n'
        ).encode()
    )


def test_widths_shrink_where_they_are_largest() -> None:
    assert fitting([5, 5], 80) == [5, 5]
    assert fitting([10, 40, 30], 64) == [10, 25, 25]
    assert fitting([10, 40, 90], 64) == [10, 25, 25]
    assert fitting([30, 30, 30], 20) == [8, 8, 8]


def test_tables_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    print_table(("config", "meaning"), [("a", "what it means in a sentence that is far too long for a line")])
    print_table(("topic", "leader", "replicas"), [("t" * 60, 1, "1,2,3")], right=("leader",))
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[:3] == [
        "config  meaning",
        "a       what it means in a sentence that",
        "        is far too long for a line",
    ]
    assert lines[-1].endswith("…       1  1,2,3")
