"""A Delta table that is its own checkpoint.

Each commit adds the data files of one bounded job and, atomically with them, moves the end offset of every partition
that the job read. The ends are Delta application transactions, one a (pipeline, topic id, partition), with the next
offset as the version: they survive log clean-up and checkpoints, and two writers that plan from the same end conflict,
so that one of them fails. Where each partition began and which offsets legally do not exist is folded into a summary
that the same commit names (see `summaries`). The commit's metadata repeats its own part for people.

A commit that was lost on the way back (the process died after it) is simply seen at the next plan: the ends moved. One
whose answer was lost, or that delta-rs tried again and so found in its own way, shows in what the table names: each
commit has a summary of its own. So whatever a commit raised, the table is asked; and no file is deleted that a commit
was to name, for a store may still be about to apply it. What nobody named in the end, vacuum removes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from penstock.errors import PenstockError
from penstock.records.run import SeenEpoch
from penstock.spark.lake.batches import KEY_APPLICATION, QueryBatch, key_mark
from penstock.spark.lake.delta_spans import spans_of
from penstock.spark.lake.destination import Destination, table_uri, text_of
from penstock.spark.lake.folding import NO_EPOCHS, Summary, combined
from penstock.spark.lake.ranges import Range
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, Gap, LakeConflictError, Progress, TopicPartition
from penstock.spark.lake.summaries import Stored, Summaries, application
from penstock.spark.lake.table import LakeTable, TableFile, check_is_a_loads, check_starts, new_columns
from penstock.spark.limits import LAKE_GAPS_PER_LOG_ENTRY

PROGRESS_KEY = "penstock.progress"
BATCH_KEY = "penstock.batch"
LOG_DIRECTORY = "_delta_log"
COMPACTION = "penstock/compaction"
"""An application that each commit which makes files of others takes. Since delta-rs does not see that a compaction took
a file away first, such a commit refuses to follow on anybody else's; those of an earlier Penstock notice it by this."""
FORGETS = "delta.setTransactionRetentionDuration"
"""Property of a table that lets application transactions expire, and with them the ends of pipelines that were idle."""
COLUMN_RULES = ("delta.generationExpression", "delta.identity.", "delta.invariants")
"""What a column's metadata may demand of whoever writes it."""
COMMIT_TRIES = 10
"""How often a commit is tried again when somebody else's change of the table got in its way, and not another copy."""


