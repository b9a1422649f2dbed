"""A broker for the tests of a module, a topic for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from interop.spark.load.support import PARTITIONS

from penstock.testing.broker import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def topic(broker: LocalBroker, request: pytest.FixtureRequest) -> str:
    name = request.node.name[-80:].replace("[", ".").replace("]", "")
    broker.create_topic(name, PARTITIONS)
    return name
