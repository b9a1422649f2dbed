"""A part of the log manager that emits operations and hears how they ended.

The manager counts what is under way and takes a directory offline when an operation fails; a part hears only of
operations that ended well in a directory that still does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.log.disk import Operation

if TYPE_CHECKING:
    from penstock.log.manager import LogManager


class ManagerPart:
    """Base of the parts; the `OperationOwner` of their operations."""

    def __init__(self, manager: LogManager) -> None:
        self.manager = manager

    def completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """An operation of this part ended well."""

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """OperationOwner: ended well."""
        self.manager.operation_ended()
        if self.manager.directories[operation.directory].error is None:
            self.completed(operation, result, now_ms)
        self.manager.after_operation(now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """OperationOwner: the file system failed; the directory goes offline."""
        self.manager.operation_ended()
        self.manager.fail_directory(operation.directory, error, now_ms)
