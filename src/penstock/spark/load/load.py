"""The lake load: topics into lake tables, exactly once, as a loop of bounded jobs.

Each job is planned from the tables' own last commits: it begins where a table ends and goes to what the brokers have
now. Its tasks write data files; the driver adds all of them and the new ends in one atomic commit a table. So there is
no other checkpoint: a crash anywhere repeats a plan, and two copies of a load cannot both commit. See `lake` for why.

Between jobs the load waits in a long poll at the brokers, so that the next job starts when there is something to load;
an interval bounds how often. A job of few offsets runs in this process: a Spark job costs more than it would share.

The brokers are also asked whether their logs still are those that the tables were loaded from: an unclean election may
have cut them, and what comes after has the offsets of what was lost. That stops the load, or is recorded (`plan`).

After the commits to the tables the brokers are told where these end, as the offsets of a consumer group, so that its
lag is the load's. Nothing is read from there: see `group_offsets`. A reload tells them nothing: it fills in what is
behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from penstock.client.client import EARLIEST, Client, Partition
from penstock.errors import ErrorCode
from penstock.records.run import SeenEpoch
from penstock.spark.group_offsets import GroupOffsets, commit_as_nobody
from penstock.spark.lake.folding import Folded
from penstock.spark.lake.ranges import Range, union
from penstock.spark.lake.records import Claim, LakeConflictError, TopicPartition
from penstock.spark.lake.table import LakeTable, reading
from penstock.spark.limits import LOAD_COLUMNS_MAX, LOAD_FIRST_OFFSETS, LOAD_METADATA_AGE_MS, LOAD_REPLANS
from penstock.spark.load.brokers import Brokers
from penstock.spark.load.formats.format import OWN_COLUMNS
from penstock.spark.load.jobs import JobError, Result, discard, run_inline, run_on_spark
from penstock.spark.load.layout import Layout
from penstock.spark.load.options import LoadOptions
from penstock.spark.load.plan import (
    Extent,
    Plan,
    Span,
    diverged_from,
    divergence,
    holes,
    live_span,
    live_start,
    reload_name,
    share_out,
)
from penstock.spark.load.registry import Registry
from penstock.spark.load.repair import repair
from penstock.spark.load.tables import Target, failed_commit, open_target, table_of
from penstock.spark.load.work import JobPlan
from penstock.spark.read.fetching import Connect
from penstock.spark.read.plan import tasks_of
from penstock.spark.session import parallelism

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)
__all__ = ["JobError", "Load", "LoadOptions", "Outcome", "Stop"]


class Stop(Protocol):
    """The signal that ends a load, such as a threading.Event."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one job.

    `version` is that of the (last) table, `rows` and `files` are what went into tables, `quarantined` the rows that
    did not fit, `lag` the offsets that wait for the next job.
    """

    version: int
    rows: int
    files: int
    lag: int
    seconds: float
    quarantined: int = 0


class _Again(Exception):
    """Raised when something changed during a job, which must be planned again."""


class Load:
    """A load that is running. A context manager: it holds connections to the brokers.

    Args:
        spark: the session that larger jobs run on, or what starts one when the first such job comes; None runs all of
            them in this process.
        options: what to load. Raises ConfigError when the table that is there is of another kind.
    """

    def __init__(self, spark: SparkSession | Callable[[], SparkSession] | None, options: LoadOptions) -> None:
        self.options = options
        self._spark = spark
        self._runner = asyncio.Runner()
        self._client = Client(
            options.bootstrap,
            client_id=options.client_id,
            timeout_ms=options.timeout_ms,
            security=options.security,
        )
        self._brokers = Brokers(self._client, options)
        self._registry = Registry(options.schema_registry) if options.schema_registry else None
        self._targets: dict[tuple[str, str], Target] = {}
        self._repaired: set[tuple[str, str]] = set()
        self._begin: dict[TopicPartition, int] = {}
        self._wanted: dict[TopicPartition, tuple[int, int]] | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._add_fields = options.new_fields == "add"
        self._registered = False
        self._group = GroupOffsets(options.group_id, self._commit_to_group) if options.group_id else None
        if not options.table_per_topic and not options.is_reload:
            self._target(options.table, options.pipeline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Tells the group where the tables end, and ends the connections."""
        if self._group is not None:
            self._group.commit(last=True)
            self._group = None
        self._client.close()
        self._runner.close()

    @property
    def tables(self) -> dict[str, LakeTable]:
        """The tables that this load has written or is about to, by where they are."""
        return {target.lake.uri: target.lake for target in self._targets.values()}

    @property
    def quarantines(self) -> dict[str, LakeTable]:
        """The quarantine of each table, by where the table is; none for raw values."""
        return {t.lake.uri: t.quarantine for t in self._targets.values() if t.quarantine is not None}

    @property
    def lake(self) -> LakeTable:
        """The table of a load that has one."""
        return next(iter(self._targets.values())).lake

    def run(self, stop: Stop, interval_ms: int, heard: Callable[[Outcome], None], *, once: bool) -> None:
        """Repeats jobs until told to stop, or until caught up if `once`, as a reload always is.

        A job begins as soon as there is something to load, but at least `interval_ms` after the one before began,
        which bounds the commits per second.

        Raises LakeConflictError when another copy of the pipeline is at work, ClaimError when another pipeline is,
        JobError, DataLossError, RegistryError, RequestError, UnreachableError.
        """
        once = once or self.options.is_reload
        while not stop.is_set():
            began = time.monotonic()
            outcome = self.run_job()
            if outcome is not None:
                heard(outcome)
            behind = outcome is not None and outcome.lag > 0
            if once and not behind:
                return
            if not behind:
                stop.wait(max(0.0, began + interval_ms / 1000 - time.monotonic()))
                self.wait(stop)

    def wait(self, stop: Stop) -> None:
        """Returns when the brokers have more than the tables, when it is time to look for partitions, or to stop."""
        until = time.monotonic() + LOAD_METADATA_AGE_MS / 1000
        while not stop.is_set() and time.monotonic() < until:
            if self._runner.run(self._brokers.wait_for_more(self._ends)):
                return
            if self._group is not None:
                self._group.commit()

    def run_job(self) -> Outcome | None:
        """Plans, runs and commits one job; None if there is nothing new."""
        began = time.monotonic()
        for _ in range(LOAD_REPLANS):
            try:
                return self._reload_job(began) if self.options.is_reload else self._live_job(began)
            except _Again:
                continue
            except LakeConflictError:
                self._group = None  # another copy is at work: it says where the pipeline is
                raise
        raise JobError(f"the tables or their columns changed {LOAD_REPLANS} times while one job ran: it was given up")

    def _live_job(self, began: float) -> Outcome | None:
        partitions = self._runner.run(self._brokers.partitions())
        targets = {p.topic: self._target(table_of(self.options, p.topic), self.options.pipeline) for p in partitions}
        for target in {id(each): each for each in targets.values()}.values():
            target.refresh()
        extents = self._runner.run(self._brokers.extents(partitions))
        self._repair_quarantines(targets, extents)
        loaded = _loaded(targets)
        if self._claim([p for p in partitions if p not in loaded[p.topic]], targets, loaded):
            loaded = _loaded(targets)
        known = {p: loaded[p.topic].get(p) for p in partitions}
        self._resolve_begins([p for p in partitions if known[p] is None], EARLIEST)
        plan = self._live_plan(targets, known, extents)
        outcome = self._finish(plan, targets, began) if plan.ends else None
        if self._group is not None:
            self._group.reached({(p.topic, p.partition): self._ends[p] for p in partitions})
            self._group.commit()
        return outcome

    def _commit_to_group(self, ends: Mapping[Partition, int]) -> Mapping[Partition, ErrorCode]:
        return self._runner.run(commit_as_nobody(self._client, self.options.group_id, ends))

    def _live_plan(
        self,
        targets: Mapping[str, Target],
        known: Mapping[TopicPartition, Folded | None],
        extents: Mapping[TopicPartition, Extent],
    ) -> Plan:
        spans: dict[TopicPartition, Span] = {}
        exclusive = False
        diverged = self._diverged(known, extents)
        for partition, folded in known.items():
            start = self._begin[partition] if folded is None else folded.end
            if folded is None and start != extents[partition].last:
                start = live_start(partition, start, self._claims(targets[partition.topic], partition))
                exclusive = True
            self._ends[partition] = start
            if folded is not None and start > extents[partition].last:
                continue  # the log was cut, as the table records; or a new leader does not know yet how far it goes
            loss = self.options.fail_on_data_loss
            span = live_span(partition, extents[partition], start, known=folded is not None, fail_on_data_loss=loss)
            if span is not None:
                spans[partition] = span
        plan = share_out(spans, self._limit(targets))
        plan.exclusive = exclusive
        for partition, at in diverged.items():
            plan.note_divergence(partition, at, self._ends[partition])
        self._ends |= plan.ends
        return plan

    def _diverged(
        self, known: Mapping[TopicPartition, Folded | None], extents: Mapping[TopicPartition, Extent]
    ) -> dict[TopicPartition, int]:
        """From where on tables have what the brokers lost. Raises DataLossError unless that may be."""
        tables = {partition: folded for partition, folded in known.items() if folded is not None}
        seen = {p: [folded.last_epoch] for p, folded in tables.items() if folded.last_epoch is not None}
        cuts = self._runner.run(self._brokers.cuts(seen, {p: extents[p].first for p in seen}))
        found = {p: diverged_from(folded, extents[p], cuts.get(p)) for p, folded in tables.items()}
        diverged = {partition: at for partition, at in found.items() if at is not None}
        for partition, at in diverged.items():
            error = divergence(partition, at, tables[partition].end)
            if self.options.fail_on_data_loss:
                raise error
            logger.warning("%s", error)
        return diverged

    def _lost(
        self, known: Mapping[TopicPartition, Folded], extents: Mapping[TopicPartition, Extent]
    ) -> dict[TopicPartition, list[Range]]:
        """Of which offsets of tables the brokers have no longer the same records, whether that is recorded or not."""
        found = self._diverged(known, extents)
        return {p: union([*f.diverged, *([(found[p], f.end)] if p in found else ())]) for p, f in known.items()}

    def _reload_job(self, began: float) -> Outcome | None:
        if self._wanted is None:
            self._wanted = self._runner.run(self._resolve_wanted())
        extents = self._runner.run(self._brokers.extents(list(self._wanted)))
        todo: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        waiting = 0
        for partition, wanted in self._wanted.items():
            base = self._target(table_of(self.options, partition.topic), self.options.pipeline)
            base.refresh()
            claims = self._claims(base, partition)
            found = holes(wanted, claims)
            waiting += sum(end - start for start, end in found)
            if found:
                name = reload_name(self.options.pipeline, found[0][0], claims)
                todo.setdefault(name, {})[partition] = found[0]
        if not todo:
            return None
        name, some = min(todo.items())
        targets = {p.topic: self._target(table_of(self.options, p.topic), name) for p in some}
        for target in targets.values():
            target.refresh()
        self._repair_quarantines(targets, extents)
        plan = self._reload_plan(some, targets, extents)
        plan.lag = waiting - sum(plan.ends[p] - plan.starts[p] for p in plan.ends)
        if not plan.ends:
            return None
        outcome = self._finish(plan, targets, began)
        for topic in targets:  # who looks at the table sees what its reload brought
            self._target(table_of(self.options, topic), self.options.pipeline).refresh()
        return outcome

    def _reload_plan(
        self,
        wanted: Mapping[TopicPartition, tuple[int, int]],
        targets: Mapping[str, Target],
        extents: Mapping[TopicPartition, Extent],
    ) -> Plan:
        loaded = _loaded(targets)
        diverged = self._diverged({p: loaded[p.topic].get(p) for p in wanted}, extents)
        spans = {}
        for partition, (start, end) in wanted.items():
            have = Extent(extents[partition].first, min(end, extents[partition].last))
            loss = self.options.fail_on_data_loss
            span = live_span(partition, have, start, known=True, fail_on_data_loss=loss)
            if span is not None:
                spans[partition] = span
        plan = share_out(spans, self._limit(targets))
        plan.exclusive = True
        for partition, at in diverged.items():
            plan.note_divergence(partition, at, wanted[partition][0])
        return plan

    async def _resolve_wanted(self) -> dict[TopicPartition, tuple[int, int]]:
        """The offsets between the two times, a partition: fixed when the reload begins."""
        partitions = await self._brokers.partitions()
        extents = await self._brokers.extents(partitions)
        options = self.options
        low = {} if options.from_ms is None else await self._brokers.offsets(partitions, options.from_ms)
        high = {} if options.until_ms is None else await self._brokers.offsets(partitions, options.until_ms)
        wanted = {}
        for partition, extent in extents.items():
            start, end = low.get(partition, extent.first), high.get(partition, extent.last)
            start = extent.last if start < 0 else start  # no record is as late
            end = extent.last if end < 0 else end
            if start < end:
                wanted[partition] = (start, end)
        return wanted

    def _claim(
        self,
        fresh: Sequence[TopicPartition],
        targets: Mapping[str, Target],
        loaded: Mapping[str, Mapping[TopicPartition, Folded]],
    ) -> bool:
        """Commits where the first run begins, if that is not the start, with nothing in it; returns whether it did.

        So `latest` is the moment of the first run, whenever the first record comes and however often the load is
        started before. What the pipeline has shows which run is the first: a partition of a topic that is loaded
        already, and a topic that comes to match a pattern, begin at their start.
        """
        names = {partition.topic for some in loaded.values() for partition in some}
        seen_all = self.options.topic_pattern is not None and bool(names)
        first = [] if seen_all or self.options.starting == EARLIEST else [p for p in fresh if p.topic not in names]
        if not first:
            return False
        self._resolve_begins(first, self.options.starting)
        starts = {p: live_start(p, self._begin[p], self._claims(targets[p.topic], p)) for p in first}
        order, at = _ordered(targets)
        self._commit(Plan(starts, dict(starts), exclusive=True), order, at, self._job_plan(Plan(), order, at), Result())
        return True

    def _resolve_begins(self, fresh: Sequence[TopicPartition], at: int) -> None:
        """Where partitions begin that the table has nothing of: asked once."""
        unknown = [p for p in fresh if p not in self._begin]
        if not unknown:
            return
        found = self._runner.run(self._brokers.offsets(unknown, at))
        late = [p for p, offset in found.items() if offset < 0]
        ends = self._runner.run(self._brokers.extents(late)) if late else {}
        self._begin |= {p: ends[p].last if p in ends else offset for p, offset in found.items()}

    def _limit(self, targets: Mapping[str, Target]) -> int:
        finding = self.options.format == "json" and self.options.schema is None and self._add_fields
        fresh = finding and any(not len(target.plan().value_columns) for target in targets.values())
        return min(self.options.offsets_per_job, LOAD_FIRST_OFFSETS) if fresh else self.options.offsets_per_job

    def _claims(self, target: Target, partition: TopicPartition) -> list[Claim]:
        with reading(target.lake):
            progress = target.lake.progress().get(partition)
        return [] if progress is None else progress.claims

    def _target(self, table: str, pipeline: str) -> Target:
        key = (table, pipeline)
        if key not in self._targets:
            fields = self._fields(table)
            self._targets[key] = open_target(self.options, table, pipeline, fields)
        return self._targets[key]

    def _fields(self, table: str) -> list[Any]:
        """The columns of a registry's schemas, where a new table is laid out by one of them."""
        layout = Layout.of(self.options)
        if self._registry is None or not layout.needs:
            return []
        topics = [topic for topic in self.options.topics if table_of(self.options, topic) == table]
        self._registry.learn(dict.fromkeys(topics, ()))
        found = [each for topic in topics for each in self._registry.columns(topic, (*OWN_COLUMNS, *layout.own))]
        return list({each.name: each for each in found}.values())

    def _repair_quarantines(self, targets: Mapping[str, Target], extents: Mapping[TopicPartition, Extent]) -> None:
        """Before the first job: gives quarantines what a crash kept from them, unless the brokers have lost it."""
        for topic, target in targets.items():
            key = (target.lake.uri, target.lake.pipeline)
            if key in self._repaired:
                continue
            behind = {p: span for p, span in target.behind().items() if p in extents}
            if behind:
                self._learn({p.topic: () for p in behind}, {topic: target})
                lost = self._lost({p: target.loaded()[p] for p in behind}, extents)
                how: dict[str, Any] = {"connect": self._connect(), "format_plan": self._format_plan()}
                loss = self.options.fail_on_data_loss
                try:
                    repair(target, behind, extents, lost, **how, fail_on_data_loss=loss)
                except Exception as error:
                    raise failed_commit(target.quarantine or target.lake, error) from error
            self._repaired.add(key)

    def _finish(self, plan: Plan, targets: Mapping[str, Target], began: float) -> Outcome:
        """Runs the tasks of a plan, and commits."""
        order, at = _ordered(targets)
        self._learn({topic: () for topic in targets if self._registry and topic not in self._registry.readers}, targets)
        job = self._job_plan(plan, order, at)
        small = plan.size <= self.options.inline_offsets
        if not plan.ranges:
            result = Result()
        else:
            session = None if small else self._session()
            result = run_inline(job) if session is None else run_on_spark(session, job)
        if result.unknown or result.schemas:
            for index, unknown in result.unknown.items():
                self._widen(order[index], unknown)
            self._learn(result.schemas, targets)
            discard(job, result)  # of the tasks that knew all their records
            raise _Again
        self._check_same_logs(plan, targets, job, result)
        version = self._commit(plan, order, at, job, result)
        files = sum(len(some) for (_, quarantine), some in result.files.items() if not quarantine)
        rows, quarantined = result.rows(quarantine=False), result.rows(quarantine=True)
        return Outcome(version, rows, files, plan.lag, time.monotonic() - began, quarantined)

    def _session(self) -> SparkSession | None:
        """The session, started if need be, that knows the tasks' source."""
        if self._spark is None:
            return None
        session = self._spark() if callable(self._spark) else self._spark
        if not self._registered:
            from penstock.spark.load.writing import LoadSource

            session.dataSource.register(LoadSource)
            self._registered = True
        self._spark = session
        return session

    def _job_plan(self, plan: Plan, targets: Sequence[Target], at: Mapping[str, int]) -> JobPlan:
        connect = self._connect()
        inline = plan.size <= self.options.inline_offsets
        told: dict[str, Any] = {name: getattr(connect, name) for name in connect.__slots__}
        told["security"] = connect.security.properties
        if inline and connect.read == "auto":
            told["read"] = "broker"  # what is new is in the broker's memory; finding files costs more than it saves
        session = None if inline or not plan.ranges else self._session()
        at_once = (os.cpu_count() or 1) if session is None else parallelism(session)
        tasks = tasks_of(plan.ranges, 1 if inline else at_once)
        return JobPlan(told, self.options.skip_corrupt, self._format_plan(), [t.plan() for t in targets], at, tasks)

    def _connect(self) -> Connect:
        o = self.options
        return Connect(o.bootstrap, o.client_id, o.timeout_ms, o.isolation, o.read, tuple(o.log_dirs), o.security)

    def _format_plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = {"name": self.options.format}
        if self.options.format == "json":
            plan["add_fields"] = self._add_fields
        if self._registry is not None:
            plan |= self._registry.plan()
        return plan

    def _widen(self, target: Target, unknown: Mapping[str, Any]) -> None:
        """Adds columns, as many as a table may have; records with further new fields are quarantined from then on."""
        import pyarrow as pa

        room = LOAD_COLUMNS_MAX - len(target.lake.columns)
        chosen = sorted(unknown.items())[: max(0, room)]
        if len(chosen) < len(unknown):
            self._add_fields = False
        with reading(target.lake):
            target.lake.add_columns([pa.field(name, kind) for name, kind in chosen])

    def _learn(self, seen: Mapping[str, Any], targets: Mapping[str, Target]) -> None:
        """Asks the schema registry for what is new, and gives the tables the columns that it takes."""
        if self._registry is None or not seen:
            return
        self._registry.learn(seen)
        for topic in seen:
            target = targets[topic]
            found = self._registry.columns(topic, target.plan().own_columns)
            lacking = {each.name: each.type for each in found if each.name not in target.lake.columns.names}
            if lacking and (self._add_fields or not len(target.plan().value_columns)):
                self._widen(target, lacking)

    def _check_same_logs(self, plan: Plan, targets: Mapping[str, Target], job: JobPlan, result: Result) -> None:
        """Fetches go by name, to whoever leads then. So a job may have read of a topic that was deleted and made again
        meanwhile, or of a leader whose log was cut since: such a job is not committed."""
        present = set(self._runner.run(self._brokers.partitions(fresh=True)))
        read = {TopicPartition(each.topic, each.topic_id, each.partition): each.start for each in plan.ranges}
        seen = {p: [SeenEpoch(*each) for each in some.items()] for p, some in result.epochs.items() if p in present}
        loaded = _loaded(targets)
        for partition, some in seen.items():
            folded = loaded[partition.topic].get(partition)
            if folded is not None and folded.last_epoch is not None and not plan.diverges(partition):
                some.append(folded.last_epoch)
        if not read.keys() <= present or self._runner.run(self._brokers.cuts(seen, read)):
            discard(job, result)
            raise _Again

    def _commit(
        self, plan: Plan, targets: Sequence[Target], at: Mapping[str, int], job: JobPlan, result: Result
    ) -> int:
        """Table by table; a crash in between leaves the others to be planned again."""
        version = 0
        gaps = [*plan.gaps, *result.gaps]
        epochs = result.newest_epochs()
        for index, target in enumerate(targets):
            starts = {p: start for p, start in plan.starts.items() if at[p.topic] == index}
            ends = {p: plan.ends[p] for p in starts}
            mine = [gap for gap in gaps if gap.partition in starts]
            if not starts:
                continue
            with reading(target.lake):
                before = {p: target.lake.end(p) for p in starts}
            files = result.files.get((index, False), [])
            try:
                version = target.lake.commit(files, starts, ends, mine, exclusive=plan.exclusive, epochs=epochs)
            except LakeConflictError:  # its own files stay for vacuum: the store may have been asked to name them
                unasked = {key: some for key, some in result.files.items() if key[0] > index or key == (index, True)}
                discard(job, Result(files=unasked))
                target.refresh()
                if any(target.lake.end(p) != before[p] for p in starts):
                    raise
                raise _Again from None  # another pipeline's commit came between: its claims must be looked at
            except Exception as error:
                raise failed_commit(target.lake, error) from error
            try:
                target.commit_quarantine(result.files.get((index, True), []), starts, ends, mine)
            except Exception as error:
                raise failed_commit(target.quarantine or target.lake, error) from error
        return version


def _loaded(targets: Mapping[str, Target]) -> dict[str, Mapping[TopicPartition, Folded]]:
    """What each topic's table has, read once a table."""
    found = {id(target): target.loaded() for target in targets.values()}
    return {topic: found[id(target)] for topic, target in targets.items()}


def _ordered(targets: Mapping[str, Target]) -> tuple[list[Target], dict[str, int]]:
    """The tables, each once, and which of them is each topic's."""
    order = list({id(each): each for each in targets.values()}.values())
    return order, {topic: next(i for i, each in enumerate(order) if each is t) for topic, t in targets.items()}
