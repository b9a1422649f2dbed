"""Ranges of offsets, [start, end): what they cover together, apart, and where they overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
GapRange = tuple[int, int, str]
"""A range without records, and why."""


def union(ranges: Iterable[Range]) -> list[Range]:
    """The union of ranges: sorted, non-empty, with touching or overlapping ones merged."""
    found: list[Range] = []
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def clip(ranges: Sequence[Range], within: Sequence[Range]) -> list[Range]:
    """The parts of sorted disjoint ranges that lie in other sorted disjoint ranges."""
    clipped, at = [], 0
    for start, end in ranges:
        while at < len(within) and within[at][1] <= start:
            at += 1
        here = at
        while here < len(within) and within[here][0] < end:
            clipped.append((max(start, within[here][0]), min(end, within[here][1])))
            here += 1
    return clipped


def without(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """The parts of sorted disjoint ranges that lie in none of other sorted disjoint ranges."""
    left, at = [], 0
    for start, end in ranges:
        position = start
        while at < len(others) and others[at][1] <= position:
            at += 1
        here = at
        while here < len(others) and others[here][0] < end:
            if others[here][0] > position:
                left.append((position, others[here][0]))
            position = max(position, others[here][1])
            here += 1
        if position < end:
            left.append((position, end))
    return left
