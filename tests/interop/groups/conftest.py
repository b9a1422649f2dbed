"""Brokers and clients for tests of groups: each test that takes `place` runs against Penstock, and among the slow
ones against Apache Kafka too, which is how its expectations are known to be Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from interop.groups.members import Hosts
from interop.groups.place import Place
from interop.kafka_peer import KafkaPeer, require_kafka

from penstock.testing.broker import LocalBroker

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "4",
}
"""So that rebalances are quick with both."""

_numbers = count()


@pytest.fixture(scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A running broker with quick groups."""
    with LocalBroker(SETTINGS) if request.param == "penstock" else KafkaPeer(properties=SETTINGS) as broker:
        yield Place(broker.bootstrap, request.param)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Clients of all kinds. The Java ones need Kafka's jars."""
    require_kafka()
    with Hosts() as hosts:
        yield hosts


@pytest.fixture
def number() -> int:
    """A number for the test's own names."""
    return next(_numbers)
