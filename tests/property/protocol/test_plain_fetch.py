"""The plain Fetch is read and written as the generated codecs do it: the same messages, bytes and errors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ProtocolError, UnsupportedVersionError
from penstock.log.disk import FileSlice
from penstock.protocol import plain_fetch
from penstock.protocol.codec import BROKEN, UNWRITABLE, classes_of, compiled, encode_bytes, make_decoder, schema_of
from penstock.protocol.decoder import decoder_source
from penstock.protocol.encoder import encoder_source
from penstock.protocol.message import Buffer, Chunk, Message
from penstock.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from penstock.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)

VERSIONS = range(plain_fetch.REQUESTS_FROM, 19)
ANSWERED = range(plain_fetch.RESPONSES_FROM, 19)
ODD_BYTES = (0, 1, 2, 3, 8, 13, 127, 128, 129, 255)
uuids = st.binary(min_size=16, max_size=16).map(lambda raw: UUID(bytes=raw))
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
NO_LEADER = LeaderIdAndEpoch()
LEADERS_FROM = 16
"""From this version on an answer may name the leaders of refused partitions."""


def general_decoder(cls: type[Message], version: int) -> plain_fetch.Decoder:
    source = decoder_source(schema_of(cls, version), version, classes_of(cls))
    decoder: plain_fetch.Decoder = compiled("decode", source, cls, version)
    return decoder


def general_encoder(cls: type[Message], version: int) -> plain_fetch.Encoder:
    source = encoder_source(schema_of(cls, version), version, classes_of(cls))
    encoder: plain_fetch.Encoder = compiled("encode", source, cls, version)
    return encoder


KEYS: list[tuple[type[Message], int]] = [
    *((FetchRequest, version) for version in VERSIONS),
    *((FetchResponse, version) for version in ANSWERED),
]
GENERAL = {key: general_decoder(*key) for key in KEYS}
SHORT = {key: make_decoder(*key) for key in KEYS}
GENERAL_ENCODERS = {key: general_encoder(*key) for key in KEYS}


def outcome(decoder: plain_fetch.Decoder, data: bytes, position: int) -> tuple[Message, int] | str:
    """The message and the position after it, or the error."""
    try:
        return decoder(memoryview(data), position)
    except (ProtocolError, *BROKEN) as error:
        return f"{type(error).__name__}: {error}"


def read_both_ways(data: bytes, version: int, cls: type[Message] = FetchRequest) -> None:
    """Reads a message with and without the shortcut, after some bytes of another one."""
    before = b"header"
    found = outcome(SHORT[cls, version], before + data, len(before))
    assert found == outcome(GENERAL[cls, version], before + data, len(before))


SENDERS = ["consumer", "follower", "telling follower"]
"""A telling follower is one of Apache Kafka's, which says what high watermark it knows."""


def request_of(version: int, sender: str, **fields: Any) -> FetchRequest:
    wanted = FetchPartition(partition=3, current_leader_epoch=7, fetch_offset=1 << 40, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic_id=UUID(int=5), partitions=[wanted])])
    if sender != "consumer":
        request.replica_state = ReplicaState(replica_id=2, replica_epoch=9)
        if sender == "telling follower" and version >= plain_fetch.WATERMARKS_FROM:
            wanted.high_watermark = 1 << 39
    for name, value in fields.items():
        setattr(request, name, value)
    return request


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_request_with_any_byte_changed_or_cut_off_is_read_the_same(version: int, sender: str) -> None:
    data = encode_bytes(request_of(version, sender, session_id=77, session_epoch=3), version)
    for place in range(len(data)):
        for value in ODD_BYTES:
            read_both_ways(data[:place] + bytes((value,)) + data[place + 1 :], version)
        read_both_ways(data[:place], version)
        read_both_ways(data[:place] + b"\0" + data[place:], version)
    read_both_ways(data, version)


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_request_is_not_left_to_the_general_decoder(version: int, sender: str) -> None:
    def general(view: object, position: int) -> tuple[Message, int]:
        raise AssertionError

    data = encode_bytes(request_of(version, sender), version)
    assert plain_fetch.plain_request_decoder(version, general)(memoryview(data), 0)[1] == len(data)


def test_a_plain_request_of_a_follower_is_not_left_to_the_general_encoder() -> None:
    def general(message: Message) -> list[Chunk]:
        raise AssertionError

    request = request_of(18, "follower")
    assert plain_fetch.plain_request_encoder(general)(request) == GENERAL_ENCODERS[FetchRequest, 18](request)


