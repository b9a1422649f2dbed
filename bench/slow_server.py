"""`penstock`, one of whose log directories is slow at will: what a dying or overloaded disk does to a broker.

    python bench/slow_server.py MILLISECONDS DIRECTORY server start server.properties

SIGUSR1 makes every write and fsync below DIRECTORY take so much longer, and another one lets it go. Whoever writes
waits, as with a real disk: a thread of the lane, or the loop itself if the broker writes there.
`bench/slow_directory.py` drives it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from penstock.cli.main import main
from penstock.server.disk import BlockingDisk

SLOW = ("write", "truncate", "fsync", "_fsync_data", "fsync_directory", "replace", "replace_all")


class SlowDirectory:
    """Makes the calls of a disk wait while `on`."""

    def __init__(self, path: str, delay_s: float) -> None:
        self.path = os.path.realpath(path)
        self.delay_s = delay_s
        self.on = False
        for name in SLOW:
            setattr(BlockingDisk, name, self._slow(getattr(BlockingDisk, name)))

    def turn(self, *_: Any) -> None:
        """SIGUSR1."""
        self.on = not self.on

    def _slow(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(disk: BlockingDisk, *arguments: Any) -> Any:
            if self.on and disk.path == self.path:
                time.sleep(self.delay_s)
            return real(disk, *arguments)

        return call


if __name__ == "__main__":
    if len(sys.argv) < 4 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    signal.signal(signal.SIGUSR1, SlowDirectory(sys.argv[2], int(sys.argv[1]) / 1000).turn)
    sys.exit(main(sys.argv[3:]))
