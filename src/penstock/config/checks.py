"""Checks that settings declare beside bounds and allowed values: each returns the end of a sentence, or None."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.config.listeners import split_address, voters
from penstock.errors import ConfigError

THROTTLED_REPLICA = re.compile(r"[0-9]+:[0-9]+")
DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?=.)(?:(?P<days>[-+]?[0-9]+)D)?"
    r"(?:T(?=.)(?:(?P<hours>[-+]?[0-9]+)H)?(?:(?P<minutes>[-+]?[0-9]+)M)?"
    r"(?:(?P<seconds>[-+]?[0-9]+(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
"""A duration of ISO 8601 as Java reads it: days, hours, minutes and seconds, each with a sign."""


def distinct(elements: tuple[str, ...]) -> str | None:
    """No element stands twice, none is empty."""
    if "" in elements:
        return "has an empty element"
    return "names an element twice" if len(set(elements)) != len(elements) else None


def some_distinct(elements: tuple[str, ...]) -> str | None:
    """Like `distinct`, but requires at least one element."""
    return distinct(elements) if elements else "is empty: it must name at least one"


def not_empty(text: str) -> str | None:
    """Refuses an empty value."""
    return None if text else "is empty"


def not_zero(value: int) -> str | None:
    """Refuses 0: nobody could come in to change it back."""
    return None if value else "would let nobody in: it must be at least 1"


def principals_in(text: str) -> tuple[str, ...]:
    """The principals in a text with semicolons between: the name of one may have commas."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


def principals(text: str) -> str | None:
    """Principals as `User:alice`, with semicolons between."""
    if all(kind and name for kind, _, name in (each.partition(":") for each in principals_in(text))):
        return None
    return "is no list of principals: it must be such as User:alice;User:bob"


def part_of_all(value: float) -> str | None:
    """More than nothing and at most all of it, which NaN is not, though no bound refuses it."""
    return None if 0 < value <= 1 else "is out of range: it must be more than 0 and at most 1"


def throttled_replicas(elements: tuple[str, ...]) -> str | None:
    """`*`, or replicas as `partition:broker`."""
    if elements == ("*",) or all(THROTTLED_REPLICA.fullmatch(element) for element in elements):
        return None
    return "must be * or replicas as partition:broker,partition:broker,..."


def share_offset_reset(text: str) -> str | None:
    """`earliest`, `latest`, or `by_duration:` and a duration that is not negative."""
    if text in ("earliest", "latest"):
        return None
    found = DURATION.fullmatch(text.removeprefix("by_duration:")) if text.startswith("by_duration:") else None
    if found is None or duration_s(found) < 0:
        return "must be earliest, latest, or by_duration: and a duration such as P1DT12H"
    return None


def duration_s(found: re.Match[str]) -> float:
    """The seconds of a duration."""
    days, hours, minutes = (int(found[part] or 0) for part in ("days", "hours", "minutes"))
    seconds = float((found["seconds"] or "0").replace(",", "."))
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return -total if found["sign"] == "-" else total


def quorum_voters(elements: tuple[str, ...]) -> str | None:
    """Controllers as `id@host:port`."""
    try:
        voters(elements)
    except ConfigError as wrong:
        return f"is no list of controllers: {wrong}"
    return distinct(elements)


def servers(elements: tuple[str, ...]) -> str | None:
    """Addresses as `host:port`."""
    try:
        for element in elements:
            split_address(element, "an address", "127.0.0.1:9093")
    except ConfigError as wrong:
        return f"is no list of servers: {wrong}"
    return distinct(elements)


NAMED: dict[str, Callable[[Any], str | None]] = {
    "distinct": distinct,
    "some-distinct": some_distinct,
    "not-empty": not_empty,
}
"""Checks by the names that the table of known settings uses."""
