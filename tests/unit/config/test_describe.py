"""What DescribeConfigs tells: value, source and synonyms, layer by layer."""

from __future__ import annotations

import pytest

from penstock.config.describe import Described, describe_broker, describe_cluster, describe_topic
from penstock.config.dynamic import check_dynamic
from penstock.config.server import Settings
from penstock.config.setting import Source
from penstock.errors import ConfigError


def one(described: list[Described]) -> Described:
    (only,) = described
    return only


def test_a_topic_config_says_every_layer_that_has_a_value() -> None:
    settings = Settings.for_node(log_retention_ms=5).with_dynamic({"log.retention.ms": "6"}, {})
    config = one(describe_topic(settings, {"retention.ms": "7"}, ["retention.ms"]))
    assert (config.value, config.source, config.read_only, config.type_id) == (
        "7",
        Source.DYNAMIC_TOPIC_CONFIG,
        False,
        5,
    )
    assert [tuple(synonym) for synonym in config.synonyms] == [
        ("retention.ms", "7", Source.DYNAMIC_TOPIC_CONFIG),
        ("log.retention.ms", "6", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.ms", "5", Source.STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", Source.DEFAULT_CONFIG),
    ]


def test_a_default_is_said_to_be_one() -> None:
    config = one(describe_topic(Settings.for_node(), {}, ["segment.bytes"]))
    assert (config.value, config.source, config.synonyms[0].name) == (
        "1073741824",
        Source.DEFAULT_CONFIG,
        "log.segment.bytes",
    )


def test_a_brokers_own_dynamic_config_is_above_the_clusters_and_the_files() -> None:
    settings = Settings.for_node(message_max_bytes=1).with_dynamic(
        {"message.max.bytes": "2"}, {"message.max.bytes": "3"}
    )
    config = one(describe_broker(settings, ["message.max.bytes"]))
    assert (config.value, config.source, config.read_only) == ("3", Source.DYNAMIC_BROKER_CONFIG, False)
    assert [synonym.value for synonym in config.synonyms] == ["3", "2", "1", "1048588"]


def test_what_only_kafka_knows_is_described_too() -> None:
    settings = Settings.from_properties({**Settings.for_node().given, "num.network.threads": " 8 "})
    config = one(describe_broker(settings, ["num.network.threads"]))
    assert (config.value, config.source, config.synonyms[0].value) == ("8", Source.STATIC_BROKER_CONFIG, " 8 ")


def test_secrets_and_what_nobody_knows_are_not_shown() -> None:
    settings = Settings.from_properties(
        {**Settings.for_node().given, "ssl.key.password": "hunter2", "my.own.password": "hunter3"}
    )
    for config in describe_broker(settings, ["ssl.key.password", "my.own.password"]):
        assert config.value is None
        assert config.sensitive
        assert all(synonym.value is None for synonym in config.synonyms)


def test_internal_settings_are_hidden_until_they_are_given() -> None:
    assert describe_topic(Settings.for_node(), {}, ["internal.segment.bytes"]) == []
    assert one(describe_topic(Settings.for_node(), {"internal.segment.bytes": "9"}, ["internal.segment.bytes"]))


def test_the_cluster_has_its_dynamic_configs_only() -> None:
    settings = Settings.for_node(message_max_bytes=1).with_dynamic({"log.cleaner.threads": "2"}, {})
    config = one(describe_cluster(settings))
    assert (config.name, config.value, config.source) == (
        "log.cleaner.threads",
        "2",
        Source.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )


def test_throttles_are_there_when_they_are_set() -> None:
    name = "leader.replication.throttled.rate"
    settings = Settings.for_node()
    assert describe_broker(settings, [name]) == []
    config = one(describe_broker(settings.with_dynamic({name: "7"}, {name: "5"}), [name]))
    assert (config.value, config.source) == ("5", Source.DYNAMIC_BROKER_CONFIG)
    assert [synonym.value for synonym in config.synonyms] == ["5", "7"]


def test_dynamic_configs_are_checked_before_they_are_stored() -> None:
    check_dynamic({"message.max.bytes": "5", "leader.replication.throttled.rate": "9"}, per_broker=False)
    check_dynamic({"listeners": "PLAINTEXT://:1"}, per_broker=True)
    for configs, sentence in (
        (
            {"node.id": "5", "log.dirs": "/x", "message.max.bytes": "5"},
            "Cannot update these configs dynamically: [node.id, log.dirs]",
        ),
        (
            {"listeners": "PLAINTEXT://:1"},
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            {"listener.name.tls.ssl.keystore.location": "/x"},
            "at default cluster level, broker id must be specified: [listener.name.tls.ssl.keystore.location]",
        ),
        (
            {"ssl.truststore.type": "JKS"},
            "only per-listener using the listener prefix: [ssl.truststore.type]",
        ),
        ({"listener.name.tls.log.dirs": "/x"}, "unknown setting listener.name.tls.log.dirs"),
        ({"listener.name.tls.max.connections": "-1"}, "is too small"),
        ({"message.max.byte": "5"}, "unknown setting message.max.byte; did you mean message.max.bytes?"),
        ({"message.max.bytes": "-5"}, "is too small"),
    ):
        with pytest.raises(ConfigError) as wrong:
            check_dynamic(configs, per_broker=False)
        assert sentence in str(wrong.value)


def test_dynamic_configs_of_a_listener_are_those_of_the_setting_behind_them() -> None:
    secret = "listener.name.tls.ssl.keystore.password"
    of_tls = {
        "listener.name.tls.ssl.keystore.location": "/x",
        secret: "sesame",
        "listener.name.tls.max.connections": "7",
    }
    check_dynamic(of_tls, per_broker=True)
    check_dynamic({"listener.name.tls.max.connections": "7"}, per_broker=False)
    check_dynamic({"listener.name.tls.scram-sha-256.sasl.jaas.config": "x"}, per_broker=True)
    with pytest.raises(ConfigError, match="only per-listener"):
        check_dynamic({"ssl.keystore.password": "sesame"}, per_broker=True)
    described = {
        each.name: each
        for each in describe_broker(
            Settings.for_node(1).with_dynamic({"listener.name.tls.max.connections": "5"}, of_tls)
        )
        if each.name in of_tls
    }
    assert {name: each.value for name, each in described.items()} == {**of_tls, secret: None}
    assert {each.source for each in described.values()} == {Source.DYNAMIC_BROKER_CONFIG}
    assert [each.sensitive for each in described.values()] == [False, True, False]
