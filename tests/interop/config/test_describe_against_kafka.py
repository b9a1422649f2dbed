"""DescribeConfigs of one node of Kafka and of ours, with the same properties file, dynamic configs, topic and group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.kafka_peer import KafkaPeer, run_java_source

from penstock.config import properties
from penstock.config.describe import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_group,
    describe_topic,
)
from penstock.config.server import Settings
from penstock.config.setting import Source

pytestmark = pytest.mark.java

DESCRIBE = """
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;

public class DescribeConfigs {
    static String quoted(Object value) {
        return value == null ? "null"
            : "\\"" + value.toString().replace("\\\\", "\\\\\\\\").replace("\\"", "\\\\\\"") + "\\"";
    }

    static boolean missing(Admin admin) throws Exception {
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        Config config = admin.describeConfigs(List.of(broker)).all().get().get(broker);
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "described");
        Config ofGroup = admin.describeConfigs(List.of(group)).all().get().get(group);
        ConfigResource asked = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "described");
        Config ofClients = admin.describeConfigs(List.of(asked)).all().get().get(asked);
        return ofClients.get("metrics").value().isEmpty() || !admin.listTopics().names().get().contains("described")
            || ofGroup.get("share.isolation.level").source() != ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG
            || config.get("max.connections").source() != ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG;
    }

    static Map<String, String> pairs(String text) {
        Map<String, String> read = new HashMap<>();
        for (String pair : text.split(";")) read.put(pair.split("=", 2)[0], pair.split("=", 2)[1]);
        return read;
    }

    static void alter(Admin admin, ConfigResource.Type type, String whom, String configs) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        pairs(configs).forEach((name, value) ->
            changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        ConfigResource whose = new ConfigResource(type, whom);
        admin.incrementalAlterConfigs(Map.of(whose, changes)).all().get();
    }

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            alter(admin, ConfigResource.Type.BROKER, "", arguments[1]);
            alter(admin, ConfigResource.Type.BROKER, "1", arguments[2]);
            alter(admin, ConfigResource.Type.GROUP, "described", arguments[4]);
            alter(admin, ConfigResource.Type.CLIENT_METRICS, "described", arguments[5]);
            NewTopic topic = new NewTopic("described", 1, (short) 1).configs(pairs(arguments[3]));
            admin.createTopics(List.of(topic)).all().get();
            for (int look = 0; look < 100 && missing(admin); look++) Thread.sleep(50);
            for (String resource : List.of("BROKER:1", "BROKER:", "TOPIC:described", "GROUP:described", "GROUP:g",
                    "CLIENT_METRICS:described", "CLIENT_METRICS:c")) {
                String[] parts = resource.split(":", -1);
                ConfigResource asked = new ConfigResource(ConfigResource.Type.valueOf(parts[0]), parts[1]);
                Config config = admin.describeConfigs(List.of(asked),
                    new DescribeConfigsOptions().includeSynonyms(true)).all().get().get(asked);
                for (ConfigEntry entry : config.entries()) {
                    StringJoiner synonyms = new StringJoiner(",", "[", "]");
                    for (ConfigEntry.ConfigSynonym synonym : entry.synonyms()) {
                        synonyms.add("[" + quoted(synonym.name()) + "," + quoted(synonym.value()) + ","
                            + quoted(synonym.source()) + "]");
                    }
                    System.out.println("{\\"resource\\":" + quoted(resource) + ",\\"name\\":" + quoted(entry.name())
                        + ",\\"value\\":" + quoted(entry.value()) + ",\\"source\\":" + quoted(entry.source())
                        + ",\\"sensitive\\":" + entry.isSensitive() + ",\\"read_only\\":" + entry.isReadOnly()
                        + ",\\"type\\":" + quoted(entry.type()) + ",\\"synonyms\\":" + synonyms + "}");
                }
            }
        }
    }
}
"""
PROPERTIES = {
    "log.retention.minutes": 120,
    "log.roll.hours": 24,
    "num.partitions": " 3 ",
    "compression.type": "lz4",
    "log.segment.bytes": 2097152,
    "log.cleaner.io.max.bytes.per.second": "1.5e7",
    "ssl.key.password": "hunter2",
    "somebody.elses.setting": "x",
    "group.consumer.session.timeout.ms": 50000,
    "group.share.heartbeat.interval.ms": 7000,
}
TOPIC = {"retention.ms": "5000", "cleanup.policy": "compact,delete", "internal.segment.bytes": "1000"}
GROUP = {
    "consumer.heartbeat.interval.ms": "6000",
    "share.auto.offset.reset": "by_duration:PT1H",
    "share.isolation.level": "read_committed",
    "share.delivery.count.limit": "7",
    "streams.num.standby.replicas": "1",
}
CLIENTS = {"metrics": "a. , b.,a.", "match": "client_id=x"}
CLUSTER = {"group.consumer.assignment.interval.ms": "2000", "message.max.bytes": "500000", "log.cleaner.threads": "2"}
BROKER = {"message.max.bytes": "600000", "max.connections": "77"}
OF_THE_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}
"""Kafka's StandardAuthorizer reads them by itself, and DescribeConfigs does not have them."""
TYPES = ("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")


