"""The plain Fetch is read and written as the generated codecs do it: the same messages, bytes and errors."""

from __future__ import annotations

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
from penstock.protocol.message import Chunk, Message
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


def general_decoder(version: int) -> plain_fetch.Decoder:
    source = decoder_source(schema_of(FetchRequest, version), version, classes_of(FetchRequest))
    decoder: plain_fetch.Decoder = compiled("decode", source, FetchRequest, version)
    return decoder


def general_encoder(version: int) -> plain_fetch.Encoder:
    source = encoder_source(schema_of(FetchResponse, version), version, classes_of(FetchResponse))
    encoder: plain_fetch.Encoder = compiled("encode", source, FetchResponse, version)
    return encoder


GENERAL = {version: general_decoder(version) for version in VERSIONS}
SHORT = {version: make_decoder(FetchRequest, version) for version in VERSIONS}
GENERAL_ENCODERS = {version: general_encoder(version) for version in ANSWERED}


def outcome(decoder: plain_fetch.Decoder, data: bytes, position: int) -> tuple[Message, int] | str:
    """The message and the position after it, or the error."""
    try:
        return decoder(memoryview(data), position)
    except (ProtocolError, *BROKEN) as error:
        return f"{type(error).__name__}: {error}"


def read_both_ways(data: bytes, version: int) -> None:
    """Reads a request with and without the shortcut, after some bytes of another one."""
    before = b"header"
    found = outcome(SHORT[version], before + data, len(before))
    assert found == outcome(GENERAL[version], before + data, len(before))


def request_of(version: int, *, follower: bool, **fields: int) -> bytes:
    wanted = FetchPartition(partition=3, current_leader_epoch=7, fetch_offset=1 << 40, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic_id=UUID(int=5), partitions=[wanted])])
    if follower:
        request.replica_state = ReplicaState(replica_id=2, replica_epoch=9)
        if version >= plain_fetch.WATERMARKS_FROM:
            wanted.high_watermark = 1 << 39
    for name, value in fields.items():
        setattr(request, name, value)
    return encode_bytes(request, version)


@pytest.mark.parametrize("follower", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_request_with_any_byte_changed_or_cut_off_is_read_the_same(version: int, follower: bool) -> None:
    data = request_of(version, follower=follower, session_id=77, session_epoch=3)
    for place in range(len(data)):
        for value in ODD_BYTES:
            read_both_ways(data[:place] + bytes((value,)) + data[place + 1 :], version)
        read_both_ways(data[:place], version)
        read_both_ways(data[:place] + b"\0" + data[place:], version)
    read_both_ways(data, version)


@pytest.mark.parametrize(
    ("version", "follower"), [*((version, False) for version in VERSIONS), (plain_fetch.WATERMARKS_FROM, True)]
)
def test_a_plain_request_is_not_left_to_the_general_decoder(version: int, follower: bool) -> None:
    def general(view: object, position: int) -> tuple[Message, int]:
        raise AssertionError

    data = request_of(version, follower=follower)
    assert plain_fetch.plain_decoder(version, general)(memoryview(data), 0)[1] == len(data)


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


def written(encoder: plain_fetch.Encoder, answer: FetchResponse) -> list[Chunk] | type[Exception]:
    """The chunks, or the error."""
    try:
        return encoder(answer)
    except (UnsupportedVersionError, *UNWRITABLE) as error:
        return type(error)


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
    general = GENERAL_ENCODERS[version]
    assert written(plain_fetch.plain_encoder(general), answer) == written(general, answer)


@pytest.mark.parametrize("length", [1, 126, 127, 16382, 16383, (1 << 21) - 1, 1 << 30])
@pytest.mark.parametrize("aborted", [None, []])
def test_a_plain_answer_is_not_left_to_the_general_encoder(length: int, aborted: list[AbortedTransaction]) -> None:
    def general(message: Message) -> list[Chunk]:
        raise AssertionError

    piece = FileSlice(0, "t-0/0.log", 0, length)
    data = PartitionData(partition_index=1, records=[piece], aborted_transactions=aborted)
    answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=UUID(int=5), partitions=[data])])
    assert plain_fetch.plain_encoder(general)(answer) == GENERAL_ENCODERS[17](answer)


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
    assert plain_fetch.plain_encoder(GENERAL_ENCODERS[17])(answer) == GENERAL_ENCODERS[17](answer)