partitions = st.builds(
    FetchPartition,
    partition=int32,
    current_leader_epoch=int32,
    fetch_offset=int64,
    last_fetched_epoch=int32,
    log_start_offset=int64,
    partition_max_bytes=int32,
)
topics = st.builds(FetchTopic, topic_id=uuids, partitions=st.lists(partitions, min_size=1, max_size=2))
requests = st.builds(
    FetchRequest,
    max_wait_ms=int32,
    min_bytes=int32,
    max_bytes=int32,
    isolation_level=st.integers(-128, 127),
    session_id=int32,
    session_epoch=int32,
    topics=st.lists(topics, max_size=2),
    forgotten_topics_data=st.lists(st.builds(ForgottenTopic, topic_id=uuids, partitions=st.just([1])), max_size=1),
    rack_id=st.sampled_from(["", "", "rack"]),
    cluster_id=st.sampled_from([None, None, "c"]),
    replica_state=st.builds(ReplicaState, replica_id=int32, replica_epoch=int64),
)


@settings(max_examples=400)
@given(requests, st.sampled_from(VERSIONS), st.one_of(st.none(), int64), st.binary(max_size=2))
def test_any_request_is_read_the_same(
    request: FetchRequest, version: int, high_watermark: int | None, rest: bytes
) -> None:
    if high_watermark is not None and version >= plain_fetch.WATERMARKS_FROM and request.topics:
        request.topics[0].partitions[0].high_watermark = high_watermark
    read_both_ways(encode_bytes(request, version) + rest, version)


def written(encoder: plain_fetch.Encoder, message: Message) -> list[Chunk] | type[Exception]:
    """The chunks, or the error."""
    try:
        return encoder(message)
    except (UnsupportedVersionError, *UNWRITABLE) as error:
        return type(error)


ODD_FIELDS = {"replica_id": 2, "max_wait_ms": 1 << 31, "rack_id": "r" * 200}
ODD_OF_PARTITIONS = {
    "high_watermark": 3,
    "replica_directory_id": UUID(int=9),
    "fetch_offset": 1 << 63,
    "log_start_offset": None,
}


@settings(max_examples=400)
@given(requests, st.sampled_from(VERSIONS), st.sampled_from(["", "", "", *ODD_FIELDS, *ODD_OF_PARTITIONS]))
def test_any_request_is_written_the_same(request: FetchRequest, version: int, odd: str) -> None:
    if odd in ODD_FIELDS:
        setattr(request, odd, ODD_FIELDS[odd])
    elif odd and request.topics:
        setattr(request.topics[0].partitions[0], odd, ODD_OF_PARTITIONS[odd])
    general = GENERAL_ENCODERS[FetchRequest, version]
    assert written(plain_fetch.plain_request_encoder(general), request) == written(general, request)


@pytest.mark.parametrize(
    "odd",
    [
        {"rack_id": "r"},
        {"cluster_id": "c"},
        {"replica_id": 2},
        {"replica_state": ReplicaState(replica_id=-1, replica_epoch=4)},
        {"replica_state": ReplicaState()},
        {"forgotten_topics_data": [ForgottenTopic(topic_id=UUID(int=5), partitions=[1])]},
        {"topics": []},
        {"topics": [FetchTopic(topic_id=UUID(int=5), partitions=[])]},
        {"topics": [FetchTopic(topic_id=UUID(int=5), partitions=[FetchPartition(), FetchPartition()])]},
        {"topics": [FetchTopic(partitions=[FetchPartition(high_watermark=3)])]},
        {"topics": [FetchTopic(partitions=[FetchPartition(replica_directory_id=UUID(int=9))])]},
    ],
)
def test_a_request_with_any_odd_field_is_written_the_same(odd: dict[str, Any]) -> None:
    request = request_of(18, "follower", **odd)
    general = GENERAL_ENCODERS[FetchRequest, 18]
    assert written(plain_fetch.plain_request_encoder(general), request) == written(general, request)


slices = st.builds(FileSlice, st.just(0), st.just("t-0/0.log"), int64, st.integers(1, 1 << 31))
answers = st.builds(
    FetchResponse,
    throttle_time_ms=int32,
    error_code=st.integers(-1, 140),
    session_id=st.one_of(int32, st.just(1 << 31)),
    responses=st.lists(
        st.builds(
            FetchableTopicResponse,
            topic_id=uuids,
            partitions=st.lists(
                st.builds(
                    PartitionData,
                    partition_index=int32,
                    error_code=st.integers(-1, 140),
                    high_watermark=int64,
                    last_stable_offset=int64,
                    log_start_offset=int64,
                    diverging_epoch=st.sampled_from([EpochEndOffset(), EpochEndOffset(), EpochEndOffset(epoch=3)]),
                    current_leader=st.sampled_from([NO_LEADER, NO_LEADER, LeaderIdAndEpoch(leader_epoch=2)]),
                    snapshot_id=st.sampled_from([SnapshotId(), SnapshotId(), SnapshotId(end_offset=4)]),
                    aborted_transactions=st.sampled_from([None, [], [AbortedTransaction(producer_id=1)]]),
                    preferred_read_replica=st.sampled_from([-1, 2]),
                    records=st.one_of(
                        st.lists(slices, min_size=1, max_size=1),
                        st.lists(slices, max_size=2),
                        st.sampled_from([None, b"", b"records", [b"in memory"], memoryview(b"r" * 600)]),
                    ),
                ),
                min_size=1,
                max_size=2,
            ),
        ),
        max_size=2,
    ),
    node_endpoints=st.sampled_from([[], [], [NodeEndpoint(host="host")]]),
)


