"""The properties format, as Java reads it, and where an entry stands."""

from __future__ import annotations

import pytest

from penstock.config import properties
from penstock.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("  a \t = \f 1 ", {"a": "1 "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==1", {"a": "=1"}),
        ("a = : 1", {"a": ": 1"}),
        ("# a=1\n! b=2\n\n  # c=3\nd=4", {"d": "4"}),
        ("a=1#2", {"a": "1#2"}),
        ("a=1\na=2", {"a": "2"}),
        ("a\\ b=1", {"a b": "1"}),
        ("a\\=b=1", {"a=b": "1"}),
        ("a=x\\ty\\nz\\q\\\\", {"a": "x\ty\nzq\\"}),
        ("a=\\u00e9\\u0041", {"a": "éA"}),
        ("a=\\uD83D\\uDE00", {"a": "\N{GRINNING FACE}"}),  # a character that Java writes as two
        ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# no comment\nb=2", {"a": "1# no comment", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\\", {"a": "1"}),
        ("\\\na=1", {"a": "1"}),
        ("=1", {"": "1"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, entries: dict[str, str]) -> None:
    assert dict(properties.parse(text)) == entries


def test_bytes_are_latin_1() -> None:
    assert properties.parse(b"a=\xe9")["a"] == "é"


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert dict(properties.parse(b"\xef\xbb\xbfa=1\nb=2")) == {"a": "1", "b": "2"}
    assert dict(properties.parse(b"\xef\xbb\xbf# head\na=1")) == {"a": "1"}
    assert dict(properties.parse(b"a=\xef\xbb\xbf1")) == {"a": "ï»¿1"}, "only at the beginning"


def test_an_entry_knows_the_line_on_which_it_begins() -> None:
    read = properties.parse("# head\n\na=1\\\n  2\nb=3\n", "conf/server.properties")
    assert (read.line_of("a"), read.line_of("b"), read.line_of("c")) == (3, 5, None)


def test_a_malformed_escape_is_an_error_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"malformed escape: .*\n  in conf/server.properties, line 2"):
        properties.parse("a=1\nb=\\u12xy", "conf/server.properties")


@pytest.mark.parametrize("value", ["a=1\nb=\\u12xy", "b=\\uCANA", "b=\\ud83d", "b=\\ude00\\ud83d"])
def test_an_error_shows_nothing_of_what_may_be_a_password(value: str) -> None:
    with pytest.raises(ConfigError) as raised:
        properties.parse(value)
    assert not any(part in str(raised.value) for part in ("12xy", "CANA", "d83d", "de00"))


def test_two_escapes_may_be_one_character() -> None:
    assert properties.parse("a=\\ud83d\\ude00")["a"] == "\U0001f600"


@pytest.mark.parametrize("value", ["/srv/dätä", "a\\b", " lead", "tab\tand\nline", "\U0001f600", "a=b:c#d!", ""])
def test_what_is_escaped_is_read_as_it_was(value: str) -> None:
    text = f"a={properties.escape(value)}"
    assert text.isascii()
    assert properties.parse(text)["a"] == value
