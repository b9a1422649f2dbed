"""A connection: frames cut out of the byte stream in any pieces, answers matched to requests, failures told to all."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.client.client import parse_address
from penstock.client.connection import BrokerConnection, reason_of
from penstock.client.limits import CLIENT_RESPONSE_BYTES, CLIENT_SCRATCH_BYTES
from penstock.client.security import UNSECURED, ClientSecurity, client_security
from penstock.client.transport import Frames
from penstock.errors import ProtocolError, UnreachableError, UnsupportedVersionError
from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.frames import encode_response
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse

VERSION = 12


class Transport:
    """Takes what is written; remembers that it was aborted."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.aborted = False

    def writelines(self, chunks: list[bytes]) -> None:
        self.written += b"".join(chunks)

    def abort(self) -> None:
        self.aborted = True


def connected() -> tuple[BrokerConnection, Transport]:
    connection = BrokerConnection("127.0.0.1", 9092, "test", 30_000)
    transport = Transport()
    connection._transport = transport  # type: ignore[assignment]
    connection.versions = {int(ApiKey.METADATA): (0, VERSION)}
    return connection, transport


def receive(frames: Frames, data: bytes, piece: int) -> None:
    """Feeds bytes as a transport does: into the buffer that the protocol gives, at most `piece` at a time."""
    while data:
        buffer = frames.get_buffer(-1)
        count = min(piece, len(buffer), len(data))
        buffer[:count] = data[:count]
        frames.buffer_updated(count)
        data = data[count:]


def answer(correlation_id: int, cluster_id: str, throttle_time_ms: int = 0) -> bytes:
    message = MetadataResponse(cluster_id=cluster_id, throttle_time_ms=throttle_time_ms)
    return b"".join(bytes(chunk) for chunk in encode_response(APIS[ApiKey.METADATA], VERSION, correlation_id, message))


def run(body: Callable[[BrokerConnection, Transport], Coroutine[Any, Any, None]]) -> None:
    async def work() -> None:
        await body(*connected())

    asyncio.run(work())


