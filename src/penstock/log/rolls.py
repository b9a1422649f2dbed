"""Which segments were begun right after the last record of the one before, while that was not known to be on disk.

A power failure may take the tail of a segment and leave the next one: the log then has a hole where records were. By
the files alone that looks like what a cleaner leaves when it removes a segment's last records, and such gaps are kept.
So a roll notes, durably and before the new segment has a file, that no offset lies between the two.
Recovery takes a gap at a noted offset for a hole, and any other for a cleaner's.

An offset is of no use once all below it is flushed; each roll writes the file anew without those, a clean close and a
recovery remove it.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.log.disk import Disk
from penstock.log.names import UNFLUSHED_ROLLS


def format_rolls(offsets: Sequence[int]) -> bytes:
    """The content of the file: a base offset a line."""
    return "".join(f"{offset}\n" for offset in offsets).encode()


def read_rolls(disk: Disk, name: str) -> frozenset[int]:
    """The base offsets noted in a log's directory; none where there is no legible file."""
    path = f"{name}/{UNFLUSHED_ROLLS}"
    if not disk.exists(path):
        return frozenset()
    lines = disk.read(path, 0, disk.size(path)).decode("ascii", "replace").split("\n")
    return frozenset(int(line) for line in lines if line.isascii() and line.isdigit())
