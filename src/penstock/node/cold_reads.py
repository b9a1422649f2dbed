"""Reads of data that is not resident: done in the directory's lane, after which the handler runs again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from penstock.errors import NotResident
from penstock.log.disk import Disk, Operation


class ColdRead(Operation):
    """Reads a missing range into memory. `owner` continues afterwards."""

    __slots__ = ("missing", "size_bytes", "tenant")

    def __init__(self, missing: NotResident, owner: Waiter, connection: int, tenant: Hashable) -> None:
        super().__init__(missing.directory, f"read for connection {connection}", owner)
        self.missing = missing
        self.tenant = tenant
        self.size_bytes = missing.length

    def run(self, disk: Disk) -> Any:
        return self.missing.read(disk)


class Waiter:
    """Owner of a cold read: calls `go_on(now_ms)` when it has ended, even in an error, which the reader then meets.

    Before that, `failed(directory, error, now_ms)` is called for a disk error, `broke(now_ms)` for a bug.
    """

    __slots__ = ("broke", "failed", "go_on")

    def __init__(
        self, go_on: Callable[[int], None], broke: Callable[[int], None], failed: Callable[[int, OSError, int], None]
    ) -> None:
        self.go_on = go_on
        self.broke = broke
        self.failed = failed

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        assert isinstance(operation, ColdRead)
        operation.missing.was_read(result)
        self.go_on(now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        self.failed(operation.directory, error, now_ms)
        self.go_on(now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        self.broke(now_ms)
        self.go_on(now_ms)  # what waits has ended, and its connection has not
