"""The nearest known name to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` with the known name nearest to `name`, or nothing when none is near."""
    from difflib import get_close_matches

    found = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {found[0]}?" if found else ""
