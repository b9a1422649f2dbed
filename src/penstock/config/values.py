"""The types of settings: how a value is written in a properties file, and how Kafka prints it.

Reading follows org.apache.kafka.common.config.ConfigDef.parseType: text is trimmed, numbers are Java's (32 and 64 bits,
no separators), booleans are true or false in any case, lists are split at commas with the blanks around them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

KiB = 1 << 10
MiB = 1 << 20
GiB = 1 << 30
SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
HIDDEN = "[hidden]"

INTEGER = re.compile(r"[+-]?\d+")
DECIMAL = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)", re.ASCII)


class Password(str):
    """A secret: a string that does not show itself in logs, errors or tools."""

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN


def shown(text: str) -> str:
    """A text as errors quote it: hidden if it is a secret, as all that comes from a config provider is."""
    return HIDDEN if isinstance(text, Password) else text


class ValueType(Generic[T_co]):
    """How a kind of value is read and printed. `describe_id` is its number in DescribeConfigs."""

    __slots__ = ("describe_id", "name", "parse_text", "print_value")

    def __init__(self, name: str, describe_id: int, parse: Callable[[str], T_co], show: Callable[[Any], str]) -> None:
        self.name = name
        self.describe_id = describe_id
        self.parse_text = parse
        self.print_value = show

    def parse(self, text: str) -> T_co:
        """The value written as `text`. Raises ValueError with the end of a sentence, such as `is not an integer`."""
        return self.parse_text(text if self.name == "PASSWORD" else text.strip())

    def print(self, value: object) -> str | None:
        """The value as Kafka prints it in DescribeConfigs; None stays None."""
        return None if value is None else self.print_value(value)

    def redacted(self, value: object) -> str | None:
        """As `print`, with a secret hidden."""
        return HIDDEN if self.sensitive and value is not None else self.print(value)

    @property
    def sensitive(self) -> bool:
        return self.name == "PASSWORD"

    def __repr__(self) -> str:
        return self.name


def integer(bits: int) -> Callable[[str], int]:
    """A reader of Java's signed integers of `bits` bits."""
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        if not INTEGER.fullmatch(text):
            raise ValueError("is not an integer")
        value = int(text) if len(text) <= 20 else limit
        if not -limit <= value < limit:
            raise ValueError(f"does not fit a {bits}-bit integer")
        return value

    return parse


def parse_boolean(text: str) -> bool:
    """`true` or `false`, in any case."""
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("is not a boolean: it must be true or false")
    return lowered == "true"


def parse_double(text: str) -> float:
    """A decimal number as Java reads it."""
    if not DECIMAL.fullmatch(text):
        raise ValueError("is not a number")
    return float(text.rstrip("fFdD") if text[-1] in "fFdD" else text)


def parse_list(text: str) -> tuple[str, ...]:
    """Elements between commas, with the blanks around them cut; an empty text is no element."""
    return tuple(part.strip() for part in text.split(",")) if text else ()


def print_double(value: float) -> str:
    """As Java's Double.toString: at least one digit after the point, an exponent from 1e7 and below 1e-3."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    value = float(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{value:f}"
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits = f"{value:.17e}"
        exponent = digits.partition("e")[2]
        mantissa = repr(value / 10 ** int(exponent))
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def print_boolean(value: bool) -> str:
    """`true` or `false`."""
    return "true" if value else "false"


def print_list(value: tuple[str, ...]) -> str:
    """Elements with commas between them."""
    return ",".join(value)


BOOLEAN: ValueType[bool] = ValueType("BOOLEAN", 1, parse_boolean, print_boolean)
STRING: ValueType[str] = ValueType("STRING", 2, str, str)
INT: ValueType[int] = ValueType("INT", 3, integer(32), str)
SHORT: ValueType[int] = ValueType("SHORT", 4, integer(16), str)
LONG: ValueType[int] = ValueType("LONG", 5, integer(64), str)
DOUBLE: ValueType[float] = ValueType("DOUBLE", 6, parse_double, print_double)
LIST: ValueType[tuple[str, ...]] = ValueType("LIST", 7, parse_list, print_list)
CLASS: ValueType[str] = ValueType("CLASS", 8, str, str)
PASSWORD: ValueType[Password] = ValueType("PASSWORD", 9, Password, str)

TYPES: dict[str, ValueType[Any]] = {
    kind.name: kind for kind in (BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD)
}
