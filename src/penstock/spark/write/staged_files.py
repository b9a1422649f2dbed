"""Where the staged rows of a task lie between the task and the driver's commit.

Few of them travel in the commit message itself. More go to a file of a directory that driver and executors share,
beside the query's checkpoint: `QUERY.BATCH.RANDOM.staged`. A file is not forced to the disk: if it is lost, so is the
task's work, and Spark repeats the microbatch. Files of a batch go when the batch is committed, and with them those of
tasks that were repeated. A write's are named after the write, which has no batch number.

Each sink has a directory of its own there. What a write or a query that was killed has left in it goes with the next
commit of the sink: `of_others` lists it before the transaction ends, and once that is committed nothing that was listed
can be (see `markers.is_new`). What is staged later is not on the list.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BufferedWriter

from penstock.config.values import MiB
from penstock.records.batch import Buffer
from penstock.spark.limits import SINK_INLINE_BYTES, SINK_INLINE_TOTAL_BYTES, SINK_STAGED_BYTES
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
        task: its number among those of the microbatch; so many may use the commit message that all of them together
            stay within SINK_INLINE_TOTAL_BYTES.
    """

    def __init__(self, directory: str, query: str, batch: int | None, task: int = 0) -> None:
        self._directory = directory
        self._query, self._batch = query, batch
        self._inline_bytes = SINK_INLINE_BYTES if task < SINK_INLINE_TOTAL_BYTES // SINK_INLINE_BYTES else 0
        self._size_bytes = 0
        self._content = bytearray()
        self._file: BufferedWriter | None = None
        self._path: str | None = None

    def write(self, content: Buffer) -> None:
        """Takes a batch. Raises SinkError when the directory cannot be written to, or the task has too many rows."""
        self._size_bytes += len(content)
        if self._size_bytes > SINK_STAGED_BYTES:
            raise SinkError(
                f"a task has rows of more than {SINK_STAGED_BYTES // MiB} MiB to stage: divide them among more tasks"
                " (repartition), or make the stream's microbatches smaller (maxBytesPerTrigger, maxOffsetsPerTrigger)"
            )
        try:
            if self._file is None and self._size_bytes <= self._inline_bytes:
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
            delete(self._path)


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
            delete(staged.path)


def delete_until(directory: str, query: str, batch: int | None) -> None:
    """Deletes the files of a query's batches up to this one, or those of a write; so go those of repeated tasks."""
    for path, owner, of_batch in _files(directory):
        old = of_batch == OF_A_WRITE if batch is None else of_batch.isdecimal() and int(of_batch) <= batch
        if owner == query and old:
            delete(path)


def of_others(directory: str, query: str) -> list[str]:
    """The files that are there now of other queries and other writes than this one."""
    return [path for path, owner, _ in _files(directory) if owner != query]


def delete(path: str) -> None:
    """Deletes a file if it can be."""
    with suppress(OSError):
        os.unlink(path)


def _files(directory: str) -> Iterator[tuple[str, str, str]]:
    """Path, query and batch of each staged file."""
    names = []
    with suppress(OSError):
        names = os.listdir(directory)
    for name in names:
        parts = name.removesuffix(SUFFIX).rsplit(".", 2)
        if name.endswith(SUFFIX) and len(parts) == 3:
            yield os.path.join(directory, name), parts[0], parts[1]
