"""How well a detector found what was planted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.pipelines.generate.clicks import Planted


@dataclass(frozen=True, slots=True)
class Score:
    """Shares of addresses: `precision` of those found that were planted, `recall` of those planted that were found."""

    precision: float
    recall: float
    recall_by_kind: Mapping[str, float]
    false: Sequence[str]


def score(found: Iterable[str], planted: Sequence[Planted]) -> Score:
    """Judges the addresses that were found. With nothing found or nothing planted, the share is 1."""
    addresses, true = set(found), {each.client for each in planted}
    kinds: dict[str, set[str]] = {}
    for each in planted:
        kinds.setdefault(each.kind, set()).add(each.client)
    return Score(
        precision=share(addresses & true, addresses),
        recall=share(addresses & true, true),
        recall_by_kind={kind: share(addresses & some, some) for kind, some in sorted(kinds.items())},
        false=sorted(addresses - true),
    )


def share(part: set[str], whole: set[str]) -> float:
    return len(part) / len(whole) if whole else 1.0
