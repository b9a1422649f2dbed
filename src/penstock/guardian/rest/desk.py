"""Makes a call of each HTTP request, and a response of its answer. It decides nothing about what is asked.

A request is let in by its token (`Authorization: Bearer pgt_...`), which the node looks up in what it knows of the
log; where that is old, nobody is let in, since a token may have been revoked meanwhile. What the user may do is
decided where the call is answered. `Idempotency-Key` becomes the id of a change, by which it is known when it is asked
for again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from penstock.errors import Report
from penstock.events import RateLimit, events
from penstock.guardian.core import answering, calls
from penstock.guardian.core.accounts import PRINCIPAL_TYPE, Token
from penstock.guardian.core.calls import CONTROL, Call, Refused, Reply, refusal
from penstock.guardian.core.limits import GUARDIAN_BODY_MAX_BYTES, GUARDIAN_TOKEN_STATE_AGE_MAX_MS
from penstock.guardian.core.state import GuardianState
from penstock.guardian.limits import (
    REST_ANSWER_TIMEOUT_S,
    REST_DISCARD_MAX_BYTES,
    REST_HEAD_MAX_BYTES,
    REST_LARGE_BODIES_MAX,
    REST_LOGIN_ADDRESSES_MAX,
    REST_LOGINS_LOGGED_EVERY_MS,
)
from penstock.node.metrics import COUNTER, Sample
from penstock.protocol.messages.own.guardian_call_response import GuardianCallResponse

logger = events("guardian.rest")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
NO_ANSWER = (
    "Guardian did not answer in time: whether a change was made is not known; ask again with the same Idempotency-Key"
)
ALWAYS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
AGAIN = (calls.TOO_MANY, calls.UNAVAILABLE)
"""Statuses after which the same may be asked again soon."""
AGAIN_AFTER_S = 1
HEAD_TOO_LARGE = 431
LOST = 499
"""What counts where the client has gone before its answer."""

Answered = Callable[[GuardianCallResponse, int], None]


class Back(Protocol):
    """What is behind the desk: the node, in its loop."""

    @property
    def state(self) -> GuardianState:
        """What is committed, as far as this node knows."""

    @property
    def age_ms(self) -> int | None:
        """How old that is at most; None where nothing is known."""

    @property
    def wall_ms(self) -> int: ...

    @property
    def now_ms(self) -> int: ...

    def ask(self, call: Call, answered: Answered) -> None:
        """Has a call answered, once, now or later."""


class LargeBodies:
    """Counts the bodies that are larger than most: those of many clients at once would take all memory."""

    def __init__(self) -> None:
        self._count = 0

    @contextmanager
    def place(self) -> Iterator[Callable[[], bool]]:
        """A place for one body, which it takes once it is large; gives what takes it, and says whether there is one."""
        taken = False

        def take() -> bool:
            nonlocal taken
            if not taken and self._count < REST_LARGE_BODIES_MAX:
                self._count += 1
                taken = True
            return taken

        try:
            yield take
        finally:
            self._count -= taken


class Desk:
    """See the module's head. `report` gets the errors that should never happen.

    Attributes: `answers`, how many there were, by status; `failed_logins`.
    """

    def __init__(self, back: Back, report: Report) -> None:
        self.answers: Counter[int] = Counter()
        self.failed_logins = 0
        self._back = back
        self._report = report
        self._large = LargeBodies()
        self._logged = RateLimit(REST_LOGINS_LOGGED_EVERY_MS, REST_LOGIN_ADDRESSES_MAX)

    async def answer(self, request: Request) -> Response:
        """The response to a request; it raises nothing."""
        try:
            response = await self._answer(request)
        except Refused as error:
            response = response_of(error.reply)
        except ClientDisconnect:
            response = Response(status_code=LOST)
        except Exception as error:
            self._report(f"{request.method} over HTTP", error)
            response = response_of(refusal(500, "a bug; see the log of this node"))
        self.answers[response.status_code] += 1
        return response

    async def _answer(self, request: Request) -> Response:
        if request.method not in METHODS:
            raise Refused(calls.METHOD_NOT_ALLOWED, f"the methods are {', '.join(METHODS)}")
        if head_bytes(request) > REST_HEAD_MAX_BYTES:
            raise Refused(HEAD_TOO_LARGE, f"the head has more than {REST_HEAD_MAX_BYTES} bytes")
        path = path_of(request)
        if request.method == "OPTIONS":
            allowed = allowed_at(path)
            return Response(status_code=204, headers={**ALWAYS, "allow": allowed})
        token = self._log_in(request)
        method = "GET" if request.method == "HEAD" else request.method
        request_id = request_id_of(request)
        with self._large.place() as large:
            body = await body_of(request, body_max_bytes(path), large)
            call = Call(method, path, body, request_id, PRINCIPAL_TYPE + token.user, token.id)
            found = await self._ask(call)
        headers = {
            "penstock-node-id": str(found.answered_by),
            "penstock-leader-id": str(found.leader_id),
            "penstock-age-ms": str(found.age_ms),
        }
        if call.changes:
            headers["idempotency-key"] = str(request_id)
        if found.status == calls.METHOD_NOT_ALLOWED:
            headers["allow"] = allowed_at(path)
        return of(found.status, bytes(found.body), headers)

    def _log_in(self, request: Request) -> Token:
        """The token of a request. Raises Refused for one without, and for one that does not count."""
        age_ms = self._back.age_ms
        if age_ms is None or age_ms > GUARDIAN_TOKEN_STATE_AGE_MAX_MS:
            how = "nothing" if age_ms is None else f"nothing newer than {age_ms} ms"
            raise Refused(calls.UNAVAILABLE, f"this node knows {how}, so it cannot check tokens: ask another, or soon")
        sent = request.headers.getlist("authorization")
        scheme, _, text = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
        if scheme.lower() != "bearer":
            self._failed(request, "no token")
            raise Refused(calls.UNAUTHORIZED, "one header is needed: Authorization: Bearer TOKEN")
        token = self._back.state.accounts.logged_in(text.strip(), self._back.wall_ms)
        if token is None:
            self._failed(request, "a token that does not count")
            raise Refused(calls.UNAUTHORIZED, "the token is not known, has expired or was revoked")
        return token

    def _failed(self, request: Request, why: str) -> None:
        self.failed_logins += 1
        address = request.client.host if request.client is not None else ""
        more = self._logged.suppressed(address, self._back.now_ms)
        if more is not None:
            logger.warning("a failed login over HTTP", address=address, reason=why, more_since_the_last=more)

    async def _ask(self, call: Call) -> GuardianCallResponse:
        """The answer to a call. Raises Refused when there is none in time."""
        answer: asyncio.Future[GuardianCallResponse] = asyncio.get_running_loop().create_future()

        def answered(response: GuardianCallResponse, at_ms: int) -> None:
            if not answer.done():
                answer.set_result(response)

        self._back.ask(call, answered)
        try:
            return await asyncio.wait_for(answer, REST_ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise Refused(calls.UNAVAILABLE, NO_ANSWER) from None

    def samples(self) -> Iterator[Sample]:
        """Metrics of what was asked."""
        text = "Answers over HTTP, by status."
        for status, count in sorted(self.answers.items()):
            yield Sample("penstock_guardian_rest_answers_total", COUNTER, text, count, {"status": str(status)})
        text = "Requests over HTTP without a token that counts."
        yield Sample("penstock_guardian_rest_failed_logins_total", COUNTER, text, self.failed_logins)


def head_bytes(request: Request) -> int:
    """How large the request line and the headers are, about: uvicorn bounds only those that come in pieces."""
    return (
        len(request.scope["raw_path"])
        + len(request.scope["query_string"])
        + sum(len(name) + len(value) + len(": \r\n") for name, value in request.scope["headers"])
    )


def path_of(request: Request) -> str:
    """Path and query, as calls have them. Raises Refused for what is no path."""
    try:
        place = unquote_to_bytes(request.scope["raw_path"]).decode()
        query = request.scope["query_string"].decode("ascii")
    except UnicodeDecodeError:
        raise Refused(calls.BAD_REQUEST, "the path is not UTF-8 text") from None
    if not place.startswith("/") or "?" in place or CONTROL.search(place):
        raise Refused(calls.BAD_REQUEST, "the path must begin with / and have neither %3F nor control characters")
    return f"{place}?{query}" if query else place


def allowed_at(path: str) -> str:
    """The methods that there are at a path, as `Allow` has them. Raises Refused for a path that is none."""
    resource, name = answering.resource_at(Call("OPTIONS", path, b"", uuid.UUID(int=0), ""))
    described = {each.method for each in resource.operations if each.named == bool(name)} or {"GET"}
    return ", ".join(each for each in METHODS if each in described | {"HEAD" if "GET" in described else "", "OPTIONS"})


def request_id_of(request: Request) -> uuid.UUID:
    """The id of a change: the header's, or a new one. Raises Refused."""
    sent = request.headers.getlist("idempotency-key")
    if not sent:
        return uuid.uuid4()
    try:
        (text,) = sent
        found = uuid.UUID(text.strip('"'))
    except ValueError:
        found = uuid.UUID(int=0)
    if not found.int:
        raise Refused(calls.BAD_REQUEST, "Idempotency-Key must be one UUID, like 0b5ee3a4-5f0c-4d0f-9a3e-2d3f5a1c7e11")
    return found


