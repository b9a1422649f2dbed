"""Typed values with a real registry: evolution of each kind of schema, unknown ids, and a registry that dies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from interop.apicurio_peer import ApicurioPeer

pytest.importorskip("fastavro", reason="needs penstock[avro]")

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from support.protobuf import WHO, Field, as_base64, field, file, framed, message, of

from penstock.testing.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow, pytest.mark.long]

PAGE = {"name": "page", "type": "string"}
OLD = {"type": "record", "name": "Click", "fields": [PAGE]}
NEW = {**OLD, "fields": [PAGE, {"name": "user", "type": "string", "default": "nobody"}]}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def registry() -> Iterator[ApicurioPeer]:
    with ApicurioPeer() as registry:
        yield registry


@pytest.fixture
def client(registry: ApicurioPeer) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def publish(broker: LocalBroker, topic: str, values: Sequence[bytes | None]) -> None:
    broker.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value=value)
    assert producer.flush(30) == 0


def read(spark: SparkSession, broker: LocalBroker, topic: str, url: str, kind: str, **more: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "penstock.value.format": kind,
        "penstock.schema.registry.url": url,
    }
    return spark.read.format("penstock").options(**options, **more).load()


def rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: row.offset)


def unknown(value: bytes) -> bytes:
    """The value with an id that nobody has registered."""
    return b"\0" + (4_000_000).to_bytes(4, "big") + value[5:]


def test_avro(spark: SparkSession, broker: LocalBroker, registry: ApicurioPeer, client: SchemaRegistryClient) -> None:
    context = SerializationContext("clicks", MessageField.VALUE)
    old = AvroSerializer(client, json.dumps(OLD))({"page": "/a"}, context)
    new = AvroSerializer(client, json.dumps(NEW))({"page": "/b", "user": "u"}, context)
    publish(broker, "clicks", [old, new, unknown(old)])
    found = rows(read(spark, broker, "clicks", registry.url, "avro"))
    assert [row.value and tuple(row.value) for row in found] == [("/a", "nobody"), ("/b", "u"), None]
    assert found[2].value_error == "the registry knows no schema 4000000"
    pinned = read(spark, broker, "clicks", registry.url, "avro", **{"penstock.value.version": "1"})
    assert [row.value and tuple(row.value) for row in rows(pinned)] == [("/a",), ("/b",), None]


def test_json_schema(
    spark: SparkSession, broker: LocalBroker, registry: ApicurioPeer, client: SchemaRegistryClient
) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"page": {"type": "string"}}}
    first = client.register_schema("views-value", Schema(json.dumps(schema), "JSON"))
    schema["properties"]["n"] = {"type": "integer"}
    second = client.register_schema("views-value", Schema(json.dumps(schema), "JSON"))
    values = [
        b"\0" + number.to_bytes(4, "big") + text
        for number, text in ((first, b'{"page":"/a"}'), (second, b'{"page":"/b","n":2}'))
    ]
    publish(broker, "views", [*values, unknown(values[0])])
    found = rows(read(spark, broker, "views", registry.url, "jsonschema"))
    assert [row.value and tuple(row.value) for row in found] == [("/a", None), ("/b", 2), None]
    assert found[2].value_error == "the registry knows no schema 4000000"


def test_protobuf(
    spark: SparkSession, broker: LocalBroker, registry: ApicurioPeer, client: SchemaRegistryClient
) -> None:
    """Descriptors are what Confluent's Python serializer registers; text is what its Java one does."""
    page = field(1, "page", Field.TYPE_STRING)
    old = file(message("Order", page), name="order.proto")
    new = file(message("Order", page, field(2, "ms", Field.TYPE_INT64, optional=True)), WHO, name="order.proto")
    first = client.register_schema("orders-value", Schema(as_base64(old), "PROTOBUF"))
    second = client.register_schema("orders-value", Schema(as_base64(new), "PROTOBUF"))
    values = [
        framed(first, of(old, "shop.Order")(page="/a"), b"\0"),
        framed(second, of(new, "shop.Order")(page="/b", ms=2), b"\0"),
        framed(second, of(new, "shop.Who")(id=1), b"\2\2"),
    ]
    publish(broker, "orders", [*values, unknown(values[0])])
    found = rows(read(spark, broker, "orders", registry.url, "protobuf"))
    assert [row.value and tuple(row.value) for row in found] == [("/a", None), ("/b", 2), None, None]
    assert [row.value_error for row in found[2:]] == [
        "the value is a shop.Who, the column is of shop.Order",
        "the registry knows no schema 4000000",
    ]
    text = 'syntax = "proto3"; package shop; message Order { string page = 1; }'
    client.register_schema("texts-value", Schema(text, "PROTOBUF"))
    publish(broker, "texts", [])
    with pytest.raises(Exception, match="gives the schema as text and not as descriptors"):
        read(spark, broker, "texts", registry.url, "protobuf")


def test_a_registry_that_dies_fails_the_read_and_makes_no_record_a_bad_one(
    spark: SparkSession, broker: LocalBroker
) -> None:
    with ApicurioPeer() as dying:
        context = SerializationContext("last", MessageField.VALUE)
        with SchemaRegistryClient({"url": dying.url}) as client:
            value = AvroSerializer(client, json.dumps(OLD))({"page": "/a"}, context)
        publish(broker, "last", [value])
        frame = read(spark, broker, "last", dying.url, "avro")
        dying.stop()
        with pytest.raises(Exception, match="does not answer"):
            frame.collect()
        with pytest.raises(Exception, match="does not answer"):
            read(spark, broker, "last", dying.url, "avro")
