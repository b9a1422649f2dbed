"""How far a stream of a table's changes is, as Spark's checkpoint keeps it, in JSON.

    {"format": 1, "table": "6f0c…", "version": 12, "index": 3, "snapshot": false, "files": 40}

All versions before `version` were read, and the first `index` files that it added; with `snapshot`, the first `index`
files of all that it has. The table's id tells it from one that was dropped and made again in its place. `files` is how
many the table had before `version`, where the format needs it to tell that nothing was removed.

`begin` is there because Spark's log has only the *end* of each batch: when it repeats the first one after a crash, it
asks anew where to begin, and "latest" is elsewhere by then. So the end of a first batch says where that began, and
`initial` marks a position that is a beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import ConfigError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Position:
    """See the module's head."""

    table: str
    version: int
    index: int = 0
    snapshot: bool = False
    files: int | None = None
    initial: bool = False
    begin: Position | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Greater the farther the stream is: what follows the files of a snapshot is the next version."""
        return self.version, self.index

    def after(self, begin: Position) -> Position:
        """This position as the end of a batch that began at another."""
        start = replace(begin, initial=False, begin=None) if begin.initial else None
        return replace(self, initial=False, begin=start)

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it. The same position is always the same text."""
        told: dict[str, Any] = {"format": FORMAT, "table": self.table, "version": self.version, "index": self.index}
        told["snapshot"] = self.snapshot
        if self.files is not None:
            told["files"] = self.files
        if self.initial:
            told["initial"] = True
        if self.begin is not None:
            told["begin"] = self.begin.to_json()
        return told


def from_json(given: Mapping[str, Any]) -> Position:
    """A position from a checkpoint. Raises ConfigError for what is none."""
    try:
        known = given["format"]
        if known == FORMAT:
            begin = given.get("begin")
            files = given.get("files")
            return Position(
                str(given["table"]),
                _whole(given["version"]),
                _whole(given["index"]),
                bool(given["snapshot"]),
                None if files is None else _whole(files),
                bool(given.get("initial", False)),
                None if begin is None else from_json(begin),
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"the checkpoint holds a position that nobody can read ({error!r}): {given}") from None
    raise ConfigError(f"the checkpoint holds a position of format {known}; this Penstock knows {FORMAT}")


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value
