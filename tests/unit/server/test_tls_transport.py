"""TLS on a connection: frames come and go, nothing is held back for ever, what is wrong ends that connection alone."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.client.tls import client_context, read_material, server_context
from penstock.node.effects import Dial, Send
from penstock.server.handshakes import Handshakes
from penstock.server.limits import SEALED_MAX_BYTES
from penstock.server.tls_records import FED_BYTES, Records
from penstock.server.tls_transport import TlsTransport, joined
from tests.support.tls import CLIENTS_ONLY, SERVERS_ONLY, Authority, KeyStore, tls_settings


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def context(side: Callable[..., ssl.SSLContext], store: KeyStore | None, **extra: str) -> ssl.SSLContext:
    properties = store.properties() if store is not None else {}
    read = tls_settings({**properties, **{name.replace("__", "."): value for name, value in extra.items()}})
    return side(read, read_material(read))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def node_store(authority: Authority) -> KeyStore:
    return authority.store("node")


class TlsWorld:
    """A shell whose listener speaks TLS, and clients that do."""

    def __init__(self, world: Any, handshakes: Handshakes) -> None:
        self.world = world
        self.node = world.node
        self.handshakes = handshakes

    def connect(self, client: ssl.SSLContext) -> ssl.SSLSocket:
        """A client whose handshake is over."""
        sock = self.begin(client)

        def over() -> bool:
            try:
                sock.do_handshake()
            except ssl.SSLWantReadError:
                return False
            return True

        self.world.run_until(over)
        return sock

    def begin(self, client: ssl.SSLContext) -> ssl.SSLSocket:
        """A client that has not shaken hands."""
        plain = self.world.connect()
        sock = client.wrap_socket(plain, server_hostname="localhost", do_handshake_on_connect=False)
        self.world.clients.append(sock)
        return sock

    def read(self, client: ssl.SSLSocket, size: int) -> bytes:
        data = bytearray()

        def enough() -> bool:
            with contextlib.suppress(ssl.SSLWantReadError):
                while got := client.recv(1 << 16):
                    data.extend(got)
            return len(data) >= size

        self.world.run_until(enough, 20)
        return bytes(data)

    def send(self, client: ssl.SSLSocket, data: bytes) -> None:
        view = memoryview(data)

        def sent() -> bool:
            nonlocal view
            with contextlib.suppress(ssl.SSLWantWriteError):
                while view:
                    view = view[client.send(view[: 1 << 16]) :]
            return not view

        self.world.run_until(sent, 20)


@pytest.fixture
def make_tls(make_world: Callable[..., Any], node_store: KeyStore) -> Iterator[Callable[..., TlsWorld]]:
    """Makes worlds with TLS: the settings of the listener by their names, or `store=`."""
    made: list[Handshakes] = []

    def make(store: KeyStore = node_store, limits: dict[str, Any] | None = None, **extra: str) -> TlsWorld:
        server = context(server_context, store, **extra)
        client = context(client_context, store, ssl__endpoint__identification__algorithm="")

        def transport(_listener: str, sock: socket.socket, host: str | None) -> TlsTransport:
            return TlsTransport(sock, server if host is None else client, handshakes, host)

        world = make_world(transport_of=transport, **(limits or {}))
        handshakes = Handshakes(world.loop, 1)
        made.append(handshakes)
        return TlsWorld(world, handshakes)

    yield make
    for each in made:
        each.close()


@pytest.fixture
def client(node_store: KeyStore) -> ssl.SSLContext:
    return context(client_context, None, ssl__truststore__type="PEM", ssl__truststore__location=str(node_store.trust))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_frames_of_all_sizes_come_and_go(
    make_tls: Callable[..., TlsWorld], client: ssl.SSLContext, version: str
) -> None:
    tls = make_tls(ssl__enabled__protocols=version)
    sock = tls.connect(client)
    assert sock.version() == version
    for body in (b"a", b"b" * 100, b"c" * 40_000, b"d" * 3_000_000, b"e"):
        tls.send(sock, framed(body))
        assert tls.read(sock, len(body) + 4) == framed(body)
    assert tls.node.subjects == {1: None}


def test_many_small_frames_in_one_record_are_all_read(
    make_tls: Callable[..., TlsWorld], client: ssl.SSLContext
) -> None:
    tls = make_tls()
    sock = tls.connect(client)
    frames = b"".join(framed(b"%d" % number) for number in range(3000))
    tls.send(sock, frames)
    assert tls.read(sock, len(frames)) == frames


def test_a_reader_that_stops_holds_up_little_memory(make_tls: Callable[..., TlsWorld], client: ssl.SSLContext) -> None:
    tls = make_tls()
    tls.node.answer = lambda connection, frame: [Send(connection, [b"x" * 8_000_000])]
    sock = tls.connect(client)
    tls.send(sock, framed(b"more"))
    transport = tls.world.shell.connections[1].transport
    tls.world.run_until(lambda: transport.unsent)
    tls.world.settle(50)
    assert transport.unsent
    assert sum(map(len, transport._unsent)) <= SEALED_MAX_BYTES + 20_000
    assert len(tls.read(sock, 8_000_000)) == 8_000_000


def test_the_subject_of_a_clients_certificate_reaches_the_node(
    make_tls: Callable[..., TlsWorld], authority: Authority
) -> None:
    tls = make_tls(ssl__client__auth="required")
    sock = tls.connect(context(client_context, authority.store("alice")))
    tls.send(sock, framed(b"hi"))
    assert tls.read(sock, 6) == framed(b"hi")
    assert tls.node.subjects == {1: "CN=alice"}


def test_the_node_is_told_how_long_the_handshake_took(
    make_tls: Callable[..., TlsWorld], client: ssl.SSLContext
) -> None:
    tls = make_tls()
    sock = tls.begin(client)
    tls.world.run_until(lambda: tls.world.shell.connections)
    tls.world.shell.connections[1].frame_since_ms -= 4_000

    def over() -> bool:
        with contextlib.suppress(ssl.SSLWantReadError):
            sock.do_handshake()
        return 1 in tls.node.waited_ms

    tls.world.run_until(over)
    assert tls.node.waited_ms[1] >= 4_000


def refusal(tls: TlsWorld, client: ssl.SSLContext, caplog: pytest.LogCaptureFixture) -> str:
    """How the node's log tells of a handshake that it breaks off."""
    caplog.set_level("INFO")
    sock = tls.begin(client)

    def over() -> bool:
        try:
            sock.do_handshake()
            sock.send(framed(b"hi"))
            sock.recv(10)
        except ssl.SSLWantReadError:
            return not tls.world.shell.connections
        except OSError:
            return not tls.world.shell.connections
        return False

    tls.world.run_until(over)
    assert tls.node.frames == []
    assert tls.node.subjects == {}
    assert tls.node.lost == []
    assert tls.node.bugs == []
    (line,) = [record.getMessage() for record in caplog.records if "connection refused" in record.getMessage()]
    return line


