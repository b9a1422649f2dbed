"""Bytes that were not in the page cache when somebody wanted them, by the log that they are of.

That is what a broker knows of it: reads of its lanes. What the kernel reads ahead besides is in the figures of the
disk.
"""

from __future__ import annotations

from penstock.log.names import FUTURE_SUFFIX, parse_future_name, parse_name
from penstock.node.limits import TELEMETRY_DISK_READ_LOGS_MAX


class DiskReads:
    """Counts by log until they are taken; of more than TELEMETRY_DISK_READ_LOGS_MAX, only the bytes of the others."""

    __slots__ = ("_of_logs", "others_bytes")

    def __init__(self) -> None:
        self._of_logs: dict[str, int] = {}
        self.others_bytes = 0

    def count(self, path: str, size_bytes: int) -> None:
        """Some bytes of a file were read; its path is relative to its log directory."""
        name = path.partition("/")[0]
        before = self._of_logs.get(name)
        if before is None and len(self._of_logs) >= TELEMETRY_DISK_READ_LOGS_MAX:
            self.others_bytes += size_bytes
            return
        self._of_logs[name] = (before or 0) + size_bytes

    def take(self) -> tuple[dict[tuple[str, int], int], int]:
        """The bytes by topic and partition, and those of others, since the last call."""
        found, self._of_logs = self._of_logs, {}
        others, self.others_bytes = self.others_bytes, 0
        taken: dict[tuple[str, int], int] = {}
        for name, size_bytes in found.items():
            partition = parse_future_name(name) if name.endswith(FUTURE_SUFFIX) else parse_name(name)
            if partition is None:
                others += size_bytes
            else:
                taken[partition] = taken.get(partition, 0) + size_bytes
        return taken, others
