"""One look at a partition's directory: what it is done with, and what all the checks of its files need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.log.disk import Disk, FileInfo
from penstock.log.verification.findings import Findings
from penstock.log.verification.record_checks import RecordCheck

Progress = Callable[[int], None]
"""Told how many bytes have been looked at since it was told last."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """See the module's head.

    Attributes:
        name: of the partition's directory on the disk.
        files: in it when the look began, in the order of their names.
        is_written: a broker may change them meanwhile.
    """

    disk: Disk
    name: str
    files: dict[str, FileInfo]
    findings: Findings
    records: RecordCheck
    progress: Progress
    is_written: bool

    def path(self, file: str) -> str:
        return f"{self.name}/{file}"

    def size(self, file: str) -> int:
        """Of a file that is there, when the look began."""
        return self.files[file].size_bytes

    def read(self, file: str) -> bytes | None:
        """All of a small file; None, and a problem, if it cannot be read. Raises FileNotFoundError if it is gone."""
        try:
            return self.disk.read(self.path(file), 0, self.size(file))
        except FileNotFoundError:
            raise
        except OSError as error:
            self.findings.problem(file, unreadable(error))
            return None


def unreadable(error: OSError) -> str:
    """What is said of a file that cannot be read."""
    return f"it cannot be read: {error.strerror or error}"
