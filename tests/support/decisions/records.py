"""Probes about records and topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from penstock.protocol.message import Message
from penstock.protocol.messages import (
    delete_records_request,
    describe_producers_request,
    describe_topic_partitions_request,
    metadata_request,
    offset_for_leader_epoch_request,
)
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from penstock.protocol.messages.fetch_request import ReplicaState
from support.decisions.probe import Probe
from support.requests import batch, fetch, list_offsets, produce, wanted

PAST_MS = 1_700_000_000_000
"""Before the clocks of all clusters that are asked."""


def metadata(*names: str, topic_ids: Sequence[UUID] = (), **fields: Any) -> Message:
    topics = [metadata_request.MetadataRequestTopic(name=name) for name in names]
    topics += [metadata_request.MetadataRequestTopic(name=None, topic_id=each) for each in topic_ids]
    return metadata_request.MetadataRequest(topics=topics, **fields)


def of_records() -> Iterator[Probe]:
    for name in ("t", "m"):
        for version in (3, 12):
            yield Probe(f"produce {name}", version, lambda ids, name=name: produce(name, batch(timestamp_ms=PAST_MS)))
        for version in (4, 12):
            yield Probe(f"fetch {name}", version, lambda ids, name=name: fetch(name, wanted()))
        for version in (1, 10):
            yield Probe(f"list offsets {name}", version, lambda ids, name=name: list_offsets(name, (0, -1)))
        for version in (0, 2):
            yield Probe(f"delete records {name}", version, lambda ids, name=name: delete_records(name))
    yield Probe("produce t by id", 13, lambda ids: produce(ids["t"], batch(timestamp_ms=PAST_MS)))
    yield Probe("produce an unknown id", 13, lambda ids: produce(UUID(int=77), batch(timestamp_ms=PAST_MS)))
    yield Probe("fetch t by id", 17, lambda ids: fetch(ids["t"], wanted()))
    yield Probe("fetch an unknown id", 17, lambda ids: fetch(UUID(int=77), wanted()))
    yield Probe("fetch t as a debugging consumer", 12, lambda ids: fetch("t", wanted(), replica_id=-2))
    yield Probe(
        "fetch t as a follower that is none",
        17,
        lambda ids: fetch(ids["t"], wanted(), replica_state=ReplicaState(replica_id=9, replica_epoch=-1)),
    )
    for version in (2, 4):
        yield Probe("epochs of t for a consumer", version, lambda ids: epochs("t", -1))
    yield Probe("epochs of m for a consumer", 4, lambda ids: epochs("m", -1))
    yield Probe("epochs of t for a follower", 4, lambda ids: epochs("t", 9))
    yield Probe(
        "describe producers",
        0,
        lambda ids: describe_producers_request.DescribeProducersRequest(
            topics=[describe_producers_request.TopicRequest(name=name, partition_indexes=[0]) for name in ("t", "m")]
        ),
    )


def delete_records(name: str) -> Message:
    partition = delete_records_request.DeleteRecordsPartition(partition_index=0, offset=0)
    topic = delete_records_request.DeleteRecordsTopic(name=name, partitions=[partition])
    return delete_records_request.DeleteRecordsRequest(topics=[topic], timeout_ms=1_000)


def epochs(name: str, replica_id: int) -> Message:
    partition = offset_for_leader_epoch_request.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = offset_for_leader_epoch_request.OffsetForLeaderTopic(topic=name, partitions=[partition])
    return offset_for_leader_epoch_request.OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[topic])


def of_metadata() -> Iterator[Probe]:
    for version in (4, 13):
        yield Probe("metadata of t and m", version, lambda ids: metadata("t", "m", allow_auto_topic_creation=False))
        yield Probe("metadata of a topic to be created", version, lambda ids: metadata("auto"))
    yield Probe("metadata of t", 0, lambda ids: metadata("t"))
    yield Probe("metadata of all", 0, lambda ids: metadata())
    yield Probe("metadata of all", 13, lambda ids: metadata_request.MetadataRequest(topics=None))
    yield Probe("metadata by id", 12, lambda ids: metadata(topic_ids=(ids["t"], UUID(int=77))))
    yield Probe(
        "metadata with operations",
        10,
        lambda ids: metadata(
            "t",
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
    )
    yield Probe(
        "describe topic partitions",
        0,
        lambda ids: describe_topic_partitions_request.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions_request.TopicRequest(name=name) for name in ("m", "t")]
        ),
    )
    yield Probe(
        "describe all topics' partitions",
        0,
        lambda ids: describe_topic_partitions_request.DescribeTopicPartitionsRequest(topics=[]),
    )
    for version in (0, 2):
        yield Probe(
            "describe cluster", version, lambda ids: DescribeClusterRequest(include_cluster_authorized_operations=True)
        )
