"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, by which clients and followers find out about truncation.

Versions 2-4, flexible from 4. Answers the largest epoch that is not above the one asked for, and the offset where it
ended (the log end for the present one); (-1, -1) for an epoch after the present one. KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.node.request import Handler, Message, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from penstock.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DESCRIBE, ResourceType.TOPIC)


def handle(node: Broker, request: Request[OffsetForLeaderEpochRequest], now_ms: int) -> Message:
    node.replicas.leaders(
        ((topic.topic, wanted.partition) for topic in request.body.topics for wanted in topic.partitions), now_ms
    )
    results = []
    for topic in request.body.topics:
        allowed = node.authorizer.authorize(request.principal, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        answers = [
            answer(node, topic.topic, wanted, now_ms)
            if allowed
            else EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for wanted in topic.partitions
        ]
        results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=results)


def refuse(request: Request[OffsetForLeaderEpochRequest], code: ErrorCode, message: str) -> Message:
    topics = request.body.topics if request.body is not None else []
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(partition=wanted.partition, error_code=code) for wanted in topic.partitions],
            )
            for topic in topics
        ]
    )


def answer(node: Broker, topic: str, wanted: OffsetForLeaderPartition, now_ms: int) -> EpochEndOffset:
    """One partition's answer."""
    partition = node.replicas.leader(topic, wanted.partition, now_ms)
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(partition=wanted.partition, error_code=partition)
    if stale := partition.check_epoch(wanted.current_leader_epoch):
        return EpochEndOffset(partition=wanted.partition, error_code=stale)
    log = partition.log
    leader_epoch, end_offset = log.leader_epochs.end_offset_for(wanted.leader_epoch, log.log_end_offset)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=leader_epoch, end_offset=end_offset)


HANDLERS = (Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, handle, AUTHORIZE, refuse),)
