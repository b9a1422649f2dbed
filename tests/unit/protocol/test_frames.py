"""Frames with their headers, and messages stored as records."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.errors import ProtocolError, UnsupportedVersionError
from penstock.protocol import frames, record_frames
from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.frames import RequestHeader
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse
from penstock.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.share.share_snapshot_key import ShareSnapshotKey
from penstock.protocol.messages.transaction.transaction_log_key import TransactionLogKey

API_VERSIONS, METADATA, FETCH = APIS[ApiKey.API_VERSIONS], APIS[ApiKey.METADATA], APIS[ApiKey.FETCH]


def body(chunks: list[object]) -> bytes:
    """A frame without its length, which must be right."""
    whole = b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[call-overload]
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:]


@pytest.mark.parametrize("client_id", ["python-1", "", None, "é"])
@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_a_request_is_read_as_it_was_written(version: int, client_id: str | None) -> None:
    request = MetadataRequest(topics=[] if version == 0 else None)
    frame = body(frames.encode_request(METADATA, version, 42, client_id, request))
    header, message = frames.decode_request(memoryview(frame))
    assert header == RequestHeader(3, version, 42, client_id)
    assert message == request


def test_the_client_id_keeps_its_short_length_in_the_flexible_header() -> None:
    frame = body(frames.encode_request(API_VERSIONS, 3, 7, "cli", ApiVersionsRequest()))
    assert frame.startswith(bytes.fromhex("0012 0003 00000007 0003") + b"cli" + b"\0")


def test_the_header_of_an_unknown_version_can_be_read() -> None:
    frame = bytes.fromhex("0012 0063 00000007 0003") + b"cli" + b"\0" + b"whatever"
    header, position = frames.decode_request_header(frame)
    assert header == RequestHeader(18, 99, 7, "cli")
    assert frame[position:] == b"whatever"
    with pytest.raises(UnsupportedVersionError):
        frames.decode_request(frame)


def test_tagged_fields_of_the_header_are_passed_over() -> None:
    frame = bytes.fromhex("0012 0003 00000007 ffff 01 09 02 abcd 02 61 02 62 00")
    header, message = frames.decode_request(frame)
    assert header.client_id is None
    assert message == ApiVersionsRequest(client_software_name="a", client_software_version="b")


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "0012",
        "0012 0003 00000007 0003 61",
        "0012 0003 00000007 fffe",
        "0012 0003 00000007 0001 ff 00",
        "0012 0003 00000007 ffff",
        "0012 0003 00000007 ffff 01",
        "0004 0000 00000007 ffff",
        "7fff 0000 00000007 ffff",
    ],
)
def test_a_broken_header_is_a_protocol_error(frame: str) -> None:
    with pytest.raises(ProtocolError):
        frames.decode_request_header(bytes.fromhex(frame))


def test_a_response_is_read_as_it_was_written() -> None:
    api = APIS[ApiKey.HEARTBEAT]
    for version in (0, 4):
        response = HeartbeatResponse(error_code=27)
        frame = body(frames.encode_response(api, version, 9, response))
        assert frames.decode_response(api, version, frame) == (9, response)


def test_the_header_of_an_api_versions_response_is_never_flexible() -> None:
    frame = body(frames.encode_response(API_VERSIONS, 3, 9, ApiVersionsResponse()))
    assert frame == bytes.fromhex("00000009 0000 01 00000000 00")


@dataclass
class RangeOfFile:
    length: int


def test_the_length_counts_ranges_of_files() -> None:
    partition = PartitionData(records=[RangeOfFile(1_000_000)])
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    chunks = frames.encode_response(FETCH, 12, 1, response)
    written = sum(chunk.length if isinstance(chunk, RangeOfFile) else len(chunk) for chunk in chunks)  # type: ignore
    assert int.from_bytes(bytes(chunks[0])[:4], "big") == written - 4  # type: ignore[arg-type]


def test_a_broken_response_is_a_protocol_error() -> None:
    for frame in (b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\5"):
        with pytest.raises(ProtocolError):
            frames.decode_response(FETCH, 12, frame)
    with pytest.raises(UnsupportedVersionError):
        frames.decode_response(FETCH, 3, b"\0\0\0\1")


def test_a_metadata_record_has_kafkas_frame() -> None:
    record = FeatureLevelRecord(name="kraft.version", feature_level=1)
    value = record_frames.encode_metadata_record(record, 0)
    assert value == bytes.fromhex("01 0c 00 0e") + b"kraft.version" + bytes.fromhex("0001 00")
    assert record_frames.decode_metadata_record(value) == (record, 0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "ends inside its frame"),
        ("02 0c 00", "frame version 2"),
        ("01 63 00", "no metadata record of type 99"),
        ("01 0c 07 00", "FeatureLevelRecord has versions 0 to 0"),
        ("01 0c 00 02 66 0001 00 00", "1 bytes after a FeatureLevelRecord"),
        ("01 0c 00 02", "broken FeatureLevelRecord"),
    ],
)
def test_a_broken_metadata_record_is_refused(value: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        record_frames.decode_metadata_record(bytes.fromhex(value))


def test_every_metadata_record_can_be_framed() -> None:
    classes = record_frames.classes("metadata", "metadata")
    assert len(classes) == 26
    for cls in classes.values():
        value = record_frames.encode_metadata_record(cls(), cls.MAX_VERSION)
        assert record_frames.decode_metadata_record(value) == (cls(), cls.MAX_VERSION)


def test_tiered_storage_has_its_own_record_types() -> None:
    assert sorted(record_frames.classes("remote_log", "metadata")) == [0, 1, 2, 3]


def test_coordinator_records_begin_with_two_bytes() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    data = record_frames.encode_coordinator_key(key)
    assert data == bytes.fromhex("0001 0001 67 0001 74 00000001")
    assert record_frames.decode_coordinator_key("group", data) == key
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=6)
    data = record_frames.encode_coordinator_value(value, 3)
    assert data == bytes.fromhex("0003 0000000000000005 ffffffff 0001 6d 0000000000000006")
    assert record_frames.decode_coordinator_value("group", 1, data) == (value, 3)


def test_each_coordinator_has_its_own_keys() -> None:
    for package, key in (
        ("group", GroupMetadataKey(group="g")),
        ("transaction", TransactionLogKey(transactional_id="t")),
        ("share", ShareSnapshotKey(group_id="s")),
    ):
        assert record_frames.decode_coordinator_key(package, record_frames.encode_coordinator_key(key)) == key


@pytest.mark.parametrize("key", ["", "00", "0063", "0002", "0002 0001 67 00"])
def test_a_broken_coordinator_key_is_refused(key: str) -> None:
    with pytest.raises(ProtocolError):
        record_frames.decode_coordinator_key("group", bytes.fromhex(key))


def test_a_broken_coordinator_value_is_refused() -> None:
    for number, value in ((99, "0000"), (2, "0009 00"), (2, "00"), (2, "0000")):
        with pytest.raises(ProtocolError):
            record_frames.decode_coordinator_value("group", number, bytes.fromhex(value))
