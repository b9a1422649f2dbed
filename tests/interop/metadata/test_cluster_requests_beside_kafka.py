"""Elections, reassignments, features, brokers: the same requests to Apache Kafka and to Penstock, the same answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from interop.kafka_peer import KafkaPeer
from interop.metadata.test_admin_requests_beside_kafka import errors_of, penstock_settings, topic

from penstock.client.admin import wait_for_topic
from penstock.client.client import Client
from penstock.config.server import Settings
from penstock.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.create_topics_request import CreateTopicsRequest
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from penstock.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.server.server import Server

pytestmark = pytest.mark.java

NAME = "cluster.requests"


def elect(kind: int, *partitions: int, name: str = NAME) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        election_type=kind, topic_partitions=[TopicPartitions(topic=name, partitions=list(partitions))]
    )


def reassign(
    *wanted: tuple[int, list[int] | None], name: str = NAME, factor: bool = True
) -> AlterPartitionReassignmentsRequest:
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in wanted]
    return AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=factor, topics=[ReassignableTopic(name=name, partitions=partitions)]
    )


def listed(name: str, *partitions: int) -> ListPartitionReassignmentsRequest:
    named = ListPartitionReassignmentsTopics(name=name, partition_indexes=list(partitions))
    return ListPartitionReassignmentsRequest(topics=[named])


def update(*levels: tuple[str, int, int], dry: bool = False) -> UpdateFeaturesRequest:
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in levels]
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=dry)


CORPUS: dict[str, Any] = {
    "elect preferred": elect(0, 0, 1),
    "elect uncleanly": elect(1, 0, 1),
    "elect for an unknown partition": elect(0, 7, -1),
    "elect for an unknown topic": elect(0, 0, name="unknown"),
    "elect with an unknown type": elect(9, 0),
    "elect for nothing": ElectLeadersRequest(topic_partitions=[]),
    "elect twice for one": elect(0, 0, 0),
    "reassign to the same": reassign((0, [1])),
    "reassign twice": reassign((0, [1]), (0, [1])),
    "reassign to nothing": reassign((0, [])),
    "reassign to an unknown broker": reassign((0, [1, 7])),
    "reassign to a broker twice": reassign((0, [1, 1])),
    "reassign to a broker twice and no more": reassign((0, [1, 1]), factor=False),
    "reassign with the same factor": reassign((1, [1]), factor=False),
    "reassign an unknown partition": reassign((9, [1]), (-1, [1])),
    "reassign an unknown topic": reassign((0, [1]), name="unknown"),
    "cancel nothing": reassign((0, None), (5, None)),
    "reassign no topics": AlterPartitionReassignmentsRequest(topics=[]),
    "list all": ListPartitionReassignmentsRequest(topics=None),
    "list none": ListPartitionReassignmentsRequest(topics=[]),
    "list a topic": listed(NAME, 0, 1, 9),
    "list an unknown topic": listed("unknown", 0),
    "unregister an unknown broker": UnregisterBrokerRequest(broker_id=77),
    "unregister a negative broker": UnregisterBrokerRequest(broker_id=-1),
    "stay at the level": update(("metadata.version", 30, 1)),
    "stay at the level, downgrading": update(("metadata.version", 30, 2)),
    "try to stay": update(("metadata.version", 30, 1), dry=True),
    "downgrade by upgrade": update(("metadata.version", 29, 1)),
    "downgrade safely": update(("metadata.version", 29, 2)),
    "downgrade unsafely": update(("metadata.version", 29, 3)),
    "upgrade by downgrade": update(("eligible.leader.replicas.version", 1, 2)),
    "a level below zero": update(("metadata.version", -1, 2)),
    "an unknown type of update": update(("metadata.version", 30, 7)),
    "an unknown feature": update(("nothing", 0, 1)),
    "an unknown feature at a level": update(("nothing", 3, 1)),
    "a good and a bad one": update(("metadata.version", 30, 1), ("nothing", 3, 1)),
    "two bad ones": update(("nothing", 3, 1), ("metadata.version", 29, 1)),
    "update nothing": UpdateFeaturesRequest(),
}


async def ask_all(bootstrap: str) -> dict[str, list[tuple[Any, ...]]]:
    async with Client(bootstrap) as client:
        await client.send(CreateTopicsRequest(topics=[topic(NAME, partitions=2)], timeout_ms=10_000))
        await wait_for_topic(client, NAME, expected=2)
        return {name: errors_of(await client.send(request)) for name, request in CORPUS.items()}


async def ask_penstock(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    server = Server(settings, durable=False)
    await server.start()
    try:
        return await ask_all(server.addresses["PLAINTEXT"])
    finally:
        await server.stop()


def test_every_request_is_answered_as_kafka_answers_it(kafka_peer: KafkaPeer, tmp_path: Path) -> None:
    theirs = asyncio.run(ask_all(kafka_peer.bootstrap))
    with penstock_settings(tmp_path / "data") as settings:
        ours = asyncio.run(ask_penstock(settings))
    different = [
        f"{name}:\n  kafka    {theirs[name]}\n  penstock {ours[name]}" for name in CORPUS if ours[name] != theirs[name]
    ]
    assert not different, "\n".join(different)
