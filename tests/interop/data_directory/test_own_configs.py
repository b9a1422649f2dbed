"""A topic config that Kafka does not know: Kafka serves the topic all the same, and lets it only be removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from interop.data_directory.turns import TIMEOUT_S, DataDirectory
from interop.kafka_peer import require_kafka

pytestmark = [pytest.mark.java, pytest.mark.slow]
NAME = "penstock.log.fsync"
RECORDS = 200


def produce(bootstrap: str, text: str) -> None:
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("promised", f"{text} {number}", on_delivery=lambda error, _: told.append(error))
    producer.flush(TIMEOUT_S)
    assert told == [None] * RECORDS


def values(bootstrap: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    consumer.assign([TopicPartition("promised", 0, 0)])
    found = [(message.value() or b"").decode() for message in consumer.consume(count, TIMEOUT_S)]
    consumer.close()
    return found


def alter(bootstrap: str, name: str, value: str | None, operation: AlterConfigOpType) -> None:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, "promised", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(TIMEOUT_S)


def test_kafka_serves_a_topic_whose_records_count_on_disk(tmp_path: Path) -> None:
    require_kafka()
    with DataDirectory(tmp_path, formatted_by="penstock") as shared:
        at = shared.bootstrap
        with shared.served_by("penstock"):
            topic = NewTopic("promised", 1, 1, config={NAME: "group"})
            admin = AdminClient({"bootstrap.servers": at})
            admin.create_topics([topic])["promised"].result(TIMEOUT_S)
            produce(at, "ours")
        with shared.served_by("kafka"):
            assert len(values(at, RECORDS)) == RECORDS
            produce(at, "theirs")
            alter(at, "retention.ms", "86400000", AlterConfigOpType.SET)
            with pytest.raises(KafkaException, match=NAME):
                alter(at, NAME, "none", AlterConfigOpType.SET)
            alter(at, NAME, None, AlterConfigOpType.DELETE)
        with shared.served_by("penstock"):
            found = values(at, 2 * RECORDS)
            assert found == [f"{who} {number}" for who in ("ours", "theirs") for number in range(RECORDS)]