@pytest.fixture(scope="module")
def peer() -> Iterator[KafkaPeer]:
    with KafkaPeer(properties=PROPERTIES) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def theirs(peer: KafkaPeer) -> dict[str, dict[str, dict[str, Any]]]:
    """Kafka's answers: resource to config name to what it says."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    layers = (
        ";".join(f"{name}={value}" for name, value in layer.items())
        for layer in (CLUSTER, BROKER, TOPIC, GROUP, CLIENTS)
    )
    for line in run_java_source(DESCRIBE, peer.bootstrap, *layers).stdout.splitlines():
        entry = json.loads(line)
        found.setdefault(entry.pop("resource"), {})[entry["name"]] = entry
    return found


def ours(config_file: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Our answers to the same."""
    settings = Settings.from_properties(properties.parse(config_file.read_bytes())).with_dynamic(CLUSTER, BROKER)
    answers = {
        "BROKER:1": describe_broker(settings),
        "BROKER:": describe_cluster(settings),
        "TOPIC:described": describe_topic(settings, TOPIC),
        "GROUP:described": describe_group(settings, GROUP),
        "GROUP:g": describe_group(settings, {}),
        "CLIENT_METRICS:described": describe_client_metrics(CLIENTS),
        "CLIENT_METRICS:c": describe_client_metrics({}),
    }
    return {
        resource: {entry.name: as_java(entry) for entry in described if not entry.name.startswith("penstock.")}
        for resource, described in answers.items()
    }


def source(layer: Source) -> str:
    """A layer as the Java client calls it."""
    return f"DYNAMIC_{layer.name}" if layer in (Source.GROUP_CONFIG, Source.CLIENT_METRICS_CONFIG) else layer.name


def as_java(entry: Described) -> dict[str, Any]:
    """An answer as the Java client prints it."""
    return {
        "name": entry.name,
        "value": entry.value,
        "source": source(entry.source),
        "sensitive": entry.sensitive,
        "read_only": entry.read_only,
        "type": TYPES[entry.type_id],
        "synonyms": [[name, value, source(layer)] for name, value, layer in entry.synonyms],
    }


@pytest.mark.parametrize(
    "resource",
    [
        *("TOPIC:described", "GROUP:described", "GROUP:g", "BROKER:1", "BROKER:"),
        *("CLIENT_METRICS:described", "CLIENT_METRICS:c"),
    ],
)
def test_configs_are_described_as_kafka_describes_them(
    peer: KafkaPeer, theirs: dict[str, dict[str, dict[str, Any]]], resource: str
) -> None:
    kafka, penstock = theirs[resource], ours(peer.config_file)[resource]
    assert set(kafka) == set(penstock) - OF_THE_AUTHORIZER
    assert [(kafka[name], penstock[name]) for name in kafka if kafka[name] != penstock[name]] == []
