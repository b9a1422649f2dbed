"""Three nodes that speak TLS on every listener, among themselves and to clients, each with a certificate of its own."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.processes import Cluster, wait_until
from tests.support.tls import Authority

pytestmark = pytest.mark.slow


def test_three_nodes_over_tls_lose_nothing_while_one_is_killed_and_keys_are_renewed(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    authority = Authority(tmp_path)
    node = authority.store("node")
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.client.auth": "required",
        **node.properties(),
    }
    with Cluster(tmp_path / "cluster", **settings) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(node.trust),
            "ssl.certificate.location": str(node.pem),
            "ssl.key.location": str(node.pem),
        }
        admin = AdminClient(client)
        for future in admin.create_topics([NewTopic("t", 3, 3)]).values():
            future.result(30)
        producer = Producer({**client, "acks": "all"})
        for number in range(300):
            producer.produce("t", b"%d" % number)
        assert producer.flush(30) == 0
        authority.store("node")  # renewed, in the same files
        taken = "changed keys and trust are in use"
        for id_ in cluster.roles:
            os.kill(cluster.processes[id_].pid, signal.SIGHUP)
            wait_until(lambda id_=id_: cluster.log(id_).count(taken) >= 2, f"node {id_} takes the new keys over")
        cluster.kill(1)
        for number in range(300, 600):
            producer.produce("t", b"%d" % number)
        assert producer.flush(60) == 0
        consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        deadline_s, got = time.monotonic() + 60, []
        while len(got) < 600 and time.monotonic() < deadline_s:
            got += [int(message.value()) for message in consumer.consume(600, 1.0) if message.error() is None]
        consumer.close()
        assert sorted(got) == list(range(600))
        assert "Traceback" not in cluster.log(2) + cluster.log(3)
