"""`df.write.format("penstock")` and `writeStream`: rows of Spark to topics, at least once.

The driver checks options, columns and the topic before a task starts. Each task queues its rows with a producer and
ends when the brokers have acknowledged all of them; a record that they have not fails the task. Spark then repeats the
task, or the microbatch, and the rows that had been written are there twice: a sink without transactions cannot know.
Within a task the producer is idempotent: its own retries never double a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.errors import ConfigError
from penstock.spark.write.options import WriteOptions, parse
from penstock.spark.write.rows import columns_of


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """A task's report to the driver: how many records the brokers acknowledged."""

    records: int


class BatchWriter(DataSourceArrowWriter):
    """One `df.write`. Raises ConfigError, SinkError or UnreachableError before anything is written."""

    def __init__(self, schema: StructType, options: Mapping[str, str], overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a topic cannot be overwritten, rows are only added to it: use mode append")
        self._options, self._names = checked(schema, options)

    def write(self, iterator: Iterator[Any]) -> Written:
        return write(iterator, self._options, self._names)


class StreamWriter(DataSourceStreamArrowWriter):
    """One `df.writeStream`. Any output mode: whatever rows a microbatch has are added to the topic."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._options, self._names = checked(schema, options)

    def write(self, iterator: Iterator[Any]) -> Written:
        return write(iterator, self._options, self._names)


def checked(schema: StructType, options: Mapping[str, str]) -> tuple[WriteOptions, tuple[str, ...]]:
    """The options and the columns to write. Raises ConfigError, SinkError or UnreachableError."""
    from penstock.spark.write.sending import keep, take

    parsed = parse(options)
    names = columns_of({field.name: field.dataType.simpleString() for field in schema.fields}, parsed)
    sending = take(parsed)  # refuses wrong settings
    if parsed.topic is not None:
        sending.check(parsed.topic)
    keep(parsed, sending)
    return parsed, names


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
