"""The REST API's door: what slow, loud and lying clients come to, and TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from support.rest_api import GET, PATIENCE_S, TOKEN, FakeBack, Served, parsed, run, serving
from support.tls import Authority

from penstock.errors import ConfigError
from penstock.guardian.rest import door as door_module
from penstock.guardian.rest.desk import Answered
from penstock.guardian.rest.door import Door
from penstock.protocol.messages.own.guardian_call_response import GuardianCallResponse


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short times for clients."""
    monkeypatch.setattr(door_module, "REST_REQUEST_TIMEOUT_S", 0.2)
    monkeypatch.setattr(door_module, "REST_LINGER_S", 0.2)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\0\x16\x03\x01\r\n\r\n", 400),
        (b"GET /v1/users\r\n\r\n", 400),
        (b"GET /v1/users HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /v1/ users HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /v1/\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /v1/users HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400),
        (b"GET /v1/users HTTP/1.1\r\nHost: x\r\na: \0\r\n\r\n", 400),
        (b"POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (f"POST /v1/users HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
         "Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(), 400),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 10_000, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\na: " + b"b" * 20_000, 431),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_in_json(sent: bytes, status: int) -> None:
    async def work() -> None:
        async with serving() as served:
            (answer,) = await served.said(sent)
            assert (answer.status, list(answer.body)) == (status, ["error"])
            assert served.bugs == []

    run(work())


def test_requests_on_one_connection_are_answered_in_order() -> None:
    async def work() -> None:
        async with serving() as served:
            paths = ("users", "clusters", "nothing", "audit")
            many = "".join(GET.replace("users", path) + "\r\n" for path in paths)
            last = GET + "Connection: close\r\n\r\n"
            answers = await served.said((many + last).encode())
            assert [each.status for each in answers] == [200, 200, 404, 200, 200]
            assert [each.path for each in served.back.calls] == [f"/v1/{path}" for path in (*paths, "users")]

    run(work())


@pytest.mark.parametrize("part", [GET, GET + "Content-Length: 100\r\n\r\nhalf", "G", GET + "\r\n" + "GE"])
@pytest.mark.usefixtures("hasty")
def test_half_a_request_is_given_up(part: str) -> None:
    async def work() -> None:
        async with serving() as served:
            answers = await served.said(part.encode())
            assert answers[-1].status == 408
            await served.until_empty()

    run(work())


@pytest.mark.usefixtures("hasty")
def test_a_client_that_sends_a_byte_now_and_then_is_given_up_as_soon() -> None:
    async def work() -> None:
        async with serving() as served:
            reader, writer = await served.connect()
            loop, text = asyncio.get_running_loop(), (GET + "a: " + "b" * 10_000).encode()
            began_s = loop.time()
            for byte in text:
                writer.write(bytes([byte]))
                with_answer = asyncio.ensure_future(reader.read(1))
                done, _ = await asyncio.wait([with_answer], timeout=0.01)
                if done:
                    break
                with_answer.cancel()
                await asyncio.wait([with_answer])
            assert with_answer.result() == b"H"
            assert loop.time() - began_s < PATIENCE_S / 2
            writer.close()
            await served.until_empty()

    run(work())


@pytest.mark.usefixtures("hasty")
def test_who_says_nothing_is_closed() -> None:
    async def work() -> None:
        async with serving() as served:
            assert await served.said() == []
            (answer,) = await served.said(GET.encode() + b"\r\n")
            assert answer.status == 200, "and so it is after an answer"

    run(work())


@pytest.mark.usefixtures("hasty")
def test_an_answer_that_nobody_reads_is_given_up() -> None:
    async def flood(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def work() -> None:
        async with serving(app=flood) as served:
            _, writer = await served.connect(limit=1)
            writer.write(GET.encode() + b"\r\n")
            await writer.drain()
            async with asyncio.timeout(PATIENCE_S):
                while not served.door.connections:
                    await asyncio.sleep(0.001)
            await served.until_empty()
            writer.transport.abort()

    run(work())


def test_only_so_many_connections_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "REST_CONNECTIONS_MAX", 2)

    async def work() -> None:
        waiting: list[Answered] = []
        async with serving(FakeBack(how=lambda call, answered: waiting.append(answered))) as served:
            for _ in range(2):
                _, writer = await served.connect()
                writer.write(GET.encode() + b"\r\n")
            async with asyncio.timeout(PATIENCE_S):
                while len(waiting) < 2:
                    await asyncio.sleep(0.001)
            (answer,) = await served.said()
            assert answer.status == 503
            assert "2 connections are open" in answer.body["error"]
            assert (served.door.connections, served.door.refused) == (2, 1)

    run(work())


def test_who_holds_connections_and_asks_nothing_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "REST_CONNECTIONS_MAX", 3)

    async def work() -> None:
        async with serving() as served:
            held = []
            for text in ("", "G", GET):
                reader, writer = await served.connect()
                writer.write(text.encode())
                held.append(reader)
                async with asyncio.timeout(PATIENCE_S):
                    while served.door.connections < len(held):
                        await asyncio.sleep(0.001)
            for _ in range(2):  # the second one finds the place of the first one
                assert (await served.ask("GET", "/v1/clusters")).status == 200
                assert (served.door.refused, served.door.made_room) == (0, 1)
            assert await held[0].read() == b""
            assert [each.at_eof() for each in held] == [True, False, False]
            assert served.door.connections <= 3

    run(work())