def test_who_shows_no_certificate_or_a_wrong_one_is_refused(
    make_tls: Callable[..., TlsWorld],
    client: ssl.SSLContext,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tls = make_tls(ssl__client__auth="required")
    assert "the client showed no certificate" in refusal(tls, client, caplog)
    stranger = Authority(tmp_path, "Another CA").store("mallory")
    cases = {
        "self-signed": context_of(stranger, authority),
        "has expired": context(client_context, authority.store("late", ends=timedelta(hours=-1))),
        "unsuitable certificate purpose": context(client_context, authority.store("server", usages=SERVERS_ONLY)),
    }
    for number, (word, wrong) in enumerate(cases.items()):
        caplog.clear()
        line = refusal(tls, wrong, caplog)
        assert "the certificate was refused" in line, (number, line)
        assert word in line or "unable to get local issuer" in line or "unsupported certificate purpose" in line
    caplog.clear()
    assert tls.connect(context(client_context, authority.store("bob", usages=CLIENTS_ONLY)))


def context_of(store: KeyStore, authority: Authority) -> ssl.SSLContext:
    """A client with a foreign certificate that trusts the node's authority."""
    return context(client_context, store, ssl__truststore__location=str(authority.trust))


def test_plaintext_on_a_listener_with_tls_is_refused_in_words(
    make_tls: Callable[..., TlsWorld], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tls = make_tls()
    plain = tls.world.connect()
    plain.send(framed(b"\x00\x12\x00\x03" + bytes(20)))
    tls.world.run_until(lambda: not tls.world.shell.connections)
    assert any("no TLS came" in record.getMessage() for record in caplog.records)


def test_a_dribbled_handshake_has_its_deadline(make_tls: Callable[..., TlsWorld], client: ssl.SSLContext) -> None:
    tls = make_tls(limits={"receive_timeout_ms": 100})
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = client.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    sock = tls.world.connect()
    sock.send(outgoing.read()[:50])
    tls.world.run_until(lambda: not tls.world.shell.connections)
    assert tls.node.bugs == []


def test_a_client_that_leaves_within_the_handshake_is_forgotten(
    make_tls: Callable[..., TlsWorld], client: ssl.SSLContext
) -> None:
    tls = make_tls()
    sock = tls.begin(client)
    with pytest.raises(ssl.SSLWantReadError):
        sock.do_handshake()
    sock.close()
    tls.world.run_until(lambda: not tls.world.shell.connections)
    assert (tls.node.lost, tls.node.bugs) == ([], [])


def test_a_client_that_leaves_later_is_lost(make_tls: Callable[..., TlsWorld], client: ssl.SSLContext) -> None:
    tls = make_tls()
    for leave in (ssl.SSLSocket.close, lambda sock: sock.unwrap()):
        sock = tls.connect(client)
        tls.send(sock, framed(b"hi"))
        tls.read(sock, 6)
        with contextlib.suppress(OSError):
            leave(sock)
    tls.world.run_until(lambda: not tls.world.shell.connections)
    assert tls.node.lost == [1, 2]


def test_links_check_the_name_of_the_host(
    make_tls: Callable[..., TlsWorld], node_store: KeyStore, authority: Authority
) -> None:
    """Dialled by a shell: the other side's certificate must name the host."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    port = listening.getsockname()[1]
    tls = make_tls()
    checking = context(client_context, node_store)
    tls.world.shell.transport_of = lambda _, sock, host: TlsTransport(sock, checking, tls.handshakes, host)
    for hosts, up in ((["127.0.0.1"], True), (["elsewhere.example"], False)):
        server = context(server_context, authority.store("other", hosts=hosts))
        link = len(tls.node.up) + len(tls.node.links_lost) + 1
        tls.node.effects.append(Dial(link, "127.0.0.1", port, "SSL"))
        tls.world.shell.kick()
        accepted: list[ssl.SSLSocket] = []

        def shaken(server: ssl.SSLContext = server, accepted: list[ssl.SSLSocket] = accepted) -> bool:
            try:
                if not accepted:
                    sock, _ = listening.accept()
                    sock.setblocking(False)
                    accepted.append(server.wrap_socket(sock, server_side=True, do_handshake_on_connect=False))
                accepted[0].do_handshake()
            except (BlockingIOError, ssl.SSLError):
                pass
            return bool(tls.node.up or tls.node.links_lost)

        tls.world.run_until(shaken)
        assert bool(tls.node.up) == up
        if not up:
            assert "mismatch" in tls.node.links_lost[0][1].lower()
        tls.node.up.clear()
        accepted[0].close()
        tls.world.settle()
        tls.node.links_lost.clear()
    listening.close()


@pytest.fixture
def one_tls(make_tls: Callable[..., TlsWorld]) -> TlsWorld:
    return make_tls()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    first=st.sampled_from([b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"]), data=st.binary(max_size=700)
)
def test_garbage_ends_its_own_connection_alone(one_tls: TlsWorld, first: bytes, data: bytes) -> None:
    tls = one_tls
    sock = tls.world.connect()
    with contextlib.suppress(BlockingIOError):
        sock.send(first + data)
    tls.world.settle(20)
    sock.close()
    tls.world.run_until(lambda: not tls.world.shell.connections)
    assert (tls.node.frames, tls.node.bugs) == ([], [])


@given(st.lists(st.binary(max_size=9000), max_size=12))
def test_joined_chunks_are_the_same_bytes(chunks: list[bytes]) -> None:
    pieces = list(joined(chunks))
    assert b"".join(bytes(piece) for piece in pieces) == b"".join(chunks)


def test_small_chunks_are_joined_and_large_ones_are_not_copied() -> None:
    large = bytes(40_000)
    assert len(list(joined([b"head", b"x" * 100, b"tail"]))) == 1
    pieces = list(joined([b"head", large, b"tail"]))
    assert [len(piece) for piece in pieces] == [16_384, 40_000 + 4 - 16_384, 4]


def test_a_farewell_behind_the_last_request_closes_the_connection(
    make_tls: Callable[..., TlsWorld], client: ssl.SSLContext
) -> None:
    """The client waits for our farewell before it closes its socket, which so does not become readable again."""
    tls = make_tls()
    tls.node.answer = lambda connection, frame: []
    plain = tls.world.connect()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = client.wrap_bio(incoming, outgoing, server_hostname="localhost")

    def stepped(step: Callable[[], Any]) -> Callable[[], bool]:
        def over() -> bool:
            with contextlib.suppress(BlockingIOError):
                incoming.write(plain.recv(1 << 16))
            done = True
            try:
                step()
            except ssl.SSLWantReadError:
                done = False
            if outgoing.pending:
                plain.send(outgoing.read())
            return done

        return over

    tls.world.run_until(stepped(end.do_handshake))
    tls.world.run_until(lambda: bool(tls.node.subjects))
    end.write(framed(b"last"))
    tls.world.run_until(stepped(end.unwrap))
    tls.world.run_until(lambda: not tls.world.shell.connections)
    assert tls.node.frames == [(1, b"last")]
    assert tls.node.lost == [1]


def test_an_answer_of_the_handshake_that_the_socket_does_not_take_at_once_follows(
    make_tls: Callable[..., TlsWorld], client: ssl.SSLContext, authority: Authority
) -> None:
    """The client says nothing more until it has all of the answer."""
    hosts = [f"broker-{number}.{'x' * 60}.example" for number in range(700)]
    tls = make_tls(authority.store("many-names", hosts=["localhost", *hosts]), limits={"send_buffer_bytes": 1})
    sock = tls.connect(client)
    tls.send(sock, framed(b"hi"))
    assert tls.read(sock, 6) == framed(b"hi")


def ask_for_new_keys(sock: ssl.SSLSocket, times: int) -> None:
    """Has OpenSSL send KeyUpdate records that ask for an answer, which Python has no call for."""
    import _ssl
    import ctypes

    library = ctypes.CDLL(getattr(_ssl, "__file__", None))
    address = ctypes.c_void_p.from_address(id(sock._sslobj) + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p))  # type: ignore[attr-defined]
    for _ in range(times):
        library.SSL_key_update(address, 1)
        if library.SSL_do_handshake(address) != 1:
            return


@pytest.mark.skipif(sys.implementation.name != "cpython" or sys.platform != "linux", reason="looks into OpenSSL")
def test_who_asks_for_new_keys_again_and_again_fills_no_memory(
    make_tls: Callable[..., TlsWorld], client: ssl.SSLContext
) -> None:
    tls = make_tls()
    sock = tls.connect(client)
    tls.world.run_until(lambda: bool(tls.node.subjects))
    transport = tls.world.shell.connections[1].transport
    ask_for_new_keys(sock, 10)
    tls.world.settle(20)
    assert not transport.unsent
    tls.send(sock, framed(b"hi"))
    assert tls.read(sock, 6) == framed(b"hi")
    largest = 0

    def gone() -> bool:
        nonlocal largest
        largest = max(largest, sum(map(len, transport._unsent)))
        return not tls.world.shell.connections

    ask_for_new_keys(sock, 500)  # and their answers are not read
    tls.world.run_until(gone)
    assert largest < 2000
    assert tls.node.bugs == []


@given(st.lists(st.integers(0, 40), max_size=30), st.lists(st.integers(1, 60), min_size=1))
def test_records_are_told_apart_wherever_the_bytes_are_cut(lengths: list[int], cuts: list[int]) -> None:
    stream = b"".join(b"\x17\x03\x03" + struct.pack(">H", length) + bytes(length) for length in lengths)
    records = Records()
    fed, position, number = b"", 0, 0
    while position < len(stream):
        piece = memoryview(stream)[position : position + cuts[number % len(cuts)]]
        fed += b"".join(map(bytes, records.pieces(piece)))
        position, number = position + len(piece), number + 1
    assert fed == stream
    assert records._begun == len(lengths)
    assert (records._at, records._head) == (0, b"")


def test_a_few_small_records_or_a_large_one_are_given_at_once() -> None:
    small = (b"\x17\x03\x03\x00\x16" + bytes(22)) * 100
    large = (b"\x17\x03\x03\x40\x11" + bytes(16_401)) * 3
    pieces = [len(piece) for piece in Records().pieces(memoryview(small + large))]
    assert pieces[:6] == [16 * 27] * 6
    assert max(pieces) <= FED_BYTES
    assert sum(pieces) == len(small + large)
