"""Where the staged rows of a task lie between the task and the driver's commit.

Few of them travel in the commit message itself. More go to a file of a directory that driver and executors share,
beside the query's checkpoint: `QUERY.BATCH.RANDOM.staged`. A file is not forced to the disk: if it is lost, so is the
task's work, and Spark repeats the microbatch. Files of a batch go when the batch is committed, and with them those of
tasks that were repeated. A write's are named after the write, which has no batch number.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedWriter

from penstock.records.batch import Buffer
from penstock.spark.limits import SINK_INLINE_BYTES
from penstock.spark.write.rows import SinkError
from penstock.spark.write.staging import Staged, StagedBatch
from penstock.spark.write.stamping import check_staged

SUFFIX = ".staged"
OF_A_WRITE = "write"
"""In the place of a batch number."""


class StageWriter:
    """Takes the bytes of a task's batches, and turns to a file when they are more than SINK_INLINE_BYTES.

    Args:
        directory: where; it is made if need be.
        query, batch: what the rows belong to, as in Staged.
    """

    def __init__(self, directory: str, query: str, batch: int | None) -> None:
        self._directory = directory
        self._query, self._batch = query, batch
        self._content = bytearray()
        self._file: BufferedWriter | None = None
        self._path: str | None = None

    def write(self, content: Buffer) -> None:
        """Takes a batch. Raises SinkError when the directory cannot be written to."""
        try:
            if self._file is None and len(self._content) + len(content) <= SINK_INLINE_BYTES:
                self._content += content
                return
            if self._file is None:
                os.makedirs(self._directory, exist_ok=True)
                batch = OF_A_WRITE if self._batch is None else self._batch
                name = f"{self._query}.{batch}.{uuid.uuid4().hex}{SUFFIX}"
                self._path = os.path.join(self._directory, name)
                self._file = open(self._path, "xb")  # noqa: SIM115 - it is closed by `finish` or `discard`
                self._file.write(self._content)
                self._content.clear()
            self._file.write(content)
        except OSError as error:
            raise SinkError(f"rows cannot be staged in {self._directory}: {error.strerror or error}") from None

    def finish(self, batches: tuple[StagedBatch, ...]) -> Staged:
        """The stage, given where its batches lie. Raises SinkError."""
        if self._file is None:
            return Staged(self._query, self._batch, batches, content=bytes(self._content))
        try:
            self._file.close()
        except OSError as error:
            raise SinkError(f"rows cannot be staged in {self._directory}: {error.strerror or error}") from None
        return Staged(self._query, self._batch, batches, path=self._path)

    def discard(self) -> None:
        """Forgets what was taken."""
        if self._file is not None and self._path is not None:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                os.unlink(self._path)


def read_staged(staged: Staged, batch: StagedBatch) -> bytearray:
    """One batch, checked. Raises SinkError for a file that is gone or damaged."""
    start, end = batch.position, batch.position + batch.size_bytes
    if staged.path is None:
        content = bytearray(memoryview(staged.content)[start:end])
        check_staged(content, batch, "a commit message")
        return content
    try:
        with open(staged.path, "rb", buffering=0) as file:
            file.seek(start)
            content = bytearray(file.read(batch.size_bytes))
    except FileNotFoundError:
        raise SinkError(
            f"{staged.path} is missing: the directory of penstock.staging must be one that the driver and all executors"
            " share, and nobody else may delete from it. Nothing was committed; start the query again"
        ) from None
    except OSError as error:
        raise SinkError(f"{staged.path} cannot be read: {error.strerror or error}. Nothing was committed") from None
    check_staged(content, batch, staged.path)
    return content


def delete_staged(stages: Sequence[Staged]) -> None:
    """Deletes the files of these stages. What cannot be deleted stays: nobody reads it again."""
    for staged in stages:
        if staged.path is not None:
            with suppress(OSError):
                os.unlink(staged.path)


def delete_until(directory: str, query: str, batch: int | None) -> None:
    """Deletes the files of a query's batches up to this one, or those of a write; so go those of repeated tasks."""
    with suppress(OSError):
        for name in os.listdir(directory):
            parts = name.removesuffix(SUFFIX).rsplit(".", 2)
            if not name.endswith(SUFFIX) or len(parts) != 3 or parts[0] != query:
                continue
            old = parts[1] == OF_A_WRITE if batch is None else parts[1].isdecimal() and int(parts[1]) <= batch
            if old:
                with suppress(OSError):
                    os.unlink(os.path.join(directory, name))