@settings(max_examples=1000)
@given(answers, st.sampled_from(ANSWERED))
def test_any_answer_is_written_the_same(answer: FetchResponse, version: int) -> None:
    general = GENERAL_ENCODERS[FetchResponse, version]
    assert written(plain_fetch.plain_response_encoder(general), answer) == written(general, answer)


@pytest.mark.parametrize("length", [1, 126, 127, 16382, 16383, (1 << 21) - 1, 1 << 30])
@pytest.mark.parametrize("aborted", [None, []])
def test_a_plain_answer_is_not_left_to_the_general_encoder(length: int, aborted: list[AbortedTransaction]) -> None:
    def general(message: Message) -> list[Chunk]:
        raise AssertionError

    piece = FileSlice(0, "t-0/0.log", 0, length)
    data = PartitionData(partition_index=1, records=[piece], aborted_transactions=aborted)
    answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=UUID(int=5), partitions=[data])])
    assert plain_fetch.plain_response_encoder(general)(answer) == GENERAL_ENCODERS[FetchResponse, 17](answer)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("diverging_epoch", EpochEndOffset(epoch=0)),
        ("diverging_epoch", EpochEndOffset(end_offset=0)),
        ("current_leader", LeaderIdAndEpoch(leader_id=0)),
        ("current_leader", LeaderIdAndEpoch(leader_epoch=0)),
        ("snapshot_id", SnapshotId(end_offset=0)),
        ("snapshot_id", SnapshotId(epoch=0)),
    ],
)
def test_an_answer_with_any_tagged_field_is_written_the_same(name: str, value: object) -> None:
    data = PartitionData(partition_index=1, records=[FileSlice(0, "t-0/0.log", 0, 70)])
    setattr(data, name, value)
    answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=UUID(int=5), partitions=[data])])
    general = GENERAL_ENCODERS[FetchResponse, 17]
    assert plain_fetch.plain_response_encoder(general)(answer) == general(answer)


def answer_with(records: Buffer | None, **fields: Any) -> FetchResponse:
    data = PartitionData(partition_index=3, high_watermark=1 << 40, records=records, **fields)
    topic = FetchableTopicResponse(topic_id=UUID(int=5), partitions=[data])
    return FetchResponse(session_id=77, responses=[topic])


@pytest.mark.parametrize("size", [0, 1, 40, 126, 127, 128, 200])
@pytest.mark.parametrize("aborted", [None, []])
def test_a_plain_answer_with_any_byte_changed_or_cut_off_is_read_the_same(
    size: int, aborted: list[AbortedTransaction] | None
) -> None:
    data = encode_bytes(answer_with(b"r" * size, aborted_transactions=aborted), 18)
    for place in (*range(70), *range(len(data) - 6, len(data))):
        for value in ODD_BYTES:
            read_both_ways(data[:place] + bytes((value,)) + data[place + 1 :], 18, FetchResponse)
        read_both_ways(data[:place], 18, FetchResponse)
        read_both_ways(data[:place] + b"\0" + data[place:], 18, FetchResponse)
        read_both_ways(data[:place] + b"\xff\xff\xff\xff\xff", 18, FetchResponse)
    read_both_ways(data, 18, FetchResponse)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 16382, 16383, 1 << 21])
@pytest.mark.parametrize("version", ANSWERED)
def test_a_plain_answer_is_not_left_to_the_general_decoder(size: int, version: int) -> None:
    def general(view: object, position: int) -> tuple[Message, int]:
        raise AssertionError

    data = encode_bytes(answer_with(b"r" * size), version)
    assert plain_fetch.plain_response_decoder(general)(memoryview(data), 0)[1] == len(data)


@settings(max_examples=400)
@given(answers, st.sampled_from(ANSWERED), st.sampled_from([None, b"", b"r", b"r" * 200]), st.binary(max_size=2))
def test_any_answer_is_read_the_same(answer: FetchResponse, version: int, records: bytes | None, rest: bytes) -> None:
    answer.session_id &= 0x7FFF_FFFF
    if version < LEADERS_FROM:
        answer.node_endpoints = []
    for topic in answer.responses:
        for data in topic.partitions:
            data.records = records
    read_both_ways(encode_bytes(answer, version) + rest, version, FetchResponse)
