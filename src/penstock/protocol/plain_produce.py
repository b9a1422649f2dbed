"""The plain Produce, of one batch for one partition, as a producer of few records sends it by the thousand: its request
is read at half, and its answer written at a third of the cost of the generated codecs.

Only flexible versions (9 to 13) are read and written here. What is not plain is left to the generated codecs: several
topics or partitions, a transactional id, tagged fields, errors with a message. Both give the same messages and bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from penstock.protocol.message import ZERO_UUID, Buffer, Message
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from penstock.protocol.wire import UUIDS, new_uuid

TOPIC_IDS_FROM = 13
FLEXIBLE_FROM = 9

ONE = 2
"""The length of an array with one element, as it is written."""
SHORT_NAME_BYTES = 126
"""Names whose length takes one byte."""

REQUEST_BY_ID = Struct(">BhiB16sBiB")
"""Transactional id (0: none), acks, timeout, topics, the id of the topic, partitions, index, and the first byte of the
length of the records."""
REQUEST_BY_NAME = Struct(">BhiBB")
"""The same up to the length of the topic's name."""
PARTITION = Struct(">BiB")
"""The same after the name."""
REQUEST_END = b"\0\0\0"
"""No tagged fields of the partition, the topic, and the request."""
REQUEST_MIN_BYTES = REQUEST_BY_ID.size + 3
"""A request that is shorter is not tried."""

ANSWER_BY_ID = Struct(">BB16sBihqqqBBBBiB").pack
ANSWER_END = Struct(">BihqqqBBBBiB").pack
"""Partitions, index, error, base offset, append time, log start, no record errors, no message, no tagged fields of the
partition and the topic, throttle time, no tagged fields."""

ZERO_ID = ZERO_UUID.bytes
new = object.__new__

Decoder = Callable[[Buffer, int], tuple[Message, int]]


def plain_decoder(version: int, general: Decoder) -> Decoder:
    """A decoder that reads plain requests itself and leaves all others to `general`."""
    by_id = version >= TOPIC_IDS_FROM

    def decode(view: Buffer, position: int) -> tuple[Message, int]:
        data = view if view.__class__ is memoryview else memoryview(view)
        end = len(data)
        if end - position < REQUEST_MIN_BYTES:
            return general(view, position)
        name: Buffer = b""
        if by_id:
            transactional_id, acks, timeout_ms, topics, topic_id, partitions, index, size_bytes = (
                REQUEST_BY_ID.unpack_from(data, position)
            )
            at = position + REQUEST_BY_ID.size
        else:
            transactional_id, acks, timeout_ms, topics, name_bytes = REQUEST_BY_NAME.unpack_from(data, position)
            position_of_name = position + REQUEST_BY_NAME.size
            name_end = position_of_name + name_bytes - 1
            at = name_end + PARTITION.size
            if not 0 < name_bytes <= SHORT_NAME_BYTES + 1 or at + 3 > end:
                return general(view, position)
            topic_id, name = ZERO_ID, data[position_of_name:name_end]
            partitions, index, size_bytes = PARTITION.unpack_from(data, name_end)
        if size_bytes > 127:
            second, third = data[at], data[at + 1]
            if second < 128:
                size_bytes = size_bytes & 127 | second << 7
                at += 1
            elif third < 128:
                size_bytes = size_bytes & 127 | (second & 127) << 7 | third << 14
                at += 2
            else:
                return general(view, position)
        stop = at + size_bytes - 1
        if transactional_id or topics != ONE or partitions != ONE or not size_bytes or data[stop:] != REQUEST_END:
            return general(view, position)
        partition = new(PartitionProduceData)
        partition.index = index
        partition.records = data[at:stop]
        topic = new(TopicProduceData)
        topic.name = str(name, "utf-8")
        topic.topic_id = UUIDS.get(topic_id) or new_uuid(topic_id)
        topic.partition_data = [partition]
        request = new(ProduceRequest)
        request.transactional_id = None
        request.acks = acks
        request.timeout_ms = timeout_ms
        request.topic_data = [topic]
        return request, end

    return decode


def plain_answer(version: int, topic: TopicProduceResponse, partition: PartitionProduceResponse) -> bytes | None:
    """The answer for one partition of one topic, without records at fault, message and leader, from the tagged fields
    of its header on; None if the version is not written here.
    """
    if version >= TOPIC_IDS_FROM:
        return ANSWER_BY_ID(
            0, ONE, topic.topic_id.bytes, ONE,
            partition.index, partition.error_code, partition.base_offset, partition.log_append_time_ms,
            partition.log_start_offset, 1, 0, 0, 0, 0, 0,
        )  # fmt: skip
    name = topic.name.encode()
    if version < FLEXIBLE_FROM or len(name) > SHORT_NAME_BYTES:
        return None
    return bytes((0, ONE, len(name) + 1)) + name + ANSWER_END(
        ONE, partition.index, partition.error_code, partition.base_offset, partition.log_append_time_ms,
        partition.log_start_offset, 1, 0, 0, 0, 0, 0,
    )  # fmt: skip
