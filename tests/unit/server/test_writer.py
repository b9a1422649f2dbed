"""Answers out: all bytes, in order, whatever the socket takes at a time, and of a file one piece in memory at most."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.log.disk import FileSlice
from penstock.node.effects import Send
from penstock.server import writer as writer_module
from penstock.server.limits import SEND_CHUNKS_MAX, SEND_PIECE_BYTES, UNSENT_PIECES_MAX_BYTES
from penstock.server.writer import Writer


class StingySocket:
    """Takes `takes` bytes at a call, in turn, then nothing until it is fed again."""

    def __init__(self, takes: Sequence[int]) -> None:
        self.takes = deque(takes)
        self.received = bytearray()
        self.longest_list = 0

    unsent = False

    def send_many(self, buffers: Any) -> int:
        assert len(buffers) <= 1024, "the kernel refuses longer lists"
        self.longest_list = max(self.longest_list, len(buffers))
        if not self.takes:
            raise BlockingIOError
        taken = b"".join(bytes(buffer) for buffer in buffers)[: self.takes.popleft()]
        self.received += taken
        return len(taken)

    def send(self, buffer: Any) -> int:
        return self.send_many([buffer])


class Host:
    """Surroundings of a writer with a file in memory, of which the first `resident` bytes of any read are resident."""

    def __init__(self, data: bytes = b"", resident: int | None = None) -> None:
        self.data = data
        self.resident = resident
        self.unsent_pieces_bytes = 0
        self.read_bytes = 0
        self.in_lane: list[Any] = []
        self.waits = False

    def resident_disk(self, directory: int) -> Host:
        return self

    def read_slice(self, piece: FileSlice) -> memoryview:
        data = memoryview(self.data)[piece.position : piece.position + piece.length]
        data = data if self.resident is None else data[: self.resident]
        self.read_bytes += len(data)
        return data

    def read_in_lane(self, operation: Any) -> None:
        self.in_lane.append(operation)

    def wake_when_writable(self, number: int, wanted: bool) -> None:
        self.waits = wanted

    def lane_reads(self) -> None:
        operation = self.in_lane.pop()
        piece = operation.piece
        operation.owner.operation_completed(operation, self.data[piece.position : piece.position + piece.length], 0)


def writer_on(sock: StingySocket, host: Host) -> Writer:
    return Writer(1, sock, host)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 100])
def test_partial_writes_lose_and_repeat_nothing(step: int) -> None:
    data = bytes(range(200))
    chunks = [
        b"head",
        FileSlice(0, "f", 3, 60),
        b"",
        memoryview(b"middle"),
        FileSlice(0, "f", 0, 0),
        bytearray(b"tail"),
    ]
    sock, host = StingySocket([]), Host(data)
    writer = writer_on(sock, host)
    writer.queue(chunks)
    done = False
    while not done:
        sock.takes.append(step)
        done = writer.flush()
        assert host.waits is not done
    assert bytes(sock.received) == b"head" + data[3:63] + b"middle" + b"tail"
    assert (writer.queued_bytes, host.unsent_pieces_bytes) == (0, 0)


FETCHED = [b"head", FileSlice(0, "f", 3, 60), b"tail"]
"""The answer to a Fetch of one partition."""
FETCHED_BYTES = b"head" + bytes(range(3, 63)) + b"tail"


@pytest.mark.parametrize("others_unsent_bytes", [0, UNSENT_PIECES_MAX_BYTES])
@pytest.mark.parametrize("first", range(69))
def test_a_fetched_answer_of_which_some_is_sent_loses_and_repeats_nothing(first: int, others_unsent_bytes: int) -> None:
    sock, host = StingySocket([first] if first else []), Host(bytes(range(200)))
    host.unsent_pieces_bytes = others_unsent_bytes
    writer = writer_on(sock, host)
    writer.queue(FETCHED)
    done = writer.flush()
    assert (done, host.waits) == (first == 68, first < 68)
    unsent = host.unsent_pieces_bytes - others_unsent_bytes
    assert unsent == (60 if first < 64 and not others_unsent_bytes else 0), "in full until its last byte is sent"
    assert writer.queued_bytes == 8 - min(first, 4) - max(first - 64, 0)
    if not done:
        writer.queue([b"next"])
        sock.takes.extend([1 << 20] * 2)
        assert writer.flush()
    assert bytes(sock.received) == FETCHED_BYTES + (b"" if done else b"next")
    assert (writer.queued_bytes, host.unsent_pieces_bytes) == (0, others_unsent_bytes)


def test_a_long_fetched_answer_is_never_in_memory_as_a_whole() -> None:
    data = bytes(range(256)) * (3 * SEND_PIECE_BYTES // 256)
    sock, host = StingySocket([1 << 30] * 8), Host(data)
    longest, read_slice = [0], host.read_slice

    def noted(piece: FileSlice) -> memoryview:
        longest[0] = max(longest[0], piece.length)
        return read_slice(piece)

    host.read_slice = noted  # type: ignore[method-assign]
    writer = writer_on(sock, host)
    writer.queue([b"head", FileSlice(0, "f", 0, len(data)), b"tail"])
    while not writer.flush():
        pass
    assert bytes(sock.received) == b"head" + data + b"tail"
    assert longest[0] == SEND_PIECE_BYTES


@pytest.mark.parametrize("resident", [0, 1, 59])
def test_a_fetched_answer_that_is_not_resident_is_read_in_the_lane(resident: int) -> None:
    sock, host = StingySocket([1 << 20] * 5), Host(bytes(range(200)), resident)
    writer = writer_on(sock, host)
    writer.queue(FETCHED)
    assert not writer.flush()
    host.lane_reads()
    assert writer.flush()
    assert bytes(sock.received) == FETCHED_BYTES


def test_no_more_buffers_in_a_call_than_the_kernel_takes() -> None:
    sock, host = StingySocket([1 << 20] * 10), Host()
    writer = writer_on(sock, host)
    writer.queue([b"ab"] * (2 * SEND_CHUNKS_MAX + 1))
    assert writer.flush()
    assert bytes(sock.received) == b"ab" * (2 * SEND_CHUNKS_MAX + 1)
    assert sock.longest_list == SEND_CHUNKS_MAX


def test_small_answers_and_slices_leave_in_one_call() -> None:
    sock, host = StingySocket([1 << 20] * 2), Host(b"0123456789")
    writer = writer_on(sock, host)
    writer.queue([b"a", FileSlice(0, "f", 0, 5), b"b", FileSlice(0, "f", 5, 5)])
    writer.queue([b"c"])
    assert writer.flush()
    assert bytes(sock.received) == b"a01234b56789c"
    assert len(sock.takes) == 1


def test_the_usual_fetch_of_a_partition_is_one_read_and_one_call() -> None:
    data = bytes(range(256)) * (SEND_PIECE_BYTES // 256)
    sock, host = StingySocket([1 << 30] * 2), Host(data)
    reads, read_slice = [], host.read_slice
    host.read_slice = lambda piece: reads.append(piece) or read_slice(piece)  # type: ignore[method-assign,func-returns-value]
    writer = writer_on(sock, host)
    writer.queue([b"head", FileSlice(0, "f", 0, len(data)), b"tail"])
    assert writer.flush()
    assert bytes(sock.received) == b"head" + data + b"tail"
    assert (len(sock.takes), len(reads)) == (1, 1)
    assert (writer.queued_bytes, host.unsent_pieces_bytes) == (0, 0)


@pytest.mark.parametrize("resident", [0, 1, 10])
def test_what_is_not_resident_comes_from_the_lane_in_its_place(resident: int) -> None:
    data = bytes(range(100))
    sock, host = StingySocket([1 << 20] * 20), Host(data, resident)
    writer = writer_on(sock, host)
    writer.queue([b"head", FileSlice(0, "f", 0, 100), b"tail"])
    assert not writer.flush()
    assert not host.waits, "nothing can be sent until the lane has read"
    assert bytes(sock.received) == b"head" + data[:resident]
    host.lane_reads()
    assert writer.flush()
    assert bytes(sock.received) == b"head" + data + b"tail"


def test_a_large_slice_is_read_piece_by_piece() -> None:
    data = bytes(range(256)) * (3 * SEND_PIECE_BYTES // 256)
    sock, host = StingySocket([]), Host(data)
    writer = writer_on(sock, host)
    writer.queue([FileSlice(0, "f", 0, len(data))])
    while sock.received != data:
        sock.takes.append(SEND_PIECE_BYTES // 3)
        writer.flush()
        assert host.unsent_pieces_bytes < 2 * SEND_PIECE_BYTES, "the piece of which some is sent, and one piece more"


def test_a_piece_counts_in_full_until_it_is_sent_to_its_end() -> None:
    """Its last bytes are part of one buffer, which stays in memory as a whole for them."""
    sock, host = StingySocket([SEND_PIECE_BYTES - 1]), Host(bytes(SEND_PIECE_BYTES))
    writer = writer_on(sock, host)
    writer.queue([FileSlice(0, "f", 0, SEND_PIECE_BYTES)])
    assert not writer.flush()
    assert host.unsent_pieces_bytes == SEND_PIECE_BYTES
    sock.takes.append(1)
    assert writer.flush()
    assert host.unsent_pieces_bytes == 0


def test_unsent_pieces_are_dropped_and_read_again_when_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "UNSENT_PIECES_MAX_BYTES", 0)
    data = bytes(range(250))
    sock, host = StingySocket([]), Host(data)
    writer = writer_on(sock, host)
    writer.queue([b"head", FileSlice(0, "f", 0, 250), b"tail"])
    done = False
    while not done:
        sock.takes.append(9)
        done = writer.flush()
        assert host.unsent_pieces_bytes == 0
    assert bytes(sock.received) == b"head" + data + b"tail"


@pytest.mark.parametrize("resident", [0, 1, 40])
@pytest.mark.parametrize("first_takes", [1, 4, 30])
def test_bytes_stay_in_order_when_memory_is_short_while_the_lane_reads(
    monkeypatch: pytest.MonkeyPatch, resident: int, first_takes: int
) -> None:
    monkeypatch.setattr(writer_module, "UNSENT_PIECES_MAX_BYTES", 0)
    data = bytes(range(250))
    sock, host = StingySocket([first_takes]), Host(data, resident)
    writer = writer_on(sock, host)
    writer.queue([b"head", FileSlice(0, "f", 0, 250), b"tail"])
    done = writer.flush()
    while not done:
        if host.in_lane:
            host.lane_reads()
        sock.takes.append(9)
        done = writer.flush()
    assert bytes(sock.received) == b"head" + data + b"tail"
    assert (writer.queued_bytes, host.unsent_pieces_bytes) == (0, 0)


def test_little_is_read_ahead_while_the_pieces_of_all_take_much_memory() -> None:
    data = bytes(4 * SEND_PIECE_BYTES)
    sock, host = StingySocket([]), Host(data)
    others = host.unsent_pieces_bytes = UNSENT_PIECES_MAX_BYTES
    writer = writer_on(sock, host)
    writer.queue([FileSlice(0, "f", 0, len(data))])
    while len(sock.received) < len(data):
        sock.takes.append(80_000)
        writer.flush()
        assert host.unsent_pieces_bytes == others
    assert host.read_bytes < 4 * len(data)


def test_closing_gives_back_what_was_counted() -> None:
    sock, host = StingySocket([1]), Host(b"x" * 100)
    writer = writer_on(sock, host)
    writer.queue([FileSlice(0, "f", 0, 100)])
    writer.flush()
    assert host.unsent_pieces_bytes > 0
    assert host.waits
    writer.close()
    assert host.unsent_pieces_bytes == 0
    assert not host.waits


def test_a_cold_reader_delays_nobody(make_world: Callable[..., Any]) -> None:
    world = make_world(resident=0)
    cold = world.file("cold.log", b"c" * 1_000_000)
    slow, fast = world.connect(), world.connect()
    world.node.answer = lambda connection, frame: [Send(connection, [cold if connection == 1 else b"now"])]
    slow.send(b"\0\0\0\1x")
    fast.send(b"\0\0\0\1x")
    assert world.read(fast, 3) == b"now"
    assert world.read(slow, 1_000_000) == b"c" * 1_000_000


def test_a_slice_of_a_file_that_is_gone_or_too_short_closes_the_connection(make_world: Callable[..., Any]) -> None:
    world = make_world(resident=0)
    short = world.file("short.log", b"c" * 100)
    answers = {1: FileSlice(0, "missing.log", 0, 10), 2: FileSlice(0, short.path, 50, 100)}
    world.node.answer = lambda connection, frame: [Send(connection, [answers[connection]])]
    clients: list[socket.socket] = [world.connect(), world.connect()]
    for client in clients:
        client.send(b"\0\0\0\1x")
    world.run_until(lambda: not world.shell.connections)
    assert sorted(world.node.lost) == [1, 2]
