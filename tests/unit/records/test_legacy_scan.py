"""What hostile bytes can cost: sizes that lie make no scan compute checksums for ever, or read more than there is."""

from __future__ import annotations

from struct import pack

from support.legacy import message

from penstock.records.builder import BatchBuilder
from penstock.records.legacy.formats import Buffer
from penstock.records.legacy.kafka08 import Kafka08
from penstock.records.legacy.scan import Found, Hole, Kind, Scan

LARGE_BYTES = 50_000


class Counting(Kafka08):
    """Counts the bytes whose checksum was computed."""

    def __init__(self) -> None:
        self.checked_bytes = 0

    def is_intact(self, view: Buffer, position: int, size_bytes: int) -> bool:
        self.checked_bytes += size_bytes
        return super().is_intact(view, position, size_bytes)


def scan(data: bytes, *, searched_bytes_max: int = 1 << 30) -> tuple[list[Found | Hole], int, int]:
    """What comes out, the bytes whose checksum was computed, and the most that was read at once."""
    largest_read = 0

    def read(position: int, length: int) -> bytes:
        nonlocal largest_read
        largest_read = max(largest_read, length)
        return data[position : position + length]

    counting = Counting()
    pieces = list(Scan(read, len(data), counting, searched_bytes_max=searched_bytes_max, window_bytes=4096))
    assert sum(piece.size_bytes for piece in pieces) == len(data)
    return pieces, counting.checked_bytes, largest_read


def claim(size_bytes: int) -> bytes:
    """A head that claims to be of a message of this size."""
    return pack(">qiIb", 0, size_bytes - 12, 0, 0)


def test_lying_sizes_cost_no_more_than_their_bound() -> None:
    lies = b"".join(claim(LARGE_BYTES) + message(n, None, b"v") for n in range(2000))
    pieces, checked_bytes, _ = scan(lies, searched_bytes_max=10 * LARGE_BYTES)
    assert checked_bytes < 12 * LARGE_BYTES + len(lies)
    assert any(isinstance(piece, Found) for piece in pieces)
    last = pieces[-1]
    assert isinstance(last, Hole)
    assert last.size_bytes > LARGE_BYTES, "beyond the bound the rest is passed over"
    everything, _, _ = scan(lies)
    assert sum(isinstance(piece, Found) for piece in everything) == 2000, "within the bound all is found"


def test_batches_of_the_present_format_that_lie_cost_no_more_either() -> None:
    builder = BatchBuilder()
    builder.append(1, None, bytes(LARGE_BYTES))
    broken = bytes(builder.build()[:100])
    lies = b"".join(broken + message(n, None, b"v") for n in range(2000))
    pieces, _, _ = scan(lies, searched_bytes_max=10 * LARGE_BYTES)
    assert sum(isinstance(piece, Found) for piece in pieces) < 100


def test_a_message_is_found_wherever_the_window_ends() -> None:
    whole = message(5, b"key", b"value")
    for damaged_bytes in range(4096 - len(whole), 4100):
        pieces, _, _ = scan(b"\xff" * damaged_bytes + whole)
        assert [piece.size_bytes for piece in pieces] == [damaged_bytes, len(whole)]


def test_a_size_beyond_the_end_is_not_read() -> None:
    data = message(0, None, b"v") + claim(100 << 20)
    pieces, _, largest_read = scan(data)
    assert largest_read <= 4096
    assert [type(piece) for piece in pieces] == [Found, Hole]


def test_a_message_larger_than_the_window_is_read_whole() -> None:
    data = message(0, None, bytes(LARGE_BYTES)) + message(1, None, b"v")
    pieces, _, _ = scan(data)
    assert [piece.size_bytes for piece in pieces] == [LARGE_BYTES + 26 + 8, 35]


def test_a_message_larger_than_allowed_is_damage() -> None:
    """Its size cannot be, whatever the file has."""
    assert Kafka08().size_at(claim(128 << 20), 0) == 128 << 20
    assert Kafka08().size_at(claim((128 << 20) + 1), 0) == 0


def test_many_zeros_are_passed_over_quickly() -> None:
    data = message(0, None, b"v") + bytes(1 << 20)
    pieces, checked_bytes, _ = scan(data)
    assert checked_bytes < 100
    last = pieces[-1]
    assert isinstance(last, Hole)
    assert last.kind is Kind.UNUSED
