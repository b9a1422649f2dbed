"""The leader epoch cache: epoch -> the offset at which it began, and its file `leader-epoch-checkpoint` (KIP-101,
KIP-279).

The file is text: version `0`, the number of entries, then `epoch offset` a line. It is written whole, before the first
record of a new epoch is. An epoch without records is known to its leader alone, so a leader of thousands of unused
partitions writes no files. Truncations are written a little later; a stale file is harmless, since opening the log
truncates again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from penstock.errors import StorageError

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
VERSION = 0


class LeaderEpochs:
    """The epochs of one log. Both `epochs` and `start_offsets` rise. `dirty`: the file lacks the latest change."""

    __slots__ = ("dirty", "epochs", "start_offsets")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.epochs: list[int] = []
        self.start_offsets: list[int] = []
        self.dirty = False
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.dirty = False

    @property
    def latest(self) -> int:
        """The latest epoch, -1 if there is none."""
        return self.epochs[-1] if self.epochs else UNDEFINED_EPOCH

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self.epochs, self.start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Records that `epoch` begins at `start_offset`; drops entries that this contradicts. False if it was known."""
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        if self.epochs and epoch == self.epochs[-1] and start_offset >= self.start_offsets[-1]:
            return False
        while self.epochs and (self.epochs[-1] >= epoch or self.start_offsets[-1] >= start_offset):
            self.epochs.pop()
            self.start_offsets.pop()
        self.epochs.append(epoch)
        self.start_offsets.append(start_offset)
        self.dirty = True
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, the offset where it ends), as OffsetForLeaderEpoch answers.

        (-1, -1) for an unknown later epoch. For an epoch before the first known one: itself, and the offset at which
        the first known one begins.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        after = bisect_right(self.epochs, epoch)
        if after == len(self.epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (self.epochs[after - 1] if after else epoch), self.start_offsets[after]

    def epoch_for(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written, -1 if unknown."""
        after = bisect_right(self.start_offsets, offset)
        return self.epochs[after - 1] if after else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drops the epochs that begin at or after `end_offset`. False if there was none."""
        kept = len(self.epochs)
        while kept and self.start_offsets[kept - 1] >= end_offset:
            kept -= 1
        if kept == len(self.epochs):
            return False
        del self.epochs[kept:], self.start_offsets[kept:]
        self.dirty = True
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drops the epochs that end at or before `start_offset`; the one around it now begins there."""
        passed = bisect_right(self.start_offsets, start_offset)
        if not passed or (passed == 1 and self.start_offsets[0] == start_offset):
            return False
        del self.epochs[: passed - 1], self.start_offsets[: passed - 1]
        self.start_offsets[0] = start_offset
        self.dirty = True
        return True

    def clear(self) -> None:
        self.dirty = self.dirty or bool(self.epochs)
        self.epochs.clear()
        self.start_offsets.clear()

    def encode(self) -> bytes:
        """The content of `leader-epoch-checkpoint`."""
        lines = [str(VERSION), str(len(self.epochs)), *(f"{epoch} {start}" for epoch, start in self.entries())]
        return "".join(f"{line}\n" for line in lines).encode()


def decode(data: bytes, path: str) -> LeaderEpochs:
    """Reads `leader-epoch-checkpoint`. Raises StorageError that names the file and the line when it is malformed."""
    lines = data.decode("utf-8", "replace").splitlines()
    try:
        if int(lines[0]) != VERSION:
            raise StorageError(f"{path}, line 1: version {lines[0]} is unknown, it should be {VERSION}")
        count = int(lines[1])
        entries = []
        for line in lines[2 : 2 + count]:
            epoch, start_offset = line.split()
            entries.append((int(epoch), int(start_offset)))
    except (ValueError, IndexError) as error:
        raise StorageError(f"{path} is malformed: {error}") from error
    if len(entries) != count:
        raise StorageError(f"{path} promises {count} entries and has {len(entries)}")
    if any(epoch < 0 or start_offset < 0 for epoch, start_offset in entries):
        raise StorageError(f"{path} has a negative epoch or offset")
    return LeaderEpochs(entries)


def decode_if_sound(data: bytes | None, path: str) -> LeaderEpochs:
    """Like `decode`; of a file that is missing (None) or malformed no epochs, which are to be written."""
    if data is not None:
        try:
            return decode(data, path)
        except StorageError:
            pass
    epochs = LeaderEpochs()
    epochs.dirty = True
    return epochs
