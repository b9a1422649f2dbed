"""An Iceberg table that is its own checkpoint, through pyiceberg.

A commit is one change of the table's metadata: the data files are appended as a snapshot and, in the same change, the
property `penstock.progress.PIPELINE` becomes the folded summary of all that the pipeline has loaded (see `folding`).
Properties are of the table, not of a snapshot: expiring snapshots, rewriting files or a commit of another engine leaves
them alone. Each snapshot's own properties repeat its part for people.

pyiceberg answers a lost race by trying again on top of the winner, without asking: then both copies of a pipeline would
land. So `commit.retry.num-retries` is 0, which is made sure before every commit, and the trying again is done here,
after a look at whether the table still ends where the plan began. The appended snapshot demands that the table's branch
is where it was, even when it has no files, so every commit takes part in that.

pyiceberg copies the whole metadata several times a commit, 0.5 ms for each snapshot in it. So snapshots that later
appends superseded are dropped in bunches: a table keeps about the last hundred versions, not those of a week.

The catalog is SQL, by default on sqlite: `catalog.db` beside the table's directory, shared by the tables there. Storage
options that begin with `catalog.` (`catalog.uri`, `catalog.type`, ...) choose another.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType
from pyiceberg.utils.datetime import days_to_date

from penstock.config.limits import LAKE_SNAPSHOTS_KEPT
from penstock.errors import ConfigError, PenstockError
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.folding import Summary, combined
from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, Gap, LakeConflictError, Progress, TopicPartition
from penstock.spark.lake.table import LakeTable, TableFile, check_starts, new_columns

PROGRESS_KEY = "penstock.progress"
RETRIES = "commit.retry.num-retries"
NAMESPACE = "lake"
COMMIT_TRIES = 10
"""How often a commit is tried again when somebody else's got in its way, and not another copy of the pipeline."""
PROPERTIES = {
    RETRIES: "0",
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",  # else each commit leaves a manifest for ever
    "write.metadata.delete-after-commit.enabled": "true",  # and a metadata file
    "write.metadata.previous-versions-max": "100",
    "write.parquet.compression-codec": "zstd",
}
OPTION_NAMES = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_REGION": "s3.region",
}
"""delta-rs's names of storage options, and pyiceberg's."""


