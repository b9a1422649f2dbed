"""The REST API's door and desk in a loop of the test's own: what slow, loud and lying clients come to."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.tls import Authority

from penstock.errors import ConfigError
from penstock.guardian.core import answering, calls
from penstock.guardian.core.accounts import Role, Token, User, hash_of, new_token, token_record, user_record
from penstock.guardian.core.calls import Call, Known, Reply, Resource
from penstock.guardian.core.limits import GUARDIAN_BODY_MAX_BYTES, GUARDIAN_TOKEN_STATE_AGE_MAX_MS
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import EMPTY, GuardianState, replay
from penstock.guardian.rest import desk as desk_module
from penstock.guardian.rest import door as door_module
from penstock.guardian.rest.app import app_of
from penstock.guardian.rest.desk import Answered, Desk
from penstock.guardian.rest.door import App, Door
from penstock.protocol.messages.own.guardian_call_response import GuardianCallResponse

TOKEN = new_token(bytes(8), bytes(range(32)))
PATIENCE_S = 20.0
"""How long a test waits for what must come."""


def state_with_ann() -> GuardianState:
    token = Token(bytes(8).hex(), "ann", hash_of(TOKEN), "", 0, 1_000_000)
    return replay(EMPTY, [user_record(User("ann", (Role("admin"),))), token_record(token)])


@dataclass
class FakeBack:
    """A node that answers reads from its state, or as `how` says; it makes no change."""

    state: GuardianState = field(default_factory=state_with_ann)
    age_ms: int | None = 0
    wall_ms: int = 1_000
    now_ms: int = 1_000
    calls: list[Call] = field(default_factory=list)
    how: Callable[[Call, Answered], None] | None = None

    def ask(self, call: Call, answered: Answered) -> None:
        self.calls.append(call)
        if self.how is not None:
            self.how(call, answered)
            return
        reply = answering.read(Known(self.state, Sight(), self.wall_ms), call) if not call.changes else Reply(200, {})
        answered(GuardianCallResponse(status=reply.status, body=reply.encoded, answered_by=7, leader_id=8, age_ms=9), 0)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


def parsed(data: bytes) -> list[Answer]:
    """All responses in what a connection has said."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        size = int(headers.get("content-length", 0))
        body, data = data[:size], data[size:]
        found.append(Answer(int(first.split(" ")[1]), headers, json.loads(body) if body else None))
    return found


