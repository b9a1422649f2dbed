"""`df.write.format("penstock")` and `writeStream`: rows of Spark to topics, at least once or exactly once.

The driver checks options, columns and the topic before a task starts. Each task queues its rows with a producer and
ends when the brokers have acknowledged all of them; a record that they have not fails the task. Spark then repeats the
task, or the microbatch, and the rows that had been written are there twice: a sink without transactions cannot know.
Within a task the producer is idempotent: its own retries never double a record.

With `penstock.exactly.once` no task talks to a broker: each stages its rows (`staging`), and the driver's commit sends
them in one transaction (`committing`).
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.client.client import Client
from penstock.errors import ConfigError, ErrorCode, RequestError
from penstock.spark.limits import SINK_ROWS_AT_ONCE
from penstock.spark.write.committing import Committer, last_marker
from penstock.spark.write.markers import MARKERS, Marker
from penstock.spark.write.options import BOOTSTRAP, WriteOptions, parse
from penstock.spark.write.rows import SinkError, columns_of, keyed_rows, rows_of
from penstock.spark.write.staged_files import StageWriter, delete_staged
from penstock.spark.write.staging import Staged, Stager, StagingPlan

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells a task of a streaming query about it."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """A task's report to the driver: how many records the brokers acknowledged."""

    records: int


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """A task's report of the rows that it has staged for the driver's commit."""

    staged: Staged


