"""What each erasure of a table did, kept in the table: `_penstock/erasures/ID.REVISION.json`.

A revision is a new file, and the highest one counts. It is written before the commit that it tells of, so the old
files of every commit are named in one, and after it. A certificate names no person and no condition: counts, times, and
files that a version no longer has. Those files hold the erased rows until they are deleted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from penstock.errors import PenstockError
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.records import TopicPartition

DIRECTORY = "_penstock/erasures"
LAYOUT = 1
NAME = re.compile(r"([0-9a-f]{32})\.(\d{6})\.json")


@dataclass(frozen=True, slots=True)
class Certificate:
    """One erasure. Times are in ms since 1970."""

    id: str
    reference: str
    table: str
    """The table's id."""
    began_ms: int
    deadline_ms: int
    """When the old files are deleted, by the next `penstock lake maintain`."""
    revision: int = 0
    ended_ms: int | None = None
    """When every file of a version had been looked at; None for an erasure that was stopped."""
    clean_version: int | None = None
    """The version of the table that has no such row."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """Rows erased, by "topic/topic id/partition"."""
    files_rewritten: int = 0
    old_files: Sequence[str] = ()
    """Files that have the rows: those that were written anew, and those that only older versions named by its end."""
    old_files_deleted_ms: int | None = None

    @property
    def rows(self) -> int:
        """How many rows were erased."""
        return sum(self.partitions.values())

    def naming(self, files: Sequence[str]) -> Certificate:
        """The certificate before a commit that takes these files out of the table."""
        return replace(self, old_files=[*self.old_files, *(path for path in files if path not in self.old_files)])

    def counting(self, rows: Mapping[TopicPartition, int], files: int) -> Certificate:
        """The certificate after the commit that did so."""
        partitions = dict(self.partitions)
        for at, count in rows.items():
            name = f"{at.topic}/{at.topic_id}/{at.partition}"
            partitions[name] = partitions.get(name, 0) + count
        return replace(self, partitions=partitions, files_rewritten=self.files_rewritten + files)

    def to_json(self) -> dict[str, Any]:
        return {"layout": LAYOUT, **asdict(self), "rows": self.rows}


class Certificates:
    """The certificates of one table."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def write(self, certificate: Certificate) -> Certificate:
        """Writes the next revision; returns it."""
        now = replace(certificate, revision=certificate.revision + 1)
        with self._destination.open(_path(now)) as file:
            file.write(json.dumps(now.to_json(), indent=1).encode())
        if certificate.revision:
            self._destination.discard(_path(certificate))
        return now

    def all(self) -> list[Certificate]:
        """The newest revision of each, oldest first. Raises PenstockError for one that cannot be read."""
        newest: dict[str, str] = {}
        for listed in self._destination.list(DIRECTORY):  # sorted by path, so a later revision comes later
            match = NAME.fullmatch(listed.path.rsplit("/", 1)[-1])
            if match is not None:
                newest[match[1]] = listed.path
        found = [self._read(path) for path in newest.values()]
        return sorted((each for each in found if each is not None), key=lambda each: each.began_ms)

    def _read(self, path: str) -> Certificate | None:
        content = self._destination.read(path)
        if content is None:  # a newer revision has just taken its place
            return None
        try:
            told = json.loads(content)
            if told.pop("layout") > LAYOUT:
                raise PenstockError(f"{path} was written by a later Penstock")
            told.pop("rows")
            return Certificate(**told)
        except (KeyError, TypeError, ValueError) as error:
            raise PenstockError(f"the certificate {path} cannot be read: {error!r}") from error


def _path(certificate: Certificate) -> str:
    return f"{DIRECTORY}/{certificate.id}.{certificate.revision:06d}.json"
