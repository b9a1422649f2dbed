"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, by which clients and followers detect truncation.

Versions 2-4, flexible from 4. Answers the largest epoch that is not above the requested one, and the offset where it
ended (the log end for the present one); (-1, -1) for an epoch after the present one. KIP-101, KIP-279, KIP-320.
It needs DESCRIBE on the topic, or CLUSTER_ACTION, which followers have.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.node.handlers.of_partitions import OfPartitions
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from penstock.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from penstock.security.rights import LOOK_UP_EPOCHS

if TYPE_CHECKING:
    from penstock.node.broker import Broker

INDEX_OF = attrgetter("partition")


def handle(node: Broker, request: Request[OffsetForLeaderEpochRequest], now_ms: int) -> Stepped[Message]:
    results, pace = [], Pace()
    partitions = OfPartitions("epoch look-up", LOOK_UP_EPOCHS, INDEX_OF, partial(answer, node), failed)
    for topic in request.body.topics:
        name = topic.topic
        answers = yield from partitions.in_steps(node, request, name, topic.partitions, pace)
        results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=results)


def refuse(request: Request[OffsetForLeaderEpochRequest], code: ErrorCode, message: str) -> Message:
    topics = request.body.topics if request.body is not None else []
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[failed(wanted, code) for wanted in topic.partitions]
            )
            for topic in topics
        ]
    )


def failed(wanted: OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(partition=wanted.partition, error_code=code)


def answer(node: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    """One partition's answer."""
    partition = node.replicas.leader(topic, wanted.partition, node.scheduler.now_ms)
    if isinstance(partition, ErrorCode):
        return failed(wanted, partition)
    if stale := partition.check_epoch(wanted.current_leader_epoch):
        return failed(wanted, stale)
    log = partition.log
    leader_epoch, end_offset = log.leader_epochs.end_offset_for(wanted.leader_epoch, log.log_end_offset)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=leader_epoch, end_offset=end_offset)


HANDLERS = (Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, handle, refuse),)
