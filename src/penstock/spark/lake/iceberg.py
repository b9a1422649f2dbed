"""An Iceberg table that is its own checkpoint, through pyiceberg.

A commit is one change of the table's metadata: the data files are appended as a snapshot and, in the same change, the
property `penstock.progress.PIPELINE` becomes the folded summary of all that the pipeline has loaded (see `folding`).
Properties are of the table, not of a snapshot: expiring snapshots, rewriting files or a commit of another engine leaves
them alone. Each snapshot's own properties repeat its part for people.

pyiceberg answers a lost race by trying again on top of the winner, without asking: then both copies of a pipeline would
land. So `commit.retry.num-retries` is 0, which is made sure before every commit, and the trying again is done here,
after a look at whether the table still ends where the plan began. The appended snapshot demands that the table's branch
is where it was, even when it has no files, so every commit takes part in that.

A commit whose answer was lost is found by its mark: the property keeps those of the pipeline's newest commits. What
pyiceberg makes of an error is in `iceberg_catalog`. No data file is deleted that a commit was to name, but by vacuum.

pyiceberg copies the whole metadata several times a commit, 0.5 ms for each snapshot in it. So snapshots that later
appends superseded are dropped in bunches, but for the newest and one of each minute, hour and day (HISTORY).

The catalog is SQL, by default on sqlite: `catalog.db` beside the table's directory, shared by the tables there. Storage
options that begin with `catalog.` (`catalog.uri`, `catalog.type`, ...) choose another, and the table's name in it
(`catalog.namespace`, `catalog.table`).
"""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType
from pyiceberg.utils.datetime import days_to_date

from penstock.errors import ConfigError, PenstockError
from penstock.records.run import SeenEpoch
from penstock.spark.lake.batches import KEY_APPLICATION, QueryBatch, key_mark
from penstock.spark.lake.destination import Destination, text_of
from penstock.spark.lake.folding import NO_EPOCHS, Summary, combined
from penstock.spark.lake.iceberg_catalog import with_confirmed_commits
from penstock.spark.lake.iceberg_files import HDFS_OPTIONS
from penstock.spark.lake.iceberg_overwrite import check_rewritable, overwrite, spans_of
from penstock.spark.lake.ranges import Range
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, Gap, LakeConflictError, Progress, TopicPartition
from penstock.spark.lake.table import LakeTable, TableFile, check_is_a_loads, check_starts, new_columns, one_line
from penstock.spark.limits import LAKE_COMMIT_MARKS, LAKE_SNAPSHOTS_KEPT

