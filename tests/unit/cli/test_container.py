"""Settings from the environment, as Apache Kafka's image takes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.cli.common import read_properties
from penstock.cli.container import prepare, properties_of, setting_name
from penstock.config.server import Settings
from penstock.errors import ConfigError
from penstock.log.meta_properties import parse_meta_properties

ROOT = Path(__file__).resolve().parents[3]
IMAGE_FILE = str(ROOT / "packaging" / "container.properties")
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
COMPOSE = {
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,DOCKER://:19092,CONTROLLER://127.0.0.1:9093",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,DOCKER://broker:19092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,DOCKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_NUM_PARTITIONS": "3",
    "KAFKA_HEAP_OPTS": "-Xmx1g",
    "PATH": "/bin",
}
TESTCONTAINERS = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:32768,BROKER://0123456789ab:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}


def settings(environment: dict[str, str]) -> Settings:
    return Settings.from_properties(properties_of(environment, read_properties(IMAGE_FILE)), strict=True)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_PENSTOCK_METRICS_LISTENER", "penstock.metrics.listener"),
        ("KAFKA_LISTENER_NAME_A__B_SSL_KEY", "listener.name.a_b.ssl.key"),
        ("KAFKA_A___B", "a-b"),
    ],
)
def test_names_of_variables(variable: str, name: str) -> None:
    assert setting_name(variable) == name


def test_without_variables_the_images_file_holds() -> None:
    found = settings({"PATH": "/bin"})
    assert (found.node_id, found.directories) == (1, ("/data/log",))
    assert [str(each) for each in found.advertised_endpoints] == ["PLAINTEXT://localhost:9092"]


def test_what_is_wrong_in_the_environment_is_not_looked_for_in_the_file() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions = \"x\" .*\n  in the environment$"):
        settings({"KAFKA_NUM_PARTITIONS": "x"})


def test_peers_of_a_compose_file_have_a_listener_of_their_own() -> None:
    found = settings(COMPOSE)
    assert [str(each) for each in found.advertised_endpoints] == ["PLAINTEXT://localhost:9092", "DOCKER://broker:19092"]
    assert (found.num_partitions, found.offsets_topic_replication_factor) == (3, 1)


def test_a_node_that_the_environment_declares_has_nothing_of_the_images_own() -> None:
    found = settings(TESTCONTAINERS)
    assert found.controller_quorum_bootstrap_servers == ()
    assert [voter.id for voter in found.voters] == [1]
    assert (found.directories, found.penstock_metrics_listener) == (("/data/log",), "0.0.0.0:9644")


@pytest.mark.parametrize("environment", [COMPOSE, TESTCONTAINERS])
def test_new_directories_are_formatted_once(environment: dict[str, str], tmp_path: Path) -> None:
    own = {**environment, "KAFKA_LOG_DIRS": str(tmp_path / "log")}
    prepare(settings(own), own)
    first = (tmp_path / "log" / "meta.properties").read_bytes()
    prepare(settings(own), own)
    assert (tmp_path / "log" / "meta.properties").read_bytes() == first
    with pytest.raises(ConfigError, match="cluster"):
        prepare(settings(own), {**own, "CLUSTER_ID": CLUSTER_ID})


def test_nodes_of_one_cluster_are_told_which_it_is(tmp_path: Path) -> None:
    own = {
        **TESTCONTAINERS,
        "KAFKA_PROCESS_ROLES": "broker",
        "KAFKA_NODE_ID": "7",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093",
        "KAFKA_LOG_DIRS": str(tmp_path / "log"),
    }
    with pytest.raises(ConfigError, match="CLUSTER_ID is not set: all nodes of a cluster need the same"):
        prepare(settings(own), own)
    prepare(settings(own), {**own, "CLUSTER_ID": CLUSTER_ID})
    meta = parse_meta_properties((tmp_path / "log" / "meta.properties").read_bytes(), "meta.properties")
    assert (meta.cluster_id, meta.node_id) == (CLUSTER_ID, 7)


def test_what_is_packaged_has_regular_expressions_and_runs_what_there_is() -> None:
    for name in ("Dockerfile", "packaging/penstock.service"):
        assert re.search(r"pip install .*'\.\[uvloop,regex\]'", (ROOT / name).read_text()), name
    assert (
        "penstock server container /etc/penstock/server.properties"
        in (ROOT / "packaging" / "container-run").read_text()
    )


def test_a_volume_that_is_missing_later_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    own = {**COMPOSE, "KAFKA_LOG_DIRS": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    prepare(settings(own), own)
    (tmp_path / "a" / ".lock").touch()  # a node has run
    (tmp_path / "b" / "meta.properties").unlink()
    prepare(settings(own), own)
    assert not (tmp_path / "b" / "meta.properties").exists()
    prepare(settings(own), {**own, "FORMAT_NEW_DIRECTORIES": "true"})
    assert (tmp_path / "b" / "meta.properties").exists()
