"""Requests and batches as tests write them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from penstock.protocol.messages.fetch_response import PartitionData
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.produce_response import PartitionProduceResponse
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.records.reader import records
from support.broker import START_MS, Client


def batch(*values: bytes, timestamp_ms: int = START_MS, key: bytes | None = b"key", **builder: Any) -> bytearray:
    """A batch with a record for each value."""
    made = BatchBuilder(**builder)
    for value in values or (b"value",):
        made.append(timestamp_ms, key, value)
    return made.build()


def produce(
    topic: str | UUID, *batches: bytes | bytearray | None, acks: int = 1, first: int = 0, timeout_ms: int = 1000
) -> ProduceRequest:
    """A request with one batch for each partition from `first` on."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, UUID) else ZERO_UUID,
                partition_data=[
                    PartitionProduceData(index=index, records=data) for index, data in enumerate(batches, first)
                ],
            )
        ],
    )


def produced(client: Client, topic: str, data: bytes | bytearray, *, partition: int = 0, acks: int = 1) -> Any:
    """Produces one batch and gives the partition's answer."""
    answer = client.ask(produce(topic, data, acks=acks, first=partition), 9)
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def wanted(partition: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **fields: Any) -> FetchPartition:
    """One partition of a fetch."""
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def fetch(topic: str | UUID, *partitions: FetchPartition, forget: tuple[int, ...] = (), **fields: Any) -> FetchRequest:
    """A fetch of partitions of one topic; by default it does not wait."""
    name = topic if isinstance(topic, str) else ""
    topic_id = topic if isinstance(topic, UUID) else ZERO_UUID
    forgotten = [ForgottenTopic(topic=name, topic_id=topic_id, partitions=list(forget))] if forget else []
    topics = [FetchTopic(topic=name, topic_id=topic_id, partitions=list(partitions))] if partitions else []
    return FetchRequest(topics=topics, forgotten_topics_data=forgotten, **fields)


def partitions_of(response: Any) -> dict[int, PartitionData]:
    """The partitions of a fetch response of one topic."""
    return {found.partition_index: found for topic in response.responses for found in topic.partitions}


def values_of(data: PartitionData) -> list[bytes | None]:
    """The values of all records of a fetched partition."""
    view = memoryview(bytes(data.records or b""))  # type: ignore[arg-type]
    return [record.value for position, header in headers(view) for record in records(view[position:], header)]


def list_offsets(topic: str, *wanted: tuple[int, int], isolation_level: int = 0, epoch: int = -1) -> ListOffsetsRequest:
    """Asks for (partition, timestamp) pairs of a topic."""
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
                    for index, timestamp in wanted
                ],
            )
        ],
    )
