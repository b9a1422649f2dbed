"""Links to other nodes on real loopback sockets: dialled, read, written, broken; a bad peer is its own trouble."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from penstock.node.effects import Dial, HangUp, Send, SendTo
from penstock.node.limits import PEER_IN_FLIGHT_MAX
from penstock.node.outgoing import Outgoing, Peer
from penstock.node.timers import TimerWheel
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.metadata_response import MetadataResponse
from penstock.server.limits import PEER_ANSWER_MAX_BYTES, SEND_QUEUE_MAX_BYTES
from penstock.server.links import connected_to_itself

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
        ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=13),
    ]
)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class RemoteNode:
    """Another node, as the test wants it: a listening socket, and what came on its connections."""

    def __init__(self, world: Any, family: socket.AddressFamily = socket.AF_INET, receive_bytes: int = 0) -> None:
        self.world = world
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        if receive_bytes:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        self.listener.setblocking(False)
        self.listener.listen()
        self.port: int = self.listener.getsockname()[1]
        self.connections: list[socket.socket] = []

    def accept(self) -> socket.socket:
        """The next connection, non-blocking."""
        before = len(self.connections)

        def came() -> bool:
            with contextlib.suppress(BlockingIOError):
                self.connections.append(self.listener.accept()[0])
            return len(self.connections) > before

        self.world.run_until(came)
        self.connections[-1].setblocking(False)
        return self.connections[-1]

    def request(self, connection: socket.socket) -> tuple[frames.RequestHeader, Message]:
        """The next request."""
        (size,) = struct.unpack(">i", self._exactly(connection, 4))
        return frames.decode_request(self._exactly(connection, size))

    def _exactly(self, connection: socket.socket, size: int) -> bytes:
        data = bytearray()

        def enough() -> bool:
            with contextlib.suppress(BlockingIOError):
                data.extend(connection.recv(size - len(data)))
            return len(data) == size

        self.world.run_until(enough)
        return bytes(data)

    def answer(self, connection: socket.socket, header: frames.RequestHeader, message: Message) -> None:
        api = API_BY_NUMBER[header.api_key]
        chunks = frames.encode_response(api, header.api_version, header.correlation_id, message)
        connection.sendall(b"".join(chunks))  # type: ignore[arg-type]

    def greet(self) -> socket.socket:
        """The next connection, after it has been told what we serve."""
        connection = self.accept()
        header, _ = self.request(connection)
        assert header.api_key == ApiKey.API_VERSIONS
        self.answer(connection, header, VERSIONS)
        return connection

    def close(self) -> None:
        for sock in (self.listener, *self.connections):
            sock.close()


class CallingNode:
    """Gives the fake node of a world an Outgoing and its timers."""

    def __init__(self, world: Any, **settings: Any) -> None:
        self.world = world
        node = world.node
        self.timers = TimerWheel()
        self.outgoing = Outgoing(1, timers=self.timers, random=Random(1), emit=self._emit, **settings)
        self.ended: list[tuple[Any, str | None]] = []
        node.link_up = self.outgoing.link_up
        node.link_received = self.outgoing.link_received
        node.link_lost = self.outgoing.link_lost
        node.tick = self.timers.advance
        node.next_deadline_ms = self.timers.next_deadline_ms

    def _emit(self, effect: Any) -> None:
        self.world.node.effects.append(effect)

    def call(
        self, port: int, message: Message | None = None, *, host: str = "127.0.0.1", timeout_ms: int = 30_000
    ) -> None:
        self.outgoing.call(
            Peer(2, host, port, "PLAINTEXT"),
            message or MetadataRequest(topics=[]),
            timeout_ms=timeout_ms,
            done=lambda answer, reason, now_ms: self.ended.append((answer, reason)),
            now_ms=self.world.clock.now_ms(),
        )
        self.world.shell.begin()
        self.world.shell.kick()

    def until_ended(self, count: int = 1) -> list[tuple[Any, str | None]]:
        self.world.run_until(lambda: len(self.ended) >= count)
        assert len(self.ended) == count
        return self.ended


@pytest.fixture
def remote(world: Any) -> Iterator[RemoteNode]:
    node = RemoteNode(world)
    yield node
    node.close()


@pytest.fixture
def make_remote(world: Any) -> Iterator[Callable[..., RemoteNode]]:
    made = []

    def make(**arguments: Any) -> RemoteNode:
        made.append(RemoteNode(world, **arguments))
        return made[-1]

    yield make
    for node in made:
        node.close()


def do(world: Any, *effects: Any) -> None:
    """The node wants these effects."""
    world.node.effects += effects
    world.shell.begin()
    world.shell.kick()


def dial(world: Any, remote: RemoteNode, link: int = 1) -> socket.socket:
    """The other end of a link that is up."""
    do(world, Dial(link, "127.0.0.1", remote.port, "PLAINTEXT"))
    world.run_until(lambda: link in world.node.up)
    return remote.accept()


# Connecting


def test_a_link_carries_frames_both_ways(world: Any, remote: RemoteNode) -> None:
    far = dial(world, remote)
    do(world, SendTo(1, [framed(b"question"), framed(b"another")]))
    assert world.read(far, 23) == framed(b"question") + framed(b"another")
    far.sendall(framed(b"answer") + framed(b"second"))
    world.run_until(lambda: len(world.node.answers) == 2)
    assert world.node.answers == [(1, b"answer"), (1, b"second")]
    assert not world.node.frames


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_a_port_where_nobody_listens_refuses(world: Any) -> None:
    do(world, Dial(1, "127.0.0.1", free_port(), "PLAINTEXT"))
    world.run_until(lambda: bool(world.node.links_lost))
    assert world.node.links_lost == [(1, "connection refused")]
    assert not world.node.up


def test_a_name_is_looked_up_and_all_its_addresses_are_tried(
    world: Any, remote: RemoteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def addresses(host: str, port: int, **_: Any) -> list[Any]:
        assert host == "node-2.example"
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", free_port())),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    do(world, *(Dial(link, "node-2.example", remote.port, "PLAINTEXT") for link in (1, 2)))
    world.run_until(lambda: sorted(world.node.up) == [1, 2])


def test_a_name_that_nobody_knows_is_told(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: str, port: int, **_: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    do(world, Dial(1, "nowhere.example", 9092, "PLAINTEXT"))
    world.run_until(lambda: bool(world.node.links_lost))
    assert world.node.links_lost == [(1, "cannot look up the name: name or service not known")]


@pytest.mark.parametrize(
    ("host", "port"),
    [("", 0), ("a\0b", 9092), ("x" * 300, 9092), ("ö." * 100, 9092), ("127.0.0.1", 0), ("127.0.0.1", 70_000)],
)
def test_an_address_that_is_none_fails_the_dialling_and_nothing_else(world: Any, host: str, port: int) -> None:
    """Other nodes register what they like."""
    do(world, Dial(1, host, port, "PLAINTEXT"))
    world.run_until(lambda: bool(world.node.links_lost))
    ((link, reason),) = world.node.links_lost
    assert link == 1
    assert reason
    assert world.shell.broken is None


def test_a_link_that_is_hung_up_while_it_is_dialled_is_not_heard_of(
    world: Any, remote: RemoteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, port, **_: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))],
    )
    do(world, Dial(1, "127.0.0.1", remote.port, "PLAINTEXT"), HangUp(1))
    do(world, Dial(2, "name.example", remote.port, "PLAINTEXT"), HangUp(2))
    do(world, Dial(3, "127.0.0.1", remote.port, "PLAINTEXT"))
    world.run_until(lambda: world.node.up == [3])
    world.settle(50)
    assert world.node.up == [3]
    assert not world.node.links_lost


class NoSocketsLeft:
    """The module `socket` of a process that has used all its descriptors."""

    def __getattr__(self, name: str) -> Any:
        return self.refuse if name == "socket" else getattr(socket, name)

    def refuse(self, *_: Any) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")


def test_without_descriptors_the_dialling_fails_and_nothing_else(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.server.links.socket", NoSocketsLeft())
    do(world, Dial(1, "127.0.0.1", 9092, "PLAINTEXT"))
    world.run_until(lambda: bool(world.node.links_lost))
    assert world.node.links_lost == [(1, "too many open files")]


def test_a_socket_that_has_met_itself_is_recognised() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.connect(sock.getsockname())
        assert connected_to_itself(sock)
    first, second = socket.socketpair(socket.AF_UNIX)
    with first, second, socket.socket() as lonely:
        assert not connected_to_itself(lonely)


def test_what_the_node_does_about_a_link_that_breaks_while_it_is_sent_to_leaves_at_once(
    world: Any, remote: RemoteNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are flushed after the effects of a turn: the loss of one begins another turn."""
    client = world.connect()
    world.settle()
    far = dial(world, remote)
    number = next(iter(world.shell.connections))
    monkeypatch.setattr(
        world.node, "link_lost", lambda link, reason, now_ms: world.node.effects.append(Send(number, [b"lost"]))
    )
    do(world, SendTo(1, [framed(b"question")]))
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    far.close()
    assert world.read(client, 4) == b"lost"


