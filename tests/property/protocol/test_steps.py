"""A message that is read or written in steps comes out as it does at once, in steps of bounded size."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import TypeVar

import fuzz_codec
import pytest
from random_messages import RandomMessages
from support import hostile

from penstock.errors import ProtocolError
from penstock.protocol import codec, schema
from penstock.protocol.limits import ARRAY_ELEMENTS_MAX, ELEMENTS_PER_STEP
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_fetch_request import OffsetFetchRequest

T = TypeVar("T")

PAIRS = [(name, version) for name, heading in schema.headings().items() for version in heading.versions]


def drive(steps: Generator[None, None, T]) -> tuple[T, int]:
    """What the steps come to, and how often they made room for others."""
    yielded = 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value, yielded
        yielded += 1


def outcome(steps: Generator[None, None, T]) -> T | str:
    try:
        return drive(steps)[0]
    except ProtocolError as error:
        return str(error)


def test_every_message_in_every_version_is_the_same_in_steps() -> None:
    random = Random(5)
    messages = RandomMessages(random)
    for name, version in PAIRS:
        message = messages.message(name, version)
        data = codec.encode_bytes(message, version)
        chunks, _ = drive(codec.encode_steps(message, version))
        assert b"".join(chunks) == data  # type: ignore[arg-type]
        assert drive(codec.decode_steps(type(message), version, data))[0] == (message, len(data))
        mutant = fuzz_codec.mutate(random, data)
        try:
            expected: object = codec.decode(type(message), version, mutant)
        except ProtocolError as error:
            expected = str(error)
        assert outcome(codec.decode_steps(type(message), version, mutant)) == expected


@pytest.mark.parametrize("version", [4, 12])
def test_a_step_is_of_so_many_elements_over_all_arrays(version: int) -> None:
    count = 20 * ELEMENTS_PER_STEP
    topics = [FetchTopic(topic=f"t{number}", partitions=[FetchPartition()] * 9) for number in range(count // 10)]
    data = codec.encode_bytes(FetchRequest(topics=topics), version)
    assert drive(codec.decode_steps(FetchRequest, version, data)) == ((FetchRequest(topics=topics), len(data)), 20)
    assert drive(codec.encode_steps(FetchRequest(topics=topics), version))[1] == 20


def test_a_small_message_takes_one_step() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    data = codec.encode_bytes(message, 12)
    assert drive(codec.decode_steps(MetadataRequest, 12, data)) == ((message, len(data)), 0)


def test_numbers_count_among_the_elements_of_a_message() -> None:
    """25 million of them fit into a frame, and would take a gigabyte."""
    numbers = (ARRAY_ELEMENTS_MAX + 1).to_bytes(4, "big") + bytes(4 * (ARRAY_ELEMENTS_MAX + 1))
    data = b"\0\1g" + b"\0\0\0\1" + b"\0\1t" + numbers
    with pytest.raises(ProtocolError, match="1000001 elements"):
        codec.decode(OffsetFetchRequest, 1, data)


@pytest.mark.parametrize("name", ["MetadataResponse", "FetchResponse", "UpdateFeaturesRequest"])
def test_what_is_written_is_joined_step_by_step(name: str) -> None:
    """Joining it in the end would be a long step; the pieces of `out` are what the last step has left."""
    version, count = schema.headings()[name].versions.highest, 4 * ELEMENTS_PER_STEP
    path = next(iter(hostile.arrays(name, version)))
    message = hostile.wide(name, version, path, count)
    steps = codec.encode_steps(message, version)
    yielded = 0
    for _ in steps:
        encoder = steps.gi_yieldfrom
        assert isinstance(encoder, Generator)
        assert not encoder.gi_frame.f_locals["out"]
        yielded += 1
    assert yielded >= 4
    assert b"".join(drive(codec.encode_steps(message, version))[0]) == codec.encode_bytes(message, version)  # type: ignore[arg-type]
