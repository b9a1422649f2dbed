"""`penstock verify --broker` holds a table against a running broker: its ends, and a sample of its values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
pytest.importorskip("numba", reason="needs penstock[kernels]")

from confluent_kafka import Producer  # noqa: E402
from confluent_kafka import TopicPartition as At  # noqa: E402
from confluent_kafka.admin import AdminClient  # noqa: E402
from support.lake_tables import opened, written  # noqa: E402

from penstock.cli.main import main  # noqa: E402
from penstock.client.client import READ_COMMITTED  # noqa: E402
from penstock.spark.lake.broker import choose  # noqa: E402
from penstock.spark.lake.records import RECORD_SCHEMA, Gap, TopicPartition  # noqa: E402
from penstock.spark.lake.table import LakeTable  # noqa: E402
from penstock.spark.read.decoding import Corrupt  # noqa: E402
from penstock.spark.read.fetching import Connect, decoded, record_batch  # noqa: E402
from penstock.spark.read.plan import OffsetRange  # noqa: E402
from penstock.testing.broker import LocalBroker  # noqa: E402

RECORDS = 300


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def topic(broker: LocalBroker, request: pytest.FixtureRequest) -> str:
    name = request.node.name[:80].replace("[", ".").replace("]", "")
    broker.create_topic(name, 1)
    publish(broker, name, RECORDS)
    return name


def publish(broker: LocalBroker, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for i in range(records):
        headers = [("i", str(i))] if i % 2 else None
        producer.produce(topic, key=f"k{i}", value=f"value {i}", partition=0, headers=headers)
    assert producer.flush(30) == 0


def partition_of(broker: LocalBroker, topic: str) -> TopicPartition:
    import asyncio

    from penstock.client.client import Client

    async def ask() -> TopicPartition:
        async with Client(broker.bootstrap) as client:
            (found,) = (await client.refresh([topic])).topics
            return TopicPartition(topic, found.topic_id, 0)

    return asyncio.run(ask())


def load(
    lake: LakeTable, broker: LocalBroker, topic: str, end: int, *, spoil: int | None = None, column: str = ""
) -> None:
    """Loads the topic up to an offset; one row's column becomes another value if it is spoilt."""
    at = partition_of(broker, topic)
    start = lake.end(at) or 0
    wanted = OffsetRange(at.topic, at.topic_id, 0, start, end)
    batches = []
    for span, got in decoded(Connect(broker.bootstrap, "test", 30_000, READ_COMMITTED, read="broker"), [wanted]):
        assert not isinstance(got, Corrupt)
        rows = record_batch(span, got).to_pylist()
        for row in rows:
            if row["offset"] == spoil:
                row[column] = {"headers": [{"key": "i", "value": b"?"}], "key": None, "value": b"forged"}[column]
        batches.append(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))
    lake.commit(written(lake, *batches), {at: start}, {at: end})


def told(capsys: pytest.CaptureFixture[str], lake: LakeTable, broker: LocalBroker, *more: str) -> tuple[int, dict]:  # type: ignore[type-arg]
    code = main(["verify", lake.uri, "--broker", broker.bootstrap, "--json", *more])
    return code, json.loads(capsys.readouterr().out)["partitions"][0]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_true_copy_is_clean_and_says_how_far_it_is_behind(
    broker: LocalBroker, topic: str, tmp_path: Path, table_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = opened(tmp_path, table_format)
    load(lake, broker, topic, RECORDS - 20)
    code, partition = told(capsys, lake, broker)
    assert code == 0
    assert partition["behind_broker"] == 20
    assert (partition["broker"]["log_start"], partition["broker"]["log_end"]) == (0, RECORDS)
    assert (partition["broker"]["compared"], partition["broker"]["gone_rows"]) == (RECORDS - 20, 0)
    assert main(["verify", lake.uri, "--broker", broker.bootstrap]) == 0
    assert "280 rows were compared with the broker's: no difference" in capsys.readouterr().out


@pytest.mark.parametrize("column", ["key", "value", "headers"])
def test_a_value_that_was_changed_is_found(
    broker: LocalBroker, topic: str, tmp_path: Path, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = opened(tmp_path, "delta")
    load(lake, broker, topic, RECORDS, spoil=123, column=column)
    assert main(["verify", lake.uri]) == 0, "offsets alone cannot tell"
    capsys.readouterr()
    code, partition = told(capsys, lake, broker)
    assert code == 1
    assert partition["broker"]["changed"] == [[123, column]]
    assert main(["verify", lake.uri, "--broker", broker.bootstrap]) == 1
    said = f"1 row not as the broker has them ({column} in 1): 123 ({column})"
    assert said in capsys.readouterr().out


def test_records_that_the_broker_has_and_the_table_calls_a_gap_are_named(
    broker: LocalBroker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = opened(tmp_path, "delta")
    load(lake, broker, topic, 290)
    at = partition_of(broker, topic)
    lake.commit([], {at: 290}, {at: RECORDS}, [Gap(at, 290, RECORDS, "compacted")])
    assert main(["verify", lake.uri]) == 0, "the table is consistent with itself"
    capsys.readouterr()
    code, partition = told(capsys, lake, broker)
    assert code == 1
    assert partition["broker"]["absent"] == list(range(290, RECORDS))


def test_what_the_broker_no_longer_has_is_no_fault(
    broker: LocalBroker, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = opened(tmp_path, "delta")
    load(lake, broker, topic, 200)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([At(topic, 0, 150)]).values():
        future.result(30)
    code, partition = told(capsys, lake, broker, "--sample", "10")
    assert code == 0
    assert (partition["broker"]["log_start"], partition["behind_broker"]) == (150, 100)
    assert partition["broker"]["compared"] == 10


def test_a_sample_is_spread_over_what_both_have_and_ends_with_the_newest() -> None:
    from uuid import UUID

    from penstock.spark.lake.broker import BrokerVerdict
    from penstock.spark.lake.records import Progress

    at = TopicPartition("clicks", UUID(int=1), 0)
    progress = {at: Progress(100, 1_000_000, [])}
    ranges = choose(progress, {at: BrokerVerdict(5000, 900_000, 0, 0, 0)}, 1000, seed=7)[at]
    assert sum(end - start for start, end in ranges) == 1000
    assert all(5000 <= start < end <= 900_000 for start, end in ranges)
    assert ranges == sorted(ranges)
    assert ranges[-1][1] == 900_000
