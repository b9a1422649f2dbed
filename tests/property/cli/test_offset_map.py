"""The map of offsets: by the rule of the how-to page, whoever had committed any old offset goes on at the right one."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.import_passes import OffsetMap

PAGE = Path(__file__).parents[3] / "docs/how-to/import-old-logs.md"
Line = tuple[int, int, int]


def rule() -> Callable[[list[Line], int], int]:
    """The function on the page."""
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Callable[[list[Line], int], int]] = {}
    exec(source, names)
    return names["new_offset"]


NEW_OFFSET = rule()


def lines_of(written: Sequence[str]) -> list[Line]:
    found = []
    for line in written:
        topic, partition, old, new, count = line.strip().split(",")
        assert (topic, partition) == ("clicks", "3")
        found.append((int(old), int(new), int(count)))
    return found


@given(st.integers(0, 100), st.lists(st.sampled_from([1, 1, 1, 1, 2, 50]), min_size=1, max_size=60))
def test_offsets_that_count_records(first: int, steps: list[int]) -> None:
    """Kafka 0.8 to 0.10, with gaps of compaction or damage."""
    old = [first]
    for step in steps[1:]:
        old.append(old[-1] + step)
    written: list[str] = []
    offsets = OffsetMap("clicks,3", written.append)
    for new, each in enumerate(old):
        offsets.add(each, new)
    offsets.mark(old[-1] + 1, len(old))
    lines = lines_of(written)
    for committed in range(old[-1] + 2):
        assert NEW_OFFSET(lines, committed) == bisect_left(old, committed)
    assert len(lines) == sum(step != 1 for step in steps[1:]) + 2


@given(st.integers(0, 100), st.lists(st.tuples(st.integers(10, 200), st.integers(0, 150)), min_size=1, max_size=30))
def test_offsets_that_are_positions(first: int, messages: list[tuple[int, int]]) -> None:
    """Kafka 0.7: messages by size and how many records they hold; 0: it is damaged."""
    written: list[str] = []
    offsets = OffsetMap("clicks,3", written.append, by_position=True)
    expected = []
    position, new = first, 0
    for size_bytes, count in messages:
        expected.append((position, new))
        if not count:
            offsets.mark(position, new)
        for _ in range(count):
            offsets.add(position, new)
            new += 1
        position += size_bytes
    offsets.mark(position, new)
    expected.append((position, new))
    lines = lines_of(written)
    for committed, goes_on in expected:
        assert NEW_OFFSET(lines, committed) == goes_on
