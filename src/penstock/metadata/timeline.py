"""Maps that can go back: the state of a replicated state machine that replays its records before they are committed.

An active controller or coordinator applies its records when it appends them, so that the next request sees them. Should
the append fail, or the leadership be lost, everything after the last committed offset must be undone. And readers
that may see committed state only must be able to look at an older offset while newer records are already applied.

How it works: the maps always hold the newest state. `Timeline.snapshot(offset)` opens an undo log; the first change
of a key after it saves the value that the key had. To read at an older offset is to look through the undo logs from
that offset on, and to revert is to play them back. Both cost what changed since, never the size of the map; and to read
one map costs nothing for what changed in others, since each has its own list of them. Offsets which nobody will go back
to are forgotten as records commit.

The idea is that of Kafka's `SnapshotRegistry` and `TimelineHashMap`; this is a much smaller form of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


class _Absent:
    """The value of a key that is not in the map."""

    __slots__ = ()


_ABSENT: Final = _Absent()

Undo = dict[object, object]
OFFSET = attrgetter("offset")


class _Snapshot:
    """The state at an offset, as the values to restore in order to return to it: map -> key -> earlier value."""

    __slots__ = ("offset", "undo")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.undo: dict[TimelineMap[Any, Any], Undo] = {}


class Timeline:
    """The snapshots that a set of maps share. Maps come and go; one that nothing holds any more is simply gone."""

    __slots__ = ("_snapshots",)

    def __init__(self) -> None:
        self._snapshots: list[_Snapshot] = []

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offsets that can be read at and reverted to, ascending."""
        return tuple(snapshot.offset for snapshot in self._snapshots)

    def snapshot(self, offset: int) -> None:
        """Keeps the present state under `offset`. Offsets only grow; keeping the newest again changes nothing."""
        if self._snapshots and self._snapshots[-1].offset == offset:
            newest = self._snapshots[-1]
            assert not newest.undo, f"the state at offset {offset} has changed since it was kept"
            return
        assert not self._snapshots or self._snapshots[-1].offset < offset, f"{offset} is not newer than {self.offsets}"
        self._snapshots.append(_Snapshot(offset))

    def revert_to(self, offset: int) -> None:
        """Undoes every change since `snapshot(offset)`. That snapshot stays; newer ones are gone."""
        position = self._position(offset)
        for snapshot in reversed(self._snapshots[position:]):
            for changed, undo in snapshot.undo.items():
                changed._restore(undo)
                assert changed._undos
                changed._undos.pop()
        del self._snapshots[position + 1 :]
        self._snapshots[position].undo.clear()

    def forget_before(self, offset: int) -> None:
        """Drops the snapshots older than `offset`, which are no longer needed for reads or reverts."""
        keep = 0
        while keep < len(self._snapshots) and self._snapshots[keep].offset < offset:
            for changed in self._snapshots[keep].undo:
                undos = changed._undos
                assert undos
                del undos[0]
                if not undos:
                    changed._undos = None  # most maps change seldom
            keep += 1
        del self._snapshots[:keep]

    def _position(self, offset: int) -> int:
        position = bisect_left(self._snapshots, offset, key=OFFSET)
        if position == len(self._snapshots) or self._snapshots[position].offset != offset:
            raise KeyError(f"offset {offset} was not kept; kept are {self.offsets}")
        return position

    def _undo_of(self, changing: TimelineMap[Any, Any]) -> Undo | None:
        """Where a map saves earlier values now; None when there is nothing to go back to."""
        if not self._snapshots:
            return None
        newest, undos = self._snapshots[-1], changing._undos
        if undos and undos[-1][0] == newest.offset:
            return undos[-1][1]
        undo = newest.undo.get(changing)
        if undo is None:
            undo = newest.undo[changing] = {}
            if changing._undos is None:
                changing._undos = []
            changing._undos.append((newest.offset, undo))
        return undo

    def _undos_since(self, changed: TimelineMap[Any, Any], offset: int) -> list[Undo]:
        self._position(offset)
        return [undo for at, undo in changed._undos or () if at >= offset]


class TimelineMap(Generic[K, V]):
    """A dict whose earlier states can be read and returned to. Iterates in the order of insertion, as a dict does;
    a key that a revert brings back comes last."""

    __slots__ = ("_current", "_timeline", "_undos")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._current: dict[K, V] = {}
        self._undos: list[tuple[int, Undo]] | None = None
        """Its part of the snapshots in which it has changed: offset and earlier values, ascending."""

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, key: object) -> bool:
        return key in self._current

    def __getitem__(self, key: K) -> V:
        return self._current[key]

    def __setitem__(self, key: K, value: V) -> None:
        undo = self._timeline._undo_of(self)
        if undo is not None and key not in undo:
            undo[key] = self._current.get(key, _ABSENT)
        self._current[key] = value

    def __iter__(self) -> Iterator[K]:
        return iter(self._current)

    def get(self, key: K, *, at: int | None = None) -> V | None:
        """The value now, or as it was at the kept offset `at`; None if the key was not there."""
        if at is not None:
            for undo in self._timeline._undos_since(self, at):
                if key in undo:
                    earlier = undo[key]
                    return None if earlier is _ABSENT else cast(V, earlier)
        return self._current.get(key)

    def pop(self, key: K) -> V | None:
        """Removes a key and returns its value; None if it was not there."""
        if key not in self._current:
            return None
        self._save(key)
        return self._current.pop(key)

    def update(self, values: Mapping[K, V]) -> None:
        """Replaces or adds many values."""
        undo = self._timeline._undo_of(self)
        if undo is not None:
            saved = values if undo.keys().isdisjoint(values) else [key for key in values if key not in undo]
            undo.update(zip(saved, map(self._current.get, saved, repeat(_ABSENT)), strict=True))
        self._current.update(values)

    def copy(self) -> dict[K, V]:
        """A copy of the map's present contents."""
        return self._current.copy()

    def items(self, *, at: int | None = None) -> Iterator[tuple[K, V]]:
        """Keys and values, now or at a kept offset. The map must not change meanwhile."""
        if at is None:
            yield from self._current.items()
            return
        earlier: dict[K, object] = {}
        for undo in reversed(self._timeline._undos_since(self, at)):
            earlier.update(cast("dict[K, object]", undo))
        for key, value in self._current.items():
            was = earlier.pop(key, value)
            if was is not _ABSENT:
                yield key, cast(V, was)
        for key, was in earlier.items():
            if was is not _ABSENT:
                yield key, cast(V, was)

    def _save(self, key: K) -> None:
        undo = self._timeline._undo_of(self)
        if undo is not None and key not in undo:
            undo[key] = self._current.get(key, _ABSENT)

    def _restore(self, undo: dict[K, object]) -> None:
        for key, earlier in undo.items():
            if earlier is _ABSENT:
                self._current.pop(key, None)
            else:
                self._current[key] = cast(V, earlier)
