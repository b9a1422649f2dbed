"""Small file systems, to be filled and to be lost, and mounts that come and go.

Skips the test where nothing can be mounted.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_file_system(path: Path, size_bytes: int) -> Iterator[Path]:
    """A tmpfs of this size at a new directory; unmounted at the end, whoever still uses it."""
    path.mkdir()
    mount("-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path))
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def mount(*words: str) -> None:
    """Mounts something, or skips the test."""
    try:
        mounted = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")


class Mount:
    """A directory whose content is seen at another place while it is `mounted` there."""

    def __init__(self, content: Path, at: Path) -> None:
        content.mkdir()
        at.mkdir()
        self.content = content
        self.at = at
        self.mounted = False

    def mount(self, *options: str) -> None:
        mount("--bind", str(self.content), str(self.at))
        self.mounted = True
        if options:
            mount("-o", ",".join(("remount", "bind", *options)), str(self.at))

    def unmount(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.at)], check=True)
            self.mounted = False
