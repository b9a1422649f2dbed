"""pyiceberg's files: on a local disk forced to it, and on HDFS without Java.

The catalog outlives a power cut, so must what it names. For HDFS pyiceberg would load a native library of Hadoop's and
a Java machine into the process; the client that tasks write with, delta-rs's, needs neither.
"""

from __future__ import annotations

import os
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from penstock.spark.lake.durable import DurableFile

HDFS_OPTIONS = ("dfs.", "fs.", "hadoop.")
"""How the options of HDFS's client begin, which are Hadoop's own settings."""


class DurableFileIO(PyArrowFileIO):
    """Like PyArrowFileIO, but makes what it writes to `file://` locations durable, and reaches `hdfs://`."""

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> Any:
        if scheme != "hdfs":
            return super()._initialize_fs(scheme, netloc)
        from penstock.spark.lake.stores import filesystem_of

        options = {name: str(value) for name, value in self.properties.items() if name.startswith(HDFS_OPTIONS)}
        return filesystem_of(f"hdfs://{netloc or ''}/", options)

    def new_output(self, location: str) -> PyArrowFile:
        made = super().new_output(location)
        scheme, _, path = self.parse_location(location, self.properties)
        return _Output(made, path) if scheme == "file" else made


class _Output(PyArrowFile):
    def __init__(self, made: PyArrowFile, path: str) -> None:
        self.__dict__.update(made.__dict__)
        self._local = path

    def create(self, overwrite: bool = False) -> Any:
        if overwrite and os.path.exists(self._local):
            os.unlink(self._local)
        return DurableFile(self._local, os.path.dirname(os.path.dirname(self._local)))