def body_max_bytes(path: str) -> int:
    """What may be sent to a path."""
    try:
        return answering.resource_at(Call("POST", path, b"", uuid.UUID(int=0), ""))[0].body_max_bytes
    except Refused:
        return GUARDIAN_BODY_MAX_BYTES


async def body_of(request: Request, bytes_max: int, large: Callable[[], bool]) -> bytes:
    """The body. Raises Refused for one that is too large, which is read no further than it must be; and for one that is
    `large` and has no place.
    """
    too_large = Refused(calls.TOO_LARGE, f"the body is too large: at most {bytes_max} bytes")
    told = request.headers.get("content-length", "")
    refused = too_large if told.isdecimal() and int(told) > bytes_max else None
    kept, dropped = bytearray(), 0
    if refused is None or "expect" not in request.headers:
        async for piece in request.stream():
            size_bytes = len(kept) + len(piece)
            if refused is None and size_bytes > bytes_max:
                refused = too_large
            elif refused is None and size_bytes > GUARDIAN_BODY_MAX_BYTES and not large():
                refused = Refused(calls.TOO_MANY, f"{REST_LARGE_BODIES_MAX} large bodies are here: ask again soon")
            if refused is None:
                kept += piece
                continue
            kept.clear()
            dropped += len(piece)
            if dropped > REST_DISCARD_MAX_BYTES:
                break
    if refused is not None:
        raise refused
    return bytes(kept)


def response_of(reply: Reply) -> Response:
    """A response that no node has made."""
    return of(reply.status, reply.encoded, {})


def of(status: int, body: bytes, headers: Mapping[str, str]) -> Response:
    """A response with a JSON body."""
    more = dict(headers)
    if status == calls.UNAUTHORIZED:
        more["www-authenticate"] = "Bearer"
    elif status in (calls.TOO_LARGE, HEAD_TOO_LARGE):
        more["connection"] = "close"
    elif status in AGAIN:
        more["retry-after"] = str(AGAIN_AFTER_S)
    return Response(body, status, {**ALWAYS, **more}, "application/json")
