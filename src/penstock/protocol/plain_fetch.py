"""The plain Fetch, of one partition: a consumer or a follower that has caught up sends one for nearly every record. Its
request, and its answer with records, are read and written at half the cost of the generated codecs.

What is not plain is left to the generated codecs: names of topics, other than one partition, forgotten ones, a rack,
other tagged fields than those of a follower, answers without records. Both give the same messages and bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from penstock.errors import ProtocolError
from penstock.protocol.message import ZERO_UUID, Buffer, Chunk, Message
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from penstock.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from penstock.protocol.wire import UUIDS, new_uuid, read_varint, varint

REQUESTS_FROM = 15
"""From this version on the replica is a tagged field, which consumers leave out."""
WATERMARKS_FROM = 18
"""From this version on followers of Apache Kafka tell the high watermark that they know, in a tagged field."""
RESPONSES_FROM = 13
"""From this version on answers name topics by their ids."""

ONE = 2
"""The length of an array with one element, as it is written."""
NO_WATERMARK = FetchPartition().high_watermark

CONSUMER = Struct(">iiibiiB16sBiiqiqi5s")
"""Longest wait, least bytes, most bytes, isolation level, session and its epoch, topics, topic id, partitions, index,
leader epoch, offset, last fetched epoch, log start, most bytes of the partition, and the end."""
CONSUMER_END = b"\0\0\1\1\0"
"""No tagged fields of the partition and the topic, nothing forgotten, no rack, no tagged fields."""

FOLLOWER = Struct(">iiibiiB16sBiiqiqi7siqB")
"""The same up to the partition's tagged fields, then the replica and its epoch: a follower of ours."""
REPLICA_STATE = b"\0\1\1\1\1\x0d"
"""As the consumer's end, but with one tagged field, number 1, 13 bytes."""
FOLLOWER_END = b"\0" + REPLICA_STATE
"""No tagged fields of the partition."""

TELLING_FOLLOWER = Struct(">iiibiiB16sBiiqiqi3sq6siqB")
"""As the follower's, with the partition's high watermark: a follower of Apache Kafka."""
WATERMARK = b"\1\1\x08"
"""One tagged field, number 1, 8 bytes."""

ANSWER = Struct(">ihiB16sBihqqqBi")
"""Throttle time, error, session, topics, topic id, partitions, index, error, high watermark, last stable offset, log
start, aborted transactions, preferred replica; the length of the records follows."""
ANSWER_END = b"\0\0\0"
"""No tagged fields of the partition, the topic, and the answer."""

new = object.__new__

Decoder = Callable[[Buffer, int], tuple[Message, int]]
Encoder = Callable[[Message], list[Chunk]]


def plain_request_decoder(version: int, general: Decoder) -> Decoder:
    """A decoder that reads plain requests itself and leaves all others to `general`."""

    def decode(view: Buffer, position: int) -> tuple[Message, int]:
        end = len(view)
        replica_id = replica_epoch = -1
        high_watermark = NO_WATERMARK
        if end - position == CONSUMER.size:
            (
                max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
                topics, topic_id, partitions, index, leader_epoch, offset, last_epoch, log_start_offset, limit_bytes,
                rest,
            ) = CONSUMER.unpack_from(view, position)  # fmt: skip
            plain = rest == CONSUMER_END
        elif end - position == FOLLOWER.size:
            (
                max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
                topics, topic_id, partitions, index, leader_epoch, offset, last_epoch, log_start_offset, limit_bytes,
                end_begins, replica_id, replica_epoch, tags,
            ) = FOLLOWER.unpack_from(view, position)  # fmt: skip
            plain = end_begins == FOLLOWER_END and not tags
        elif end - position == TELLING_FOLLOWER.size and version >= WATERMARKS_FROM:
            (
                max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
                topics, topic_id, partitions, index, leader_epoch, offset, last_epoch, log_start_offset, limit_bytes,
                watermark, high_watermark, end_begins, replica_id, replica_epoch, tags,
            ) = TELLING_FOLLOWER.unpack_from(view, position)  # fmt: skip
            plain = watermark == WATERMARK and end_begins == REPLICA_STATE and not tags
        else:
            return general(view, position)
        if not plain or topics != ONE or partitions != ONE:
            return general(view, position)
        partition = new(FetchPartition)
        partition.partition = index
        partition.current_leader_epoch = leader_epoch
        partition.fetch_offset = offset
        partition.last_fetched_epoch = last_epoch
        partition.log_start_offset = log_start_offset
        partition.partition_max_bytes = limit_bytes
        partition.replica_directory_id = ZERO_UUID
        partition.high_watermark = high_watermark
        topic = new(FetchTopic)
        topic.topic = ""
        topic.topic_id = UUIDS.get(topic_id) or new_uuid(topic_id)
        topic.partitions = [partition]
        state = new(ReplicaState)
        state.replica_id = replica_id
        state.replica_epoch = replica_epoch
        request = new(FetchRequest)
        request.cluster_id = None
        request.replica_id = -1
        request.replica_state = state
        request.max_wait_ms = max_wait_ms
        request.min_bytes = min_bytes
        request.max_bytes = max_bytes
        request.isolation_level = isolation_level
        request.session_id = session_id
        request.session_epoch = session_epoch
        request.topics = [topic]
        request.forgotten_topics_data = []
        request.rack_id = ""
        return request, end

    return decode