class IcebergLake(LakeTable):
    """One Iceberg table and the progress of the pipelines that feed it."""

    format = "iceberg"

    def __init__(self, table: Table, uri: str, pipeline: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.table = table
        self.uri = uri
        self.pipeline = pipeline
        self.storage_options = dict(storage_options or {})

    @classmethod
    def open(
        cls,
        uri: str,
        pipeline: str,
        *,
        columns: pa.Schema = RECORD_SCHEMA,
        partition_by: Sequence[str] = (),
        create: bool = True,
        storage_options: Mapping[str, str] | None = None,
    ) -> IcebergLake:
        """Opens the table, creating it and its catalog if they are missing and `create` says so; as `open_table`."""
        options = dict(storage_options or {})
        name = (NAMESPACE, re.sub(r"\W", "_", uri.rsplit("/", 1)[-1]))
        catalog = catalog_of(uri, options, create=create)
        try:
            table = catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError):
            if not create:
                raise PenstockError(
                    f"there is no Iceberg table at {uri}: its catalog has no {'.'.join(name)}"
                ) from None
            table = _create(catalog, name, uri, columns, partition_by)
        found = set(table.schema().as_arrow().names)
        missing = [name for name in RECORD_SCHEMA.names if name not in found and name != "value"]
        if missing:
            raise PenstockError(f"the table at {uri} is not a load's: it has no column {', '.join(missing)}")
        if _location(uri) != table.location().rstrip("/"):
            raise PenstockError(f"{'.'.join(name)} of the catalog is at {table.location()}, not at {uri}")
        return cls(table, uri, pipeline, options)

    @property
    def columns(self) -> pa.Schema:
        narrow = self.table.schema().as_arrow()
        return pa.schema([_plain(field) for field in narrow])

    @property
    def partition_by(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.table.spec().fields)

    @property
    def version(self) -> int:
        return int(getattr(self.table.metadata, "last_sequence_number", 0))  # layout 1 counts no sequence

    def refresh(self) -> None:
        self.table.refresh()

    def ends(self) -> dict[TopicPartition, int]:
        return self._summary(self.pipeline).ends()

    def commit(
        self,
        files: Sequence[DataFile],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        gaps: Sequence[Gap] = (),
        *,
        exclusive: bool = False,
    ) -> int:
        paths = [self.location_of(file.path) for file in files]
        for tried in range(COMMIT_TRIES):
            self.forbid_retries()  # first: it may see commits of others
            before = self._summary(self.pipeline)
            check_starts(self.pipeline, before.ends(), starts)
            now = before.after(starts, ends, gaps)
            try:
                self._commit_once(paths, now, self._metadata(starts, ends, gaps))
                self._forget_snapshots()
                return self.version
            except (CommitFailedException, FileNotFoundError) as error:  # a view so old that its files have expired
                self.refresh()
                if exclusive or tried == COMMIT_TRIES - 1:
                    raise LakeConflictError(f"other writers got in between every time: {error}") from error
        raise AssertionError("unreachable")

    def _commit_once(self, paths: list[str], now: Summary, told: str) -> None:
        transaction = self.table.transaction()
        transaction.set_properties({_key(self.pipeline): now.to_json()})
        if paths:
            transaction.add_files(paths, snapshot_properties={PROGRESS_KEY: told}, check_duplicate_files=False)
        else:
            with transaction.update_snapshot(snapshot_properties={PROGRESS_KEY: told}).fast_append():
                pass
        transaction.commit_transaction()

    def _forget_snapshots(self) -> None:
        """Every commit costs pyiceberg time for each snapshot of the metadata, so superseded ones are dropped.

        A snapshot that a pure append followed holds no file that its successor lacks. The last one before files were
        taken away is left to `penstock lake maintain`, so that vacuum keeps those files for readers.
        """
        snapshots = self.table.snapshots()
        if len(snapshots) <= 2 * LAKE_SNAPSHOTS_KEPT:
            return
        old = sorted(snapshots, key=lambda each: each.sequence_number or 0)[:-LAKE_SNAPSHOTS_KEPT]
        kept = {reference.snapshot_id for reference in self.table.metadata.refs.values()}
        for each in snapshots:
            if each.summary is None or each.summary.operation != Operation.APPEND:
                kept |= {each.snapshot_id, each.parent_snapshot_id or each.snapshot_id}
        superseded = [each.snapshot_id for each in old if each.snapshot_id not in kept]
        if superseded:
            with suppress(CommitFailedException):  # another writer came between: it, or our next commit, does it
                self.table.maintenance.expire_snapshots().by_ids(superseded).commit()

    def forbid_retries(self) -> None:
        """pyiceberg reads the property from the table as it was loaded."""
        if self.table.metadata.properties.get(RETRIES) != "0":
            with self.table.transaction() as transaction:
                transaction.set_properties({RETRIES: "0"})
        assert self.table.metadata.properties[RETRIES] == "0"

    def progress(self) -> dict[TopicPartition, Progress]:
        properties = self.table.metadata.properties
        names = sorted(key[len(PROGRESS_KEY) + 1 :] for key in properties if key.startswith(f"{PROGRESS_KEY}."))
        return combined(self._summary(name) for name in names)

    def _summary(self, pipeline: str) -> Summary:
        text = self.table.metadata.properties.get(_key(pipeline))
        return Summary(pipeline) if text is None else Summary.from_json(text)

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        for tried in range(COMMIT_TRIES):
            new = new_columns(self.columns, fields)
            if not new:
                return
            try:
                with self.table.update_schema() as update:
                    update.union_by_name(_schema(pa.schema([*self.columns, *new])))
                return
            except CommitFailedException as error:
                self.refresh()
                if tried == COMMIT_TRIES - 1:
                    raise PenstockError(f"columns could not be added to {self.uri}: {error}") from error

    def files(self) -> list[TableFile]:
        found = []
        root = _location(self.uri) + "/"
        names = self.partition_by
        for task in self.table.scan().plan_files():
            if task.delete_files:
                raise PenstockError(
                    f"the table at {self.uri} has delete files, which are not read here: rewrite its data files"
                )
            file = task.file
            path = file.file_path
            if not path.startswith(root):
                raise PenstockError(f"the table at {self.uri} has a file elsewhere: {path}")
            values = {name: _text(self.table, name, file.partition[at]) for at, name in enumerate(names)}
            found.append((TableFile(path[len(root) :], file.file_size_in_bytes, values), file))
        return [each for each, _ in sorted(found, key=lambda pair: (_first_offset(self.table, pair[1]), pair[0].path))]

    def location_of(self, path: str) -> str:
        """The full location of one of the table's files."""
        return f"{_location(self.uri)}/{path}"

    def batches(self, columns: Sequence[str], topic: str | None = None) -> Iterator[pa.RecordBatch]:
        return batches_of(self, columns, topic)

    def destination(self) -> Destination:
        stores = {name: value for name, value in self.storage_options.items() if not name.startswith("catalog.")}
        return Destination(self.uri, stores, self.partition_by, keeps_partition_columns=True)

    def _metadata(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], gaps: Sequence[Gap]
    ) -> str:
        """For people; the summary is what counts."""
        ranges = [[p.topic, str(p.topic_id), p.partition, starts[p], end] for p, end in sorted(ends.items())]
        return json.dumps({"pipeline": self.pipeline, "ranges": ranges, "gaps": len(gaps)}, separators=(",", ":"))


