"""DescribeProducers (key 61): the idempotent and transactional producers of partitions, with their open transactions.

Version 0, flexible. A follower answers, too, from what its log says. A topic needs the right to read it; the error of a
topic is that of each of its partitions. Source: KIP-664.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.log.log import Log
from penstock.metadata.names import check_topic_name
from penstock.node.request import Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, in_steps, resident
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_producers_request import DescribeProducersRequest
from penstock.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from penstock.security.rights import READ_TOPIC

if TYPE_CHECKING:
    from penstock.log.producer_state import Producer
    from penstock.node.broker import Broker


PRODUCERS_PER_STEP = 1_000


def handle(node: Broker, request: Request[DescribeProducersRequest], now_ms: int) -> Stepped[Outcome]:
    topics = []
    pace, producers_pace = Pace(), Pace(PRODUCERS_PER_STEP)
    for topic in request.body.topics:
        refusal = topic_error(node, request, topic.name)
        partitions = []
        for index in topic.partition_indexes:
            if pace.is_over():
                yield None
            if refusal is not None:
                partitions.append(failed(index, *refusal))
            else:
                partitions.append((yield from described(node, topic.name, index, producers_pace)))
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def topic_error(node: Broker, request: Request[DescribeProducersRequest], name: str) -> tuple[ErrorCode, str] | None:
    """Why none of a topic's partitions is described."""
    try:
        check_topic_name(name)
    except RequestError as error:
        return error.code, error.message
    if not node.gate.allows(request, READ_TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"the topic {name!r} may not be read"
    if name not in node.state.image.topics_by_name:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
    return None


def described(node: Broker, topic: str, index: int, pace: Pace) -> Stepped[PartitionResponse]:
    """The producers of one partition."""
    try:
        log = yield from resident(partial(find, node, topic, index))
    except PenstockError as error:
        return failed(index, error.code)
    except Exception as error:
        code = node.replication.partition_error("description", topic, index, error, node.scheduler.now_ms)
        return failed(index, code)
    if isinstance(log, ErrorCode):
        return failed(index, log)
    found = list(log.producers.producers.items())
    return PartitionResponse(partition_index=index, active_producers=(yield from in_steps(state_of, found, pace)))


def find(node: Broker, topic: str, index: int) -> Log | ErrorCode:
    """The log of a partition, led or followed here, or the error. Raises NotOpen while it is being opened."""
    now_ms = node.scheduler.now_ms
    partition = node.replicas.leader(topic, index, now_ms)
    if not isinstance(partition, ErrorCode):
        return partition.log
    follower = node.replicas.reader(topic, index, now_ms) if partition is ErrorCode.NOT_LEADER_OR_FOLLOWER else None
    return partition if follower is None or follower.log is None else follower.log


def state_of(item: tuple[int, Producer]) -> ProducerState:
    """One producer."""
    producer_id, producer = item
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_first_offset,
    )


def failed(index: int, code: ErrorCode, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message, active_producers=[])


def refuse(request: Request[DescribeProducersRequest], code: ErrorCode, message: str) -> Message:
    """Every partition answered with the error."""
    topics = request.body.topics if request.body is not None else []
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[failed(index, code, message or None) for index in topic.partition_indexes]
            )
            for topic in topics
        ]
    )


HANDLERS = (Handler(ApiKey.DESCRIBE_PRODUCERS, handle, refuse),)
