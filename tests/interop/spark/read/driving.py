"""What Spark does with a streaming reader, without Spark: offsets go through JSON, readers and tasks are pickled."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock.spark.read.options import parse
from penstock.spark.read.source import COLUMNS, HEADERS, BatchReader
from penstock.spark.read.streaming import StreamReader

ALL = (*COLUMNS, *HEADERS)
Row = tuple[Any, ...]


class Query:
    """A streaming query: `offset` is what its checkpoint holds; `None` before its first microbatch."""

    def __init__(self, bootstrap: str, offset: dict[str, Any] | None = None, **options: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap, **options}
        self.reader = StreamReader(parse(given, stream=True), ALL)
        try:
            self.offset = through_json(self.reader.initialOffset() if offset is None else offset)
        except BaseException:
            self.reader.stop()
            raise

    def plan(self) -> dict[str, Any]:
        """The end of the next microbatch."""
        return through_json(self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit()))

    def run(self, end: dict[str, Any]) -> list[Row]:
        """Runs a planned microbatch and commits it."""
        found = read(self.reader, self.reader.partitions(self.offset, end))
        self.offset = end
        return found

    def step(self) -> list[Row]:
        """Plans, runs and commits one microbatch; nothing when there is nothing new."""
        end = self.plan()
        return [] if end == self.offset else self.run(end)

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()


def batch(bootstrap: str, **options: str) -> list[Row]:
    """The rows of a batch read."""
    reader = BatchReader(parse({"kafka.bootstrap.servers": bootstrap, **options}), ALL)
    return read(reader, reader.partitions())


def read(reader: StreamReader | BatchReader, tasks: Sequence[Any]) -> list[Row]:
    """The rows of all tasks, sorted by topic, partition and offset."""
    batches = [batch for task in tasks for batch in pickle.loads(pickle.dumps(reader)).read(through_pickle(task))]
    return sorted(
        (as_row(each) for each in (pa.Table.from_batches(batches).to_pylist() if batches else [])), key=position
    )


def as_row(given: Mapping[str, Any]) -> Row:
    """(topic, partition, offset, timestamp ms, timestamp type, key, value, headers)"""
    headers = [(header["key"], header["value"]) for header in given["headers"] or ()]
    at = round(given["timestamp"].timestamp() * 1000)
    return (
        *(given["topic"], given["partition"], given["offset"], at, given["timestampType"]),
        *(given["key"], given["value"], headers),
    )


def position(row: Row) -> Row:
    return row[:3]


def through_json(offset: dict[str, Any]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(json.dumps(offset))
    return parsed


def through_pickle(task: Any) -> Any:
    return pickle.loads(pickle.dumps(task))


def consumed(bootstrap: str, topics: Sequence[str], *, isolation: str = "read_uncommitted") -> list[Row]:
    """What librdkafka's consumer gets of whole topics, in the form of `as_row`."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "rows beside a client",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    there = consumer.list_topics(timeout=10).topics
    partitions = [TopicPartition(name, index, 0) for name in topics for index in there[name].partitions]
    for each in partitions:
        each.offset = consumer.get_watermark_offsets(each, timeout=10)[0]
    consumer.assign(partitions)
    rows, ended = [], 0
    while ended < len(partitions):
        message = consumer.poll(10)
        assert message is not None, "the consumer got nothing for ten seconds"
        if message.error():
            ended += 1  # the end of a partition
            continue
        kind, at = message.timestamp()
        rows.append(
            (
                *(message.topic(), message.partition(), message.offset(), at, kind - 1),
                *(message.key(), message.value(), message.headers() or []),
            )
        )
    consumer.close()
    return sorted(rows, key=position)


def publish(
    bootstrap: str, topic: str, partition: int, first: int, last: int, *, first_ms: int = 0, **settings: object
) -> None:
    """Records with the keys first to last - 1, every fifth value null, every other one with headers.

    Their times are now, or `first_ms` plus the key.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    for i in range(first, last):
        value = None if i % 5 == 4 else str(i)
        headers = [("i", str(i)), ("n", None)] if i % 2 else None
        producer.produce(topic, value, str(i), partition, timestamp=first_ms and first_ms + i, headers=headers)
    assert producer.flush(30) == 0


def keys(rows: Sequence[Row]) -> list[int]:
    """The numbers that `publish` gave the records, sorted."""
    return sorted(int(row[5]) for row in rows)


def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """Creates a topic; `configs` have `_` for `.` in their names."""
    given = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, partitions, 1, config=given)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(30)


def delete(bootstrap: str, topic: str) -> None:
    """Deletes a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    """Gives a topic more partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    """Deletes records as retention would."""
    at = TopicPartition(topic, partition, before)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.delete_records([at]).values():
        answer.result(30)
