"""Brokers for tests of transactions: each test that takes `place` runs against Penstock, and among the long ones
against Apache Kafka too, which is how its expectations are known to be Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from interop.groups.place import Place
from interop.kafka_peer import LACKING_FEATURES, KafkaPeer

from penstock.testing.broker import LocalBroker

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
"""So that transactions time out and groups rebalance quickly with both."""
FEATURES = dict.fromkeys(LACKING_FEATURES, 0)
"""What Apache Kafka is formatted with: all but what Penstock lacks."""

_numbers = count()


@pytest.fixture(scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.long])])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A running broker whose transactions time out at once."""
    with (
        LocalBroker(SETTINGS)
        if request.param == "penstock"
        else KafkaPeer(properties=SETTINGS, features=FEATURES) as broker
    ):
        yield Place(broker.bootstrap, request.param)


@pytest.fixture
def number() -> int:
    """A number for the test's own names."""
    return next(_numbers)