# Frames


def test_a_large_answer_that_comes_in_pieces_arrives_whole(world: Any, remote: RemoteNode) -> None:
    far = dial(world, remote)
    large = bytes(range(256)) * 20_000
    stream = framed(b"before") + framed(large) + framed(b"after")
    sent = 0

    def arrived() -> bool:
        nonlocal sent
        with contextlib.suppress(BlockingIOError):
            sent += far.send(stream[sent : sent + 100_000])
        return len(world.node.answers) == 3

    world.run_until(arrived)
    assert [answer for _, answer in world.node.answers] == [b"before", large, b"after"]
    world.settle()
    assert world.shell.pool.held_bytes == 0


def test_an_answer_of_a_hostile_length_closes_that_link_and_no_other(world: Any, remote: RemoteNode) -> None:
    good, bad, worse = (dial(world, remote, link) for link in (1, 2, 3))
    bad.sendall(struct.pack(">i", PEER_ANSWER_MAX_BYTES + 1) + b"x" * 100)
    worse.sendall(struct.pack(">i", -5))
    world.run_until(lambda: len(world.node.links_lost) == 2)
    assert sorted(world.node.links_lost) == [
        (2, f"an answer of {PEER_ANSWER_MAX_BYTES + 1} bytes; at most {PEER_ANSWER_MAX_BYTES} are received"),
        (3, f"an answer of -5 bytes; at most {PEER_ANSWER_MAX_BYTES} are received"),
    ]
    good.sendall(framed(b"fine"))
    world.run_until(lambda: world.node.answers == [(1, b"fine")])
    assert world.read_end(bad) == b""