class DeltaLake(LakeTable):
    """One Delta table and the progress of the pipelines that feed it."""

    format = "delta"

    def __init__(self, table: DeltaTable, pipeline: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.table = table
        self.pipeline = pipeline
        self.storage_options = dict(storage_options or {})
        self.uri = table_uri(table.table_uri).rstrip("/")
        self.summaries = Summaries(self.destination())
        self._own: Stored | None = None

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
    ) -> DeltaLake:
        """Opens the table, creating it if it is missing and `create` says so; as `open_table`."""
        options = dict(storage_options) if storage_options else None
        try:
            table = DeltaTable(uri, storage_options=options)
        except TableNotFoundError:
            if not create:
                raise PenstockError(f"there is no Delta table at {uri}") from None
            table = _create(uri, columns, partition_by, options, settings)
        except (DeltaError, OSError) as error:
            raise PenstockError(f"the table at {uri} cannot be opened: {error}") from error
        if records:
            check_is_a_loads(uri, pa.schema(table.schema().to_arrow()).names)
        lake = cls(table, pipeline, options)
        lake.check_keeps_progress()
        if lake.version == 0:
            lake.sync_log(0)
            lake.destination().sync_above()
        return lake

    def check_keeps_progress(self) -> None:
        """Raises PenstockError for a table that forgets how far its pipelines are."""
        kept = self.table.metadata().configuration.get(FORGETS)
        if kept is not None:
            raise PenstockError(
                f"the table at {self.uri} has {FORGETS} = {kept}: a pipeline that is idle for so long would be "
                "forgotten, and load everything again\n"
                f"  unset it: ALTER TABLE delta.`{self.uri}` UNSET TBLPROPERTIES ('{FORGETS}')"
            )

    @property
    def columns(self) -> pa.Schema:
        return pa.schema(self.table.schema().to_arrow())

    @property
    def partition_by(self) -> tuple[str, ...]:
        return tuple(self.table.metadata().partition_columns)

    @property
    def settings(self) -> Mapping[str, str]:
        return dict(self.table.metadata().configuration)

    @property
    def version(self) -> int:
        return int(self.table.version())

    @property
    def identity(self) -> str:
        return str(self.table.metadata().id)

    def refresh(self) -> None:
        self.table.update_incremental()

    def number(self, key: str) -> int | None:
        number = self.table.transaction_version(key)
        return None if number is None else int(number)

    def pipelines(self) -> list[str]:
        return self.summaries.pipelines()

    def end(self, partition: TopicPartition) -> int | None:
        end = self.table.transaction_version(self._application(self.pipeline, partition))
        return None if end is None else int(end)

    def loaded(self) -> Summary:
        stored = self._stored(self.pipeline)
        return stored.summary if stored else self._from_history().get(self.pipeline, Summary(self.pipeline))

    def commit(
        self,
        files: Iterable[DataFile],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        gaps: Sequence[Gap] = (),
        *,
        exclusive: bool = False,
        epochs: Mapping[TopicPartition, SeenEpoch] = NO_EPOCHS,
    ) -> int:
        self.check_keeps_progress()
        self._check_starts(starts)
        before = self._before()
        base = before.summary if before is not None else self._adopt()
        now = self.summaries.write(base.after(starts, ends, gaps, epochs), before)
        now_ms = int(time.time() * 1000)
        properties = CommitProperties(
            custom_metadata={PROGRESS_KEY: self._metadata(starts, ends, gaps)},
            max_commit_retries=100,
            app_transactions=[
                Transaction(application(self.pipeline), now.number, last_updated=now_ms),
                *(Transaction(self._application(self.pipeline, p), e, last_updated=now_ms) for p, e in ends.items()),
                *(Transaction(f"penstock//{p.topic_id}/{p.partition}", self.version + 1) for p in ends if exclusive),
            ],
        )
        pointer = self.number(application(self.pipeline))

        def check() -> None:
            self._check_starts(starts)
            if self.number(application(self.pipeline)) != pointer:
                raise LakeConflictError("another writer committed at the same time")

        tries = 1 if exclusive else COMMIT_TRIES
        self._commit_files(files, properties, tries=tries, landed=lambda error: self._landed(now, error), check=check)
        self._own = now
        with suppress(OSError):  # they stay for vacuum; the commit is done
            self.summaries.drop_older(before, now)
        return self.version

    def sync_log(self, since: int) -> None:
        """Forces the entries of the log from a version on to the disk, where it is one: delta-rs does not."""
        entries = [f"{LOG_DIRECTORY}/{version:020d}.json" for version in range(since, self.version + 1)]
        self.destination().sync(*entries, LOG_DIRECTORY)

    def _check_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        known = {partition: end for partition in starts if (end := self.end(partition)) is not None}
        check_starts(self.pipeline, known, starts)

    def check_takes_files(self) -> None:
        settings = self.table.metadata().configuration
        rules = [name for name in settings if name.startswith("delta.constraints.")]
        if settings.get("delta.columnMapping.mode", "none") != "none":
            rules.append("delta.columnMapping.mode")
        for field in json.loads(self.table.schema().to_json())["fields"]:
            rules += [f"{name} of {field['name']}" for name in field["metadata"] if name.startswith(COLUMN_RULES)]
        if rules:
            raise PenstockError(
                f"the table at {self.uri} has {rules[0]}, which is not kept here: files cannot be added"
            )

    def append(self, files: Sequence[DataFile], batch: QueryBatch, check: Callable[[], None]) -> bool:
        return self._take(files, (), batch, batch.numbers(), tries=COMMIT_TRIES, check=check)

    def check_takes_upserts(self) -> None:
        self.check_takes_files()
        if self.table.metadata().configuration.get("delta.appendOnly", "false").lower() == "true":
            raise PenstockError(f"the table at {self.uri} has delta.appendOnly = true: its rows cannot be replaced")

    def replace(
        self,
        files: Sequence[DataFile],
        replaced: Sequence[TableFile],
        batch: QueryBatch,
        key: Sequence[str],
        check: Callable[[], None],
    ) -> bool:
        numbers = {**batch.numbers(), COMPACTION: self.version}
        if key:
            numbers[KEY_APPLICATION] = key_mark(key)
        return self._take(files, replaced, batch, numbers, tries=1, check=check, retries=0)

    def _take(
        self,
        files: Sequence[DataFile],
        replaced: Sequence[TableFile],
        batch: QueryBatch,
        numbers: Mapping[str, int],
        *,
        tries: int,
        check: Callable[[], None],
        retries: int = 100,
    ) -> bool:
        """Commits one batch, unless the table has it; returns whether it did. delta-rs itself tries again `retries`
        times after a commit that it thinks is not in the way; with 0 every commit is.
        """
        self.check_keeps_progress()
        if self.has(batch):
            return False
        check()

        def landed(error: Exception) -> bool:
            try:
                self.refresh()
                if batch.query is not None:
                    return self.has(batch)
                return self.names(files) if files else not self.names(replaced)
            except (DeltaError, OSError):
                raise error from None

        now_ms = int(time.time() * 1000)
        properties = CommitProperties(
            custom_metadata={BATCH_KEY: batch.to_json()},
            max_commit_retries=retries,
            app_transactions=[Transaction(key, n, last_updated=now_ms) for key, n in numbers.items()],
        )
        self._commit_files(files, properties, tries=tries, landed=landed, check=check, replaced=replaced)
        return True

    def _commit_files(
        self,
        files: Iterable[DataFile],
        properties: CommitProperties,
        *,
        tries: int,
        landed: Callable[[Exception], bool],
        check: Callable[[], None],
        replaced: Iterable[TableFile] = (),
    ) -> None:
        """Makes one commit, and tries it again after a conflict that `check`, of the table as it is then, lets pass.

        `landed` refreshes the table and tells whether it has a commit that raised an error.
        """
        now_ms = int(time.time() * 1000)
        actions: list[Any] = [add_action(file, now_ms) for file in files]
        actions += [remove_action(file, now_ms) for file in replaced]
        by = list(self.partition_by) or None
        known = self.version
        for tried in range(tries):
            try:
                schema = self.table.schema()
                self.table.create_write_transaction(actions, "append", schema, by, commit_properties=properties)
                break
            except (DeltaError, OSError) as error:
                if landed(error):
                    break
                if not isinstance(error, CommitFailedError):
                    raise
                check()
                if tried == tries - 1:
                    raise LakeConflictError(f"another writer committed at the same time: {error}") from error
        self.refresh()
        self.sync_log(known + 1)

    def _landed(self, now: Stored, error: Exception) -> bool:
        """Whether the table has a commit that raised an error: it names the commit's summary, or one that came of it.

        Raises the error if the table cannot be asked.
        """
        try:
            self.refresh()
            number = self.table.transaction_version(application(self.pipeline))
            if number is None or number == now.number:
                return number is not None
            stored = self.summaries.read(self.pipeline, number)
        except (DeltaError, OSError):
            raise error from None
        return stored is not None and now.number in stored.earlier

    def progress(self) -> dict[TopicPartition, Progress]:
        return combined(self.all_summaries())

    def all_summaries(self) -> list[Summary]:
        """The offsets loaded by each pipeline that feeds the table; if it is older than summaries, from its history."""
        names = self.summaries.pipelines()
        found = []
        history: dict[str, Summary] | None = None if names else self._from_history()
        for name in names:
            stored = self._stored(name)
            summary = stored.summary if stored is not None else self.summaries.adopted(name)
            if summary is not None and stored is None and not self._agrees(summary):
                history = self._from_history() if history is None else history
                summary = history.get(name)  # an earlier Penstock goes on writing it
            if summary is not None:
                self._check_ends(summary)
                found.append(summary)
        for name in set(history or {}) - set(names):
            self._stored(name)  # fails if a commit names a summary that is not there
        return found if names else list((history or {}).values())

    def write_erased(self, rows: Mapping[TopicPartition, Sequence[Range]]) -> list[tuple[Stored, Stored]]:
        """Writes the summaries that pipelines have once these rows are erased: of each what it is, and will be.

        Raises PenstockError for a table whose progress is still in its history.
        """
        stored = self.stored()
        if {each.pipeline for each in self.all_summaries()} - stored.keys():
            raise PenstockError(
                f"the table at {self.uri} is of an early Penstock: let its loads commit once before rows are erased"
            )
        changed = [(before, before.summary.erased(rows)) for before in stored.values()]
        return [(before, self.summaries.write(now, before)) for before, now in changed if now is not None]

    def stored(self) -> dict[str, Stored]:
        """The summary of every pipeline that has one."""
        found = {name: self._stored(name) for name in self.summaries.pipelines()}
        return {name: stored for name, stored in found.items() if stored is not None}

    def _agrees(self, summary: Summary) -> bool:
        ends = summary.ends().items()
        return all(self.table.transaction_version(self._application(summary.pipeline, p)) == end for p, end in ends)

    def _check_ends(self, summary: Summary) -> None:
        for partition, end in summary.ends().items():
            told = self.table.transaction_version(self._application(summary.pipeline, partition))
            if told is not None and told != end:
                raise PenstockError(
                    f"what the table says of {partition.topic}-{partition.partition} contradicts itself: the "
                    f"transactions of pipeline {summary.pipeline!r} end at {told}, its summary at {end}"
                )

    def _stored(self, pipeline: str) -> Stored | None:
        """The summary that the current version names, or None if it names none."""
        number = self.table.transaction_version(application(pipeline))
        if number is None:
            return None
        if self._own is not None and pipeline == self.pipeline and self._own.number == number:
            return self._own
        stored = self.summaries.read(pipeline, number)
        if stored is None:  # so old a version that its summary is gone: see the newest
            self.refresh()
            number = self.table.transaction_version(application(pipeline))
            stored = None if number is None else self.summaries.read(pipeline, number)
        if stored is None:
            raise PenstockError(
                f"the table's progress is gone: its newest version names summary {number} of pipeline {pipeline!r}, "
                "and there is no such file below _penstock"
            )
        if pipeline == self.pipeline:
            self._own = stored
        return stored

    def _before(self) -> Stored | None:
        self._own = self._stored(self.pipeline)
        return self._own

    def _adopt(self) -> Summary:
        """What the history says of this pipeline, for its first summary; keeps what it says of the others."""
        history = self._from_history() if self.version > 0 else {}
        known = set(self.summaries.pipelines()) if history else set()
        for name, summary in history.items():
            if name != self.pipeline and name not in known:
                self.summaries.adopt(summary)
        own = history.get(self.pipeline, Summary(self.pipeline))
        return Summary(self.pipeline, 0, own.partitions)

    def _from_history(self) -> dict[str, Summary]:
        """Every commit's metadata folded together, a pipeline: of tables from before there were summaries."""
        summaries: dict[str, Summary] = {}
        for entry in reversed(self.table.history()):
            text = entry.get(PROGRESS_KEY)
            if text is None:
                continue
            told = json.loads(text)
            summary = summaries.setdefault(told["pipeline"], Summary(told["pipeline"]))
            for item in told["partitions"]:
                partition = TopicPartition(item["topic"], UUID(item["topic_id"]), item["partition"])
                known = summary.partitions.get(partition)
                if known is not None and known.end != item["start"]:
                    raise PenstockError(f"the commits of pipeline {summary.pipeline!r} do not follow on each other")
                gaps = [Gap(partition, *gap) for gap in item["gaps"]]
                starts, ends = {partition: item["start"]}, {partition: item["end"]}
                summaries[summary.pipeline] = summary = summary.after(starts, ends, gaps)
        return summaries

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        for tried in range(COMMIT_TRIES):
            new = new_columns(self.columns, fields)
            if not new:
                return
            try:
                added = Schema.from_arrow(pa.schema(new)).fields
                known = self.version
                self.table.alter.add_columns([Field(each.name, each.type, nullable=True) for each in added])
                self.refresh()
                self.sync_log(known + 1)
                return
            except (DeltaError, OSError) as error:
                self.refresh()
                if not new_columns(self.columns, fields):
                    return  # the answer was lost, or another writer added them
                if tried == COMMIT_TRIES - 1 or not isinstance(error, CommitFailedError):
                    raise PenstockError(f"columns could not be added to {self.uri}: {error}") from error

    def files(self) -> list[TableFile]:
        deleted = pa.table(self.table.deletion_vectors())
        if deleted.num_rows:
            raise PenstockError(f"the table at {self.uri} has deletion vectors, which are not read here: purge them")
        actions = pa.table(self.table.get_add_actions(flatten=False))
        actions = actions.sort_by([("modification_time", "ascending"), ("path", "ascending")])
        values = actions["partition"].to_pylist() if "partition" in actions.column_names else [{}] * len(actions)
        sizes = actions["size_bytes"].to_pylist()
        return [
            TableFile(unquote(path), size, {name: text_of(v) for name, v in of.items()})
            for path, size, of in zip(actions["path"].to_pylist(), sizes, values, strict=True)
        ]

    def spans(self, names: Sequence[str]) -> dict[str, dict[str, tuple[Any, Any]]]:
        return spans_of(self.table, self.partition_by, names)

    def destination(self) -> Destination:
        options, by = self.storage_options, self.partition_by
        return Destination(self.uri, options, by, derived=self.derived, cluster_by=self.cluster_by)

    def _application(self, pipeline: str, partition: TopicPartition) -> str:
        return f"penstock/{pipeline}/{partition.topic_id}/{partition.partition}"

    def _metadata(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], gaps: Sequence[Gap]
    ) -> str:
        """The commit's metadata for people; only the summary matters. Too many gaps are counted, not listed."""
        shown = gaps if len(gaps) <= LAKE_GAPS_PER_LOG_ENTRY else ()
        partitions = [
            {
                "topic": partition.topic,
                "topic_id": str(partition.topic_id),
                "partition": partition.partition,
                "start": starts[partition],
                "end": end,
                "gaps": [(gap.start, gap.end, gap.reason) for gap in shown if gap.partition == partition],
            }
            for partition, end in sorted(ends.items())
        ]
        told = {"pipeline": self.pipeline, "partitions": partitions, "gaps_left_out": len(gaps) - len(shown)}
        return json.dumps(told, separators=(",", ":"))


