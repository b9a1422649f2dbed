"""Stores that delta-rs has a client for, as filesystems of Arrow's: HDFS, Google's and Microsoft's.

HDFS is spoken to in its own protocol, without Java. A new file is written beside its name, as `.NAME.tmp.N`, and gets
the name when it is closed, by a rename that the namenode does at once: so nobody sees half a file, and of two writers
of one entry of a table's log the second is refused. A writer that is killed, or that loses such a race, leaves the
file without its name behind; `penstock lake maintain` removes it when it is old.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.fs import DeltaStorageHandler

UNFINISHED = re.compile(r"(?:.*/)?\.[^/]+\.tmp\.\d+")
"""What delta-rs's client of HDFS calls a file that it has not closed yet."""


def filesystem_of(uri: str, options: Mapping[str, str]) -> Any:
    """A pyarrow filesystem whose root is a directory of a store, with delta-rs's options."""
    return pafs.PyFileSystem(StoreHandler(uri, dict(options)))


def is_unfinished(path: str) -> bool:
    """Whether a path is that of a file on HDFS which its writer has not closed yet, or never will."""
    return UNFINISHED.fullmatch(path) is not None


class StoreHandler(DeltaStorageHandler):
    """delta-rs's handler, with files that take whatever Arrow's writers give them."""

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_Output(self._handler.open_output_stream(path, metadata)), mode="w")


class _Output:
    """A new file that takes Arrow's buffers; delta-rs's takes nothing but bytes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def write(self, data: Any) -> int:
        return int(self._stream.write(data if isinstance(data, bytes) else bytes(memoryview(data))))

    def tell(self) -> int:
        return int(self._stream.tell())

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()