def test_answers_may_be_larger_than_requests(make_world: Callable[..., Any]) -> None:
    world = make_world(request_max_bytes=1000)
    remote = RemoteNode(world)
    far = dial(world, remote)
    far.sendall(framed(b"x" * 5000))
    world.run_until(lambda: world.node.answers == [(1, b"x" * 5000)])
    remote.close()


def test_clients_that_use_all_memory_for_requests_do_not_hold_up_other_nodes(make_world: Callable[..., Any]) -> None:
    world = make_world(received_max_bytes=100_000)
    remote = RemoteNode(world)
    far = dial(world, remote)
    client = world.connect()
    client.send(struct.pack(">i", 10_000_000) + b"x" * 150_000)
    world.run_until(lambda: world.shell.pool.held_bytes > 100_000)
    stream = framed(b"y" * 300_000)
    sent = 0

    def arrived() -> bool:
        nonlocal sent
        with contextlib.suppress(BlockingIOError):
            sent += far.send(stream[sent : sent + 20_000])
        return bool(world.node.answers)

    world.run_until(arrived)
    remote.close()


def test_clients_and_links_have_numbers_of_their_own(world: Any, remote: RemoteNode) -> None:
    client = world.connect()
    far = dial(world, remote, link=1)
    client.send(framed(b"from a client"))
    far.sendall(framed(b"from a node"))
    world.run_until(lambda: bool(world.node.frames and world.node.answers))
    assert world.node.frames == [(1, b"from a client")]
    assert world.node.answers == [(1, b"from a node")]
    do(world, HangUp(1))
    assert world.read_end(far) == b""
    assert world.read(client, 17) == framed(b"from a client")
    assert list(world.shell.connections) == [1]


def test_a_link_that_the_other_side_closes_is_lost_once(world: Any, remote: RemoteNode) -> None:
    far = dial(world, remote)
    far.close()
    world.run_until(lambda: bool(world.node.links_lost))
    do(world, SendTo(1, [framed(b"late")]), HangUp(1))
    world.settle()
    assert world.node.links_lost == [(1, "closed by the other side")]
    assert not world.shell.links.connected


def test_requests_that_are_not_read_do_not_keep_us_from_reading_answers(world: Any, remote: RemoteNode) -> None:
    """The other side may have stopped reading because we have not read: somebody must begin."""
    far = dial(world, remote)
    do(world, SendTo(1, [framed(b"x" * (2 * SEND_QUEUE_MAX_BYTES))]))
    world.settle()
    far.sendall(framed(b"answer"))
    world.run_until(lambda: world.node.answers == [(1, b"answer")])


