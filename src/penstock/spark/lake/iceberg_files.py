"""pyiceberg's files on a local disk, forced to it: the catalog outlives a power cut, so must what it names."""

from __future__ import annotations

import os
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from penstock.spark.lake.durable import DurableFile


class DurableFileIO(PyArrowFileIO):
    """Like PyArrowFileIO, but makes what it writes to `file://` locations durable."""

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