def catalog_of(uri: str, options: Mapping[str, str], *, create: bool = True) -> Catalog:
    """The catalog of a table.

    Raises ConfigError when the table is in an object store and no catalog is named, PenstockError when the catalog
    beside the table is missing and must not be made.
    """
    chosen = {key.removeprefix("catalog."): value for key, value in options.items() if key.startswith("catalog.")}
    stores = {OPTION_NAMES[name.upper()]: value for name, value in options.items() if name.upper() in OPTION_NAMES}
    parent = uri.rsplit("/", 1)[0]
    if "uri" not in chosen and chosen.get("type", "sql") == "sql":
        if "://" in uri:
            raise ConfigError(f"an Iceberg table in an object store needs a catalog: set catalog.uri for {uri}")
        beside = os.path.join(parent, "catalog.db")
        if not create and not os.path.exists(beside):
            raise PenstockError(f"there is no Iceberg table at {uri}: no catalog {beside}")
        os.makedirs(parent, exist_ok=True)
        chosen["uri"] = f"sqlite:///{beside}"
    properties = {"type": "sql", "warehouse": _location(parent), **stores, **chosen}
    return load_catalog(chosen.get("name", "penstock"), **properties)


def _create(
    catalog: Catalog, name: tuple[str, str], uri: str, columns: pa.Schema, partition_by: Sequence[str]
) -> Table:
    schema = assign_fresh_schema_ids(_schema(columns))
    spec = UNPARTITIONED_PARTITION_SPEC
    if partition_by:
        fields = [
            PartitionField(schema.find_field(by).field_id, 1000 + at, IdentityTransform(), by)
            for at, by in enumerate(partition_by)
        ]
        spec = PartitionSpec(*fields)
    with suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(name[0])
    properties = {**PROPERTIES, "schema.name-mapping.default": schema.name_mapping.model_dump_json()}
    try:
        return catalog.create_table(name, schema, _location(uri), spec, properties=properties)
    except TableAlreadyExistsError:  # another writer was quicker
        return catalog.load_table(name)


def _schema(columns: pa.Schema) -> Schema:
    schema: Schema = _pyarrow_to_schema_without_ids(columns)
    return schema


def _location(uri: str) -> str:
    return uri if urlsplit(uri).scheme else f"file://{uri}"


def _key(pipeline: str) -> str:
    return f"{PROGRESS_KEY}.{pipeline}"


def _plain(field: Any) -> pa.Field:
    """A field as a load's tables have it: nullable, not `large`, without Iceberg's field id in its metadata."""
    return pa.field(field.name, _plain_type(field.type))


def _plain_type(kind: Any) -> Any:
    types = pa.types
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if types.is_struct(kind):
        return pa.struct([_plain(kind.field(at)) for at in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    return kind


def _text(table: Table, name: str, value: Any) -> str | None:
    """A partition value as text; Iceberg keeps a date as days since 1970."""
    if value is not None and isinstance(table.schema().find_type(name), DateType):
        value = days_to_date(value)
    return None if value is None else str(value)


def _first_offset(table: Table, file: Any) -> int:
    """The least offset of a file by its statistics: good enough to put files in order, as loads only go forward."""
    low = (file.lower_bounds or {}).get(table.schema().find_field("offset").field_id)
    return int.from_bytes(low, "little", signed=True) if low else 0
