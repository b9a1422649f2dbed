"""Three nodes that log in to each other, brokers and controllers alike, from their first start on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from support.processes import Cluster, wait_until

from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE

pytestmark = pytest.mark.slow

NODE = 'username="node" password="node-secret"'
LIFETIME_MS = 4_000


def cluster(directory: Path, mechanism: str, **settings: object) -> Cluster:
    module = f'{PLAIN_MODULE} required {NODE} user_node="node-secret";'
    options: list[str] = []
    if mechanism != "PLAIN":
        module = f"{SCRAM_MODULE} required {NODE};"
        options = ["--add-scram", f"{mechanism}=[name=node,password=node-secret]"]
    return Cluster(
        directory,
        format_options=options,
        listener_security_protocol_map="PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        sasl_enabled_mechanisms=mechanism,
        sasl_mechanism_inter_broker_protocol=mechanism,
        sasl_mechanism_controller_protocol=mechanism,
        inter_broker_listener_name="PLAINTEXT",
        default_replication_factor=3,
        min_insync_replicas=2,
        **{
            f"listener_name_{name}_{mechanism.lower()}_sasl_jaas_config": module for name in ("plaintext", "controller")
        },
        **settings,
    )


def client(nodes: Cluster, mechanism: str, password: str = "node-secret") -> dict[str, Any]:
    return {
        "bootstrap.servers": nodes.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "node",
        "sasl.password": password,
    }


def produce(producer: Producer, count: int) -> None:
    errors: list[Any] = []
    for number in range(count):
        producer.produce("replicated", str(number).encode(), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * count


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_three_nodes_replicate_over_sasl_and_renew_their_logins(tmp_path: Path, mechanism: str) -> None:
    with cluster(tmp_path, mechanism, connections_max_reauth_ms=LIFETIME_MS) as nodes:
        producer = Producer({**client(nodes, mechanism), "acks": "all"})
        produce(producer, 50)
        nodes.kill(2)  # whose partitions others take over, and who logs in again
        produce(producer, 50)
        nodes.start(2)
        nodes.wait_ready(2)
        time.sleep(2 * LIFETIME_MS / 1000)  # every login has been renewed or has ended
        produce(producer, 50)
        consumer = Consumer({**client(nodes, mechanism), "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["replicated"])
        seen: set[bytes | None] = set()

        def all_seen() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                seen.add(message.value())
            return len(seen) == 50

        wait_until(all_seen, "all records are read")
        consumer.close()
        for id_ in nodes.roles:
            assert "expired" not in nodes.log(id_)
            assert "Traceback" not in nodes.log(id_)


def test_a_node_with_another_password_joins_nobody_and_says_why(tmp_path: Path) -> None:
    nodes = cluster(tmp_path, "PLAIN")
    file = nodes.file(3)
    file.write_text(file.read_text().replace('username="node" password="node-secret"', 'username="node" password="x"'))
    try:
        for id_ in nodes.roles:
            nodes.start(id_)
        nodes.wait_ready(1, 2)
        wait_until(lambda: "this node cannot log in to another" in nodes.log(3), "node 3 says that it cannot log in")
        wait_until(lambda: "login failed: wrong password" in nodes.log(1) + nodes.log(2), "others say so, too")
        assert "server: ready" not in nodes.log(3)
        assert "node-secret" not in "".join(nodes.log(id_) for id_ in nodes.roles)
    finally:
        nodes.kill(3)
        nodes.stop(1, 2)


def test_an_authorizer_knows_nodes_and_clients_by_their_logins(tmp_path: Path) -> None:
    nodes = cluster(
        tmp_path,
        "PLAIN",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:node",
    )
    for id_ in nodes.roles:
        text = nodes.file(id_).read_text()
        nodes.file(id_).write_text(text.replace('user_node="node-secret"', 'user_node="node-secret" user_eve="eve"'))
    with nodes:
        produce(Producer({**client(nodes, "PLAIN"), "acks": "all"}), 20)
        errors: list[Any] = []
        eve = Producer({**client(nodes, "PLAIN", "eve"), "sasl.username": "eve", "acks": "all"})
        eve.produce("replicated", b"x", on_delivery=lambda error, _: errors.append(error))
        assert eve.flush(60) == 0
        assert errors[0].name() == "TOPIC_AUTHORIZATION_FAILED"
