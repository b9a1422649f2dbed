"""Frames in: sliced wherever the bytes are cut, bounded, from buffers that are never used while someone needs them."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from penstock.node.effects import Close, PauseReading, ResumeReading, Send
from penstock.quota.admission import ConnectionLimits
from penstock.server.limits import COPIED_READ_BYTES, RECEIVE_BUFFER_BYTES, SEND_QUEUE_MAX_BYTES


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def bodies(world: Any) -> list[bytes]:
    return [frame for _, frame in world.node.frames]


def test_a_frame_comes_out_whole_wherever_the_bytes_are_cut(world: Any) -> None:
    stream = framed(b"first") + framed(b"second one") + framed(b"3")
    client = world.connect()
    for cut in range(len(stream) + 1):
        world.node.frames.clear()
        client.send(stream[:cut])
        world.settle()
        client.send(stream[cut:])
        world.run_until(lambda: len(world.node.frames) == 3)
        assert bodies(world) == [b"first", b"second one", b"3"]
        world.read(client, len(stream))


def test_a_frame_comes_out_whole_byte_by_byte(world: Any) -> None:
    client = world.connect()
    for byte in framed(b"slow") + framed(b"er"):
        client.send(bytes([byte]))
        world.settle(3)
    assert bodies(world) == [b"slow", b"er"]


@pytest.mark.parametrize("size", [RECEIVE_BUFFER_BYTES, 300_000, 5_000_000])
def test_a_frame_larger_than_a_buffer_arrives_intact_with_its_neighbours(world: Any, size: int) -> None:
    large = bytes(range(256)) * (size // 256 + 1)
    stream = framed(b"before") + framed(large) + framed(b"after")
    client = world.connect()
    sent = 0

    def arrived() -> bool:
        nonlocal sent
        with contextlib.suppress(BlockingIOError):
            sent += client.send(stream[sent : sent + 200_000])
        return len(world.node.frames) == 3

    world.node.answer = lambda connection, frame: []
    world.run_until(arrived)
    assert bodies(world) == [b"before", large, b"after"]
    world.settle()
    assert world.shell.pool.held_bytes == 0


def test_an_idle_connection_owns_no_buffer(world: Any) -> None:
    client = world.connect()
    client.send(framed(b"one") + b"\x00\x00")
    world.run_until(lambda: bodies(world) == [b"one"])
    world.settle()
    assert world.shell.pool.held_bytes == 0


def test_sockets_that_become_readable_at_once_share_a_buffer(world: Any) -> None:
    held: list[int] = []

    def answer(connection: int, frame: bytes) -> list[Any]:
        held.append(world.shell.pool.held_bytes)
        return []

    world.node.answer = answer
    clients = [world.connect() for _ in range(20)]
    for client in clients:
        client.send(framed(b"all at once" * COPIED_READ_BYTES))
    world.run_until(lambda: len(held) == len(clients))
    assert max(held) == RECEIVE_BUFFER_BYTES


@pytest.mark.parametrize("size", [8, COPIED_READ_BYTES - 4, COPIED_READ_BYTES - 3, 10_000])
def test_a_buffer_is_not_used_again_while_the_node_holds_a_view_of_it(world: Any, size: int) -> None:
    precious = (b"precious" * size)[:size]
    world.node.keep = True
    first, second = world.connect(), world.connect()
    first.send(framed(precious))
    world.run_until(lambda: len(world.node.kept) == 1)
    for other in (1000, 10_000, 1000, 10_000):
        second.send(framed(b"X" * other))
        world.settle()
    assert bytes(world.node.kept[0]) == precious
    assert world.shell.pool.held_bytes > 0
    world.node.kept.clear()
    world.node.keep = False
    for _ in range(3):
        second.send(framed(b"Y"))
        world.settle()
    assert world.shell.pool.held_bytes == 0


@pytest.mark.parametrize("length", [-1, 0, -(2**31), 1001, 2**31 - 1])
def test_a_bad_length_closes_that_connection_and_no_other(make_world: Callable[..., Any], length: int) -> None:
    world = make_world(request_max_bytes=1000)
    bad, good = world.connect(), world.connect()
    bad.send(struct.pack(">i", length) + b"x" * 100)
    world.run_until(lambda: len(world.shell.connections) == 1)
    assert bad.recv(10) == b""
    assert world.node.lost == [1]
    good.send(framed(b"still here"))
    assert world.read(good, 14) == framed(b"still here")


def test_announcing_a_large_frame_costs_no_memory(world: Any) -> None:
    client = world.connect()
    client.send(struct.pack(">i", 100 * 1024 * 1024) + b"x")
    world.settle()
    assert world.shell.pool.held_bytes <= 1024
    client.send(b"x" * 10_000)
    world.settle()
    assert world.shell.pool.held_bytes <= 16 * 10_100


def test_the_node_stops_and_resumes_reading(world: Any) -> None:
    client = world.connect()
    world.node.answer = lambda connection, frame: [PauseReading(connection)]
    client.send(framed(b"one"))
    world.run_until(lambda: len(world.node.frames) == 1)
    world.settle()
    client.send(framed(b"two"))
    world.settle()
    assert bodies(world) == [b"one"]
    world.node.effects.append(ResumeReading(1))
    world.shell.kick()
    world.run_until(lambda: len(world.node.frames) == 2)


def test_close_comes_after_the_answers_have_left(world: Any) -> None:
    client = world.connect()
    answer = b"z" * 3_000_000
    world.node.answer = lambda connection, frame: [Send(connection, [answer]), Close(connection, "done")]
    client.send(framed(b"x"))
    assert world.read(client, len(answer)) == answer
    world.run_until(lambda: not world.shell.connections)
    assert client.recv(1) == b""
    assert world.node.lost == []


def test_a_client_that_does_not_read_its_answers_is_not_read_from(world: Any) -> None:
    client = world.connect()
    world.node.answer = lambda connection, frame: [Send(connection, [b"a" * SEND_QUEUE_MAX_BYTES])]
    client.send(framed(b"1"))
    world.run_until(lambda: len(world.node.frames) == 1)
    client.send(framed(b"2"))
    world.settle()
    client.send(framed(b"3"))
    world.settle()
    answered = len(world.node.frames)
    assert answered < 3
    world.read(client, 3 * SEND_QUEUE_MAX_BYTES)
    assert len(world.node.frames) == 3


def test_a_dribbling_sender_is_closed_and_an_idle_one_is_not(make_world: Callable[..., Any]) -> None:
    world = make_world(receive_timeout_ms=20)
    dribbler, idle = world.connect(), world.connect()
    dribbler.send(b"\x00\x00\x01")
    world.run_until(lambda: len(world.shell.connections) == 1)
    assert dribbler.recv(1) == b""
    idle.send(framed(b"here"))
    world.read(idle, 8)


def test_a_frame_that_comes_in_two_within_its_length_has_arrived(make_world: Callable[..., Any]) -> None:
    """Nobody waits for the rest of it any more, whose time might run out."""
    world = make_world(receive_timeout_ms=1_000)
    client = world.connect()
    client.send(b"\x00\x00")
    world.settle()
    client.send(b"\x00\x04here")
    assert world.read(client, 8) == framed(b"here")
    world.clock._base_ns += 5_000 * 1_000_000
    world.shell.guarded(world.shell._sweep_connections)
    client.send(framed(b"again"))
    assert world.read(client, 9) == framed(b"again")


def test_an_idle_connection_is_closed_after_its_time(make_world: Callable[..., Any]) -> None:
    world = make_world(idle_ms=10_000)
    client, other = world.connect(), world.connect()
    for step_ms, sender in ((9_000, other), (2_000, None)):
        world.clock._base_ns += step_ms * 1_000_000
        if sender is not None:
            sender.send(framed(b"alive"))
            world.read(sender, 9)
        world.shell.guarded(world.shell._sweep_connections)
    assert client.recv(1) == b""
    assert len(world.shell.connections) == 1


def test_too_many_connections_are_closed_at_once(make_world: Callable[..., Any]) -> None:
    world = make_world(connections_max=3)
    world.shell.entrance.configure(ConnectionLimits(of_address_max=2, of_addresses={"10.0.0.9": 1}))
    accepted = [world.connect("10.0.0.1"), world.connect("10.0.0.1"), world.connect("10.0.0.9")]
    refused = [world.connect("10.0.0.1"), world.connect("10.0.0.9"), world.connect("10.0.0.2")]
    assert [client.recv(1) for client in refused] == [b""] * 3
    assert world.shell.entrance.refused == 3
    accepted[0].close()
    world.run_until(lambda: len(world.shell.connections) == 2)
    again = world.connect("10.0.0.1")
    again.send(framed(b"hello"))
    world.read(again, 9)


def test_memory_for_requests_is_bounded_and_small_requests_go_on(make_world: Callable[..., Any]) -> None:
    limit = 16_000_000
    world = make_world(received_max_bytes=limit, receive_timeout_ms=300)
    large = [world.connect() for _ in range(12)]
    for client in large:
        client.send(struct.pack(">i", 3_000_000))
    for _ in range(70):
        for client in large[1:]:
            with contextlib.suppress(BlockingIOError):
                client.send(b"x" * 50_000)
        world.settle(2)
    assert world.shell.pool.held_bytes < limit
    small = world.connect()
    small.send(framed(b"small"))
    assert world.read(small, 9) == framed(b"small")
    world.run_until(lambda: world.shell.pool.held_bytes <= limit // 2)  # what does not arrive in its time is closed
    for client in large:
        client.close()
    world.run_until(lambda: len(world.shell.connections) == 1)
    whole = framed(b"L" * 3_000_000)
    sent = 0

    def done() -> bool:
        nonlocal sent
        with contextlib.suppress(BlockingIOError):
            sent += small.send(whole[sent : sent + 100_000])
        return len(world.node.frames) == 2

    world.node.answer = lambda connection, frame: []
    world.run_until(done)
    assert len(world.node.frames[1][1]) == 3_000_000


def test_a_frame_that_breaks_the_node_costs_its_sender_the_connection(world: Any) -> None:
    def answer(connection: int, frame: bytes) -> list[Any]:
        if frame == b"evil":
            raise KeyError("a bug")
        return [Send(connection, [framed(frame)])]

    world.node.answer = answer
    evil, good = world.connect(), world.connect()
    evil.send(framed(b"evil"))
    world.run_until(lambda: len(world.shell.connections) == 1)
    good.send(framed(b"good"))
    assert world.read(good, 8) == framed(b"good")
    assert [type(bug) for bug in world.node.bugs] == [KeyError]


def test_a_bug_in_the_node_itself_stops_it(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    world.node.tick = lambda now_ms: 1 // 0
    world.node.deadline_ms = 0
    world.shell.kick()
    world.run_until(lambda: world.shell.broken is not None)
    assert "ZeroDivisionError" in caplog.text


def test_a_lost_client_is_reported_once(world: Any) -> None:
    client = world.connect()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.send(framed(b"bye"))
    client.close()
    world.run_until(lambda: not world.shell.connections)
    assert world.node.lost == [1]


@pytest.mark.parametrize(
    ("sent", "spoken"), [(b"GET / HTTP/1.1\r\n\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS")]
)
def test_a_client_of_another_protocol_is_named_once_in_a_while(
    world: Any, caplog: pytest.LogCaptureFixture, sent: bytes, spoken: str
) -> None:
    caplog.set_level(logging.INFO, "penstock")
    for _ in range(5):
        client = world.connect()
        client.send(sent)
        world.run_until(lambda: not world.shell.connections)
    (line,) = caplog.messages
    assert f"the client speaks {spoken}, this listener does not" in line


def test_a_turn_that_begins_outside_of_a_callback_has_the_time_of_then(world: Any) -> None:
    now_ms = world.clock.now_ms()
    world.shell.now_ms = now_ms - 60_000
    world.shell.kick()
    world.settle()
    assert world.shell.now_ms >= now_ms


def test_a_connection_above_the_quota_of_its_address_is_closed_after_its_delay(
    make_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.closed_later.CLOSED_LATER_MAX", 2)
    world = make_world()
    world.node.delay_ms = 3_600_000
    first, *others = [world.connect() for _ in range(3)]
    world.run_until(lambda: world.shell.entrance.refused == 3)
    assert first.recv(1) == b"", "only so many wait"
    for client in others:
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
    assert not world.shell.connections
    world.node.delay_ms = 1
    last = world.connect()
    last.setblocking(True)
    world.run_until(lambda: world.shell.entrance.refused == 4)
    world.run_until(lambda: len(world.shell.entrance._too_soon) <= 1)
    assert last.recv(1) == b""


def test_a_bug_in_the_quota_of_an_address_ends_one_connection(make_world: Callable[..., Any]) -> None:
    def broken(address: str, now_ms: int) -> int:
        raise RuntimeError("a bug")

    world = make_world()
    asked, world.node.connection_delay_ms = world.node.connection_delay_ms, broken
    assert world.connect().recv(1) == b""
    assert len(world.node.bugs) == 1
    world.node.connection_delay_ms = asked
    client = world.connect()
    client.send(framed(b"hello"))
    world.read(client, 9)
