"""Fixtures for tests against Apache Kafka itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from interop.kafka_peer import KafkaPeer, require_kafka


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """Kafka's jars and a Java machine; skips the test, or fails it when CI=true, where they cannot be had."""
    require_kafka()


@pytest.fixture(scope="session")
def kafka_peer() -> Iterator[KafkaPeer]:
    """One running node of Apache Kafka for the whole session. Tests use topics of their own on it."""
    with KafkaPeer() as peer:
        yield peer
