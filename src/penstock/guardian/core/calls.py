"""What is asked of Guardian: calls shaped like those of a REST API, over any transport, and their answers.

A call is a method, a path below `/v1/` with perhaps a query, and a JSON body; a reply is a status of HTTP's and a JSON
body. What there is to ask for is a `Resource` each, in `guardian.core.resources`; which one a path means is found in
`guardian.core.answering`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Never
from urllib.parse import parse_qsl
from uuid import UUID

from penstock.config.nearest import did_you_mean
from penstock.guardian.core.described import Operation
from penstock.guardian.core.limits import GUARDIAN_BODY_MAX_BYTES, GUARDIAN_TEXT_MAX
from penstock.guardian.core.records import FEATURE_LEVEL, GuardianRecord
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import Command, GuardianState

OK, CREATED = 200, 201
BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, METHOD_NOT_ALLOWED, CONFLICT = 400, 401, 403, 404, 405, 409
TOO_LARGE = 413
TOO_MANY, UNAVAILABLE, NO_STORAGE = 429, 503, 507


CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""What no name and no text of one line has: a table on a terminal would be at its mercy."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `request_id` tells a change from all others; `principal` is who asks.

    `token_id`: of the token by which she has logged in, None where she has not logged in by one. `is_super`: the node's
    authorizer lets her do everything, so that her roles do not matter.
    """

    method: str
    path: str
    body: bytes
    request_id: UUID
    principal: str
    token_id: str | None = None
    is_super: bool = False

    @property
    def changes(self) -> bool:
        """Whether it may change anything."""
        return self.method != "GET"

    @property
    def name(self) -> str:
        """What a change is called in the audit."""
        return f"{self.method} {self.path}"

    @property
    def place(self) -> str:
        """The path without its query."""
        return self.path.partition("?")[0]

    def query(self, names: Sequence[str]) -> dict[str, str]:
        """The query of the path, of these names alone. Raises Refused."""
        found: dict[str, str] = {}
        for name, value in parse_qsl(self.path.partition("?")[2], keep_blank_values=True):
            if name not in names:
                raise Refused(BAD_REQUEST, f"unknown query {name[:GUARDIAN_TEXT_MAX]}{did_you_mean(name, names)}")
            found[name] = value
        return found


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: a status of HTTP's, and what becomes the JSON body."""

    status: int
    body: Mapping[str, Any]

    @property
    def encoded(self) -> bytes:
        # a refusal may quote half of a surrogate pair, which JSON can say and UTF-8 cannot: "?" stands in for it
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def no_secret(size_bytes: int) -> bytes:
    """What makes secrets where none are to be made."""
    raise AssertionError("secrets are made by the leader alone")


@dataclass(frozen=True, slots=True)
class Known:
    """What an answer is made from.

    Attributes: `state`, what the log says; `sight`, what this node has seen of the clusters, if it leads; `wall_ms`,
    the wall time; `new_secret` makes random bytes that nobody can guess; `knows`, the highest feature level of this
    node, and `voter_levels`, that of each voter, None where one has not told it.
    """

    state: GuardianState
    sight: Sight
    wall_ms: int
    new_secret: Callable[[int], bytes] = no_secret
    knows: int = FEATURE_LEVEL
    voter_levels: Mapping[int, int | None] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Decided:
    """A new change: its records, what it is about (which the audit names), and the answer once they are committed."""

    records: Sequence[GuardianRecord]
    subject: str
    reply: Reply


class Resource(ABC):
    """One thing to ask for: what is at `path`, and at `path/NAME`. `live`: it is answered from what the leader sees,
    so another node hands a call on even if it changes nothing. `operations`: what it says of itself to people and
    tools. `body_max_bytes`: what a call may bring. `change_queries`: the names that queries of changes may have, by
    method.

    `name` is what follows the path, "" for the path itself. All methods raise Refused.
    """

    path: str
    live = False
    operations: Sequence[Operation] = ()
    body_max_bytes = GUARDIAN_BODY_MAX_BYTES
    change_queries: Mapping[str, Sequence[str]] = MappingProxyType({})

    @abstractmethod
    def read(self, known: Known, call: Call, name: str) -> Reply:
        """The answer to a GET."""

    def decide(self, known: Known, call: Call, name: str, new_id: Callable[[], UUID]) -> Decided:
        """What a change comes to; `new_id` makes an id that nothing else has."""
        raise Refused(METHOD_NOT_ALLOWED, f"{call.place} takes no {call.method}")

    def repeated(self, known: Known, call: Call, made: Command) -> Reply:
        """The answer to a change that was made before under this request id: what has become of it."""
        raise Refused(METHOD_NOT_ALLOWED, f"{call.place} takes no {call.method}")


class Refused(Exception):
    """A call that asks for what cannot be."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.reply = refusal(status, message)


def refusal(status: int, message: str) -> Reply:
    """The answer to what is not done, in a sentence."""
    return Reply(status, {"error": message})


def body_of(call: Call, fields: Sequence[str], bytes_max: int = GUARDIAN_BODY_MAX_BYTES) -> Mapping[str, Any]:
    """The JSON object of a call, of these fields alone. Raises Refused."""
    if len(call.body) > bytes_max:
        raise Refused(TOO_LARGE, f"the body has {len(call.body)} bytes: at most {bytes_max}")
    try:
        body = json.loads(call.body, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise Refused(BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Refused(BAD_REQUEST, "the body must be a JSON object")
    for each in body:
        if each not in fields:
            raise Refused(BAD_REQUEST, f"unknown field {each[:GUARDIAN_TEXT_MAX]}{did_you_mean(each, fields)}")
    return body


def no_constant(text: str) -> Never:
    """What Python reads as a number, and JSON has not: answers that repeat it would not be JSON."""
    raise ValueError(text)


def text_of(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text of a body. Raises Refused."""
    value = body.get(name, default)
    if value is None:
        raise Refused(BAD_REQUEST, f"{name} is missing")
    return checked(value, name)


def checked(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > GUARDIAN_TEXT_MAX:
        raise Refused(BAD_REQUEST, f"{name} must be a text of at most {GUARDIAN_TEXT_MAX} characters")
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can say
        raise Refused(BAD_REQUEST, f"{name} is not UTF-8 text") from None
    if CONTROL.search(value):
        raise Refused(BAD_REQUEST, f"{name} has control characters")
    return value
