"""The versions of a Delta table, for reading.

A version's files come from delta-rs. What a version changed stands in its own entry of the log,
which is read here: delta-rs tells the state only. As in Delta itself a version's time is that of its log entry's file.

Refused are tables whose rows are not simply those of their files: column mapping, deletion vectors, and whatever
feature of readers is not in UNDERSTOOD.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from penstock.errors import PenstockError
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.scan import Change, Column, History, ScanFile, Snapshot, UnreadableError, told
from penstock.spark.lake.table import one_line

LOG_DIRECTORY = "_delta_log"
UNDERSTOOD = frozenset(
    [
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    ]
)
"""Features of readers; the first two only where a table does not use them."""
IN_COMMIT_TIMES = "delta.enableInCommitTimestamps"


class DeltaHistory(History):
    """See the module's head."""

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        self.uri = uri
        self._options = dict(storage_options)
        self._table = self._opened()
        self._entry = self._newest_entry()

    def _opened(self, version: int | None = None) -> DeltaTable:
        """The table as it is now, or was. Raises PenstockError."""
        options = self._options or None
        try:
            table = DeltaTable(self.uri, version=version, storage_options=options)
        except TableNotFoundError:
            raise PenstockError(f"there is no Delta table at {self.uri}") from None
        except (DeltaError, OSError) as error:
            what = f"the table at {self.uri}" if version is None else f"version {version} of the table at {self.uri}"
            raise UnreadableError(f"{what} cannot be read: {one_line(error)}") from error
        self._check_understood(table)
        return table

    def _check_understood(self, table: DeltaTable) -> None:
        protocol = table.protocol()
        features = set(protocol.reader_features or ())
        if protocol.min_reader_version > 3 or (unknown := sorted(features - UNDERSTOOD)):
            which = f"feature {unknown[0]}" if protocol.min_reader_version <= 3 else "a newer protocol"
            raise UnreadableError(f"the table at {self.uri} has {which}, which is not read here")
        if (mode := table.metadata().configuration.get("delta.columnMapping.mode", "none")) != "none":
            raise UnreadableError(f"the table at {self.uri} has column mapping ({mode}), which is not read here")

    def _newest_entry(self) -> bytes | None:
        return self.destination().read(_entry_of(int(self._table.version())))

    def refresh(self) -> None:
        if (entry := self._newest_entry()) is None or entry != self._entry:  # another table, in this one's place
            self._table = self._opened()
        else:
            try:
                self._table.update_incremental()
            except (DeltaError, OSError) as error:
                raise UnreadableError(f"the table at {self.uri} cannot be read: {one_line(error)}") from error
            self._check_understood(self._table)
        self._entry = self._newest_entry()

    def identity(self) -> str:
        return str(self._table.metadata().id)

    def newest(self) -> int:
        return int(self._table.version())

    def oldest(self) -> int:
        return min(self._entries(), default=self.newest())

    def at(self, version: int | None = None) -> Snapshot:
        table = self._version(version)
        try:
            if pa.table(table.deletion_vectors()).num_rows:
                raise UnreadableError(
                    f"the table at {self.uri} has deletion vectors, which are not read here: purge them"
                )
            actions = pa.table(table.get_add_actions(flatten=False))
        except (DeltaError, OSError) as error:
            raise UnreadableError(f"the files of {self.uri} cannot be listed: {one_line(error)}") from error
        actions = actions.sort_by([("modification_time", "ascending"), ("path", "ascending")])
        wanted = [name for name in ("path", "size_bytes", "partition") if name in actions.column_names]
        files = [self._file(each) for each in actions.select(wanted).to_pylist()]
        return Snapshot(int(table.version()), _columns(table), files)

    def columns_at(self, version: int | None = None) -> Sequence[Column]:
        return _columns(self._version(version))

    def _version(self, version: int | None) -> DeltaTable:
        newest = self.newest()
        if version is not None and version > newest:
            raise UnreadableError(f"the table at {self.uri} has no version {version}: its newest is {newest}")
        return self._table if version in (None, newest) else self._opened(version)

    def version_at(self, time_ms: int) -> int:
        if self._table.metadata().configuration.get(IN_COMMIT_TIMES) == "true":
            raise UnreadableError(f"the table at {self.uri} keeps times in its commits: name a version, not a time")
        times = sorted(self._entries().items())
        known, latest_ms = None, 0
        for version, modified_ms in times:
            latest_ms = max(modified_ms, latest_ms + 1)  # they only grow, as Delta has it
            if latest_ms > time_ms:
                break
            known = version
        if known is None:
            first = f"version {times[0][0]}, of {told(times[0][1])}" if times else "none"
            raise UnreadableError(
                f"the table at {self.uri} had no version at {told(time_ms)} that is still known; the first is {first}"
            )
        return known

    def _entries(self) -> dict[int, int]:
        """The versions whose entries the log still has, and when each was written, in ms."""
        found = {}
        for each in self.destination().list(LOG_DIRECTORY):
            directory, _, name = each.path.rpartition("/")
            number = name.removesuffix(".json")
            if directory == LOG_DIRECTORY and name.endswith(".json") and len(number) == 20 and number.isdecimal():
                found[int(number)] = each.modified_ms
        return found

    def changes(self, since: int, until: int, had: int | None = None) -> Iterator[Change]:
        where = self.destination()
        for version in range(since, until):
            entry = where.read(_entry_of(version))
            if entry is None:
                raise UnreadableError(
                    f"version {version} of the table at {self.uri} is no longer in its log: what it changed cannot be "
                    "told\n  begin again with a new checkpoint"
                )
            yield self._change(version, [json.loads(line) for line in entry.splitlines() if line.strip()])
        if self._newest_entry() != self._entry:
            raise UnreadableError(f"the table at {self.uri} was dropped and made again while it was read")

    def _change(self, version: int, actions: Sequence[Mapping[str, Any]]) -> Change:
        added = [each["add"] for each in actions if "add" in each and each["add"]["dataChange"]]
        removes = any("remove" in each and each["remove"]["dataChange"] for each in actions)
        if any(each.get("deletionVector") for each in added) and not removes:
            raise UnreadableError(f"version {version} of {self.uri} has deletion vectors, which are not read here")
        files = [
            ScanFile(self._relative(unquote(each["path"])), each["size"], _nulls(each["partitionValues"]))
            for each in added
        ]
        return Change(version, files, removes, removes and not added)

    def _relative(self, path: str) -> str:
        if "://" in path or path.startswith("/"):
            raise UnreadableError(f"the table at {self.uri} has a file elsewhere, which is not read here: {path}")
        return path

    def _file(self, action: Mapping[str, Any]) -> ScanFile:
        path = self._relative(unquote(action["path"]))
        return ScanFile(path, action["size_bytes"], action.get("partition") or {})

    def destination(self) -> Destination:
        return Destination(self.uri, self._options)


def _entry_of(version: int) -> str:
    return f"{LOG_DIRECTORY}/{version:020d}.json"


def _columns(table: DeltaTable) -> list[Column]:
    return [Column(each.name, each.type, names=(each.name,)) for each in pa.schema(table.schema().to_arrow())]


def _nulls(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Partition values of a log entry: to Delta the empty text is null."""
    return {name: value or None for name, value in values.items()}
