"""The files of a simulated disk: what processes see (the page cache), and what a power failure leaves.

Every file has its *content*, which reads see, and its *durable* content, with the unsynced changes between the two
kept in order; fsync applies them. Every directory has its *entries* and its *durable entries*, with the unsynced
creations, renames and removals between; fsync of the directory applies those. A power failure keeps, for every file
and directory by itself, nothing, all, or a part of what was not synced:

- a file keeps a prefix of its changes, the last of them torn at any byte; or any subset of its dirty sectors, the
  missing ones as they were before (zeros beyond the old end), which is what write-back in any order leaves;
- a directory keeps a prefix of its changes (journals keep them in order). A rename is one change: never half of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

SECTOR_BYTES = 512

Change = tuple[int, bytes | None]
"""A write of bytes at a position, or, with None, a truncation to that size."""


def apply_change(content: bytearray, change: Change) -> None:
    """Applies one write or truncation; a gap before a write and growth by truncation read as zeros."""
    position, data = change
    if data is None:
        if position <= len(content):
            del content[position:]
        else:
            content.extend(bytes(position - len(content)))
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


class File:
    """One inode: content, durable content and what lies between."""

    __slots__ = ("content", "durable", "modified_ms", "unsynced")

    def __init__(self, modified_ms: int) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.unsynced: list[Change] = []
        self.modified_ms = modified_ms

    def change(self, change: Change, now_ms: int) -> None:
        """A write or truncation that is visible at once and durable at the next sync."""
        apply_change(self.content, change)
        self.unsynced.append(change)
        self.modified_ms = now_ms

    def sync(self) -> None:
        """What an fsync that succeeds does."""
        for change in self.unsynced:
            apply_change(self.durable, change)
        self.unsynced.clear()

    def forget_unsynced(self) -> None:
        """What an fsync that fails does on Linux: the pages count as clean, no later fsync writes them."""
        self.unsynced.clear()

    def lose_power(self, random: Random) -> None:
        """The content after a power failure, durable from now on."""
        if self.unsynced:
            fate = random.randrange(4)
            if fate == 1:
                self.sync()
            elif fate == 2:
                self._keep_prefix(random)
            elif fate == 3:
                self._keep_some_sectors(random)
        self.unsynced.clear()
        self.content = bytearray(self.durable)

    def _keep_prefix(self, random: Random) -> None:
        kept = random.randrange(len(self.unsynced))
        for change in self.unsynced[:kept]:
            apply_change(self.durable, change)
        position, data = self.unsynced[kept]
        if data:
            apply_change(self.durable, (position, data[: random.randrange(len(data))]))

    def _keep_some_sectors(self, random: Random) -> None:
        after = bytearray(len(self.content))
        for start in range(0, len(after), SECTOR_BYTES):
            end = min(start + SECTOR_BYTES, len(after))
            before = bytes(self.durable[start:end]).ljust(end - start, b"\0")
            dirty = before != self.content[start:end]
            after[start:end] = self.content[start:end] if dirty and random.random() < 0.5 else before
        self.durable = after


class Folder:
    """One directory: its entries, and which of them a power failure would leave."""

    __slots__ = ("durable", "entries", "modified_ms", "unsynced")

    def __init__(self, modified_ms: int) -> None:
        self.entries: dict[str, File | Folder] = {}
        self.durable: dict[str, File | Folder] = {}
        self.unsynced: list[tuple[tuple[str, File | Folder | None], ...]] = []
        self.modified_ms = modified_ms

    def change(self, *steps: tuple[str, File | Folder | None]) -> None:
        """One atomic change: each step sets a name to a node or, with None, removes it."""
        self._apply(self.entries, steps)
        self.unsynced.append(steps)

    @staticmethod
    def _apply(entries: dict[str, File | Folder], steps: tuple[tuple[str, File | Folder | None], ...]) -> None:
        for name, node in steps:
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node

    def sync(self) -> None:
        """What an fsync of the directory does: names become durable, contents do not."""
        for steps in self.unsynced:
            self._apply(self.durable, steps)
        self.unsynced.clear()

    def lose_power(self, random: Random) -> None:
        """The entries after a power failure, and theirs in turn."""
        if self.unsynced:
            kept = random.choice((0, len(self.unsynced), random.randrange(len(self.unsynced) + 1)))
            for steps in self.unsynced[:kept]:
                self._apply(self.durable, steps)
            self.unsynced.clear()
        self.entries = dict(self.durable)
        for name in sorted(self.entries):
            self.entries[name].lose_power(random)

    def walk(self, prefix: str = "") -> Iterator[tuple[str, File]]:
        """All files below, as (path, file), in the order of their paths."""
        for name in sorted(self.entries):
            node = self.entries[name]
            if isinstance(node, Folder):
                yield from node.walk(f"{prefix}{name}/")
            else:
                yield f"{prefix}{name}", node
