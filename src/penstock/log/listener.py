"""What the log manager tells the node about its logs: the part of `LogOwner` that replication needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.log.log import Log


class LogListener(Protocol):
    """Called on the loop, after the state of the log and the manager has changed."""

    def log_advanced(self, log: Log, now_ms: int) -> None:
        """`log_end_offset` has moved forward."""

    def log_start_moved(self, log: Log, now_ms: int) -> None:
        """`log_start_offset` has moved: retention removed segments, or records were deleted."""

    def log_truncated(self, log: Log, now_ms: int) -> None:
        """A truncation has completed."""

    def log_undone(self, log: Log, now_ms: int) -> None:
        """A write found no room: what was appended beyond `log_end_offset` is taken back. `log_truncated` follows."""

    def space_changed(self, index: int, now_ms: int) -> None:
        """A directory has become full, or takes records again."""

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        """An operation of the log failed; `directory_failed` follows."""

    def directory_failed(self, index: int, error: OSError, now_ms: int) -> None:
        """A directory went offline; its logs have been forgotten."""
