"""Declared columns as Spark users write them: "page string, user string, ms bigint, tags array<string>".

The grammar is that of Spark's DDL strings for the types that a JSON value can hold: boolean, tinyint, smallint, int,
bigint, float, double, decimal(p, s), string, date, timestamp, array<...>, struct<name: type, ...>, with their synonyms,
a colon or none after a name, names in backticks, and NOT NULL and COMMENT accepted and passed over (columns of a
lake table are nullable, because a record may be a tombstone).
"""

from __future__ import annotations

import re

import pyarrow as pa

from penstock.errors import ConfigError

TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([^\s,:<>()`'\"]+)|([,:<>()]))")
SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
KNOWN = ", ".join([*SIMPLE, "decimal(p, s)", "array<...>", "struct<...>"])
DECIMAL_DIGITS_MAX = 38


def parse_ddl(text: str) -> pa.Schema:
    """The columns that a DDL string declares, in its order. Raises ConfigError saying where it is wrong."""
    return pa.schema(_Parser(text).columns())


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, bool]] = []
        position = 0
        while text[position:].strip():
            found = TOKEN.match(text, position)
            if found is None:
                raise ConfigError(f"schema {text!r}: not understood from {text[position:].strip()[:20]!r} on")
            quoted, literal, word, sign = found.groups()
            self._tokens.append((quoted.replace("``", "`"), True) if quoted else (literal or word or sign, False))
            position = found.end()
        self._at = 0

    def columns(self) -> list[pa.Field]:
        fields = self._fields("")
        names = [each.name.lower() for each in fields]
        for name in names:
            if names.count(name) > 1:
                raise self._error(f"the column {name} is there twice")
        return fields

    def _fields(self, end: str) -> list[pa.Field]:
        fields = []
        while True:
            name, _ = self._next("a column's name")
            if self._peek() == ":":
                self._at += 1
            fields.append(pa.field(name, self._type(nested=bool(end))))
            self._pass_over()
            sign = self._peek()
            if sign == end:
                return fields
            self._expect(",")

    def _type(self, *, nested: bool) -> pa.DataType:
        word, _ = self._next("a type")
        name = word.lower()
        if name == "array":
            self._expect("<")
            inner = self._type(nested=True)
            self._expect(">")
            return pa.list_(inner)
        if name == "struct":
            self._expect("<")
            fields = self._fields(">")
            self._expect(">")
            return pa.struct(fields)
        if name in ("decimal", "dec", "numeric"):
            return self._decimal()
        if name not in SIMPLE:
            raise self._error(f"{word} is no type of a JSON column; these are: {KNOWN}")
        if nested and name == "date":
            raise self._error("a date inside an array or struct cannot be read from JSON: declare it as string")
        return SIMPLE[name]

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._at += 1
            precision = self._number()
            if self._peek() == ",":
                self._at += 1
                scale = self._number()
            self._expect(")")
        if not 1 <= precision <= DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
            raise self._error(f"decimal({precision}, {scale}) cannot be: 1 to 38 digits, of them 0 or more decimals")
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        word, _ = self._next("a number")
        if not word.isdecimal():
            raise self._error(f"{word} is no number")
        return int(word)

    def _pass_over(self) -> None:
        if self._peek().lower() == "not":
            self._at += 1
            if self._peek().lower() != "null":
                raise self._error("NULL must follow NOT")
            self._at += 1
        if self._peek().lower() == "comment":
            self._at += 2

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self, what: str) -> tuple[str, bool]:
        if self._at >= len(self._tokens):
            raise self._error(f"{what} is missing at the end")
        token = self._tokens[self._at]
        if token[0] in ",:<>()" and not token[1]:
            raise self._error(f"{what} is missing before {token[0]!r}")
        self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            found = repr(self._peek()) if self._peek() else "the end"
            raise self._error(f"{sign!r} was expected, not {found}")
        self._at += 1

    def _error(self, why: str) -> ConfigError:
        return ConfigError(f"schema {self._text!r}: {why}")