class BatchWriter(DataSourceArrowWriter):
    """One `df.write`. Raises ConfigError, SinkError or UnreachableError before anything is written."""

    def __init__(self, schema: StructType, options: Mapping[str, str], overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a topic cannot be overwritten, rows are only added to it: use mode append")
        self._options, self._names, self._partitions = checked(schema, options)
        sink = self._options.exactly_once
        self._write_id = (sink and sink.write_id) or uuid.uuid4().hex
        self._last = None if sink is None else asyncio.run(marker_now(self._options))

    def write(self, iterator: Iterator[Any]) -> Written | StagedRows:
        if self._options.exactly_once is None:
            return write(iterator, self._options, self._names)
        return stage(iterator, self._options, self._names, self._partitions, Marker(self._write_id, None))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._options, messages, None, self._last)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        delete_staged(stages_of(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """One `df.writeStream`. Any output mode: whatever rows a microbatch has are added to the topic."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._options, self._names, self._partitions = checked(schema, options)
        sink = self._options.exactly_once
        if sink is not None and sink.write_id is not None:
            raise ConfigError("option penstock.write.id is for a write; a stream has its query's id and batch numbers")

    def write(self, iterator: Iterator[Any]) -> Written | StagedRows:
        if self._options.exactly_once is None:
            return write(iterator, self._options, self._names)
        return stage(iterator, self._options, self._names, self._partitions, microbatch())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        commit(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        delete_staged(stages_of(messages))


def checked(schema: StructType, options: Mapping[str, str]) -> tuple[WriteOptions, tuple[str, ...], int]:
    """The options, the columns to write, and how many partitions the option topic's has (0 if that is not known yet).

    Raises ConfigError, SinkError or UnreachableError.
    """
    parsed = parse(options)
    names = columns_of({field.name: field.dataType.simpleString() for field in schema.fields}, parsed)
    if (sink := parsed.exactly_once) is not None:
        topic = asked(parsed)
        own = os.path.join(sink.staging, f"{topic.cluster_id}.{sink.transactional_id}")
        return replace(parsed, exactly_once=replace(sink, staging=own)), names, topic.partitions
    from penstock.spark.write.sending import keep, take

    sending = take(parsed)  # refuses wrong settings
    partitions = 0 if parsed.topic is None else sending.check(parsed.topic)
    keep(parsed, sending)
    return parsed, names, partitions


def write(batches: Iterator[Any], options: WriteOptions, names: tuple[str, ...]) -> Written:
    """Writes the batches of one task and waits until all is acknowledged. Raises SinkError, UnreachableError."""
    from penstock.spark.write.sending import keep, take

    sending = take(options)
    records = 0
    try:
        for batch in batches:
            sending.send(batch, names)
            records += batch.num_rows
        sending.finish()
    except BaseException:
        sending.discard()
        raise
    keep(options, sending)
    return Written(records)


def stage(
    batches: Iterator[Any], options: WriteOptions, names: tuple[str, ...], partitions: int, marker: Marker
) -> StagedRows:
    """Stages the rows of one task for the batch that `marker` names. Raises SinkError."""
    sink, topic = options.exactly_once, options.topic
    assert sink is not None
    assert topic is not None
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    writer = StageWriter(sink.staging, marker.query, marker.batch, task)
    plan = StagingPlan(topic, partitions, sink.codec, sink.level, sink.batch_bytes)
    stager = Stager(plan, writer.write, task, round(time.time() * 1000))
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, SINK_ROWS_AT_ONCE):
                some = batch.slice(start, SINK_ROWS_AT_ONCE)
                if (keyed := keyed_rows(some, names, partitions)) is not None:
                    stager.add_keyed(*keyed)
                else:
                    stager.add(rows_of(some, names, topic))
        return StagedRows(writer.finish(stager.finish()))
    except BaseException:
        writer.discard()
        raise


def commit(
    options: WriteOptions,
    messages: Sequence[WriterCommitMessage | None],
    batch_id: int | None,
    last: Marker | None = None,
) -> None:
    """Commits what the tasks have staged, if the sink writes exactly once; `last` is of `marker_now` as a write began.

    Raises SinkError, UnreachableError.
    """
    sink, topic = options.exactly_once, options.topic
    stages = stages_of(messages)
    if sink is None or not stages:
        return
    assert topic is not None
    markers = {Marker(staged.query, staged.batch) for staged in stages}
    if len(markers) != 1 or stages[0].batch != batch_id:
        found = ", ".join(sorted(marker.name for marker in markers))
        raise SinkError(f"the tasks have staged {found}, and batch {batch_id} is to be committed")
    committer = Committer(
        options.bootstrap, topic, sink, wall_ms=lambda: round(time.time() * 1000), security=options.security
    )
    asyncio.run(committer.commit(markers.pop(), stages, last))


def stages_of(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """What the tasks have staged, in their order; those that failed have no message."""
    return [message.staged for message in messages if isinstance(message, StagedRows)]


def microbatch() -> Marker:
    """The microbatch that this task belongs to, as Spark tells its tasks. Raises SinkError."""
    context = TaskContext.get()
    query = batch = None
    if context is not None:
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
    if query is None or batch is None:
        raise SinkError(
            f"Spark does not say which microbatch this task belongs to ({QUERY_PROPERTY}, {BATCH_PROPERTY})"
        )
    return Marker(query, int(batch))


class Topic(NamedTuple):
    """What the brokers say of the topic: how many partitions it has, and in which cluster it is."""

    partitions: int
    cluster_id: str


def asked(options: WriteOptions) -> Topic:
    """Asks the brokers for the topic. Raises SinkError, UnreachableError."""
    topic = options.topic
    assert topic is not None

    async def ask() -> Topic:
        async with Client(options.bootstrap, timeout_ms=options.max_block_ms, security=options.security) as client:
            partitions = len((await client.topic(topic)).leaders)
            return Topic(partitions, client.cluster_id or "")

    try:
        return asyncio.run(ask())
    except RequestError as error:
        why = f"topic {topic} at {options.bootstrap}: {error}"
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            why = f"there is no topic {topic} at {options.bootstrap}: `penstock topics create` makes one"
        raise SinkError(why) from None
    except ValueError as error:
        raise ConfigError(f"option {BOOTSTRAP}: {error}") from None


async def marker_now(options: WriteOptions) -> Marker | None:
    """The batch that the sink has committed last, as of now; another one may be under way. Raises SinkError."""
    sink = options.exactly_once
    assert sink is not None
    client = Client(
        options.bootstrap, client_id=sink.client_id, timeout_ms=sink.max_block_ms, security=options.security
    )
    async with client:
        try:
            await client.topic(MARKERS)
        except RequestError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return None
        return await last_marker(client, sink.sink_id, others_write=True)