@pytest.mark.parametrize("piece", [1, 7, 4096, CLIENT_SCRATCH_BYTES])
def test_answers_find_their_requests_however_the_stream_is_cut(piece: int) -> None:
    async def body(connection: BrokerConnection, transport: Transport) -> None:
        asked = [asyncio.ensure_future(connection.send(MetadataRequest())) for _ in range(3)]
        await asyncio.sleep(0)
        large = "x" * (CLIENT_SCRATCH_BYTES // 4)
        stream = answer(3, "third") + answer(1, large) + answer(2, "second")
        receive(Frames(connection), stream, piece)
        assert [got.cluster_id for got in await asyncio.gather(*asked)] == [large, "second", "third"]
        assert struct.unpack_from(">i", transport.written)[0] > 0

    run(body)


def test_a_frame_larger_than_the_scratch_buffer_is_received_in_its_own() -> None:
    frames: list[bytes] = []
    connection, _ = connected()
    connection.frame_received = lambda frame: frames.append(bytes(frame))  # type: ignore[method-assign]
    body = b"y" * (3 * CLIENT_SCRATCH_BYTES)
    small = struct.pack(">i", 5) + b"small"
    receive(Frames(connection), small + struct.pack(">i", len(body)) + body + small, 10_000)
    assert frames == [b"small", body, b"small"]


@pytest.mark.parametrize("size", [-1, 3, CLIENT_RESPONSE_BYTES + 1])
def test_a_frame_of_impossible_size_ends_the_connection(size: int) -> None:
    async def body(connection: BrokerConnection, transport: Transport) -> None:
        asked = asyncio.ensure_future(connection.send(MetadataRequest()))
        await asyncio.sleep(0)
        receive(Frames(connection), struct.pack(">i", size), 4)
        with pytest.raises(ProtocolError, match=f"a response of {size} bytes"):
            await asked
        assert transport.aborted
        assert connection.closed

    run(body)


def test_all_who_wait_are_told_that_the_broker_closed_the_connection() -> None:
    async def body(connection: BrokerConnection, _: Transport) -> None:
        asked = [asyncio.ensure_future(connection.send(MetadataRequest())) for _ in range(2)]
        await asyncio.sleep(0)
        Frames(connection).connection_lost(None)
        for one in asked:
            with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9092 closed the connection"):
                await one
        with pytest.raises(UnreachableError):
            await connection.send(MetadataRequest())

    run(body)


def test_requests_wait_while_the_broker_does_not_read_because_of_a_quota() -> None:
    async def body(connection: BrokerConnection, transport: Transport) -> None:
        loop = asyncio.get_running_loop()
        asked = [asyncio.ensure_future(connection.send(MetadataRequest(), timeout_ms=20)) for _ in range(2)]
        await asyncio.sleep(0)
        receive(Frames(connection), answer(1, "first", throttle_time_ms=60), 100)
        muted_at = loop.time()
        sent = len(transport.written)
        later = asyncio.ensure_future(connection.send(MetadataRequest()))
        while len(transport.written) == sent:
            await asyncio.sleep(0.001)
        assert loop.time() - muted_at >= 0.06, "nothing is sent meanwhile"
        assert not asked[1].done(), "and what is on its way is not given up"
        receive(Frames(connection), answer(2, "second") + answer(3, "third"), 100)
        assert [got.cluster_id for got in await asyncio.gather(*asked, later)] == ["first", "second", "third"]

    run(body)


def test_who_waits_for_the_end_of_a_mute_learns_that_the_connection_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.connection.MUTE_LOOK_S", 0.001)

    async def body(connection: BrokerConnection, transport: Transport) -> None:
        asked = asyncio.ensure_future(connection.send(MetadataRequest()))
        await asyncio.sleep(0)
        receive(Frames(connection), answer(1, "first", throttle_time_ms=60_000), 100)
        await asked
        later = asyncio.ensure_future(connection.send(MetadataRequest()))
        await asyncio.sleep(0)
        connection.lost(UnreachableError("the broker is gone"))
        with pytest.raises(UnreachableError, match="the broker is gone"):
            await asyncio.wait_for(later, 5)

    run(body)


def test_the_answer_to_a_request_that_was_given_up_is_dropped_and_broken_bytes_are_not() -> None:
    async def body(connection: BrokerConnection, transport: Transport) -> None:
        given_up = asyncio.ensure_future(connection.send(MetadataRequest()))
        await asyncio.sleep(0)
        given_up.cancel()
        frames = Frames(connection)
        with pytest.raises(asyncio.CancelledError):
            await given_up
        receive(frames, answer(1, "late"), 100)
        assert not transport.aborted
        asked = asyncio.ensure_future(connection.send(MetadataRequest()))
        await asyncio.sleep(0)
        receive(frames, answer(2, "short")[:4] + b"\x00\x00\x00\x02" + b"\xff" * 100, 1000)
        with pytest.raises(ProtocolError):
            await asked

    run(body)


def test_a_broker_that_hangs_loses_its_connection() -> None:
    async def body(connection: BrokerConnection, transport: Transport) -> None:
        asked = asyncio.ensure_future(connection.send(MetadataRequest()))
        with pytest.raises(UnreachableError, match="did not answer Metadata in time"):
            await connection.send(MetadataRequest(), timeout_ms=0)
        with pytest.raises(UnreachableError):
            await asked
        assert connection.closed
        assert transport.aborted

    run(body)


def test_a_request_that_is_cancelled_as_the_connection_ends_leaves_no_error_behind() -> None:
    async def body(connection: BrokerConnection, _: Transport) -> None:
        unseen: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
        asked = asyncio.ensure_future(connection.send(MetadataRequest()))
        await asyncio.sleep(0)
        asked.cancel()
        connection.close()
        await asyncio.wait([asked])
        assert asked.cancelled()
        del asked
        gc.collect()
        assert unseen == []

    run(body)


def test_an_answer_that_came_while_the_process_stood_still_is_in_time() -> None:
    async def body(connection: BrokerConnection, _: Transport) -> None:
        asked = asyncio.ensure_future(connection.send(MetadataRequest(), timeout_ms=0))
        await asyncio.sleep(0)  # it is sent, and its time is up with the next turn of the loop, which brings the answer
        asyncio.get_running_loop().call_soon(receive, Frames(connection), answer(1, "here"), 1000)
        assert (await asked).cluster_id == "here"

    run(body)


def test_a_request_without_an_answer_does_not_wait() -> None:
    async def body(connection: BrokerConnection, transport: Transport) -> None:
        assert await connection.send(MetadataRequest(), answered=False) is None
        assert transport.written

    run(body)


def test_versions_that_do_not_meet_are_named() -> None:
    connection, _ = connected()
    assert connection.version_for(ApiKey.METADATA) == VERSION
    assert connection.version_for(ApiKey.METADATA, at_most=5) == 5
    with pytest.raises(UnsupportedVersionError, match="serves nothing of CreateTopics"):
        connection.version_for(ApiKey.CREATE_TOPICS)
    connection.versions[int(ApiKey.METADATA)] = (90, 99)
    with pytest.raises(UnsupportedVersionError, match="serves 90-99 of Metadata; this client knows 0-"):
        connection.version_for(ApiKey.METADATA)


def test_addresses() -> None:
    assert parse_address("localhost:9092") == ("localhost", 9092)
    assert parse_address(" [::1]:1 ") == ("::1", 1)
    for wrong in ("localhost", "localhost:", ":9092", "a:0", "a:65536", "a:b"):
        with pytest.raises(ValueError, match="is not an address: host:port"):
            parse_address(wrong)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(111, "whatever"), "connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "the name cannot be resolved (name or service not known)"),
        (TimeoutError(), "no answer"),
        (OSError("Multiple exceptions: one, two"), "multiple exceptions: one, two"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_why_there_is_no_connection_is_said_in_words(error: OSError, reason: str) -> None:
    assert reason_of(error) == reason


@pytest.mark.parametrize("host", ["a" * 64 + ".example", ".example", "a..b"])
@pytest.mark.parametrize("security", [UNSECURED, client_security({"security.protocol": "SSL"})])
def test_what_cannot_be_a_host_name_is_refused_in_a_sentence(host: str, security: ClientSecurity) -> None:
    connection = BrokerConnection(host, 9092, "test", 30_000, security)
    with pytest.raises(UnreachableError, match=r"cannot reach .*cannot be the name of a host"):
        asyncio.run(connection.open())


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP, not Kafka's protocol"),
        (
            b"\x15\x03\x03\x00\x02\x02\x46",
            "speaks TLS, not Kafka's protocol\n  security.protocol must be as the listener's is",
        ),
        (b"", "closed the connection without an answer\n  a listener that wants TLS does so"),
    ],
)
def test_a_port_of_something_else_says_what_it_is(said: bytes, why: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(said)

    assert why in refusal_of(answer, timeout_ms=30_000)


def test_a_port_that_never_answers_is_named() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    assert "accepts connections and did not answer in" in refusal_of(listen, timeout_ms=200)


def refusal_of(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]], *, timeout_ms: int
) -> str:
    """What a client says of a server that is no broker."""

    async def work() -> str:
        gone = asyncio.Event()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await serve(reader, writer)
                writer.close()
                await writer.wait_closed()
            finally:
                gone.set()

        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            connection = BrokerConnection("127.0.0.1", server.sockets[0].getsockname()[1], "test", 30_000)
            with pytest.raises(UnreachableError) as raised:
                await connection.open(timeout_ms)
            connection.close()
            await gone.wait()
        return str(raised.value)

    return asyncio.run(work())
