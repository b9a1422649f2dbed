"""Every codec both ways, and what hostile bytes do to it."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
import zlib
from random import Random
from typing import Any

import lz4.frame
import pytest
import zstandard
from cramjam import snappy

from penstock.errors import CorruptRecordError
from penstock.records.compression import (
    XERIAL_HEADER,
    Buffer,
    Codec,
    Contexts,
    DecompressionLimitError,
    compress,
    decompress,
)

CODECS = [codec for codec in Codec if codec is not Codec.NONE]
SAMPLES = (b"", b"a", b"hello " * 1000, Random(1).randbytes(100_000), bytes(3_000_000))


def plain(codec: Codec, data: Buffer, limit_bytes: int = 10_000_000) -> bytes:
    return bytes(decompress(codec, data, limit_bytes, Contexts()))


@pytest.mark.parametrize("codec", list(Codec))
def test_what_was_compressed_comes_out_again(codec: Codec) -> None:
    contexts = Contexts()
    for sample in SAMPLES:
        compressed = compress(codec, memoryview(sample), contexts)
        assert bytes(decompress(codec, memoryview(compressed), len(sample), contexts)) == sample


@pytest.mark.parametrize("codec", CODECS)
def test_output_stops_at_the_limit(codec: Codec) -> None:
    for sample in SAMPLES[1:]:
        with pytest.raises(DecompressionLimitError, match=f"more than {len(sample) - 1} bytes"):
            plain(codec, compress(codec, sample, Contexts()), len(sample) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_cut_off_or_random_bytes_are_corrupt(codec: Codec) -> None:
    random = Random(2)
    for sample in SAMPLES[1:]:
        compressed = compress(codec, sample, Contexts())
        ends = {0, 1, len(compressed) - 1, *(random.randrange(len(compressed)) for _ in range(50))}
        if codec is Codec.SNAPPY:
            ends -= {len(XERIAL_HEADER)} | block_ends(compressed)
        for end in ends:
            with pytest.raises(CorruptRecordError):
                plain(codec, compressed[:end])
    for _ in range(200):
        with pytest.raises(CorruptRecordError):
            plain(codec, b"\xff" + random.randbytes(random.randrange(60)))


def block_ends(compressed: bytes) -> set[int]:
    """Where a xerial stream may end: after any block."""
    ends, position = set(), len(XERIAL_HEADER)
    while position < len(compressed):
        position += 4 + int.from_bytes(compressed[position : position + 4], "big")
        ends.add(position)
    return ends


def bombs() -> dict[str, tuple[Codec, bytes]]:
    """A few bytes that become, or claim to be, very many."""
    claims = bytearray(zstandard.compress(bytes(200_000)))
    frame = zstandard.get_frame_parameters(bytes(claims))
    assert frame.content_size == 200_000
    huge = b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + b"\x01\x00\x00"
    zeros = bytes(64 * 1024 * 1024)
    lz4_claim: Any = lz4.frame.compress(bytes(100), block_linked=False, store_size=True)
    return {
        "gzip": (Codec.GZIP, compress(Codec.GZIP, zeros, Contexts())),
        "snappy claims 4 GiB": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20)),
        "lz4": (Codec.LZ4, compress(Codec.LZ4, zeros, Contexts())),
        "lz4 claims 2^60": (Codec.LZ4, lz4_claim[:6] + (2**60).to_bytes(8, "little") + lz4_claim[14:]),
        "zstd": (Codec.ZSTD, compress(Codec.ZSTD, zeros, Contexts())),
        "zstd claims 2^40": (Codec.ZSTD, huge),
    }


@pytest.mark.parametrize("name", bombs())
def test_a_bomb_costs_no_more_than_a_few_times_the_limit(name: str) -> None:
    codec, bomb = bombs()[name]
    limit_bytes = 256 * 1024
    tracemalloc.start()
    try:
        with pytest.raises((DecompressionLimitError, CorruptRecordError)):
            plain(codec, bomb, limit_bytes)
        assert tracemalloc.get_traced_memory()[1] < 8 * limit_bytes + 4 * len(bomb)
    finally:
        tracemalloc.stop()


def test_snappy_is_written_in_xerial_blocks_and_read_raw_as_well() -> None:
    sample = SAMPLES[3]
    compressed = compress(Codec.SNAPPY, sample, Contexts())
    assert compressed.startswith(XERIAL_HEADER)
    assert len(block_ends(compressed)) == 4
    assert plain(Codec.SNAPPY, bytes(snappy.compress_raw(sample))) == sample
    assert plain(Codec.SNAPPY, compressed + compressed) == sample + sample


def test_gzip_members_follow_each_other_and_what_comes_after_is_ignored() -> None:
    two = gzip.compress(b"one") + gzip.compress(b"two")
    assert plain(Codec.GZIP, two) == b"onetwo"
    assert plain(Codec.GZIP, two + b"padding") == b"onetwo"


def test_what_is_copied_for_gzip_members_grows_with_their_bytes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member has the library copy what follows it: of the whole batch, once, and that for each."""
    fed_bytes = 0

    class Counting:
        def __init__(self, wbits: int) -> None:
            self.stream = make(wbits)

        def decompress(self, data: bytes, limit: int) -> bytes:
            nonlocal fed_bytes
            fed_bytes += len(data)
            return self.stream.decompress(data, limit)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.stream, name)

    make = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    empty = gzip.compress(b"", mtime=0)
    data = gzip.compress(b"first") + empty * 20_000 + gzip.compress(bytes(range(256)) * 1_000)
    assert plain(Codec.GZIP, data) == b"first" + bytes(range(256)) * 1_000
    assert fed_bytes < 20 * len(data)


def test_zstd_frames_need_no_content_size_and_may_follow_each_other() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(SAMPLES[2])
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert plain(Codec.ZSTD, frame) == SAMPLES[2]
    assert plain(Codec.ZSTD, frame + skippable + frame) == SAMPLES[2] * 2


def test_lz4_frames_that_kafka_cannot_read_are_refused() -> None:
    linked = lz4.frame.compress(bytes(200_000), block_linked=True)
    with pytest.raises(CorruptRecordError, match="linked blocks"):
        plain(Codec.LZ4, linked)
    with pytest.raises(CorruptRecordError, match="no frame"):
        plain(Codec.LZ4, b"\x00" * 20)


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 1), (Codec.LZ4, 12), (Codec.ZSTD, 10)])
def test_a_level_changes_the_size_and_not_the_content(codec: Codec, level: int) -> None:
    sample = b"".join(b"%d,%d;" % (number, number * number) for number in range(5000))
    default, other = (compress(codec, sample, Contexts(), each) for each in (None, level))
    assert len(default) != len(other)
    assert plain(codec, other) == sample


def test_threads_with_their_own_contexts_do_not_disturb_each_other() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        contexts, random = Contexts(), Random(seed)
        try:
            for _ in range(50):
                sample = random.randbytes(random.randrange(2000)) * 20
                for codec in CODECS:
                    compressed = compress(codec, sample, contexts)
                    assert decompress(codec, compressed, len(sample), contexts) == sample
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
