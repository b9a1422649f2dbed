"""DescribeTopicPartitions (key 75): partitions of topics, in pages (KIP-966).

Version 0, flexible. Topics are sorted by name; a page ends after `response_partition_limit` partitions (at most
max.request.partition.size.limit) with the cursor for the next page. No topics means all. A cursor that names a topic
which is not requested, or a negative partition, is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from heapq import heapify, heappop
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from penstock.metadata.names import check_topic_name, is_internal
from penstock.node.handlers.metadata import is_reachable, offline_replicas
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped, in_steps
from penstock.protocol.api import ApiKey
from penstock.protocol.limits import ELEMENTS_PER_STEP
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from penstock.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.security.authorizer import ResourceType
from penstock.security.rights import DESCRIBE_TOPIC

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[DescribeTopicPartitionsRequest], now_ms: int) -> Stepped[Message]:
    body, image = request.body, node.state.image
    cursor = body.cursor
    check_cursor(body)
    left = max(1, min(node.state.settings.max_request_partition_size_limit, body.response_partition_limit))
    response, pace = DescribeTopicPartitionsResponse(), Pace()
    for name in (yield from names_from(image, body)):
        if pace.is_over():
            yield None
        if not body.topics:
            if not node.gate.shows(request, DESCRIBE_TOPIC, name):
                continue
        elif not node.gate.allows(request, DESCRIBE_TOPIC, name):
            response.topics.append(failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic = image.topics_by_name.get(name)
        if topic is None:
            unknown = missing(name)
            unknown.topic_authorized_operations = node.gate.operations(request, ResourceType.TOPIC, name)
            response.topics.append(unknown)
            continue
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(topic.partitions), start + left)
        described = yield from page(image, topic, range(start, end), request.listener, pace)
        described.topic_authorized_operations = node.gate.operations(request, ResourceType.TOPIC, name)
        response.topics.append(described)
        left -= max(0, end - start)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return response


def check_cursor(body: DescribeTopicPartitionsRequest) -> None:
    """Raises RequestError for an invalid cursor."""
    cursor = body.cursor
    if cursor is None:
        return
    if body.topics and all(topic.name != cursor.topic_name for topic in body.topics):
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}"
        )


def names_from(image: MetadataImage, body: DescribeTopicPartitionsRequest) -> Stepped[Iterator[str]]:
    """The requested names, or all, sorted, from the cursor on."""
    first = "" if body.cursor is None else body.cursor.topic_name
    if not body.topics:
        return (name for name, _ in image.topics_by_name.items(first))
    names: set[str] = set()
    for start in range(0, len(body.topics), ELEMENTS_PER_STEP):
        yield from (None,) if start else ()
        names.update(topic.name for topic in body.topics[start : start + ELEMENTS_PER_STEP] if topic.name >= first)
    heap = list(names)
    heapify(heap)  # at once, but for less than a sort of names of which a page has few
    return (heappop(heap) for _ in range(len(heap)))


def page(
    image: MetadataImage, topic: TopicImage, span: range, listener: str, pace: Pace
) -> Stepped[DescribeTopicPartitionsResponseTopic]:
    """A topic with some of its partitions."""
    numbered = list(enumerate(topic.partitions[span.start : span.stop], span.start))
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=(yield from in_steps(partial(described_partition, image, listener), numbered, pace)),
    )


def described_partition(
    image: MetadataImage, listener: str, numbered: tuple[int, PartitionRegistration]
) -> DescribeTopicPartitionsResponsePartition:
    """One partition with its index."""
    index, partition = numbered
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if is_reachable(image, partition.leader, listener) else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(image, partition, listener),
    )


def missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    try:
        check_topic_name(name)
    except RequestError as error:
        return failed(name, error.code)
    return failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def failed(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def refuse(request: Request[DescribeTopicPartitionsRequest], code: ErrorCode, message: str) -> Message:
    """Every topic answered with the error."""
    topics = request.body.topics if request.body is not None else ()
    return DescribeTopicPartitionsResponse(topics=[failed(topic.name, code) for topic in topics])


HANDLERS = (Handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS, handle, refuse),)