logger = logging.getLogger(__name__)
PROGRESS_KEY = "penstock.progress"
BATCH_KEY = "penstock.batch"
RETRIES = "commit.retry.num-retries"
NAMESPACE = "lake"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
HISTORY = ((HOUR_MS // 2, MINUTE_MS), (DAY_MS, HOUR_MS), (7 * DAY_MS, DAY_MS))
"""Up to which age, one version of how long a time can be travelled to, beside the newest ones."""
FILES = "penstock.spark.lake.iceberg_files.DurableFileIO"
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
        self.table = with_confirmed_commits(table)
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
        records: bool = True,
        storage_options: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> IcebergLake:
        """Opens the table, creating it and its catalog if they are missing and `create` says so; as `open_table`."""
        options = dict(storage_options or {})
        names = names_of(uri, options)
        try:
            catalog = catalog_of(uri, options, create=create)
            table, taken = _find(catalog, names, uri)
            if table is None and not create:
                raise PenstockError(f"there is no Iceberg table at {uri}: its catalog has {_listed(names, taken)}")
            table = table or _make(catalog, names, uri, columns, partition_by, settings=settings or {})
        except PenstockError:
            raise
        except Exception as error:
            raise PenstockError(f"the table at {uri} cannot be opened: {one_line(error)}") from error
        if records:
            check_is_a_loads(uri, table.schema().as_arrow().names)
        lake = cls(table, uri, pipeline, options)
        if not lake.version:
            lake.destination().sync_above()
        return lake

    @property
    def columns(self) -> pa.Schema:
        narrow = self.table.schema().as_arrow()
        return pa.schema([_plain(field) for field in narrow])

    @property
    def partition_by(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.table.spec().fields)

    @property
    def settings(self) -> Mapping[str, str]:
        return self.table.metadata.properties

    @property
    def version(self) -> int:
        return int(getattr(self.table.metadata, "last_sequence_number", 0))  # layout 1 counts no sequence

    @property
    def identity(self) -> str:
        return str(self.table.metadata.table_uuid)

    def refresh(self) -> None:
        self.table.refresh()

    def number(self, key: str) -> int | None:
        text = self.table.metadata.properties.get(key)
        return None if text is None else int(text)

    def pipelines(self) -> list[str]:
        properties = self.table.metadata.properties
        return sorted(key[len(PROGRESS_KEY) + 1 :] for key in properties if key.startswith(f"{PROGRESS_KEY}."))

    def loaded(self) -> Summary:
        return self._summary(self.pipeline)

    def commit(
        self,
        files: Sequence[DataFile],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        gaps: Sequence[Gap] = (),
        *,
        exclusive: bool = False,
        epochs: Mapping[TopicPartition, SeenEpoch] = NO_EPOCHS,
    ) -> int:
        paths = [self.location_of(file.path) for file in files]
        told = self._metadata(starts, ends, gaps)
        mark = uuid.uuid4().hex
        for tried in range(COMMIT_TRIES):
            self.forbid_retries()  # first: it may see commits of others
            before = self._summary(self.pipeline)
            check_starts(self.pipeline, before.ends(), starts)
            marks = [*self._marks(), mark][-LAKE_COMMIT_MARKS:]
            progress = before.after(starts, ends, gaps, epochs).to_json(commits=marks)
            try:
                self._commit_once(paths, {_key(self.pipeline): progress}, {PROGRESS_KEY: told})
                break
            except Exception as error:
                if self._landed(mark, error):
                    break
                if not isinstance(error, CommitFailedException | FileNotFoundError):
                    raise
                if exclusive or tried == COMMIT_TRIES - 1:  # a view so old that its files have expired is no conflict
                    raise LakeConflictError(f"other writers got in between every time: {error}") from error
        self._forget_snapshots()
        return self.version

    def erased_properties(self, rows: Mapping[TopicPartition, Sequence[Range]]) -> dict[str, str]:
        """The properties of pipelines once these rows are erased; of those only that loaded one of them."""
        changed = {name: self._summary(name).erased(rows) for name in self.pipelines()}
        return {
            _key(name): summary.to_json(commits=self._marks(name))
            for name, summary in changed.items()
            if summary is not None
        }

    def _landed(self, mark: str, error: Exception) -> bool:
        """Whether the table has a commit that raised an error. Raises the error if the table cannot be asked."""
        try:
            self.refresh()
        except Exception:
            raise error from None
        return mark in self._marks()

    def _marks(self, pipeline: str | None = None) -> list[str]:
        """Of the newest commits of a pipeline (this one), oldest first: by them a writer knows its own."""
        text = self.table.metadata.properties.get(_key(self.pipeline if pipeline is None else pipeline))
        return [] if text is None else [str(mark) for mark in json.loads(text).get("commits", ())]

    def check_takes_files(self) -> None:
        rules = [
            f"{each.transform}({each.name})" for each in self.table.spec().fields if str(each.transform) != "identity"
        ]
        rules += [f"required column {each.name}" for each in self.table.schema().fields if each.required]
        if rules:
            raise PenstockError(
                f"the table at {self.uri} has {rules[0]}, which is not kept here: files cannot be added"
            )

    def append(self, files: Sequence[DataFile], batch: QueryBatch, check: Callable[[], None]) -> bool:
        paths = [self.location_of(file.path) for file in files]
        properties = {key: str(number) for key, number in batch.numbers().items()}
        for tried in range(COMMIT_TRIES):
            self.forbid_retries()
            if self.has(batch):
                return tried > 0
            check()
            try:
                self._commit_once(paths, properties, {BATCH_KEY: batch.to_json()})
                break
            except Exception as error:
                try:
                    self.refresh()
                    landed = self.has(batch) if batch.query is not None else self.names(files)
                except Exception:
                    raise error from None
                if landed:
                    break
                if not isinstance(error, CommitFailedException | FileNotFoundError):
                    raise
                if tried == COMMIT_TRIES - 1:
                    raise LakeConflictError(f"other writers got in between every time: {error}") from error
        self._forget_snapshots()
        return True

    def check_takes_upserts(self) -> None:
        self.check_takes_files()
        check_rewritable(self)
        self.forbid_retries()

    def replace(
        self,
        files: Sequence[DataFile],
        replaced: Sequence[TableFile],
        batch: QueryBatch,
        key: Sequence[str],
        check: Callable[[], None],
    ) -> bool:
        if self.has(batch):
            return False
        check()
        numbers = {**batch.numbers(), **({KEY_APPLICATION: key_mark(key)} if key else {})}
        properties = {name: str(number) for name, number in numbers.items()}
        if not overwrite(self, replaced, files, properties, {BATCH_KEY: batch.to_json()}):
            raise LakeConflictError(f"another writer of {self.uri} committed at the same time")
        self._forget_snapshots()
        return True

    def spans(self, names: Sequence[str]) -> dict[str, dict[str, tuple[Any, Any]]]:
        return spans_of(self, names)

    def _commit_once(self, paths: list[str], properties: dict[str, str], told: dict[str, str]) -> None:
        transaction = self.table.transaction()
        if properties:
            transaction.set_properties(properties)
        if paths:
            transaction.add_files(paths, snapshot_properties=told, check_duplicate_files=False)
        else:
            with transaction.update_snapshot(snapshot_properties=told).fast_append():
                pass
        transaction.commit_transaction()

    def _forget_snapshots(self) -> None:
        """Every commit costs pyiceberg time for each snapshot of the metadata, so superseded ones are dropped.

        A snapshot that a pure append followed holds no file that its successor lacks. The last one before files were
        taken away is left to `penstock lake maintain`, so that vacuum keeps those files for readers.
        """
        kept = {reference.snapshot_id for reference in self.table.metadata.refs.values()}
        for each in self.table.snapshots():
            if each.summary is None or each.summary.operation != Operation.APPEND:
                kept |= {each.snapshot_id, each.parent_snapshot_id or each.snapshot_id}
        ordered = sorted(self.table.snapshots(), key=lambda each: each.sequence_number or 0)
        history = thinned([(each.timestamp_ms, each.snapshot_id) for each in ordered], LAKE_SNAPSHOTS_KEPT)
        superseded = [each.snapshot_id for each in ordered if each.snapshot_id not in kept | history]
        if len(superseded) < LAKE_SNAPSHOTS_KEPT:  # in bunches: it is a commit, too
            return
        try:
            self.table.maintenance.expire_snapshots().by_ids(superseded).commit()
        except Exception as error:  # another writer came between, or the store is away: our next commit does it
            logger.info("snapshots of %s are kept until the next commit: %s", self.uri, error)

    def forbid_retries(self) -> None:
        """pyiceberg reads the property from the table as it was loaded."""
        if self.table.metadata.properties.get(RETRIES) != "0":
            with self.table.transaction() as transaction:
                transaction.set_properties({RETRIES: "0"})
        assert self.table.metadata.properties[RETRIES] == "0"

    def progress(self) -> dict[TopicPartition, Progress]:
        return combined(self._summary(name) for name in self.pipelines())

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
            except Exception as error:
                self.refresh()
                if not new_columns(self.columns, fields):
                    return  # the answer was lost, or another writer added them
                if tried == COMMIT_TRIES - 1 or not isinstance(error, CommitFailedException):
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

    def destination(self) -> Destination:
        stores = {name: value for name, value in self.storage_options.items() if not name.startswith("catalog.")}
        return Destination(
            self.uri,
            stores,
            self.partition_by,
            keeps_partition_columns=True,
            derived=self.derived,
            cluster_by=self.cluster_by,
        )

    def _metadata(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], gaps: Sequence[Gap]
    ) -> str:
        """For people; the summary is what counts."""
        ranges = [[p.topic, str(p.topic_id), p.partition, starts[p], end] for p, end in sorted(ends.items())]
        return json.dumps({"pipeline": self.pipeline, "ranges": ranges, "gaps": len(gaps)}, separators=(",", ":"))


def thinned(snapshots: Sequence[tuple[int, int]], newest: int) -> set[int]:
    """The ids of the snapshots that are kept as history, of (time in ms, id), oldest first.

    The newest ones all, and of older ones the last of each minute, hour or day, as HISTORY has it.
    """
    kept = {snapshot_id for _, snapshot_id in snapshots[-newest:]}
    now_ms = snapshots[-1][0] if snapshots else 0
    last: dict[tuple[int, int], int] = {}
    for at_ms, snapshot_id in snapshots:
        every_ms = next((every_ms for age_ms, every_ms in HISTORY if now_ms - at_ms <= age_ms), None)
        if every_ms is not None:
            last[every_ms, at_ms // every_ms] = snapshot_id
    return kept | set(last.values())


def names_of(uri: str, options: Mapping[str, str]) -> list[tuple[str, str]]:
    """The possible names of a table in its catalog: the one in `catalog.table`, or that of its directory.

    Directories of one name share a catalog, too (`a/clicks` and `b/clicks`, `clicks-x` and `clicks_x`): the one that
    comes later has a part of its location's digest behind its name.
    """
    namespace = options.get("catalog.namespace", NAMESPACE)
    if "catalog.table" in options:
        return [(namespace, options["catalog.table"])]
    name = re.sub(r"\W", "_", uri.rsplit("/", 1)[-1])
    return [(namespace, name), (namespace, f"{name}_{sha256(_location(uri).encode()).hexdigest()[:12]}")]


def catalog_of(uri: str, options: Mapping[str, str], *, create: bool = True) -> Catalog:
    """The catalog of a table.

    Raises ConfigError when the table is in a store and no catalog is named, PenstockError when the catalog
    beside the table is missing and must not be made.
    """
    chosen = {key.removeprefix("catalog."): value for key, value in options.items() if key.startswith("catalog.")}
    for name in ("namespace", "table"):
        chosen.pop(name, None)  # of the table, not of the catalog
    stores = {OPTION_NAMES[name.upper()]: value for name, value in options.items() if name.upper() in OPTION_NAMES}
    stores |= {name: value for name, value in options.items() if name.startswith(HDFS_OPTIONS)}
    parent = uri.rsplit("/", 1)[0]
    if "uri" not in chosen and chosen.get("type", "sql") == "sql":
        if "://" in uri:
            raise ConfigError(
                f"an Iceberg table in an object store or on HDFS needs a catalog: set catalog.uri for {uri}"
            )
        beside = os.path.join(parent, "catalog.db")
        if not create and not os.path.exists(beside):
            raise PenstockError(f"there is no Iceberg table at {uri}: no catalog {beside}")
        os.makedirs(parent, exist_ok=True)
        chosen["uri"] = f"sqlite:///{beside}"
    properties = {"type": "sql", "warehouse": _location(parent), "py-io-impl": FILES, **stores, **chosen}
    catalog = load_catalog(chosen.get("name", "penstock"), **properties)
    if (engine := getattr(catalog, "engine", None)) is not None:  # of SQL: connections close with the last table
        weakref.finalize(catalog, engine.dispose)
    return catalog


def _find(
    catalog: Catalog, names: Sequence[tuple[str, str]], uri: str
) -> tuple[Table | None, dict[tuple[str, str], str]]:
    """The table at a place, if the catalog has it by one of the names; and where those are that are elsewhere."""
    taken: dict[tuple[str, str], str] = {}
    for name in names:
        try:
            table = catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError):
            continue
        if table.location().rstrip("/") == _location(uri):
            return table, taken
        taken[name] = table.location()
    return None, taken


def _make(
    catalog: Catalog,
    names: Sequence[tuple[str, str]],
    uri: str,
    columns: pa.Schema,
    partition_by: Sequence[str],
    *,
    settings: Mapping[str, str],
) -> Table:
    """Makes a table by the first name that is free. Raises PenstockError if none is."""
    for name in names:
        _create(catalog, name, uri, columns, partition_by, settings=settings)  # or it is there, and perhaps another one
        table, taken = _find(catalog, names, uri)
        if table is not None:
            return table
    raise PenstockError(
        f"the table at {uri} cannot be made: its catalog has {_listed(names, taken)}; set catalog.table"
    )


def _listed(names: Sequence[tuple[str, str]], taken: Mapping[tuple[str, str], str]) -> str:
    found = [f"{'.'.join(name)} at {location}" for name, location in taken.items()]
    return ", ".join(found) or f"no {'.'.join(names[0])}"


def _create(
    catalog: Catalog,
    name: tuple[str, str],
    uri: str,
    columns: pa.Schema,
    partition_by: Sequence[str],
    *,
    settings: Mapping[str, str],
) -> Table:
    schema = assign_fresh_schema_ids(_schema(columns))
    spec = UNPARTITIONED_PARTITION_SPEC
    if partition_by:
        fields = [
            PartitionField(schema.find_field(by).field_id, 1000 + at, IdentityTransform(), by)
            for at, by in enumerate(partition_by)
        ]
        spec = PartitionSpec(*fields)
    try:
        catalog.create_namespace(name[0])
    except NamespaceAlreadyExistsError:
        pass
    except Exception as error:  # if it is not there, making the table says so
        logger.info("the answer to making namespace %s: %s", name[0], error)
    properties = {**PROPERTIES, **settings, "schema.name-mapping.default": schema.name_mapping.model_dump_json()}
    try:
        return catalog.create_table(name, schema, _location(uri), spec, properties=properties)
    except Exception as error:  # another writer was quicker; or it was made, and the answer lost
        try:
            return catalog.load_table(name)
        except NoSuchTableError:
            raise error from None


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
    return None if value is None else text_of(value)


def _first_offset(table: Table, file: Any) -> int:
    """The least offset of a file by its statistics: good enough to put files in order, as loads only go forward.

    0 in a table that is not a load's.
    """
    field = next((each for each in table.schema().fields if each.name == "offset"), None)
    low = (file.lower_bounds or {}).get(field.field_id) if field is not None else None
    return int.from_bytes(low, "little", signed=True) if low else 0
