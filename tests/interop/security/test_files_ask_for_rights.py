"""Segment files know no ACLs: who may not read a topic does not read it from its files either."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")

from interop.security.secured_penstock import SecuredPenstock

from penstock.cli.main import main
from penstock.client.client import READ_UNCOMMITTED, Client
from penstock.client.security import client_security
from penstock.spark.read.files_finding import Lead, find
from penstock.spark.read.plan import OffsetRange

TOPIC = "clicks"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecuredPenstock]:
    with SecuredPenstock(tmp_path, AUTHORIZER) as broker:
        broker.create_topic(TOPIC)
        yield broker


def found(broker: SecuredPenstock) -> Lead | str:
    """What alice finds of the topic's files, whose directory she knows."""

    async def work() -> Lead | str:
        async with Client(broker.secured, security=client_security(broker.properties())) as client:
            topic_id = (await client.topic(TOPIC)).topic_id
            ranges = [OffsetRange(TOPIC, topic_id, 0, 0, 1)]
            return (await find(client, ranges, READ_UNCOMMITTED, [str(broker.data_dir)]))[TOPIC, 0]

    return asyncio.run(work())


def allow(broker: SecuredPenstock, operation: str) -> None:
    words = ["acls", "add", "--allow", "User:alice", "--operation", operation, "--topic", TOPIC]
    assert main([*words, "--bootstrap", broker.bootstrap]) == 0


def test_files_are_read_by_who_may_read_the_topic(broker: SecuredPenstock) -> None:
    allow(broker, "describe")
    assert found(broker) == "its broker does not allow this user to read it"
    allow(broker, "read")
    assert isinstance(found(broker), Lead)
