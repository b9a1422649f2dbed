"""`df.write` and `df.writeStream` into topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from interop.spark.write.reading import records_of

from penstock.records.partitioner import partition_for_key
from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
PARTITIONS = 3
HEADERS = "array<struct<key:string,value:binary>>"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
        yield broker


def write(frame: DataFrame, broker: LocalBroker, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap).mode(mode)
    writer.options(**options).save()


def read(spark: SparkSession, broker: LocalBroker, topic: str) -> DataFrame:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("subscribe", topic).option("includeHeaders", "true").load()


def test_rows_with_keys_headers_and_nulls_go_to_a_topic_and_come_back(spark: SparkSession, broker: LocalBroker) -> None:
    broker.create_topic("clicks", PARTITIONS)
    frame = spark.range(1000).selectExpr(
        "cast(id as string) as key",
        "if(id % 5 = 0, null, concat('value ', id)) as value",
        "if(id % 2 = 0, null, array(struct('i' as key, cast(cast(id as string) as binary) as value))) as headers",
    )
    write(frame, broker, topic="clicks")
    rows = {int(bytes(row.key)): row for row in read(spark, broker, "clicks").collect()}
    assert sorted(rows) == list(range(1000))
    assert all(row.partition == partition_for_key(str(key).encode(), PARTITIONS) for key, row in rows.items())
    assert rows[10].value is None
    assert rows[7].value == b"value 7"
    assert [(header.key, bytes(header.value)) for header in rows[7].headers] == [("i", b"7")]
    assert not rows[8].headers


def test_what_is_read_of_one_topic_can_be_written_to_another_as_it_is(spark: SparkSession, broker: LocalBroker) -> None:
    broker.create_topic("from", PARTITIONS)
    broker.create_topic("to", PARTITIONS)
    frame = spark.sql(
        "select cast(id as string) value, cast(id % 3 as int) partition, timestamp_millis(id) timestamp "
        "from range(1, 100)"
    )
    write(frame, broker, topic="from", **{"penstock.timestamps": "true"})
    write(read(spark, broker, "from"), broker, topic="to", **{"penstock.timestamps": "true"})
    assert records_of(broker.bootstrap, "to") == records_of(broker.bootstrap, "from")
    assert all(each.timestamp_ms == int(each.value or b"") for each in records_of(broker.bootstrap, "to"))


def test_a_stream_goes_on_where_it_was_stopped(spark: SparkSession, broker: LocalBroker, tmp_path: Path) -> None:
    broker.create_topic("in", 2)
    broker.create_topic("out", 2)

    def run(first: int, end: int) -> None:
        write(spark.range(first, end).selectExpr("cast(id as string) as value"), broker, topic="in")
        source = spark.readStream.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap)
        frame = source.option("subscribe", "in").option("startingOffsets", "earliest").load()
        sink = frame.selectExpr("value", "value as key").writeStream.format("penstock")
        sink = sink.option("kafka.bootstrap.servers", broker.bootstrap).option("topic", "out")
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query = sink.start()
        assert query.awaitTermination(60)

    run(0, 300)
    assert len(records_of(broker.bootstrap, "out")) == 300
    run(300, 500)
    found = records_of(broker.bootstrap, "out")
    assert sorted(int(each.value or b"") for each in found) == list(range(500))
    assert all(each.partition == partition_for_key(each.key or b"", 2) for each in found)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["id"], {"topic": "refused"}, "column `value` is missing; the rows have id"),
        (["id as value"], {"topic": "refused"}, "column `value` is bigint, it must be string or binary"),
        (["'v' as value"], {}, "set the option topic, or add a column `topic`"),
        (["'v' as value"], {"topic": "refused", "kafka.linger": "5"}, "unknown option kafka.linger; did you mean"),
        (["'v' as value"], {"topic": "refused", "kafka.acks": "9999"}, "is outside allowed range"),
        (["'v' as value"], {"topic": "nowhere", "kafka.max.block.ms": "200"}, "there is no topic nowhere at"),
        (["'v' as value", "7 as partition"], {"topic": "refused"}, "a row's column `partition` is 7"),
        (["'v' as value", "cast(null as string) as topic"], {}, "a row has no topic"),
        (["repeat('v', 5000) as value"], {"topic": "refused"}, "MSG_SIZE_TOO_LARGE"),
    ],
)
def test_what_cannot_be_written_is_an_error_that_says_why(
    spark: SparkSession, broker: LocalBroker, columns: list[str], options: dict[str, str], message: str
) -> None:
    if not list(broker.data_dir.glob("refused-*")):
        broker.create_topic("refused", PARTITIONS, {"max.message.bytes": "2000"})
    frame = spark.range(1).selectExpr(*columns)
    with pytest.raises(Exception, match=re.escape(message)):
        write(frame, broker, **options)
    assert records_of(broker.bootstrap, "refused") == []


def test_a_topic_is_not_overwritten(spark: SparkSession, broker: LocalBroker) -> None:
    frame: Any = spark.range(1).selectExpr("'v' as value")
    with pytest.raises(Exception, match="rows are only added to it: use mode append"):
        write(frame, broker, "overwrite", topic="refused")
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            write(frame, broker, mode, topic="refused")
