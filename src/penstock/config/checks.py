"""Checks that settings declare beside bounds and allowed values: each returns the end of a sentence, or None."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from penstock.config.listeners import split_address, voters
from penstock.errors import ConfigError

THROTTLED_REPLICA = re.compile(r"[0-9]+:[0-9]+")


def distinct(elements: tuple[str, ...]) -> str | None:
    """No element stands twice, none is empty."""
    if "" in elements:
        return "has an empty element"
    return "names an element twice" if len(set(elements)) != len(elements) else None


def some_distinct(elements: tuple[str, ...]) -> str | None:
    """As `distinct`, and there is at least one."""
    return distinct(elements) if elements else "is empty: it must name at least one"


def not_empty(text: str) -> str | None:
    """There is something."""
    return None if text else "is empty"


def throttled_replicas(elements: tuple[str, ...]) -> str | None:
    """`*`, or replicas as `partition:broker`."""
    if elements == ("*",) or all(THROTTLED_REPLICA.fullmatch(element) for element in elements):
        return None
    return "must be * or replicas as partition:broker,partition:broker,..."


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
