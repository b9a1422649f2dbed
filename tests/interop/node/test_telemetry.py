"""Telemetry of running brokers: what librdkafka's clients sent and got, on one broker and on three that replicate."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from e2e.cluster.history import create_topic, wait_for_full_isr
from support.processes import Cluster, wait_until
from support.three_nodes import RACKS, three_racks

from penstock.client.client import Client
from penstock.errors import UnsupportedVersionError
from penstock.guardian.telemetry.decode import decode
from penstock.guardian.telemetry.view import View
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.own.describe_telemetry_request import DescribeTelemetryRequest
from penstock.protocol.telemetry import FULL, GROUP_STATES
from penstock.records.batch import headers
from penstock.server.server import Server
from penstock.testing.broker import LocalBroker

RECORDS = 500
TOKEN = "a-secret"


def pull(bootstrap: str, view: View, node_id: int = 1) -> int:
    """Asks a broker over the network; where its answer begins."""

    async def ask() -> bytes:
        async with Client(bootstrap, timeout_ms=20_000) as client:
            request = DescribeTelemetryRequest(incarnation_id=view.incarnation, sequence=view.sequence)
            answer = await client.send(request, node_id=node_id)
            assert answer.error_code == 0, answer.error_message
            return bytes(answer.frame)

    frame = decode(asyncio.run(ask()))
    view.take(frame)
    return frame.since


def server_of(broker: LocalBroker) -> Server:
    assert broker._embedded is not None
    assert broker._embedded.server is not None
    return broker._embedded.server


def get(broker: LocalBroker, query: str = "", token: str | None = TOKEN) -> bytes:
    headers_ = {} if token is None else {"Authorization": f"Bearer {token}"}
    asked = urllib.request.Request(f"http://{server_of(broker).http_address}/telemetry{query}", headers=headers_)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.headers["Content-Type"] == "application/octet-stream"
        found: bytes = answer.read()
        return found


def refusal(broker: LocalBroker, query: str = "", token: str | None = TOKEN) -> tuple[int, str]:
    """Status and text of a request that is refused."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(broker, query, token)
    with refused.value as error:
        return error.code, error.read().decode().strip()


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    settings = {"penstock.metrics.listener": "127.0.0.1:0", "penstock.metrics.token": TOKEN}
    with LocalBroker(settings) as broker:
        broker.create_topic("clicks", partitions=3)
        yield broker


def write(bootstrap: str, topic: str, partitions: int, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "writer", "linger.ms": 20, **settings})
    for number in range(RECORDS):
        producer.produce(topic, f"value {number}".encode(), partition=number % partitions)
    assert not producer.flush(60)


