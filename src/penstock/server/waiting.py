"""Whether writes wait for the disk, or are about to."""

from __future__ import annotations

import sys
from itertools import count
from resource import getrusage

if sys.platform == "linux":
    from resource import RUSAGE_THREAD

NEAR = 0.8
"""Share of the kernel's dirty threshold at which an append is expected to block soon."""

_another_number = count()


def times_waited() -> int:
    """How often this thread has waited for something; a new number at each call if the system does not say (macOS)."""
    return getrusage(RUSAGE_THREAD).ru_nvcsw if sys.platform == "linux" else next(_another_number)


def near_dirty_limit(path: str = "/proc/vmstat") -> bool:
    """Whether dirty and written-back pages are close to the threshold at which the kernel throttles writers.

    Always False on systems other than Linux.
    """
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return False
    dirty = pages(text, b"nr_dirty ") + pages(text, b"nr_writeback ")
    threshold = pages(text, b"nr_dirty_threshold ")
    return threshold > 0 and dirty >= NEAR * threshold


def pages(text: bytes, name: bytes) -> int:
    """The number after `name` at the beginning of a line; 0 if there is none."""
    start = text.find(b"\n" + name)
    if start < 0:
        return 0
    start += len(name) + 1
    return int(text[start : text.index(b"\n", start)])