def plain_request_encoder(general: Encoder) -> Encoder:
    """An encoder that writes plain requests of followers itself and leaves all others to `general`."""

    def encode(message: Message) -> list[Chunk]:
        assert message.__class__ is FetchRequest
        topics = message.topics
        if len(topics) != 1 or len(topics[0].partitions) != 1 or message.forgotten_topics_data:
            return general(message)
        topic = topics[0]
        partition = topic.partitions[0]
        state = message.replica_state
        if (
            state.replica_id == -1
            or message.replica_id != -1
            or message.rack_id
            or message.cluster_id is not None
            or partition.high_watermark != NO_WATERMARK
            or partition.replica_directory_id is not ZERO_UUID
        ):
            return general(message)
        return [
            FOLLOWER.pack(
                message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id,
                message.session_epoch, ONE, topic.topic_id.bytes, ONE, partition.partition,
                partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch,
                partition.log_start_offset, partition.partition_max_bytes, FOLLOWER_END, state.replica_id,
                state.replica_epoch, 0,
            )
        ]  # fmt: skip

    return encode


def plain_response_decoder(general: Decoder) -> Decoder:
    """A decoder that reads plain answers itself and leaves all others to `general`."""

    def decode(view: Buffer, position: int) -> tuple[Message, int]:
        data = view if view.__class__ is memoryview else memoryview(view)
        end = len(data)
        if end - position < ANSWER.size + len(ANSWER_END):
            return general(view, position)
        (
            throttle_time_ms, error_code, session_id, topics, topic_id, partitions, index, partition_error,
            high_watermark, last_stable_offset, log_start_offset, aborted, preferred_read_replica,
        ) = ANSWER.unpack_from(data, position)  # fmt: skip
        if topics != ONE or partitions != ONE or aborted > 1:
            return general(view, position)
        try:
            length, start = read_varint(data, position + ANSWER.size)
        except (ProtocolError, IndexError):
            return general(view, position)
        records_end = start + length - 1
        if not length or records_end + len(ANSWER_END) != end or data[records_end:] != ANSWER_END:
            return general(view, position)
        partition = new(PartitionData)
        partition.partition_index = index
        partition.error_code = partition_error
        partition.high_watermark = high_watermark
        partition.last_stable_offset = last_stable_offset
        partition.log_start_offset = log_start_offset
        diverging = partition.diverging_epoch = new(EpochEndOffset)
        diverging.epoch = diverging.end_offset = -1
        leader = partition.current_leader = new(LeaderIdAndEpoch)
        leader.leader_id = leader.leader_epoch = -1
        snapshot = partition.snapshot_id = new(SnapshotId)
        snapshot.end_offset = snapshot.epoch = -1
        partition.aborted_transactions = [] if aborted else None
        partition.preferred_read_replica = preferred_read_replica
        partition.records = data[start:records_end]
        topic = new(FetchableTopicResponse)
        topic.topic = ""
        topic.topic_id = UUIDS.get(topic_id) or new_uuid(topic_id)
        topic.partitions = [partition]
        response = new(FetchResponse)
        response.throttle_time_ms = throttle_time_ms
        response.error_code = error_code
        response.session_id = session_id
        response.responses = [topic]
        response.node_endpoints = []
        return response, end

    return decode


def plain_response_encoder(general: Encoder) -> Encoder:
    """An encoder that writes plain answers itself and leaves all others to `general`."""

    def encode(message: Message) -> list[Chunk]:
        assert message.__class__ is FetchResponse
        responses = message.responses
        if message.node_endpoints or len(responses) != 1 or len(responses[0].partitions) != 1:
            return general(message)
        topic = responses[0]
        partition = topic.partitions[0]
        records, aborted = partition.records, partition.aborted_transactions
        diverging, leader, snapshot = partition.diverging_epoch, partition.current_leader, partition.snapshot_id
        if (
            aborted
            or records.__class__ is not list
            or len(records) != 1
            or (length := getattr(records[0], "length", None)) is None
            or diverging.epoch != -1
            or diverging.end_offset != -1
            or leader.leader_id != -1
            or leader.leader_epoch != -1
            or snapshot.end_offset != -1
            or snapshot.epoch != -1
        ):
            return general(message)
        start = ANSWER.pack(
            message.throttle_time_ms, message.error_code, message.session_id, ONE, topic.topic_id.bytes, ONE,
            partition.partition_index, partition.error_code, partition.high_watermark, partition.last_stable_offset,
            partition.log_start_offset, 0 if aborted is None else 1, partition.preferred_read_replica,
        )  # fmt: skip
        return [start + varint(length + 1), records[0], ANSWER_END]

    return encode