def _create(
    uri: str,
    columns: pa.Schema,
    partition_by: Sequence[str],
    options: dict[str, str] | None,
    settings: Mapping[str, str] | None,
) -> DeltaTable:
    """Creates a table. One that exists by now is fine: another load made it, or this one did and got no answer."""
    told: dict[str, Any] = {"partition_by": list(partition_by) or None, "storage_options": options}
    if settings:
        told |= {"configuration": dict(settings), "raise_if_key_not_exists": False}
    try:
        return DeltaTable.create(uri, columns, mode="ignore", **told)
    except (DeltaError, OSError) as error:
        try:
            return DeltaTable(uri, storage_options=options)
        except (DeltaError, OSError):
            raise PenstockError(f"the table at {uri} cannot be made: {error}") from error


def add_action(file: DataFile, now_ms: int, *, data_change: bool = True) -> AddAction:
    """A file as an entry of the table's log."""
    stats = {
        "numRecords": file.rows,
        "minValues": dict(file.low),
        "maxValues": dict(file.high),
        "nullCount": {**dict.fromkeys(file.low, 0), **file.nulls},
    }
    told = json.dumps(stats, ensure_ascii=False)  # delta-rs reads escaped surrogate pairs wrongly
    # delta-rs makes a URI of the path by itself
    return AddAction(file.path, file.size_bytes, dict(file.partition_values), now_ms, data_change, told)


def remove_action(file: TableFile, now_ms: int, *, data_change: bool = True) -> RemoveAction:
    """A file that the table names no longer, as an entry of its log."""
    return RemoveAction(file.path, data_change, now_ms, file.size_bytes, dict(file.partition_values))
