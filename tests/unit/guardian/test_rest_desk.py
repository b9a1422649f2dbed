"""The REST API's desk: requests become calls, answers become responses; and what OpenAPI says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import jsonschema
import openapi_spec_validator
import pytest
from support.rest_api import GET, PATIENCE_S, TOKEN, FakeBack, run, serving

from penstock.guardian.core import answering, calls
from penstock.guardian.core.calls import Call, Known, Reply, Resource
from penstock.guardian.core.limits import GUARDIAN_BODY_MAX_BYTES, GUARDIAN_TOKEN_STATE_AGE_MAX_MS
from penstock.guardian.core.state import EMPTY
from penstock.guardian.rest import desk as desk_module
from penstock.guardian.rest.app import app_of
from penstock.guardian.rest.desk import Answered, Desk
from penstock.protocol.messages.own.guardian_call_response import GuardianCallResponse


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
    openapi_spec_validator.validate(
        app_of(Desk(FakeBack(), lambda what, error: None), answering.RESOURCES.values()).openapi()
    )


def test_every_example_fits_its_shape() -> None:
    for resource in answering.RESOURCES.values():
        for each in resource.operations:
            assert each.example is not None
            jsonschema.validate(each.example, each.answer)
            if each.body is not None:
                jsonschema.validate(each.body_example, each.body)
