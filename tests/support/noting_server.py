"""`penstock`, which notes what it has fsynced: so that a kill -9 can be made the power failure that it is not.

    python -m support.noting_server JOURNAL server start server.properties

After each fsync a line goes to the journal: how long the file was when the fsync began, and its path. `lose_power` cuts
the files of logs to that, as if the page cache had never reached the disk.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.cli.main import main

LOG_FILES = (".log", ".index", ".timeindex", ".txnindex")


def noting(sync: Callable[[int], None], journal: int) -> Callable[[int], None]:
    """An fsync that notes what it has made durable."""

    def noted(descriptor: int) -> None:
        size_bytes = os.fstat(descriptor).st_size
        sync(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        os.write(journal, f"{size_bytes} {path}\n".encode())

    return noted


def lose_power(directory: Path, journal: Path) -> int:
    """Drops what was not fsynced of the files of logs; returns how many bytes that were."""
    synced: dict[str, int] = {}
    for line in journal.read_text().splitlines():
        size_bytes, _, path = line.partition(" ")
        synced[path] = int(size_bytes)
    lost = 0
    for path in directory.rglob("*"):
        if path.suffix in LOG_FILES:
            size_bytes, durable = path.stat().st_size, synced.get(str(path), 0)
            if durable < size_bytes:
                os.truncate(path, durable)
                lost += size_bytes - durable
    return lost


if __name__ == "__main__":
    opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.fsync, os.fdatasync = noting(os.fsync, opened), noting(os.fdatasync, opened)
    sys.exit(main(sys.argv[2:]))
