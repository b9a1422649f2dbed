"""franz-go, sarama, kafkajs and rskafka against a broker: produce, read by assignment, administrate.

kafkajs reads in groups only and rskafka has neither idempotence nor topic configs, so each is asked for what it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from random import Random

import pytest
from interop.clients import builds
from interop.clients.drivers import PYTHON_DRIVERS, REQUEST_MAX_BYTES, Driver, Row
from interop.clients.other_languages import OrderError, Process
from interop.transactions.clients import Confluent

from penstock.testing.broker import LocalBroker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = time.time_ns() // 1_000_000 - 60_000
LARGE = Random(5).randbytes(500_000) + bytes(500_000)
ROWS = [
    Row(START_MS, b"key", b"v", []),
    Row(START_MS + 10, None, b"no key", [("empty", b""), ("header", b"one")]),
    Row(START_MS + 20, b"no value", None, []),
    Row(START_MS + 40, b"large", LARGE[200_000:800_000], []),
    *(Row(START_MS + 50 + index, f"key-{index}".encode(), f"value {index}".encode() * 7, []) for index in range(200)),
    Row(START_MS + 1000, b"last", b"x", [("only", b"\x00\xff")]),
]
WRITERS = {
    "franz-go": CODECS,
    "sarama": CODECS,
    "kafkajs": ("none", "gzip", "snappy"),
    "rskafka": CODECS,
}
READERS = ("franz-go", "sarama", "rskafka")
WITH_CONFIGS = ("franz-go", "sarama", "kafkajs")


@pytest.fixture(scope="module")
def clients(penstock_session: LocalBroker) -> Iterator[Mapping[str, Process]]:
    go = builds.go_clients()
    commands = {
        "franz-go": [*go, "franz-go"],
        "sarama": [*go, "sarama"],
        "kafkajs": builds.kafkajs_client(),
        "rskafka": builds.rust_client(),
    }
    with ExitStack() as stack:
        bootstrap = penstock_session.bootstrap
        yield {name: stack.enter_context(Process(command, bootstrap)) for name, command in commands.items()}


def everybody_reads(broker: LocalBroker, clients: Mapping[str, Process], topic: str) -> None:
    readers: dict[str, Driver] = {name: clients[name] for name in READERS} | PYTHON_DRIVERS
    for name, reader in readers.items():
        assert reader.read(broker.bootstrap, topic, len(ROWS)) == ROWS, f"read by {name}"


def administrates(client: Process, topic: str, *, configs: bool) -> None:
    """Creates a topic, describes and changes it, finds it in the list, deletes it."""
    client.create(topic, 3, **({"retention.ms": "123456789"} if configs else {}))
    assert client.order("partitions", topic=topic)["partitions"] == 3
    assert topic in client.order("topics")["topics"]
    if configs:
        assert client.order("config", topic=topic, name="retention.ms")["value"] == "123456789"
        client.order("set_configs", topic=topic, configs={"retention.ms": "-1"})
        assert client.order("config", topic=topic, name="retention.ms")["value"] == "-1"
    with pytest.raises(OrderError, match=r"(?i)exist"):
        client.create(topic, 3)
    client.order("delete", topic=topic)
    assert topic not in client.order("topics").get("topics", [])


@pytest.mark.parametrize("name", WRITERS)
def test_a_client_of_another_language_works(
    penstock_session: LocalBroker, clients: Mapping[str, Process], name: str
) -> None:
    administrates(clients[name], f"made-by-{name}", configs=name in WITH_CONFIGS)
    topic = f"smoke-{name}"
    penstock_session.create_topic(topic, configs={"max.message.bytes": str(REQUEST_MAX_BYTES)})
    clients[name].produce(penstock_session.bootstrap, topic, "gzip", ROWS)
    everybody_reads(penstock_session, clients, topic)


@pytest.mark.slow
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
@pytest.mark.parametrize(("name", "codec"), [(name, codec) for name, codecs in WRITERS.items() for codec in codecs])
def test_what_it_writes_every_client_reads(
    penstock_session: LocalBroker, clients: Mapping[str, Process], name: str, codec: str, idempotent: bool
) -> None:
    topic = f"other-{name}-{codec}-{idempotent}"
    penstock_session.create_topic(topic, configs={"max.message.bytes": str(REQUEST_MAX_BYTES)})
    clients[name].produce(penstock_session.bootstrap, topic, codec, ROWS, idempotent=idempotent)
    everybody_reads(penstock_session, clients, topic)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PYTHON_DRIVERS])
@pytest.mark.parametrize("codec", CODECS)
def test_it_reads_what_python_clients_write(
    penstock_session: LocalBroker, clients: Mapping[str, Process], name: str, codec: str
) -> None:
    topic = f"python-{name}-{codec}"
    penstock_session.create_topic(topic, configs={"max.message.bytes": str(REQUEST_MAX_BYTES)})
    PYTHON_DRIVERS[name].produce(penstock_session.bootstrap, topic, codec, ROWS)
    everybody_reads(penstock_session, clients, topic)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_it_finds_offsets_by_time(penstock_session: LocalBroker, clients: Mapping[str, Process], name: str) -> None:
    topic = f"other-times-{name}"
    penstock_session.create_topic(topic)
    rows = [Row(START_MS + 10 * index, None, b"x" * 50, []) for index in range(100)]
    PYTHON_DRIVERS["confluent"].produce(penstock_session.bootstrap, topic, "lz4", rows)
    asked = [START_MS, START_MS + 1, START_MS + 495, START_MS + 990]
    assert clients[name].offsets_for_times(penstock_session.bootstrap, topic, asked) == [0, 1, 50, 99]


@pytest.mark.slow
def test_kafkajs_commits_and_aborts(penstock_session: LocalBroker, clients: Mapping[str, Process]) -> None:
    """The others are in interop/transactions."""
    topic = "of-kafkajs"
    penstock_session.create_topic(topic)
    for value, commit in (("committed", True), ("aborted", False), ("last", True)):
        clients["kafkajs"].order("transaction", topic=topic, value=value, commit=commit)
    with Confluent(penstock_session.bootstrap) as reader:
        assert reader.read(topic, 0, "last") == ["committed", "last"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_CONFIGS)
def test_a_wrong_config_is_refused_by_name(
    penstock_session: LocalBroker, clients: Mapping[str, Process], name: str
) -> None:
    with pytest.raises(OrderError):
        clients[name].create(f"wrong-{name}", 1, **{"retention.ms": "soon"})
    assert f"wrong-{name}" not in clients[name].order("topics").get("topics", [])
