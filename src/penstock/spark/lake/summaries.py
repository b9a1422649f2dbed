"""Where a Delta table keeps the folded progress of its pipelines: files beside its log, named by its commits.

A commit writes `_penstock/progress/PIPELINE/NUMBER.json` first and then sets the application transaction
`penstock/PIPELINE/progress` to NUMBER, atomically with the data files. NUMBER is the commit's sequence and 32 bits of
the file's SHA-256: two racing writers never share a file, and a file that was changed is found out. Application
transactions outlive checkpoints and log clean-up; vacuum leaves directories alone that begin with an underscore. What
a commit that lost its race, or never came, leaves behind is removed by `penstock lake maintain`, and by nothing else.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from penstock.errors import PenstockError
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.folding import Summary
from penstock.spark.limits import LAKE_SUMMARIES_KEPT

DIRECTORY = "_penstock/progress"
ADOPTED = "adopted.json"
"""A pipeline that committed before progress was folded, as another pipeline's first folded commit found it."""
SEQUENCE_MAX = (1 << 31) - 1


def application(pipeline: str) -> str:
    """The application transaction whose version is the number of a pipeline's summary."""
    return f"penstock/{pipeline}/progress"


@dataclass(slots=True)
class Stored:
    """A summary as it is in the store, with the numbers of those before it that are not deleted yet."""

    number: int
    summary: Summary
    earlier: list[int] = field(default_factory=list)


class Summaries:
    """The progress files of one table."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def pipelines(self) -> list[str]:
        """The names of all pipelines that ever wrote a summary, sorted."""
        listed = self._destination.list(DIRECTORY)
        return sorted({unquote(each.path[len(DIRECTORY) + 1 :].split("/", 1)[0]) for each in listed})

    def read(self, pipeline: str, number: int) -> Stored | None:
        """A summary by its number, or None if there is no such file. Raises PenstockError if it was changed."""
        path = path_of(pipeline, number)
        content = self._destination.read(path)
        if content is None:
            return None
        if _digest(content) != number & 0xFFFFFFFF:
            raise PenstockError(f"{path} is damaged: it is not what the table's commit named")
        summary = Summary.from_json(content)
        if summary.pipeline != pipeline or summary.sequence != number >> 32:
            raise PenstockError(f"{path} is of pipeline {summary.pipeline!r}, commit {summary.sequence}")
        return Stored(number, summary, [int(each) for each in json.loads(content)["earlier"]])

    def write(self, summary: Summary, before: Stored | None) -> Stored:
        """Writes a new summary; nothing refers to it before a commit names its number."""
        assert 0 < summary.sequence <= SEQUENCE_MAX
        earlier = [*before.earlier, before.number][-LAKE_SUMMARIES_KEPT:] if before is not None else []
        content = summary.to_json(earlier=earlier, nonce=uuid.uuid4().hex).encode()
        number = summary.sequence << 32 | _digest(content)
        self._write(path_of(summary.pipeline, number), content)
        return Stored(number, summary, earlier)

    def adopt(self, summary: Summary) -> None:
        """Keeps what the log says of a pipeline that has no summary of its own yet."""
        self._write(path_of(summary.pipeline, None), summary.to_json().encode())

    def adopted(self, pipeline: str) -> Summary | None:
        content = self._destination.read(path_of(pipeline, None))
        return None if content is None else Summary.from_json(content)

    def drop(self, pipeline: str, number: int) -> None:
        self._destination.delete(path_of(pipeline, number))

    def drop_older(self, before: Stored | None, now: Stored) -> None:
        """After a commit: deletes the summary that no longer is among those kept."""
        if before is not None:
            for number in before.earlier:
                if number not in now.earlier:
                    self.drop(now.summary.pipeline, number)

    def orphans(self, current: dict[str, Stored], older_than_ms: int) -> list[str]:
        """Paths of files, last written before a time, that no commit named and no reader of `current` needs."""
        kept = {path_of(name, n) for name, stored in current.items() for n in (*stored.earlier, stored.number)}
        kept |= {path_of(name, None) for name in self.pipelines() if name not in current}
        listed = self._destination.list(DIRECTORY)
        return [each.path for each in listed if each.path not in kept and each.modified_ms < older_than_ms]

    def delete(self, path: str) -> None:
        self._destination.delete(path)

    def _write(self, path: str, content: bytes) -> None:
        if path.endswith(ADOPTED) and self._destination.is_local:  # a store replaces it
            self._destination.delete(path)
        with self._destination.open(path) as file:
            file.write(content)


def path_of(pipeline: str, number: int | None) -> str:
    """A summary's path in the table; None: that of an adopted pipeline."""
    name = ADOPTED if number is None else f"{number:020d}.json"
    return f"{DIRECTORY}/{quote(pipeline, safe='')}/{name}"


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:4], "big")