class Served:
    """A door, its address, and what its clients do."""

    def __init__(self, door: Door, address: str, back: FakeBack, bugs: list[str]) -> None:
        self.door = door
        self.port = int(address.rpartition(":")[2])
        self.back = back
        self.bugs = bugs
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self, **more: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **more)
        self.writers.append(writer)
        return reader, writer

    async def said(self, *pieces: bytes, **more: Any) -> list[Answer]:
        """What the server says to these bytes until it closes."""
        reader, writer = await self.connect(**more)
        for piece in pieces:
            writer.write(piece)
        data = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
        return parsed(data)

    async def ask(self, method: str, path: str, *headers: str, body: bytes = b"", token: str | None = TOKEN) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *headers]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        if body:
            lines.append(f"Content-Length: {len(body)}")
        (answer,) = await self.said("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return answer

    async def until_empty(self) -> None:
        """Waits until no connection is left."""
        async with asyncio.timeout(PATIENCE_S):
            while self.door.connections:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def serving(
    back: FakeBack | None = None,
    app: App | None = None,
    context: Callable[[], ssl.SSLContext] | None = None,
) -> AsyncIterator[Served]:
    bugs: list[str] = []
    back = back or FakeBack()
    desk = Desk(back, lambda what, error: bugs.append(f"{what}: {error}"))
    door = Door(app or app_of(desk, answering.RESOURCES.values()), context)
    address = await door.start("127.0.0.1:0")
    served = Served(door, address, back, bugs)
    try:
        yield served
    finally:
        await door.stop()
        for writer in served.writers:
            writer.close()
            await asyncio.wait([asyncio.ensure_future(writer.wait_closed())], timeout=PATIENCE_S)
        assert (door.connections, door._arriving) == (0, set())


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(3 * PATIENCE_S):
            await work

    asyncio.run(limited())


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short times for clients."""
    monkeypatch.setattr(door_module, "REST_REQUEST_TIMEOUT_S", 0.2)
    monkeypatch.setattr(door_module, "REST_LINGER_S", 0.2)


GET = f"GET /v1/users HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"


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
        async with serving() as served:
            for _ in range(2):
                _, writer = await served.connect()
                writer.write(b"G")
            async with asyncio.timeout(PATIENCE_S):
                while served.door.connections < 2:
                    await asyncio.sleep(0.001)
            (answer,) = await served.said()
            assert answer.status == 503
            assert "2 connections are open" in answer.body["error"]
            assert (served.door.connections, served.door.refused) == (2, 1)

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


# The desk


def test_a_request_becomes_a_call_and_its_answer_a_response() -> None:
    async def work() -> None:
        async with serving() as served:
            key = "0b5ee3a4-5f0c-4d0f-9a3e-2d3f5a1c7e11"
            answer = await served.ask(
                "POST", "/v1/clusters?a=%20b", f"Idempotency-Key: {key}", body='{"name": "é"}'.encode()
            )
            (call,) = served.back.calls
            assert (call.method, call.path, call.principal) == ("POST", "/v1/clusters?a=%20b", "User:ann")
            assert (call.token_id, call.is_super, str(call.request_id)) == (bytes(8).hex(), False, key)
            assert call.body == '{"name": "é"}'.encode()
            assert answer.headers["idempotency-key"] == key
            told = [answer.headers[f"penstock-{name}"] for name in ("node-id", "leader-id", "age-ms")]
            assert told == ["7", "8", "9"]
            assert answer.headers["cache-control"] == "no-store"
            assert not [name for name in answer.headers if name.startswith("access-control")]
            first, second = [(await served.ask("POST", "/v1/clusters")).headers["idempotency-key"] for _ in range(2)]
            assert first != second
            head = await served.ask("GET", "/v1/cl%75sters")
            assert head.body == {"clusters": []}

    run(work())


def test_a_head_has_no_body_and_options_tell_what_is_allowed() -> None:
    async def work() -> None:
        async with serving() as served:
            reader, writer = await served.connect()
            writer.write(GET.replace("GET", "HEAD").encode() + b"Connection: close\r\n\r\n")
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            assert (head.split(b" ")[1], body) == (b"200", b"")
            assert b"content-length: 98" in head
            writer.close()
            options = await served.ask("OPTIONS", "/v1/clusters/clicks", "Origin: http://evil", token=None)
            assert (options.status, options.body) == (204, None)
            assert options.headers["allow"] == "GET, HEAD, PATCH, DELETE, OPTIONS"
            assert not [name for name in options.headers if name.startswith("access-control")]
            assert (await served.ask("OPTIONS", "/v1/nothing", token=None)).status == 404
            assert served.back.calls[1:] == []

    run(work())


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("Authorization: Basic YTpi",),
        ("Authorization: Bearer",),
        ("Authorization: Bearer x",),
        (f"Authorization: Token {TOKEN}",),
        (f"Authorization: {TOKEN}",),
        (f"Authorization: Bearer {TOKEN[:-1]}0",),
        (f"Authorization: Bearer {TOKEN} {TOKEN}",),
        (f"Authorization: Bearer {TOKEN}\xe9",),
        (f"Authorization: Bearer {TOKEN}", f"Authorization: Bearer {TOKEN}"),
    ],
)
def test_who_has_no_token_is_told_how_and_nothing_else(headers: tuple[str, ...]) -> None:
    async def work() -> None:
        async with serving() as served:
            for path in ("/v1/clusters", "/v1/nothing", "/"):
                answer = await served.ask("GET", path, *headers, token=None)
                assert answer.status == 401
                assert answer.headers["www-authenticate"] == "Bearer"
                assert TOKEN not in str(answer)
            assert served.back.calls == []

    run(work())


def test_tokens_count_by_what_is_known_now() -> None:
    async def work() -> None:
        async with serving() as served:
            back = served.back
            assert (await served.ask("GET", "/v1/clusters")).status == 200
            back.wall_ms = 1_000_000
            assert (await served.ask("GET", "/v1/clusters")).status == 401, "it has expired"
            back.wall_ms, back.age_ms = 1_000, GUARDIAN_TOKEN_STATE_AGE_MAX_MS + 1
            refused = await served.ask("GET", "/v1/clusters")
            assert refused.status == 503, "it may have been revoked"
            assert refused.headers["retry-after"] == "1"
            back.age_ms = None
            assert (await served.ask("GET", "/v1/clusters")).status == 503
            back.age_ms, back.state = 0, replace(back.state, accounts=EMPTY.accounts)
            assert (await served.ask("GET", "/v1/clusters")).status == 401, "it was revoked"

    run(work())


def test_failed_logins_are_counted_and_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with serving() as served:
            for _ in range(20):
                await served.ask("GET", "/v1/clusters", token="pgt_no")
            assert len(caplog.records) == 1
            served.back.now_ms += 60_000
            await served.ask("GET", "/v1/clusters", token="pgt_no")
            assert len(caplog.records) == 2
            assert "more_since_the_last=19" in caplog.text
            assert "pgt_no" not in caplog.text

    run(work())


@pytest.mark.parametrize("path", ["/v1/%00", "/v1/%ff", "/v1/a%0ab", "/v1/clusters%3Fa", "/v1/%C0%AF", "*"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    async def work() -> None:
        async with serving() as served:
            answer = await served.ask("GET", path)
            assert (answer.status, list(answer.body)) == (400, ["error"])
            assert (served.back.calls, served.bugs) == ([], [])

    run(work())


@pytest.mark.parametrize(
    "key", ["", "7", "00000000-0000-0000-0000-000000000000", "0b5ee3a4-5f0c-4d0f-9a3e-2d3f5a1c7e1g"]
)
def test_a_key_that_is_no_uuid_is_refused(key: str) -> None:
    async def work() -> None:
        async with serving() as served:
            answer = await served.ask("POST", "/v1/clusters", f"Idempotency-Key: {key}")
            assert answer.status == 400
            assert "must be one UUID" in answer.body["error"]

    run(work())


@pytest.mark.parametrize(("method", "status"), [("FOO", 405), ("TRACE", 405), ("CONNECT", 405), ("PUT", 200)])
def test_a_method_that_is_none_is_refused(method: str, status: int) -> None:
    async def work() -> None:
        async with serving() as served:
            assert (await served.ask(method, "/v1/clusters")).status == status

    run(work())


CHUNK = b"10000\r\n" + bytes(0x10000) + b"\r\n"


def test_bodies_have_a_bound() -> None:
    async def work() -> None:
        async with serving() as served:
            full = bytes(GUARDIAN_BODY_MAX_BYTES)
            assert (await served.ask("POST", "/v1/clusters", body=full)).status == 200
            answer = await served.ask("POST", "/v1/clusters", body=full + b"x")
            assert (answer.status, answer.headers["connection"]) == (413, "close")
            assert (await served.ask("POST", "/v1/clusters", body=bytes(10_000_000))).status == 413
            chunked = GET.replace("GET", "POST").encode() + b"Transfer-Encoding: chunked\r\n\r\n"
            (answer,) = await served.said(chunked + 20 * CHUNK + b"0\r\n\r\n")
            assert answer.status == 413
            assert len(served.back.calls) == 1
            expecting = GET.replace("GET", "POST") + "Expect: 100-continue\r\nContent-Length: 10000000\r\n\r\n"
            (answer,) = await served.said(expecting.encode())
            assert answer.status == 413, "before it is sent"

    run(work())


def test_a_body_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "REST_DISCARD_MAX_BYTES", 1 << 20)

    async def work() -> None:
        async with serving() as served:
            reader, writer = await served.connect()
            writer.write(GET.replace("GET", "POST").encode() + b"Transfer-Encoding: chunked\r\n\r\n")
            with_end = asyncio.ensure_future(reader.readuntil(b"\r\n"))
            async with asyncio.timeout(PATIENCE_S):
                while not with_end.done():
                    writer.write(CHUNK)
                    await asyncio.sleep(0)
            assert b" 413 " in with_end.result()
            writer.transport.abort()

    run(work())


def test_an_error_of_ours_is_reported_and_told_in_json() -> None:
    def broken(call: Call, answered: Answered) -> None:
        raise ValueError("planted")

    async def work() -> None:
        async with serving(FakeBack(how=broken)) as served:
            answer = await served.ask("GET", "/v1/clusters")
            assert (answer.status, answer.body) == (500, {"error": "a bug; see the log of this node"})
            assert served.bugs == ["GET over HTTP: planted"]

    run(work())


def test_no_answer_in_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "REST_ANSWER_TIMEOUT_S", 0.05)

    async def work() -> None:
        waiting: list[Answered] = []
        async with serving(FakeBack(how=lambda call, answered: waiting.append(answered))) as served:
            answer = await served.ask("POST", "/v1/clusters")
            assert answer.status == 503
            assert "the same Idempotency-Key" in answer.body["error"]
            waiting[0](GuardianCallResponse(status=200, body=b"{}"), 0)  # too late, and told to nobody

    run(work())


# What OpenAPI says


class Bare(Resource):
    """A resource that says nothing of itself."""

    path = "/v1/bare"

    def read(self, known: Known, call: Call, name: str) -> Reply:
        return Reply(calls.OK, {"bare": name})


def test_the_description_has_every_operation_and_no_loose_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(answering.RESOURCES, Bare.path, Bare())

    async def work() -> None:
        async with serving() as served:
            document = (await served.ask("GET", "/v1/openapi.json", token=None)).body
            for resource in answering.RESOURCES.values():
                for each in resource.operations:
                    found = document["paths"][resource.path + ("/{name}" if each.named else "")][each.method.lower()]
                    assert found["summary"] == each.summary
                    assert ("requestBody" in found) == (each.body is not None)
                    assert "401" in found["responses"]
            assert document["paths"]["/v1/bare"]["get"]
            text = json.dumps(document)
            for reference in text.split('"#/components/schemas/')[1:]:
                assert reference.partition('"')[0] in document["components"]["schemas"]
            assert "http://" not in text
            assert document["security"] == [{"token": []}]
            assert (await served.ask("GET", "/v1/bare/x")).body == {"bare": "x"}, "it is served all the same"

    run(work())


def test_the_description_is_openapi() -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(app_of(Desk(FakeBack(), lambda what, error: None), answering.RESOURCES.values()).openapi())


def test_every_example_fits_its_shape() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for resource in answering.RESOURCES.values():
        for each in resource.operations:
            assert each.example is not None
            jsonschema.validate(each.example, each.answer)
            if each.body is not None:
                jsonschema.validate(each.body_example, each.body)


# TLS


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