def read(bootstrap: str, topic: str, partitions: int) -> Consumer:
    """Reads all records; the consumer is still a member."""
    settings = {"bootstrap.servers": bootstrap, "client.id": "reader", "group.id": "readers"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    for _ in range(RECORDS):
        record = consumer.poll(60)
        assert record is not None
        assert record.error() is None
    return consumer


def stored_bytes(directory: Path, topic: str) -> dict[int, int]:
    """Bytes of the batches in the log of each partition."""
    found = {}
    for log in directory.rglob(f"{topic}-*/*.log"):
        data = memoryview(bytearray(log.read_bytes()))
        found[int(log.parent.name.rpartition("-")[2])] = sum(header.size_bytes for _, header in headers(data))
    return found


def test_figures_are_what_clients_sent_and_got(broker: LocalBroker) -> None:
    view = View()
    assert pull(broker.bootstrap, view) == FULL
    assert view["broker"].row("1")["cpu_us"] > 0
    write(broker.bootstrap, "clicks", 3)
    consumer = read(broker.bootstrap, "clicks", 3)
    since = view.sequence
    assert pull(broker.bootstrap, view) == since
    stored = stored_bytes(broker.data_dir, "clicks")
    assert set(stored) == {0, 1, 2}
    for partition, size_bytes in stored.items():
        row = view["partitions"].row("clicks", str(partition))
        records = len(range(partition, RECORDS, 3))
        assert (row["bytes_in"], row["records_in"]) == (size_bytes, records)
        assert (row["bytes_out"], row["records_out"]) == (size_bytes, records)
        assert (row["log_end_offset"], row["high_watermark"], row["size_bytes"]) == (records, records, size_bytes)
        assert row["disk_read_bytes"] == 0, "it was written just now"
    group = view["groups"].row("readers", "classic", "consumer")
    assert (GROUP_STATES[group["state"]], group["members"]) == ("Stable", 1)
    writer = view["clients"].row("User:ANONYMOUS", "writer", "127.0.0.1", "confluent-kafka-python")
    assert writer["bytes_in"] > sum(stored.values())
    reader = view["clients"].row("User:ANONYMOUS", "reader", "127.0.0.1", "confluent-kafka-python")
    assert reader["bytes_out"] > sum(stored.values())
    consumer.close()
    pull(broker.bootstrap, view)
    assert GROUP_STATES[view["groups"].row("readers")["state"]] == "Empty"


def test_lanes_and_disks_are_told(broker: LocalBroker) -> None:
    view = View()
    pull(broker.bootstrap, view)
    ((path,),) = view["disks"].names
    assert path == str(broker.data_dir)
    disk = view["disks"].row(path)
    assert (disk["online"], disk["full"]) == (1, 0)
    assert 0 < disk["free_bytes"] <= disk["total_bytes"]
    lane = view["lanes"].row(path)
    before = lane["appends"]
    write(broker.bootstrap, "clicks", 1)
    pull(broker.bootstrap, view)
    assert view["lanes"].row(path)["appends"] > before
    assert view["lanes"].row(path)["append_us"] > lane["append_us"]


def test_http_has_the_same_bytes(broker: LocalBroker) -> None:
    view = View()
    view.take(decode(get(broker)))
    assert (view.node_id, view["partitions"].row("clicks", "0")["leader"]) == (1, 1)
    frame = decode(get(broker, f"?incarnation={view.incarnation}&sequence={view.sequence}"))
    assert frame.since == view.sequence
    view.take(frame)
    assert pull(broker.bootstrap, view) == frame.sequence, "one sequence, whoever asks"


@pytest.mark.parametrize("token", [None, "", "another"])
def test_http_tells_nobody_without_the_token(broker: LocalBroker, token: str | None) -> None:
    assert refusal(broker, token=token) == (401, "the token is missing or wrong (penstock.metrics.token)")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("?sequence=x", "sequence must be a number"),
        ("?sequence=", "sequence must be a number"),
        ("?incarnation=5", "incarnation must be a UUID"),
        ("?since=5", "there is no parameter since: there are incarnation and sequence"),
        ("?sequence=" + "9" * 500, "sequence must be a number"),
    ],
)
def test_http_says_what_is_wrong_with_a_query(broker: LocalBroker, query: str, why: str) -> None:
    assert refusal(broker, query) == (400, why)


def test_only_our_own_clients_are_told_of_it(broker: LocalBroker) -> None:
    async def known() -> bool:
        async with Client(broker.bootstrap, timeout_ms=20_000) as client:
            try:
                await client.send(DescribeTelemetryRequest(), node_id=1)
            except UnsupportedVersionError:
                return False
            return True

    assert asyncio.run(known())
    key = int(ApiKey.DESCRIBE_TELEMETRY)
    served = {handler.key for handler in server_of(broker).broker.dispatcher.served.broker.values()}
    assert key in served


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with three_racks(tmp_path_factory.mktemp("telemetry")) as cluster:
        create_topic(cluster.bootstrap, "replicated", partitions=2, replicas=3)
        wait_for_full_isr(cluster.bootstrap, "replicated", 3)
        yield cluster


@pytest.mark.slow
def test_followers_and_leaders_agree_on_what_was_replicated(three: Cluster) -> None:
    write(three.bootstrap, "replicated", 2, acks="all")
    views = {node_id: View() for node_id in RACKS}

    def pulled() -> bool:
        for node_id, view in views.items():
            pull(three.bootstrap, view, node_id)
        rows = [view["partitions"].row("replicated", each) for view in views.values() for each in ("0", "1")]
        return all(
            row["high_watermark"] == RECORDS // 2 and row["lag"] <= 0 and row["in_sync_lag"] <= 0 for row in rows
        )

    wait_until(pulled, 60)
    for partition in ("0", "1"):
        rows = [view["partitions"].row("replicated", partition) for view in views.values()]
        (leader,) = (row for row in rows if row["leader"])
        followers = [row for row in rows if not row["leader"]]
        size_bytes = leader["size_bytes"]
        assert (leader["bytes_in"], leader["records_in"]) == (size_bytes, RECORDS // 2)
        assert leader["replication_bytes_out"] == 2 * size_bytes
        assert (leader["replicas"], leader["in_sync_replicas"], leader["in_sync_lag"]) == (3, 3, 0)
        for row in followers:
            assert (row["replication_bytes_in"], row["bytes_in"], row["lag"]) == (size_bytes, 0, 0)


@pytest.mark.slow
def test_a_restarted_broker_is_another_incarnation(three: Cluster) -> None:
    view = View()
    pull(three.bootstrap, view, 2)
    before = view.incarnation
    three.stop(2)
    three.start(2)
    three.wait_ready(2)
    assert pull(three.bootstrap, view, 2) == FULL
    assert view.incarnation != before
    assert "replicated" in {name[0] for name in view["partitions"].names}
