"""What any client writes every other reads: each codec, headers, nulls, 1 byte to 5 MB, by offset and by time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from random import Random

import pytest
from interop.clients.drivers import PYTHON_DRIVERS, REQUEST_MAX_BYTES, Driver, JavaDriver, Row
from interop.kafka_peer import require_kafka

from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NAMES = (*PYTHON_DRIVERS, "java")
START_MS = time.time_ns() // 1_000_000 - 60_000
LARGE = Random(5).randbytes(2_500_000) + bytes(2_500_000)
ROWS = [
    Row(START_MS, b"key", b"v", []),
    Row(START_MS + 10, None, b"no key", [("header", b"one"), ("header", b"two"), ("empty", b"")]),
    Row(START_MS + 20, b"no value", None, []),
    Row(START_MS + 30, b"", b"", [("only", b"\x00\xff")]),
    Row(START_MS + 40, b"large", LARGE[2_000_000:3_000_000], []),
    *(Row(START_MS + 50 + index, f"key-{index}".encode(), f"value {index}".encode() * 7, []) for index in range(200)),
    Row(START_MS + 1000, b"last", b"x", []),
]


@pytest.fixture(scope="module")
def drivers(penstock_session: LocalBroker) -> Iterator[Mapping[str, Driver]]:
    require_kafka()
    with JavaDriver(penstock_session.bootstrap) as java:
        yield {**PYTHON_DRIVERS, "java": java}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", NAMES)
def test_what_one_client_writes_every_client_reads(
    penstock_session: LocalBroker, drivers: Mapping[str, Driver], writer: str, codec: str
) -> None:
    topic = f"matrix-{writer}-{codec}"
    penstock_session.create_topic(topic, configs={"max.message.bytes": str(REQUEST_MAX_BYTES)})
    drivers[writer].produce(penstock_session.bootstrap, topic, codec, ROWS)
    for reader in NAMES:
        assert drivers[reader].read(penstock_session.bootstrap, topic, len(ROWS)) == ROWS, f"read by {reader}"


@pytest.mark.parametrize("writer", NAMES)
def test_a_record_of_5_megabytes(penstock_session: LocalBroker, drivers: Mapping[str, Driver], writer: str) -> None:
    topic = f"large-{writer}"
    penstock_session.create_topic(topic, configs={"max.message.bytes": str(REQUEST_MAX_BYTES)})
    rows = [Row(START_MS, None, LARGE, []), Row(START_MS, b"k", b"v", [])]
    drivers[writer].produce(penstock_session.bootstrap, topic, "none", rows)
    for reader in NAMES:
        assert drivers[reader].read(penstock_session.bootstrap, topic, len(rows)) == rows, f"read by {reader}"


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_client_finds_the_same_offsets_by_time(
    penstock_session: LocalBroker, drivers: Mapping[str, Driver], codec: str
) -> None:
    topic = f"times-{codec}"
    penstock_session.create_topic(topic)
    rows = [Row(START_MS + 10 * index, None, b"x" * 50, []) for index in range(100)]
    drivers["confluent"].produce(penstock_session.bootstrap, topic, codec, rows)
    asked = [0, START_MS, START_MS + 1, START_MS + 495, START_MS + 990, START_MS + 991]
    for name in NAMES:
        found = drivers[name].offsets_for_times(penstock_session.bootstrap, topic, asked)
        assert found == [0, 0, 1, 50, 99, None], name
