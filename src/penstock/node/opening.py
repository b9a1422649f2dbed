"""Opening the metadata log, without which a node does not start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import StorageError
from penstock.log.directory import LogDirectory
from penstock.log.space import is_full


@contextmanager
def opening(directory: LogDirectory) -> Iterator[None]:
    """Turns errors of the disk into a sentence about the metadata log, without which a node does not start."""
    try:
        yield
    except OSError as error:
        advice = "\n  make room there, and start again" if is_full(error) else ""
        raise StorageError(f"the metadata log in {directory.path} cannot be opened: {error}{advice}") from error
