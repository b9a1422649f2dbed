"""Messages to bytes and back: golden bytes, and what is easily got wrong."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import pytest

from penstock.errors import ProtocolError, UnsupportedVersionError
from penstock.protocol import codec, limits
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse, SupportedFeatureKey
from penstock.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.messages.describe_topic_partitions_request import Cursor, DescribeTopicPartitionsRequest
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from penstock.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.protocol.messages.group.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.metadata.topic_record import TopicRecord
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.request_header import RequestHeader
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest

TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

GOLDEN: list[tuple[Message, int, str]] = [
    (HeartbeatRequest(group_id="g", generation_id=7, member_id="m"), 0, "0001 67 00000007 0001 6d"),
    (HeartbeatRequest(group_id="g", generation_id=7, member_id="m"), 3, "0001 67 00000007 0001 6d ffff"),
    (HeartbeatRequest(group_id="g", generation_id=7, member_id="m"), 4, "02 67 00000007 02 6d 00 00"),
    (ApiVersionsRequest(client_software_name="py", client_software_version="1"), 3, "03 7079 02 31 00"),
    (ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, max_version=13)]), 0, "0000 00000001 0003 0000 000d"),
    (
        ApiVersionsResponse(supported_features=[SupportedFeatureKey(name="f", max_version=2)]),
        3,
        "0000 01 00000000  01 00 08  02 02 66 0000 0002 00",
    ),
    (MetadataRequest(topics=[]), 0, "00000000"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (MetadataRequest(topics=None), 13, "00 01 00 00"),
    (
        MetadataRequest(topics=[MetadataRequestTopic(topic_id=TOPIC_ID, name=None)]),
        12,
        f"02 {TOPIC_ID.hex} 00 00 01 00 00",
    ),
    (DescribeTopicPartitionsRequest(cursor=None), 0, "01 000007d0 ff 00"),
    (DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="t")), 0, "01 000007d0 01 02 74 00000000 00 00"),
    (RequestHeader(request_api_key=1, request_api_version=12, client_id="c"), 2, "0001 000c 00000000 0001 63 00"),
    (TopicRecord(name="t", topic_id=TOPIC_ID), 0, f"02 74 {TOPIC_ID.hex} 00"),
    (
        ConsumerGroupMemberMetadataValue(classic_member_metadata=None),
        0,
        "01 01 01 01 01 01 ffffffff 01  01 00 01 00",
    ),
]


@pytest.mark.parametrize(("message", "version", "wire"), GOLDEN)
def test_a_message_has_exactly_these_bytes(message: Message, version: int, wire: str) -> None:
    data = bytes.fromhex(wire)
    assert codec.encode_bytes(message, version) == data
    assert codec.decode(type(message), version, data) == (message, len(data))
    assert codec.decode(type(message), version, memoryview(bytearray(b"xyz" + data)), 3) == (message, len(data) + 3)


def fetch_of(count: int, *, epoch: int) -> FetchRequest:
    partitions = [FetchPartition(partition=index, current_leader_epoch=epoch) for index in range(count)]
    return FetchRequest(topics=[FetchTopic(topic_id=TOPIC_ID, partitions=partitions)])


def test_elements_of_one_width_are_read_alike_with_and_without_tags() -> None:
    for version in (9, 13, 18):
        request = fetch_of(40, epoch=3)
        if version < 13:
            request.topics[0].topic, request.topics[0].topic_id = "clicks", ZERO_UUID
        assert codec.decode(FetchRequest, version, codec.encode_bytes(request, version))[0] == request
    request.topics[0].partitions[17].high_watermark = 5
    assert codec.decode(FetchRequest, 18, codec.encode_bytes(request, 18))[0] == request


def test_fields_that_a_version_lacks_have_their_defaults() -> None:
    request, _ = codec.decode(FetchRequest, 4, codec.encode_bytes(FetchRequest(), 4))
    assert (request.session_epoch, request.rack_id, request.replica_state) == (-1, "", ReplicaState())


def test_two_decoded_messages_share_no_default_list_or_struct() -> None:
    data = codec.encode_bytes(FetchRequest(), 4)
    first, second = codec.decode(FetchRequest, 4, data)[0], codec.decode(FetchRequest, 4, data)[0]
    assert first.replica_state is not second.replica_state
    assert first.forgotten_topics_data is not second.forgotten_topics_data


def test_a_value_that_the_version_cannot_carry_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"HeartbeatRequest\.group_instance_id .* version 2"):
        codec.encode(HeartbeatRequest(group_instance_id="i"), 2)


def test_a_struct_that_the_version_cannot_carry_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"FetchRequest\.replica_state .* version 14"):
        codec.encode(FetchRequest(replica_state=ReplicaState(replica_id=1)), 14)


def test_an_ignorable_value_is_left_out() -> None:
    assert codec.encode_bytes(FetchRequest(rack_id="r1"), 10) == codec.encode_bytes(FetchRequest(), 10)


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_a_version_that_does_not_exist_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"FetchRequest has versions 4 to 18, not version {version}"):
        codec.encode(FetchRequest(), version)
    with pytest.raises(UnsupportedVersionError):
        codec.decode(FetchRequest, version, b"")


UNWRITABLE: list[tuple[Message, str]] = [
    (HeartbeatRequest(generation_id=2**31), r"HeartbeatRequest\.generation_id = 2147483648 does not fit in int32"),
    (HeartbeatRequest(generation_id="7"), r"generation_id must be a whole number, it is '7'"),  # type: ignore[arg-type]
    (HeartbeatRequest(group_id=None), r"HeartbeatRequest\.group_id may not be null"),  # type: ignore[arg-type]
    (HeartbeatRequest(group_id="x" * 40_000), r"HeartbeatRequest\.group_id is a string of 40000 bytes"),
    (HeartbeatRequest(group_id="\ud800"), "surrogates not allowed"),
]


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(("message", "reason"), UNWRITABLE)
def test_a_value_that_cannot_be_written_is_named(message: Message, reason: str, version: int) -> None:
    with pytest.raises(ProtocolError, match=reason):
        codec.encode(message, version)


def test_the_path_to_a_faulty_element_is_named() -> None:
    request = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(), FetchPartition(partition=-(2**40))])])
    with pytest.raises(ProtocolError, match=r"FetchRequest\.topics\[0\]\.partitions\[1\]\.partition = "):
        codec.encode(request, 12)


def produce_of(records: object) -> ProduceRequest:
    partition = PartitionProduceData(records=records)  # type: ignore[arg-type]
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def test_record_bytes_are_not_copied_by_decode() -> None:
    frame = bytearray(codec.encode_bytes(produce_of(b"r" * 1000), 9))
    request, _ = codec.decode(ProduceRequest, 9, memoryview(frame))
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"r")] = ord("R")
    assert bytes(records[:2]) == b"Rr"


def test_record_bytes_are_not_copied_by_encode() -> None:
    records = memoryview(bytes(100_000))
    chunks = codec.encode(produce_of(records), 9)
    assert any(chunk is records for chunk in chunks)
    assert len(chunks) == 3


@dataclass
class RangeOfFile:
    length: int


def test_ranges_of_files_pass_through_between_buffers() -> None:
    slices = [RangeOfFile(70_000), RangeOfFile(5)]
    partition = PartitionData(records=[slices[0], b"tail", slices[1]])
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    chunks = codec.encode(response, 12)
    assert chunks[1:4] == [slices[0], b"tail", slices[1]]
    with_bytes = PartitionData(records=bytes(70_009))
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[with_bytes])])
    whole = codec.encode_bytes(response, 12)
    assert whole[: len(chunks[0])] == chunks[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("size_bytes", [0, 1, 126, 127, 128, 512, 513, 16_383, 16_384, 2**21 - 2, 2**21 - 1, 2**21])
def test_record_bytes_of_any_length_are_read_back(version: int, size_bytes: int) -> None:
    for records in (bytes(size_bytes), bytearray(size_bytes), memoryview(bytes(size_bytes)), [bytes(size_bytes)]):
        data = codec.encode_bytes(produce_of(records), version)
        request, end = codec.decode(ProduceRequest, version, data)
        assert end == len(data)
        assert request.topic_data[0].partition_data[0].records == bytes(size_bytes)


def test_no_records_are_null() -> None:
    request, _ = codec.decode(ProduceRequest, 9, codec.encode_bytes(produce_of(None), 9))
    assert request.topic_data[0].partition_data[0].records is None


def test_byte_strings_are_copied() -> None:
    frame = bytearray(codec.encode_bytes(SaslAuthenticateRequest(auth_bytes=b"secret"), 2))
    request, _ = codec.decode(SaslAuthenticateRequest, 2, frame)
    frame.clear()
    assert request.auth_bytes == b"secret"


def test_unknown_tagged_fields_are_passed_over() -> None:
    known = codec.encode_bytes(HeartbeatRequest(group_id="g"), 4)
    data = known[:-1] + bytes.fromhex("02 05 01 ff e807 02 abcd")
    assert codec.decode(HeartbeatRequest, 4, data) == (HeartbeatRequest(group_id="g"), len(data))


def test_unknown_tagged_fields_are_limited() -> None:
    start = codec.encode_bytes(HeartbeatRequest(group_id="g"), 4)[:-1]
    most = start + bytes.fromhex("8008") + bytes.fromhex("09 00") * limits.TAGGED_FIELDS_MAX
    assert codec.decode(HeartbeatRequest, 4, most)[1] == len(most)
    with pytest.raises(ProtocolError, match="1025 tagged fields"):
        codec.decode(HeartbeatRequest, 4, start + bytes.fromhex("8108") + bytes.fromhex("09 00") * 1025)


def test_a_tagged_field_that_lies_about_its_size_is_refused() -> None:
    data = bytes.fromhex("0000 01 00000000  01 01 07 0000000000000005")
    with pytest.raises(ProtocolError, match=r"finalized_features_epoch announces 7 bytes and has 8"):
        codec.decode(ApiVersionsResponse, 3, data)


def test_equal_ids_are_one_object() -> None:
    data = codec.encode_bytes(TopicRecord(name="t", topic_id=UUID(int=77)), 0)
    first, second = codec.decode(TopicRecord, 0, data)[0], codec.decode(TopicRecord, 0, data)[0]
    assert first.topic_id is second.topic_id
    assert first.topic_id == UUID(int=77)
    assert str(first.topic_id) == str(UUID(int=77))


def test_the_cache_of_ids_is_bounded() -> None:
    for number in range(limits.UUID_CACHE_MAX + 10):
        data = codec.encode_bytes(TopicRecord(topic_id=UUID(int=number)), 0)
        assert codec.decode(TopicRecord, 0, data)[0].topic_id == UUID(int=number)
    from penstock.protocol.wire import UUIDS

    assert len(UUIDS) <= limits.UUID_CACHE_MAX


HOSTILE = [
    (HeartbeatRequest, 0, "7fff 67", "ends inside|broken"),
    (HeartbeatRequest, 0, "ffff", "group_id is null"),
    (HeartbeatRequest, 0, "fffe", "group_id has length -2"),
    (HeartbeatRequest, 0, "0001 ff 00000007 0001 6d", "utf-8"),
    (HeartbeatRequest, 4, "00", "group_id is null"),
    (HeartbeatRequest, 4, "ffffffffff01", "longer than 31 bits"),
    (HeartbeatRequest, 4, "ffff7f", "a string of 2097150 bytes"),
    (HeartbeatRequest, 4, "02 67 00000007 02 6d 00 ff7f", "16383 tagged fields"),
    (HeartbeatRequest, 4, "02 67 00000007 02 6d 00 05", "5 tagged fields"),
    (HeartbeatRequest, 4, "02 67 00000007 02 6d 00 01 00 7f", "ends inside"),
    (MetadataRequest, 1, "7fffffff", "2147483647 elements"),
    (MetadataRequest, 1, "00000003 0001 61 00", "3 elements with 4 bytes left"),
    (MetadataRequest, 1, "fffffffe", "topics has length -2"),
    (MetadataRequest, 13, "ffffffff07", "2147483646 elements"),
    (MetadataRequest, 0, "ffffffff", "topics is null"),
    (FetchRequest, 12, "ff" * 100, "."),
    (ProduceRequest, 9, "", "."),
]


@pytest.mark.parametrize(("cls", "version", "wire", "reason"), HOSTILE)
def test_hostile_bytes_raise_the_protocol_error(cls: type[Message], version: int, wire: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        codec.decode(cls, version, bytes.fromhex(wire))


def test_a_frame_cut_at_any_byte_is_refused() -> None:
    request = fetch_of(5, epoch=1)
    for version in (13, 18):
        data = codec.encode_bytes(request, version)
        for length in range(len(data)):
            with pytest.raises(ProtocolError):
                codec.decode(FetchRequest, version, data[:length])


def test_elements_of_a_whole_message_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes.fromhex("000f4241") + b"\0\0" * 1_000_001
    with pytest.raises(ProtocolError, match=f"1000001 elements .*limit {limits.ARRAY_ELEMENTS_MAX}"):
        codec.decode(MetadataRequest, 1, data)


def test_prepare_makes_both_codecs_once() -> None:
    codec.prepare(HeartbeatRequest, 1)
    made = codec.DECODERS[HeartbeatRequest, 1], codec.ENCODERS[HeartbeatRequest, 1]
    codec.prepare(HeartbeatRequest, 1)
    assert made == (codec.DECODERS[HeartbeatRequest, 1], codec.ENCODERS[HeartbeatRequest, 1])


def test_messages_show_their_fields_and_abridge_bytes() -> None:
    assert repr(HeartbeatRequest(group_id="g")).startswith("HeartbeatRequest(group_id='g', generation_id=0,")
    assert "<1000 bytes>" in repr(produce_of(bytes(1000)))
    assert HeartbeatRequest() != HeartbeatRequest(group_id="g")
    assert HeartbeatRequest() != FetchRequest()


@pytest.mark.parametrize("version", [4, 7])
def test_a_sentence_that_quotes_the_longest_name_is_cut_and_names_are_not(version: int) -> None:
    said = "é" * limits.STRING_MAX_BYTES
    answer = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=3, error_message=said)])
    decoded, _ = codec.decode(CreateTopicsResponse, version, memoryview(bytearray(codec.encode_bytes(answer, version))))
    (topic,) = decoded.topics
    assert topic.error_message.endswith("é…")
    assert len(topic.error_message.encode()) <= limits.STRING_MAX_BYTES
    answer.topics[0].name = said
    with pytest.raises(ProtocolError, match="more than 32767"):
        codec.encode_bytes(answer, version)
