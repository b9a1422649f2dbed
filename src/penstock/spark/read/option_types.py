"""What the value of an option may look like: a sentence for a person and a function that reads it.

A function takes the text that Spark hands over and gives the value, or raises ValueError with the rest of a sentence
that begins with the option and its value: "must be a whole number".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from penstock.client.client import parse_address

DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZE_BYTES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
OFFSETS_EXAMPLE = '{"clicks": {"0": 23, "1": 5}}'


@dataclass(frozen=True, slots=True)
class Type:
    """How an option is written (`said`, for the reference) and how it is read; whether no message may repeat it."""

    said: str
    read: Callable[[str], Any]
    is_secret: bool = False


def whole(at_least: int) -> Type:
    """A whole number with a lower bound."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if value < at_least:
            raise ValueError(f"must be at least {at_least}")
        return value

    return Type(f"whole number ≥ {at_least}", read)


def one_of(*values: str, remedies: Mapping[str, str] = MappingProxyType({})) -> Type:
    """One of a few words, in any case; `remedies` say of others why they are none."""

    def read(text: str) -> str:
        if text.lower() in remedies:
            raise ValueError(remedies[text.lower()])
        if text.lower() not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return text.lower()

    return Type(", ".join(f"`{value}`" for value in values), read)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be one of true, false")
    return text.lower() == "true"


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _servers(text: str) -> str:
    for address in text.split(","):
        try:
            parse_address(address)
        except ValueError as error:
            raise ValueError(f"must be host:port, several separated by commas: {error}") from None
    return text


def _duration_ms(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    unit = DURATION_MS.get((found[2] or "ms") if found else "?")
    if found is None or unit is None:
        raise ValueError(f"must be a whole number with a unit of {', '.join(DURATION_MS)}, for example 15m")
    return int(found[1]) * unit


def _size_bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    unit = SIZE_BYTES.get(found[2] if found else "?")
    if found is None or unit is None or not int(found[1]):
        raise ValueError("must be a whole number of bytes, at least 1, or one with k, m or g after it, for example 64m")
    return int(found[1]) * unit


def _topics(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError("has an empty topic name")
    return tuple(sorted(set(names)))


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


def _assignment(text: str) -> dict[str, tuple[int, ...]]:
    try:
        parsed = json.loads(text)
        assigned = {str(topic): tuple(sorted({_index(p) for p in some})) for topic, some in parsed.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f'must look like {{"clicks": [0, 1]}} ({error})') from None
    if not any(assigned.values()):
        raise ValueError("chooses no partition")
    return assigned


def _by_partition(text: str) -> dict[str, dict[int, int]]:
    try:
        parsed = json.loads(text)
        return {
            str(topic): {_index(int(partition)): _whole(value) for partition, value in partitions.items()}
            for topic, partitions in parsed.items()
        }
    except (ValueError, AttributeError) as error:
        raise ValueError(f"must look like {OFFSETS_EXAMPLE} ({error})") from None


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _index(value: object) -> int:
    if _whole(value) < 0:
        raise ValueError(f"{value!r} is no partition")
    return _whole(value)


def offsets(*words: str, impossible: Mapping[int, str] = MappingProxyType({})) -> Type:
    """One of the words, or an offset for each partition; -2 is the earliest and -1 the latest, where not impossible."""

    def read(text: str) -> str | dict[str, dict[int, int]]:
        if (word := text.strip().lower()) in ("earliest", "latest"):
            if word not in words:
                raise ValueError(impossible[-2 if word == "earliest" else -1])
            return word
        given = _by_partition(text)
        for topic, partitions in given.items():
            for partition, offset in partitions.items():
                if offset < -2 or offset in impossible:
                    why = impossible.get(offset, "an offset is at least 0; -2 is the earliest, -1 the latest")
                    raise ValueError(f"has {offset} for {topic}-{partition}: {why}")
        return given

    return Type(f"{', '.join(f'`{word}`' for word in words)} or `{OFFSETS_EXAMPLE}`", read)


def _times(text: str) -> dict[str, dict[int, int]]:
    given = _by_partition(text)
    if any(time < 0 for partitions in given.values() for time in partitions.values()):
        raise ValueError("has a time before 1970")
    return given


def _url(text: str) -> str:
    scheme, separator, host = text.strip().partition("://")
    if scheme.lower() not in ("http", "https") or not separator or not host:
        raise ValueError("must be a URL, http://host:port or https://host:port")
    return text.strip()


def _version(text: str) -> int | None:
    return None if text.strip().lower() == "latest" else whole(1).read(text)


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in text.split(","))
    if not all(path.startswith("/") for path in paths):
        raise ValueError("must be absolute paths, several separated by commas")
    return paths


BOOLEAN = Type("`true`, `false`", _boolean)
TEXT = Type("text", _text)
SERVERS = Type("`host:port`, several separated by commas", _servers)
DURATION = Type("a number with `ms`, `s`, `m`, `h` or `d`", _duration_ms)
SIZE = Type("bytes, or a number with `k`, `m` or `g`", _size_bytes)
TOPICS = Type("`clicks,orders`", _topics)
PATTERN = Type("a Python regular expression", _pattern)
ASSIGNMENT = Type('`{"clicks": [0, 1]}`', _assignment)
TIME = Type("epoch milliseconds", whole(0).read)
TIMES = Type('`{"clicks": {"0": 1700000000000}}`', _times)
URL = Type("`http://host:port`", _url, is_secret=True)
VERSION = Type("`latest` or a whole number ≥ 1", _version)
PATHS = Type("absolute paths, separated by commas", _paths)
