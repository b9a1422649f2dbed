"""How near the kernel is to making writers wait for the disk: /proc/vmstat, in pages. Elsewhere than on Linux: never
near.
"""

from __future__ import annotations

NEAR = 0.8
"""Share of the kernel's dirty threshold at which an append is expected to block soon."""


def near_dirty_limit(path: str = "/proc/vmstat") -> bool:
    """Whether dirty and written-back pages are close to the threshold at which the kernel throttles writers."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return False
    dirty = pages(text, b"nr_dirty ") + pages(text, b"nr_writeback ")
    threshold = pages(text, b"nr_dirty_threshold ")
    return threshold > 0 and dirty >= NEAR * threshold


def pages(text: bytes, name: bytes) -> int:
    """The figure after `name` at the beginning of a line; 0 when there is none."""
    start = text.find(b"\n" + name)
    if start < 0:
        return 0
    start += len(name) + 1
    return int(text[start : text.index(b"\n", start)])