def test_who_never_shakes_hands_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "REST_CONNECTIONS_MAX", 3)
    monkeypatch.setattr(door_module, "HTTP_HANDSHAKE_TIMEOUT_S", PATIENCE_S)
    store = Authority(tmp_path).store("node")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(store.pem)
    trusting = ssl.create_default_context(cafile=str(store.trust))

    async def work() -> None:
        async with serving(context=lambda: context) as served:
            held = [(await served.connect())[0] for _ in range(5)]
            sent = (GET + "Connection: close\r\n\r\n").encode()
            (answer,) = await served.said(sent, ssl=trusting, server_hostname="localhost")
            assert answer.status == 200
            assert (served.door.refused, served.door.made_room) == (0, 3)
            assert [await each.read() for each in held[:3]] == [b""] * 3
            assert [each.at_eof() for each in held] == [True, True, True, False, False]
            assert served.door.connections <= 3

    run(work())


def test_a_stop_lets_a_request_end_and_waits_for_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        waiting: list[Answered] = []
        async with serving(FakeBack(how=lambda call, answered: waiting.append(answered))) as served:
            reader, writer = await served.connect()
            idle, _ = await served.connect()
            writer.write(GET.encode() + b"\r\n")
            async with asyncio.timeout(PATIENCE_S):
                while not waiting:
                    await asyncio.sleep(0.001)
            stopping = asyncio.ensure_future(served.door.stop())
            assert await idle.read() == b""
            waiting[0](GuardianCallResponse(status=200, body=b'{"users":[]}'), 0)
            assert parsed(await reader.read())[0].body == {"users": []}
            await stopping
            with pytest.raises(ConnectionRefusedError):
                await served.connect()

    run(work())


def test_a_stop_ends_requests_that_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "REST_STOP_S", 0.05)

    async def work() -> None:
        waiting: list[Answered] = []
        async with serving(FakeBack(how=lambda call, answered: waiting.append(answered))) as served:
            reader, writer = await served.connect()
            writer.write(GET.encode() + b"\r\n")
            async with asyncio.timeout(PATIENCE_S):
                while not waiting:
                    await asyncio.sleep(0.001)
            await served.door.stop()
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)

    run(work())


def test_an_address_in_use_or_none_is_said() -> None:
    async def work() -> None:
        async with serving() as served:
            other = Door(served.door.config.loaded_app)
            with pytest.raises(ConfigError, match=r"penstock\.guardian\.rest\.listener: cannot listen on"):
                await other.start(f"127.0.0.1:{served.port}")

    run(work())


def test_each_connection_gets_the_present_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "HTTP_HANDSHAKE_TIMEOUT_S", 0.3)
    authority = Authority(tmp_path)
    stores = [authority.store(name) for name in ("first", "second")]
    contexts = []
    for store in stores:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(store.pem)
        contexts.append(context)
    trusting = ssl.create_default_context(cafile=str(stores[0].trust))
    present = [0]

    async def subject_seen(served: Served) -> str:
        _, writer = await served.connect(ssl=trusting, server_hostname="localhost")
        subject = str(writer.get_extra_info("peercert")["subject"])
        writer.close()
        return subject

    async def work() -> None:
        async with serving(context=lambda: contexts[present[0]]) as served:
            sent = GET + "Connection: close\r\n\r\n"
            (answer,) = await served.said(sent.encode(), ssl=trusting, server_hostname="localhost")
            assert answer.status == 200
            assert "first" in await subject_seen(served)
            present[0] = 1
            assert "second" in await subject_seen(served)
            assert await served.said(sent.encode()) == [], "no HTTP in clear"
            assert await served.said() == [], "no handshake"
            with pytest.raises(ssl.SSLError):
                await served.connect(ssl=ssl.create_default_context(), server_hostname="localhost")
            await served.until_empty()
            monkeypatch.setattr(door_module, "REST_CONNECTIONS_MAX", 0)
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await served.connect(ssl=trusting, server_hostname="localhost")

    run(work())
