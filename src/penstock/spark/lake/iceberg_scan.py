"""The versions of an Iceberg table, for reading. A version is a sequence number, which each commit raises by one.

Files come from the manifests, which tell of each file the version that added it. So what versions
added can be told though their snapshots have expired, if it is certain that none of them took files away: a table of
Penstock's drops snapshots that were superseded by appends. Columns are found in files by their ids, or, in files
without ids, by the table's name mapping.

Refused are tables whose rows are not simply those of their files: delete files, defaults of columns that files lack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyiceberg.manifest import ManifestContent, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot
from pyiceberg.transforms import IdentityTransform

from penstock.errors import PenstockError
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.iceberg import IcebergLake, _plain
from penstock.spark.lake.scan import Change, Column, History, ScanFile, Snapshot, UnreadableError, told
from penstock.spark.lake.table import one_line

COMPACTION = "penstock.compaction"
"""Property of snapshots that only move rows from file to file."""


class IcebergHistory(History):
    """See the module's head."""

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        self.uri = uri
        self._options = dict(storage_options)
        self._lake = self._opened()

    def _opened(self) -> IcebergLake:
        return IcebergLake.open(self.uri, "read", create=False, records=False, storage_options=self._options)

    def refresh(self) -> None:
        self._lake = self._opened()  # a table made anew has another entry in the catalog, or another catalog

    def identity(self) -> str:
        return self._lake.identity

    def newest(self) -> int:
        current = self._lake.table.current_snapshot()
        return -1 if current is None else self._number(current)

    def oldest(self) -> int:
        chain = self._chain()
        return self._number(chain[0]) if chain else 0

    def at(self, version: int | None = None) -> Snapshot:
        snapshot = self._snapshot(version)
        columns = self.columns_at(version)
        if snapshot is None:
            return Snapshot(-1, columns, ())
        with self._reading():
            entries = self._entries(snapshot)
        return Snapshot(self._number(snapshot), columns, [self._file(each, columns) for each in entries])

    def columns_at(self, version: int | None = None) -> Sequence[Column]:
        table, snapshot = self._lake.table, self._snapshot(version)
        schema = table.schema()
        if version is not None and snapshot is not None and snapshot.schema_id is not None:
            schema = table.schemas()[snapshot.schema_id]
        return self._columns(schema)

    def version_at(self, time_ms: int) -> int:
        chain = self._chain()
        known = [each for each in chain if each.timestamp_ms <= time_ms]
        if not known:
            first = f"version {self._number(chain[0])}, of {told(chain[0].timestamp_ms)}" if chain else "none"
            raise UnreadableError(
                f"the table at {self.uri} had no version at {told(time_ms)} that is still known; the first is {first}"
            )
        return self._number(known[-1])

    def count(self, version: int) -> int | None:
        snapshot = self._known(version)
        if snapshot is None:
            return 0 if version <= 0 else None
        told = {} if snapshot.summary is None else snapshot.summary.additional_properties
        with self._reading():
            return int(told.get("total-data-files") or len(self._entries(snapshot)))

    def _known(self, number: int) -> IcebergSnapshot | None:
        return next((each for each in self._chain() if self._number(each) == number), None)

    def changes(self, since: int, until: int, had: int | None = None) -> Iterator[Change]:
        done = since - 1
        for snapshot in self._chain():
            number = self._number(snapshot)
            if number < since:
                continue
            if done >= until - 1:
                return
            parent = self._lake.table.snapshot_by_id(snapshot.parent_snapshot_id or -1)
            follows = number == done + 1 or (parent is not None and self._number(parent) == done)
            with self._reading():
                span = range(done + 1, min(number + 1, until))
                yield from self._changes_of(snapshot, span, had, follows and number in span)
            done, had = number, self.count(number)

    def _changes_of(self, snapshot: IcebergSnapshot, span: range, had: int | None, follows: bool) -> Iterator[Change]:
        """What the versions of a span did, the last of which a snapshot is, or an earlier one than that.

        `had` is how many files there were before it; `follows` says that the snapshot is all there was.
        """
        number, summary = self._number(snapshot), snapshot.summary
        operation = Operation.APPEND if summary is None else summary.operation
        if follows and operation != Operation.APPEND:
            if operation == Operation.REPLACE or (summary is not None and COMPACTION in summary.additional_properties):
                yield Change(number, ())
            else:
                yield Change(number, (), removes=True, deletes_only=operation == Operation.DELETE)
            return
        entries = self._entries(snapshot)
        left = sum(1 for each in entries if (each.sequence_number or 0) < span.start)
        if had != left and not follows:
            raise UnreadableError(
                f"snapshots of the table at {self.uri} from version {span.start} on have expired: what they changed "
                "cannot be told\n  begin again with a new checkpoint"
            )
        added: dict[int, list[ScanFile]] = {}
        columns = self.columns_at()
        for entry in entries:
            if (at := entry.sequence_number or 0) in span:
                added.setdefault(at, []).append(self._file(entry, columns))
        for at in sorted(added):
            yield Change(at, added[at])

    def _chain(self) -> list[IcebergSnapshot]:
        """The snapshots that led to the present one and are still there, oldest first.

        One whose parent has expired is taken to follow the one before it in the table's own log.
        """
        table = self._lake.table
        known = {each.snapshot_id: each for each in table.snapshots()}
        logged = [known[each.snapshot_id] for each in table.history() if each.snapshot_id in known]
        chain = []
        snapshot = table.current_snapshot()
        while snapshot is not None:
            chain.append(snapshot)
            if (parent := snapshot.parent_snapshot_id) in known or parent is None:
                snapshot = known.get(parent or -1)
                continue
            older = [each for each in logged if self._number(each) < self._number(chain[-1])]
            snapshot = max(older, key=self._number, default=None)
        return chain[::-1]

    def _snapshot(self, version: int | None) -> IcebergSnapshot | None:
        table = self._lake.table
        if version is None:
            return table.current_snapshot()
        for each in table.snapshots():
            if version in (each.snapshot_id, self._number(each)):
                return each
        raise UnreadableError(
            f"the table at {self.uri} has no version {version}, or it has expired: there are "
            f"{', '.join(str(self._number(each)) for each in self._chain()[-10:]) or 'none'}"
        )

    def _number(self, snapshot: IcebergSnapshot) -> int:
        number = getattr(snapshot, "sequence_number", None)
        if not number:
            raise UnreadableError(
                f"the table at {self.uri} is of Iceberg's layout 1, which does not number its versions: raise its "
                "format-version to 2"
            )
        return int(number)

    def _entries(self, snapshot: IcebergSnapshot) -> list[ManifestEntry]:
        """The files of a snapshot, oldest first."""
        io = self._lake.table.io
        found: list[ManifestEntry] = []
        for manifest in snapshot.manifests(io):
            entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
            if entries and manifest.content == ManifestContent.DELETES:
                raise UnreadableError(
                    f"the table at {self.uri} has delete files, which are not read here: rewrite its data files"
                )
            found += entries
        return sorted(found, key=lambda each: (each.sequence_number or 0, each.data_file.file_path))

    def _columns(self, schema: Schema) -> list[Column]:
        if any(getattr(each, "initial_default", None) is not None for each in schema.fields):
            raise UnreadableError(f"the table at {self.uri} has columns with defaults, which are not read here")
        mapping = self._lake.table.name_mapping()
        names = {each.field_id: tuple(each.names) for each in mapping} if mapping is not None else {}
        plain = pa.schema([_plain(each) for each in schema.as_arrow()])
        return [
            Column(field.name, kind.type, field.field_id, names.get(field.field_id, (field.name,)))
            for field, kind in zip(schema.fields, plain, strict=True)
        ]

    def _file(self, entry: ManifestEntry, columns: Sequence[Column]) -> ScanFile:
        file, table = entry.data_file, self._lake.table
        root = self._lake.location_of("")
        if not file.file_path.startswith(root):
            raise UnreadableError(f"the table at {self.uri} has a file elsewhere: {file.file_path}")
        if str(getattr(file.file_format, "value", file.file_format)).upper() != "PARQUET":
            raise UnreadableError(f"the table at {self.uri} has files that are not Parquet, which are not read here")
        spec = table.specs()[getattr(file, "spec_id", None) or 0]
        of_id = {
            each.source_id: file.partition[at]
            for at, each in enumerate(spec.fields)
            if isinstance(each.transform, IdentityTransform)
        }
        values = {each.name: of_id[each.field_id] for each in columns if each.field_id in of_id}
        return ScanFile(file.file_path[len(root) :], file.file_size_in_bytes, values)

    def destination(self) -> Destination:
        return self._lake.destination()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turns what pyiceberg raises into one error."""
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            raise UnreadableError(f"the table at {self.uri} is gone or cannot be read: {one_line(error)}") from error
