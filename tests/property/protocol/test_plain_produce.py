"""The plain Produce is read and written as the generated codecs do it: the same messages, bytes and errors."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ProtocolError
from penstock.protocol import plain_produce
from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.codec import BROKEN, classes_of, compiled, encode_bytes, make_decoder, schema_of
from penstock.protocol.decoder import decoder_source
from penstock.protocol.frames import encode_response
from penstock.protocol.message import Message
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.wire import joined

VERSIONS = range(3, 14)
ODD_BYTES = (0, 1, 2, 3, 61, 127, 128, 129, 255)
PRODUCE = APIS[ApiKey.PRODUCE]
names = st.text(st.characters(codec="utf-8"), max_size=140)
uuids = st.binary(min_size=16, max_size=16).map(lambda raw: UUID(bytes=raw))
int64 = st.integers(-(2**63), 2**63 - 1)
some_records = st.one_of(
    st.binary(max_size=140), st.sampled_from([b"r" * 16381, b"r" * 16382, b"r" * 16383, b"r" * 20000]), st.none()
)
partitions = st.builds(PartitionProduceData, index=st.integers(-(2**31), 2**31 - 1), records=some_records)

requests = st.builds(
    ProduceRequest,
    transactional_id=st.one_of(st.none(), names),
    acks=st.integers(-(2**15), 2**15 - 1),
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    topic_data=st.lists(
        st.builds(
            TopicProduceData,
            name=st.text("abc", min_size=1, max_size=9),
            topic_id=uuids,
            partition_data=st.lists(partitions, min_size=1, max_size=2),
        ),
        min_size=1,
        max_size=2,
    ),
)
plain_requests = st.builds(
    ProduceRequest,
    acks=st.sampled_from([-1, 0, 1]),
    timeout_ms=st.just(30_000),
    topic_data=st.builds(
        TopicProduceData,
        name=st.text("abc", min_size=1, max_size=9),
        topic_id=uuids,
        partition_data=partitions.map(lambda each: [each]),
    ).map(lambda each: [each]),
)

Read = tuple[Message, int] | str


def written(request: ProduceRequest, version: int) -> bytes:
    """The request in a version, which has names or ids."""
    for topic in request.topic_data:
        if version >= plain_produce.TOPIC_IDS_FROM:
            topic.name = ""
        else:
            topic.topic_id = UUID(int=0)
    return encode_bytes(request, version)


def general_decoder(version: int) -> plain_produce.Decoder:
    source = decoder_source(schema_of(ProduceRequest, version), version, classes_of(ProduceRequest))
    decoder: plain_produce.Decoder = compiled("decode", source, ProduceRequest, version)
    return decoder


GENERAL = {version: general_decoder(version) for version in VERSIONS}
SHORT = {version: make_decoder(ProduceRequest, version) for version in VERSIONS}


def outcome(decoder: plain_produce.Decoder, data: bytes, position: int) -> Read:
    """The message and the position after it, or the error."""
    try:
        return decoder(memoryview(data), position)
    except (ProtocolError, *BROKEN) as error:
        return f"{type(error).__name__}: {error}"


def both_ways(data: bytes, version: int) -> Read:
    """Reads a request with and without the shortcut, after some bytes of another one."""
    before = b"header"
    found = outcome(SHORT[version], before + data, len(before))
    assert found == outcome(GENERAL[version], before + data, len(before))
    return found


@settings(max_examples=400)
@given(requests, st.sampled_from(VERSIONS), st.binary(max_size=3))
def test_any_request_is_read_the_same(request: ProduceRequest, version: int, rest: bytes) -> None:
    both_ways(written(request, version) + rest, version)


@settings(max_examples=1000)
@given(plain_requests, st.sampled_from(VERSIONS), st.data())
def test_damaged_requests_are_read_the_same(request: ProduceRequest, version: int, data: st.DataObject) -> None:
    damaged = bytearray(written(request, version))
    places = st.one_of(
        st.integers(0, min(60, len(damaged) - 1)), st.integers(max(len(damaged) - 6, 0), len(damaged) - 1)
    )
    for _ in range(data.draw(st.integers(0, 2))):
        damaged[data.draw(places)] = data.draw(st.sampled_from(ODD_BYTES))
    stop = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    both_ways(bytes(damaged[:stop]), version)


@pytest.mark.parametrize("version", range(plain_produce.FLEXIBLE_FROM, 14))
@pytest.mark.parametrize("size_bytes", [0, 3, 61, 130])
def test_a_plain_request_with_any_byte_changed_or_cut_off_is_read_the_same(version: int, size_bytes: int) -> None:
    data = written(records_of(size_bytes), version)
    for place in range(len(data)):
        for value in ODD_BYTES:
            both_ways(data[:place] + bytes((value,)) + data[place + 1 :], version)
            both_ways(data[:place] + bytes((value,)) + data[place + 1 : -1], version)
        both_ways(data[:place], version)


@settings(max_examples=300)
@given(st.binary(max_size=80), st.sampled_from(VERSIONS))
def test_any_bytes_are_read_the_same(data: bytes, version: int) -> None:
    both_ways(data, version)


def records_of(size_bytes: int) -> ProduceRequest:
    data = PartitionProduceData(index=3, records=bytes(size_bytes))  # zeros could pass for the end of the message
    return ProduceRequest(acks=1, timeout_ms=5, topic_data=[TopicProduceData(name="clicks", partition_data=[data])])


@pytest.mark.parametrize("version", range(plain_produce.FLEXIBLE_FROM, 14))
@pytest.mark.parametrize(
    "size_bytes", [0, 1, 126, 127, 128, 16382, 16383, 1 << 20, (1 << 21) - 2, (1 << 21) - 1, 1 << 21]
)
def test_records_of_any_length_are_read_the_same(version: int, size_bytes: int) -> None:
    data = written(records_of(size_bytes), version)
    both_ways(data, version)
    both_ways(data[:-1], version)


@pytest.mark.parametrize("version", range(plain_produce.FLEXIBLE_FROM, 14))
@pytest.mark.parametrize("size_bytes", [61, 126, 127, 200, 20_000])
def test_a_plain_request_is_not_left_to_the_general_decoder(version: int, size_bytes: int) -> None:
    def general(view: object, position: int) -> tuple[Message, int]:
        raise AssertionError

    decode: Callable[[memoryview, int], tuple[Message, int]] = plain_produce.plain_decoder(version, general)
    data = written(records_of(size_bytes), version)
    message, end = decode(memoryview(data), 0)
    assert isinstance(message, ProduceRequest)
    assert end == len(data)


@settings(max_examples=400)
@given(
    st.builds(
        PartitionProduceResponse,
        index=st.integers(-(2**31), 2**31 - 1),
        error_code=st.integers(-1, 140),
        base_offset=int64,
        log_append_time_ms=int64,
        log_start_offset=int64,
    ),
    names,
    uuids,
    st.sampled_from(VERSIONS),
    st.integers(-(2**31), 2**31 - 1),
)
def test_a_plain_answer_has_the_bytes_of_the_encoder(
    partition: PartitionProduceResponse, name: str, topic_id: UUID, version: int, correlation_id: int
) -> None:
    by_id = version >= plain_produce.TOPIC_IDS_FROM
    topic = TopicProduceResponse(
        partition_responses=[partition], **({"topic_id": topic_id} if by_id else {"name": name})
    )
    found = plain_produce.plain_answer(version, topic, partition)
    if found is None:
        assert version < plain_produce.FLEXIBLE_FROM or len(name.encode()) > plain_produce.SHORT_NAME_BYTES
        return
    frame = joined(encode_response(PRODUCE, version, correlation_id, ProduceResponse(responses=[topic])))
    assert (len(found) + 4).to_bytes(4, "big") + correlation_id.to_bytes(4, "big", signed=True) + found == frame
