"""`penstock.value.format` in real Spark, batch and stream: typed columns, bad records beside them, a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

pytest.importorskip("fastavro", reason="needs penstock[avro]")

from interop.spark.load.schema_registry import Registry, avro
from support.protobuf import ORDERS, as_base64, descriptor_set, framed, of

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

DDL = "page string, ms bigint, at timestamp, day date, price decimal(10, 2), tags array<string>, who struct<id: int>"
CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "ms", "type": ["null", "long"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "by", "type": {"type": "map", "values": "int"}},
    ],
}
NEWER = {**CLICK, "fields": [*CLICK["fields"], {"name": "user", "type": "string", "default": "nobody"}]}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.stop()


@pytest.fixture
def topic(broker: LocalBroker, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name[:80])
    broker.create_topic(name, 1)
    return name


def publish(broker: LocalBroker, topic: str, values: Sequence[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for value in values:
        producer.produce(topic, value=value, key=b"k")
    assert producer.flush(30) == 0


def read(
    spark: SparkSession,
    broker: LocalBroker,
    topic: str,
    schema: StructType | str | None = None,
    *,
    stream: bool = False,
    **options: str,
) -> DataFrame:
    reader: Any = (spark.readStream if stream else spark.read).format("penstock")
    reader = reader.options(**{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
    given = {"startingOffsets": "earliest", **{f"penstock.{name}": text for name, text in options.items()}}
    reader = reader.options(**given)
    return (reader if schema is None else reader.schema(schema)).load()


def rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: row.offset)


def test_json_is_what_from_json_makes_of_it_and_bad_records_are_beside_it(
    spark: SparkSession, broker: LocalBroker, topic: str
) -> None:
    from pyspark.sql.functions import col, from_json

    whole = {
        "page": "/\u00e9", "ms": 2**40, "at": "2026-11-27T10:00:00Z", "day": "2026-11-27", "price": 1.25,
        "tags": ["a", None], "who": {"id": 7, "x": 1}, "more": [{}],
    }  # fmt: skip
    good = [json.dumps(whole).encode(), b"{}", b'{"page":null,"tags":[]}', None]
    publish(broker, topic, [*good, b"poison", b'{"ms":"much"}'])
    typed = read(spark, broker, topic, **{"value.format": "json", "value.schema": DDL})
    theirs = read(spark, broker, topic).select("offset", from_json(col("value").cast("string"), DDL).alias("value"))
    assert typed.schema["value"].dataType == theirs.schema["value"].dataType
    ours = rows(typed)
    assert [row.value for row in ours[:4]] == [row.value for row in rows(theirs)[:4]]
    assert ours[0].value.who.id == 7
    assert [(row.value, bytes(row.value_raw)) for row in ours[4:]] == [(None, b"poison"), (None, b'{"ms":"much"}')]
    assert [row.value_error for row in ours[:4]] == [None] * 4
    assert ours[5].value_error == 'ms: "much" is a string, the column is bigint'
    assert bytes(ours[5].key) == b"k"
    assert typed.where("value.ms > 1").select("value.*").columns == typed.schema["value"].dataType.names
    with pytest.raises(Exception, match=f"{topic}-0, offset 4: no valid JSON"):
        read(spark, broker, topic, **{"value.format": "json", "value.schema": DDL, "value.mode": "FAILFAST"}).collect()


def test_a_schema_of_the_frame_types_the_values_and_only_its_columns_are_made(
    spark: SparkSession, broker: LocalBroker, topic: str
) -> None:
    publish(broker, topic, [b'{"page":"/","ms":1}', b"poison"])
    frame = read(
        spark, broker, topic, "offset bigint, value struct<ms: bigint>, value_raw binary", **{"value.format": "json"}
    )
    assert [row.asDict(recursive=True) for row in rows(frame)] == [
        {"offset": 0, "value": {"ms": 1}, "value_raw": None},
        {"offset": 1, "value": None, "value_raw": b"poison"},
    ]
    assert read(spark, broker, topic, "offset bigint", **{"value.format": "json"}).count() == 2


def click(page: str, **more: Any) -> dict[str, Any]:
    return {"page": page, "ms": 1, "at": 0, "price": Decimal(1), "tags": ["t"], "by": {"k": 1}, **more}


def test_avro_has_the_columns_of_the_version_that_was_latest_when_the_frame_was_made(
    spark: SparkSession, broker: LocalBroker, topic: str, registry: Registry
) -> None:
    options = {"value.format": "avro", "schema.registry.url": registry.url}
    old = registry.register(topic, CLICK)
    frame = read(spark, broker, topic, **options)
    new = registry.register(topic, NEWER)
    publish(
        broker, topic, [avro(CLICK, old, click("/a")), avro(NEWER, new, click("/b", user="u", ms=None)), None, b"\0\0"]
    )
    found = rows(frame)
    assert [row.value and (row.value.page, row.value.ms) for row in found] == [("/a", 1), ("/b", None), None, None]
    assert found[0].value.by == {"k": 1}
    assert (str(found[0].value.price), found[0].value.at.timestamp(), found[0].value.tags) == ("1.00", 0.0, ["t"])
    assert [row.value_raw and bytes(row.value_raw) for row in found] == [None, None, None, b"\0\0"]
    users = rows(read(spark, broker, topic, **options).select("offset", "value.user"))
    assert [row.user for row in users] == ["nobody", "u", None, None]
    pinned = read(spark, broker, topic, **options, **{"value.version": "1"})
    assert "user" not in pinned.select("value.*").columns


@pytest.mark.slow
def test_a_stream_of_avro_survives_a_registry_that_is_down_and_reads_each_record_once(
    spark: SparkSession, broker: LocalBroker, topic: str, registry: Registry, tmp_path: Path
) -> None:
    old = registry.register(topic, CLICK)
    publish(broker, topic, [avro(CLICK, old, click(f"/{i}")) for i in range(5)])

    def run() -> Any:
        frame = read(spark, broker, topic, stream=True, **{"value.format": "avro", "schema.registry.url": registry.url})
        writer = frame.select("offset", "value.*", "value_raw").writeStream.format("parquet")
        writer = writer.option("path", str(tmp_path / "rows")).option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    new = registry.register(topic, CLICK | {"doc": "an id that no worker knows"})
    publish(broker, topic, [avro(CLICK, new, click("/5")), b"poison"])
    registry.only_by_id_down = True
    try:
        with pytest.raises(Exception, match="refused"):
            run()
    finally:
        registry.only_by_id_down = False
    run()
    found = sorted(spark.read.parquet(str(tmp_path / "rows")).collect(), key=lambda row: row.offset)
    assert [row.page for row in found] == ["/0", "/1", "/2", "/3", "/4", "/5", None]
    assert bytes(found[-1].value_raw) == b"poison"


def test_framed_json_and_bare_avro(spark: SparkSession, broker: LocalBroker, topic: str, registry: Registry) -> None:
    schema = {"type": "object", "properties": {"page": {"type": "string"}, "n": {"type": "integer"}}}
    number = registry.register(topic, schema, "JSON")
    head = b"\0" + number.to_bytes(4, "big")
    publish(broker, topic, [head + b'{"page":"/","n":1}', b'{"page":"/"}'])
    url = registry.url.replace("://", "://user:secret@")
    frame = read(spark, broker, topic, **{"value.format": "jsonschema", "schema.registry.url": url})
    assert [row.value and row.value.n for row in rows(frame)] == [1, None]
    plan = frame._jdf.queryExecution().toString()
    assert "secret" not in plan
    bare = f"{topic}-bare"
    broker.create_topic(bare, 1)
    publish(broker, bare, [avro(CLICK, 0, click("/bare"))[5:], b""])
    frame = read(spark, broker, bare, **{"value.format": "avro", "value.schema": json.dumps(CLICK)})
    assert [row.value and row.value.page for row in rows(frame)] == ["/bare", None]


def test_protobuf_with_a_registry_and_with_a_descriptor_set(
    spark: SparkSession, broker: LocalBroker, topic: str, registry: Registry, tmp_path: Path
) -> None:
    number = registry.register(topic, as_base64(ORDERS), "PROTOBUF")
    order = of(ORDERS, "shop.Order")
    whole = order(page="/", at={"seconds": 5}, took={"seconds": 1}, status=1, tags=["a"], by={"k": 2}, big=2**64 - 1)
    whole.who.id = 7
    publish(broker, topic, [framed(number, whole, b"\0"), framed(number + 9, whole, b"\0"), None, b"poison"])
    frame = read(spark, broker, topic, **{"value.format": "protobuf", "schema.registry.url": registry.url})
    found = rows(frame)
    value = found[0].value
    assert (value.page, value.at.timestamp(), value.took.total_seconds()) == ("/", 5.0, 1.0)
    assert (value.status, value.tags, value.by, value.big, value.who.id) == ("PAID", ["a"], {"k": 2}, 2**64 - 1, 7)
    assert (value.note, value.child) == (None, None)
    assert [row.value for row in found[1:]] == [None] * 3
    assert found[1].value_error == f"the registry knows no schema {number + 9}"
    assert [row.value_raw and bytes(row.value_raw) for row in found[2:]] == [None, b"poison"]
    bare = f"{topic}-bare"
    broker.create_topic(bare, 1)
    publish(broker, bare, [whole.SerializeToString(), b"\xff"])
    (tmp_path / "orders.desc").write_bytes(descriptor_set(ORDERS))
    options = {"value.format": "protobuf", "value.descriptors": str(tmp_path / "orders.desc")}
    frame = read(spark, broker, bare, **options, **{"value.message": "shop.Order"})
    assert [row.page for row in rows(frame.select("offset", "value.page"))] == ["/", None]
    with pytest.raises(
        Exception, match=r"there is no message shop.Odor \(those of orders.proto: shop.Order, shop.Refund"
    ):
        read(spark, broker, bare, **options, **{"value.message": "shop.Odor"})


def test_what_cannot_be_read_is_said_when_the_frame_is_made(
    spark: SparkSession, broker: LocalBroker, topic: str, registry: Registry
) -> None:
    for options, said in (
        ({"value.format": "protobuf"}, "protobuf needs penstock.schema.registry.url"),
        ({"value.format": "protobuf", "value.descriptors": "/no/such.desc"}, "cannot be read: no such file"),
        ({"value.format": "json"}, "penstock.value.schema is missing"),
        ({"value.format": "avro", "schema.registry.url": registry.url}, f"has no version of the subject {topic}-value"),
    ):
        with pytest.raises(Exception, match=said):
            read(spark, broker, topic, **options)
    registry.up = False
    try:
        with pytest.raises(Exception, match="refused"):
            read(spark, broker, topic, **{"value.format": "avro", "schema.registry.url": registry.url})
    finally:
        registry.up = True
