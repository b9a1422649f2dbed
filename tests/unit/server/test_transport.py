"""A transport with a handshake that holds bytes back both ways, as one that encrypts does: nothing waits for ever."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from penstock.log.disk import Buffer
from penstock.node.effects import Dial, PauseReading, ResumeReading, Send, SendTo
from penstock.server.transport import Transport, nothing, plain

HELLO = b"hello"
MASK = bytes(each ^ 0x5A for each in range(256))


def masked(data: Buffer) -> bytes:
    return bytes(data).translate(MASK)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class MaskingTransport:
    """Both sides say hello first; what follows is masked. Gives `PIECE` bytes at a time of what it has received."""

    PIECE = 7
    UNSENT_MAX = 100_000

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._greeted = False
        self._received = bytearray()
        self._unsent = bytearray()
        self.ready = False
        self.stepping = False
        self.certificate: bytes | None = None
        self.on_step: Callable[[], None] = nothing
        self.fileno = sock.fileno
        self.close = sock.close

    @property
    def waiting(self) -> bool:
        return bool(self._received)

    @property
    def unsent(self) -> bool:
        return bool(self._unsent)

    def shake_hands(self) -> None:
        if not self._greeted:
            self._greeted = True
            self._socket.send(HELLO)
        got = self._socket.recv(len(HELLO))
        if got != HELLO:
            raise OSError(71, f"{got!r} is no hello")
        self.ready = True

    def receive_into(self, buffer: Any) -> int:
        with contextlib.suppress(BlockingIOError):
            if not (got := self._socket.recv(1 << 16)) and not self._received:
                return 0
            self._received += masked(got)
        if not self._received:
            raise BlockingIOError
        count = min(self.PIECE, len(buffer), len(self._received))
        buffer[:count] = self._received[:count]
        del self._received[:count]
        return count

    def receive_into_two(self, first: Any, second: Any) -> int:
        count = self.receive_into(first)
        return count if count < len(first) or not self._received else count + self.receive_into(second)

    def send(self, data: Buffer) -> int:
        if len(self._unsent) > self.UNSENT_MAX:
            raise BlockingIOError
        self._unsent += masked(data)
        self.push()
        return len(data)

    def send_many(self, buffers: Iterable[Buffer]) -> int:
        return self.send(next(iter(buffers)))

    def push(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            del self._unsent[: self._socket.send(self._unsent)]
        return not self._unsent


def masking(_listener: str, sock: socket.socket, _host: str | None) -> MaskingTransport:
    return MaskingTransport(sock)


@pytest.fixture
def world(make_world: Callable[..., Any]) -> Any:
    return make_world(transport_of=masking)


def test_frames_come_and_go_when_hands_are_shaken(world: Any) -> None:
    client = world.connect()
    world.settle()
    assert client.recv(100) == HELLO
    client.send(HELLO + masked(framed(b"one") + framed(b"and another, longer than a piece")))
    world.run_until(lambda: len(world.node.frames) == 2)
    answers = framed(b"one") + framed(b"and another, longer than a piece")
    assert masked(world.read(client, len(answers))) == answers


def test_who_says_no_hello_is_not_served(world: Any) -> None:
    client = world.connect()
    client.send(framed(b"a request in clear"))
    world.run_until(lambda: not world.shell.connections)
    assert (world.node.frames, world.node.lost) == ([], [])


def test_a_large_frame_arrives_whole(world: Any) -> None:
    world.node.answer = lambda connection, frame: []
    client = world.connect()
    large = bytes(range(256)) * 100
    client.send(HELLO + masked(framed(large) + framed(b"after")))
    world.run_until(lambda: len(world.node.frames) == 2)
    assert [frame for _, frame in world.node.frames] == [large, b"after"]


def test_what_waits_while_reading_is_paused_is_read_when_it_goes_on(world: Any) -> None:
    world.node.answer = lambda connection, frame: [PauseReading(connection)]
    client = world.connect()
    client.send(HELLO)
    world.settle()
    client.send(masked(framed(b"one") + framed(b"two") + framed(b"end")))
    world.run_until(lambda: len(world.node.frames) == 1)
    world.settle(50)
    assert len(world.node.frames) == 1, "a paused connection is not read"
    world.node.answer = lambda connection, frame: []
    world.node.effects.append(ResumeReading(1))
    world.shell.kick()
    world.run_until(lambda: len(world.node.frames) == 3)


def test_what_the_socket_does_not_take_is_sent_when_it_does(world: Any) -> None:
    large = bytes(range(256)) * 4000
    world.node.answer = lambda connection, frame: [Send(connection, [framed(large[:1_000_000]), framed(large)])]
    client = world.connect()
    client.send(HELLO + masked(framed(b"give")))
    world.run_until(lambda: len(world.node.frames) == 1)
    expected = framed(large[:1_000_000]) + framed(large)
    got = world.read(client, len(HELLO) + len(expected))
    assert got[: len(HELLO)] == HELLO
    assert masked(got[len(HELLO) :]) == expected
    world.run_until(lambda: not world.shell.busy)


def test_a_link_is_up_when_its_handshake_is_over(world: Any) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        world.node.effects.append(Dial(5, "127.0.0.1", listening.getsockname()[1], "PLAINTEXT"))
        world.shell.kick()
        world.settle(50)
        assert world.node.up == []
        other, _ = listening.accept()
        with other:
            assert other.recv(100) == HELLO
            other.send(HELLO)
            world.run_until(lambda: world.node.up == [5])
            world.node.effects.append(SendTo(5, [framed(b"ask")]))
            world.shell.kick()
            world.settle(20)
            assert masked(other.recv(100)) == framed(b"ask")
            other.send(masked(framed(b"answer")))
            world.run_until(lambda: world.node.answers == [(5, b"answer")])


def test_a_link_whose_handshake_breaks_is_lost(world: Any) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        world.node.effects.append(Dial(5, "127.0.0.1", listening.getsockname()[1], "PLAINTEXT"))
        world.shell.kick()
        world.settle(50)
        other, _ = listening.accept()
        with other:
            other.send(b"nonsense")
            world.run_until(lambda: bool(world.node.links_lost))
        (link, reason) = world.node.links_lost[0]
        assert link == 5
        assert "handshake" in reason
        assert world.node.up == []


def test_who_never_shakes_hands_is_closed(make_world: Callable[..., Any]) -> None:
    world = make_world(transport_of=masking, receive_timeout_ms=100)
    world.connect()
    world.run_until(lambda: not world.shell.connections)
    assert world.node.lost == []


def test_a_handshake_that_is_over_in_time_is_not(make_world: Callable[..., Any]) -> None:
    world = make_world(transport_of=masking, receive_timeout_ms=100)
    client = world.connect()
    client.send(HELLO)
    world.run_until(lambda: world.shell.connections[1].transport.ready)
    assert not world.shell._arriving


def test_a_bug_in_a_handshake_ends_that_connection_alone(make_world: Callable[..., Any]) -> None:
    class Broken(MaskingTransport):
        def shake_hands(self) -> None:
            raise ZeroDivisionError

    world = make_world(transport_of=lambda listener, sock, host: Broken(sock))
    world.connect()
    world.settle()
    assert (world.node.lost, world.shell.connections) == ([], {})
    assert [type(error) for error in world.node.bugs] == [ZeroDivisionError]


class Unmade:
    """Makes no transport for the connections of these numbers, counted from 1; it raises `error` then."""

    def __init__(self, error: Exception, *numbers: int) -> None:
        self.error = error
        self.numbers = numbers
        self.count = 0

    def __call__(self, listener: str, sock: socket.socket, _host: str | None) -> Transport:
        self.count += 1
        if self.count in self.numbers:
            raise self.error
        return plain(listener, sock)


@pytest.mark.parametrize("error", [ZeroDivisionError(), OSError(22, "no such certificate")])
def test_a_client_that_gets_no_transport_ends_alone(make_world: Callable[..., Any], error: Exception) -> None:
    world = make_world(transport_of=Unmade(error, 2))
    before, ended, after = (world.connect() for _ in range(3))
    assert world.read_end(ended) == b""
    for client in (before, after):
        client.send(framed(b"one"))
        assert world.read(client, 7) == framed(b"one")
    assert world.node.bugs == [error]
    assert world.shell.broken is None
    assert len(world.shell.connections) == 2
    assert world.shell.entrance.admission._addresses == {"10.0.0.1": 2}


def test_a_client_whose_beginning_fails_leaves_nothing_behind(
    make_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    error = OSError(28, "no epoll watch is left")

    def no_watch(*_: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(world.loop, "add_reader", no_watch)
        ended = world.connect()
    assert world.read_end(ended) == b""
    assert (world.node.lost, world.node.bugs, world.shell.connections) == ([1], [error], {})


class AtOnce(socket.socket):
    """Connects before `connect_ex` returns, as a socket to the same machine may."""

    def connect_ex(self, address: Any, /) -> int:
        self.setblocking(True)
        problem = super().connect_ex(address)
        self.setblocking(False)
        return problem


@pytest.mark.parametrize("error", [ZeroDivisionError(), OSError(22, "no such certificate")])
@pytest.mark.parametrize("kind", [socket.socket, AtOnce])
def test_a_link_that_gets_no_transport_is_lost_alone(
    make_world: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: type[socket.socket], error: Exception
) -> None:
    world = make_world(transport_of=Unmade(error, 2))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        monkeypatch.setattr(socket, "socket", kind)
        others = []
        for link in (1, 2, 3):
            world.node.effects.append(Dial(link, "127.0.0.1", listening.getsockname()[1], "PLAINTEXT"))
            world.shell.kick()
            world.run_until(lambda link=link: link in [*world.node.up, *[lost for lost, _ in world.node.links_lost]])
            others.append(listening.accept()[0])
        assert world.node.up == [1, 3]
        assert world.node.links_lost == [(2, "a bug while it was made")]
        assert world.node.bugs == [error]
        assert world.shell.broken is None
        others[1].setblocking(False)
        assert world.read_end(others[1]) == b""
        others[2].send(framed(b"answer"))
        world.run_until(lambda: world.node.answers == [(3, b"answer")])
        for other in others:
            other.close()
