"""Offsets that are read from their bytes are those that the codecs read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.group.offsets.stored import WITHOUT_TEXT, committed_of, names_of
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue
from penstock.protocol.record_frames import (
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(st.sampled_from([3, 4]), st.tuples(LONG, LONG), INT, TEXT, st.uuids() | st.just(ZERO_UUID))
def test_a_value_is_read_as_the_codec_reads_it_or_left_to_it(
    version: int, numbers: tuple[int, int], epoch: int, text: str, topic_id: UUID
) -> None:
    offset, timestamp_ms = numbers
    value = OffsetCommitValue(offset=offset, leader_epoch=epoch, metadata=text, commit_timestamp=timestamp_ms)
    if version == 4:
        value.topic_id = topic_id
    data = encode_coordinator_value(value, version)
    read, _ = decode_coordinator_value("group", OffsetCommitKey.KEY, data)
    assert isinstance(read, OffsetCommitValue)
    found = committed_of(data, 9)
    if found is None:
        assert version == 4
        assert len(text.encode()) > 126
    else:
        expected = (read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, -1, read.topic_id, 9)
        assert found == expected


@given(st.sampled_from([3, 4]), st.integers(0, 60), st.integers(0, 255))
def test_a_value_that_is_not_whole_is_never_read(version: int, cut: int, byte: int) -> None:
    whole = encode_coordinator_value(OffsetCommitValue(offset=1, metadata="text"), version)
    assert committed_of(whole, 0) is not None
    assert committed_of(whole + bytes([byte]), 0) is None
    if cut < len(whole):
        assert committed_of(whole[:cut], 0) is None


@pytest.mark.parametrize("text", ["", "of eighteen bytes."])
def test_a_value_with_any_byte_wrong_is_read_as_the_codec_reads_it(text: str) -> None:
    topic_id = ZERO_UUID if text else UUID(int=7 << 64)
    whole = encode_coordinator_value(OffsetCommitValue(offset=1, metadata=text, topic_id=topic_id), 4)
    assert len(whole) == WITHOUT_TEXT.size
    for place in range(len(whole)):
        for byte in range(256):
            damaged = whole[:place] + bytes([byte]) + whole[place + 1 :]
            found = committed_of(damaged, 9)
            if found is not None:
                read: Any = decode_coordinator_value("group", OffsetCommitKey.KEY, damaged)[0]
                times = (read.commit_timestamp, read.expire_timestamp)
                assert found == (read.offset, read.leader_epoch, read.metadata, *times, read.topic_id, 9)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_other_versions_are_left_to_the_codec(version: int) -> None:
    assert committed_of(encode_coordinator_value(OffsetCommitValue(offset=1), version), 0) is None


@given(TEXT, TEXT, INT)
def test_a_key_is_read_as_the_codec_reads_it(group: str, topic: str, partition: int) -> None:
    key = encode_coordinator_key(OffsetCommitKey(group=group, topic=topic, partition=partition))
    assert names_of(key[:-4]) == (group, topic)
    assert names_of(key[:-5]) is None
    assert names_of(key) is None