def test_a_stop_closes_links_and_dialling(world: Any, remote: RemoteNode) -> None:
    far = dial(world, remote)
    do(world, Dial(2, "127.0.0.1", remote.port, "PLAINTEXT"))
    world.settle(1)
    world.shell.stop()
    assert world.read_end(far) == b""
    assert world.node.links_lost == []


# Calls


def test_a_call_to_another_node_comes_back(world: Any, remote: RemoteNode) -> None:
    node = CallingNode(world)
    node.call(remote.port)
    far = remote.greet()
    header, request = remote.request(far)
    assert request == MetadataRequest(topics=[])
    remote.answer(far, header, MetadataResponse(controller_id=7))
    ((answer, reason),) = node.until_ended()
    assert (answer.controller_id, reason) == (7, None)


def test_a_call_that_is_refused_can_be_made_again(world: Any) -> None:
    node = CallingNode(world)
    port = free_port()
    for count in (1, 2, 3):
        node.call(port)
        assert node.until_ended(count)[-1] == (None, f"node 2 at 127.0.0.1:{port}: connection refused")
    remote = RemoteNode(world)
    try:
        node.call(remote.port)
        far = remote.greet()
        remote.answer(far, remote.request(far)[0], MetadataResponse())
        assert node.until_ended(4)[-1][1] is None
    finally:
        remote.close()


def test_a_broken_connection_is_made_anew_by_the_next_call(world: Any, remote: RemoteNode) -> None:
    node = CallingNode(world)
    node.call(remote.port)
    far = remote.greet()
    remote.request(far)
    far.close()
    assert node.until_ended(1) == [(None, f"node 2 at 127.0.0.1:{remote.port}: closed by the other side")]
    node.call(remote.port)
    far = remote.greet()
    remote.answer(far, remote.request(far)[0], MetadataResponse())
    assert node.until_ended(2)[-1][1] is None


def test_garbage_ends_the_calls_of_that_peer_and_no_others(world: Any, make_remote: Callable[..., RemoteNode]) -> None:
    bad, good = make_remote(), make_remote()
    node = CallingNode(world)
    node.call(bad.port)
    node.call(good.port)
    far = bad.accept()
    header, _ = bad.request(far)
    far.sendall(framed(struct.pack(">i", header.correlation_id) + b"\x00\x00\xff\xff\xff"))
    ((answer, reason),) = node.until_ended()
    assert answer is None
    assert reason is not None
    assert reason.startswith(f"node 2 at 127.0.0.1:{bad.port}: its answer to ApiVersions is broken")
    assert world.read_end(far) == b""
    far = good.greet()
    good.answer(far, good.request(far)[0], MetadataResponse())
    assert node.until_ended(2)[-1][1] is None


def test_a_peer_that_stops_reading_holds_up_nobody_and_little_memory(
    world: Any, make_remote: Callable[..., RemoteNode]
) -> None:
    deaf, good = make_remote(receive_bytes=4096), make_remote()
    node = CallingNode(world)
    large = MetadataRequest(topics=[MetadataRequestTopic(name="t" * 30_000) for _ in range(20)])
    for _ in range(3 * PEER_IN_FLIGHT_MAX):
        node.call(deaf.port, large, timeout_ms=300)
    deaf.greet()
    node.call(good.port)
    far = good.greet()
    good.answer(far, good.request(far)[0], MetadataResponse())
    assert node.until_ended()[0][1] is None
    (link,) = [link for link in world.shell.links.connected.values() if link.peer.endswith(str(deaf.port))]
    assert link.writer.queued_bytes <= PEER_IN_FLIGHT_MAX * 20 * 30_100
    world.run_until(lambda: len(node.ended) == 3 * PEER_IN_FLIGHT_MAX + 1)
    assert all("no answer to Metadata within 300 ms" in str(reason) for _, reason in node.ended[1:])
    world.run_until(lambda: len(world.shell.links.connected) == 1)


def test_an_idle_link_is_closed(world: Any, remote: RemoteNode) -> None:
    node = CallingNode(world, idle_ms=50)
    node.call(remote.port)
    far = remote.greet()
    remote.answer(far, remote.request(far)[0], MetadataResponse())
    node.until_ended()
    assert world.read_end(far) == b""
    assert not world.shell.links.connected
