"""The sink on Apache Kafka, beside Java's own producer."""

from __future__ import annotations

import pyarrow as pa
import pytest
from interop.kafka_peer import KafkaPeer, run_java_source
from interop.spark.write.reading import records_of

from penstock.spark.write.options import parse
from penstock.spark.write.sink import write

pytestmark = pytest.mark.java
PARTITIONS = 7
JAVA_PRODUCER = """
import java.util.Map;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

public class KeyedProducer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", arguments[0]);
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<byte[], byte[]>(config, bytes, bytes)) {
            for (String line : new String(System.in.readAllBytes()).split("\\n")) {
                producer.send(new ProducerRecord<>(arguments[1], line.getBytes("UTF-8"), new byte[0]));
            }
        }
    }
}
"""


def test_equal_keys_go_where_javas_producer_sends_them(kafka_peer: KafkaPeer) -> None:
    for topic in ("sink-java", "sink-ours"):
        kafka_peer.create_topic(topic, PARTITIONS)
    keys = ["", "é", *(f"user-{number}" for number in range(300))]
    run_java_source(JAVA_PRODUCER, kafka_peer.bootstrap, "sink-java", stdin="\n".join(keys))
    options = parse({"kafka.bootstrap.servers": kafka_peer.bootstrap, "topic": "sink-ours"})
    write(iter([pa.record_batch({"value": pa.array(keys), "key": pa.array(keys)})]), options, ("value", "key"))
    java, ours = (
        {each.key: each.partition for each in records_of(kafka_peer.bootstrap, topic)}
        for topic in ("sink-java", "sink-ours")
    )
    assert len(ours) == len(keys)
    assert ours == java
