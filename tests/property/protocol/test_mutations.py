"""Broken bytes raise ProtocolError and nothing else, and take memory in proportion to their size."""

from __future__ import annotations

import tracemalloc

import fuzz_codec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ProtocolError
from penstock.protocol import codec, frames, schema
from penstock.protocol.api import message_class

PAIRS = [(name, version) for name, heading in schema.headings().items() for version in heading.versions]
FRAME_BYTES = 256 * 1024
MEMORY_A_BYTE = 128
"""The worst is an array of structs of three bytes, each of which becomes an object with lists of its own."""


def test_mutated_messages_decode_or_raise_the_protocol_error() -> None:
    outcomes = fuzz_codec.fuzz(20_000, seed=7)
    assert outcomes.total() == 20_000
    assert min(outcomes["refused"], outcomes["decoded"]) > 1_000, outcomes


@pytest.mark.long
def test_many_mutated_messages_decode_or_raise_the_protocol_error() -> None:
    fuzz_codec.fuzz(300_000, seed=8)


def test_another_exception_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(cls: object, version: int, view: object) -> object:
        raise IndexError

    monkeypatch.setattr(codec, "decode", broken)
    with pytest.raises(IndexError):
        fuzz_codec.fuzz(10, seed=7)
    assert "from seed 7" in capsys.readouterr().err


@settings(max_examples=300)
@given(st.sampled_from(PAIRS), st.binary(max_size=200))
def test_any_bytes_decode_or_raise_the_protocol_error(pair: tuple[str, int], data: bytes) -> None:
    name, version = pair
    fuzz_codec.decode_mutant(message_class(name), version, data)


@settings(max_examples=500)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_header_or_raise_the_protocol_error(data: bytes) -> None:
    try:
        _, position = frames.decode_request_header(memoryview(data))
    except ProtocolError:
        return
    assert position <= len(data)


@pytest.mark.parametrize("fill", [0, 1, 2, 3])
def test_memory_is_bounded_by_the_size_of_the_frame(fill: int) -> None:
    count = (FRAME_BYTES // 4).to_bytes(4, "big")
    for prefix in (b"", b"\xff\xff\x03", count, b"\0\0" + count):
        data = prefix + bytes((fill,)) * FRAME_BYTES
        for name in ("MetadataRequest", "ProduceRequest", "FetchRequest", "OffsetFetchRequest", "CreateTopicsRequest"):
            for version in schema.headings()[name].versions:
                assert peak_bytes(name, version, data) < MEMORY_A_BYTE * len(data), (name, version)


def peak_bytes(name: str, version: int, data: bytes) -> int:
    """The most memory that decoding takes."""
    cls = message_class(name)
    codec.prepare(cls, version)
    tracemalloc.start()
    try:
        fuzz_codec.decode_mutant(cls, version, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
