"""What the tests of the load share: a topic with records in it, a load that catches up, the proof."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from interop.spark.load.both_tables import PairVerdict, verify_both

from penstock.spark.lake.reading import batches_of
from penstock.spark.lake.verify import PartitionVerdict
from penstock.spark.load.load import Load, LoadOptions, Outcome
from penstock.testing.broker import LocalBroker

PARTITIONS = 3


def publish(broker: LocalBroker, topic: str, records: int, *, partitions: int = PARTITIONS) -> None:
    """Records `value i`, round and round the partitions."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for i in range(records):
        producer.produce(topic, value=f"value {i}", partition=i % partitions, headers=[("i", str(i))])
    assert producer.flush(30) == 0


def publish_values(
    broker: LocalBroker, topic: str, *values: bytes | None, partition: int = 0, timestamp_ms: int = 0
) -> None:
    """These values, in this order, all of one time if it is given."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value=value, key=b"k", partition=partition, timestamp=timestamp_ms)
    assert producer.flush(30) == 0


def options(broker: LocalBroker, topic: str, table: Path, **more: Any) -> LoadOptions:
    return LoadOptions(broker.bootstrap, [topic], str(table), "test", **more)


def caught_up(load: Load) -> int:
    """Loads to the end; how many jobs committed."""
    jobs: list[Outcome] = []
    load.run(threading.Event(), 0, jobs.append, once=True)
    return len(jobs)


def total(verdicts: list[PartitionVerdict]) -> int:
    assert all(verdict.clean for verdict in verdicts), verdicts
    return sum(verdict.rows for verdict in verdicts)


def rows(load: Load, *columns: str, topic: str | None = None) -> list[dict[str, Any]]:
    """The table's rows by partition and offset, without nulls."""
    found = [
        row for batch in batches_of(load.lake, [*columns, "partition", "offset"], topic) for row in batch.to_pylist()
    ]
    found.sort(key=lambda row: (row["partition"], row["offset"]))
    return [{name: row[name] for name in columns if row[name] is not None} for row in found]


def proof(load: Load) -> PairVerdict:
    """Of the table and its quarantine."""
    found = verify_both(load.lake, load.quarantines[load.lake.uri])
    assert found.clean, found
    return found
