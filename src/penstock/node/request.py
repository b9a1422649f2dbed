"""A request on its way through the node, and what a handler may answer.

A handler is a plain function `handle(node, request, now_ms)`. It reads first and changes state after, since it may be
run again when a read was not resident. It returns one of:

- a response message: the answer, now; or `Kept`, one that was encoded before;
- `None`: there is no answer (Produce with acks=0);
- `Parked`: a later event or a deadline answers;
- `LATER`: the handler has arranged by itself that somebody calls `node.answer(request, message, now_ms)` once;
- `AGAIN`: a step of long work is done: run again soon, after others had their turn;
- `Append`: records for the controller's log; the answer leaves when they are committed and this broker's image has
  them;
- `FORWARD`: only the active controller can do it; run again when there is one, or time out.

A handler that may have much to do is a generator, which returns one of these. It yields None after every step, about
half a millisecond of work, so that others have their turn, and a `NotResident` to be gone on with once that is in
memory. Meanwhile nothing else of its connection executes, but everything else may change. `penstock.node.steps` helps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MethodType
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.errors import ErrorCode, NotResident
from penstock.metadata.result import MetadataMessage
from penstock.node.connection import Connection
from penstock.node.effects import Chunk
from penstock.protocol.api import APIS, Api, ApiKey
from penstock.protocol.codec import decode_steps
from penstock.protocol.frames import RequestHeader, decode_response, decode_response_header, encode_response
from penstock.protocol.message import Message
from penstock.security.authorizer import Principal
from penstock.security.rights import ROWS, Right

Body = TypeVar("Body")
Node = TypeVar("Node")

LENGTH_BYTES = 4
CORRELATION_ID_BYTES = 4


class Request(Generic[Body]):
    """One request and its place in its connection's order.

    Attributes:
        body: the decoded message; None once the request is parked, so that its buffer can be used again. A handler
            that parks keeps what it needs.
        version: the API version of request and response.
        principal, listener, client_id: who asks, and where it came in.
        arrived_ms: when the frame was delivered; deadlines count from here.
        frame_bytes: size of the frame, for the connection's bounds.
        broke: a bug has ended it: it was refused, and what else is still done for it concerns nobody.
        repeats, held: how often it was put off to be run again, and whether it waits for that now.
        long: it took more than one step; so its answer may be large.
        again: what is run, with the time, when the request is run again; None: its handler, from the start.
        abandoned: called when the connection goes away before the answer; set by who parks the request.
    """

    __slots__ = (
        "abandoned",
        "again",
        "answer",
        "api",
        "arrived_ms",
        "body",
        "broke",
        "client_id",
        "connection",
        "correlation_id",
        "done",
        "frame_bytes",
        "handler",
        "held",
        "long",
        "repeats",
        "version",
    )

    def __init__(
        self,
        connection: Connection,
        handler: BoundHandler,
        header: RequestHeader,
        body: Body,
        now_ms: int,
        *,
        frame_bytes: int,
    ) -> None:
        self.connection = connection
        self.handler = handler
        self.api: Api = handler.api
        self.version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.body = body
        self.frame_bytes = frame_bytes
        self.arrived_ms = now_ms
        self.answer: Sequence[Chunk] = ()
        self.done = False
        self.broke = False
        self.held = False
        self.long = False
        self.again: Callable[[int], Outcome | OutcomeInSteps] | None = None
        self.repeats = 0
        self.abandoned: Callable[[], None] | None = None

    @property
    def principal(self) -> Principal:
        return self.connection.principal

    @property
    def listener(self) -> str:
        """Name of the listener that the connection came in on."""
        return self.connection.listener


@dataclass(slots=True)
class Parked:
    """A request that waits for an event or its deadline.

    Whenever one of `keys` is fired (`node.purgatory.fire(key, now_ms)`), `complete(now_ms)` is asked: a message
    is the answer, None is to wait on. At `deadline_ms` (None: no deadline) `expire(now_ms)` gives the answer.
    `cancelled`, if given, is called instead when the connection goes away first. The dispatcher does not ask `complete`
    before the first event: a handler that can answer at once does not park.
    """

    keys: Sequence[Hashable]
    deadline_ms: int | None
    complete: Callable[[int], Message | None]
    expire: Callable[[int], Message]
    cancelled: Callable[[], None] | None = None


@dataclass(slots=True)
class Append:
    """Records for the controller's log and the answer that leaves when they are committed.

    `records` are metadata records as `metadata.controller` returns them. With none at all the answer still waits for
    what was appended before: a refusal may speak of it (INVALID_UPDATE_VERSION), and it may yet be undone. `failed`
    makes the answer when the append is lost (NOT_CONTROLLER, REQUEST_TIMED_OUT); by default the API's error response.
    `atomic` is that of the Result. `tell` tells the log of the change; by default it is told what was asked for and the
    response.
    """

    records: Sequence[MetadataMessage]
    response: Message
    failed: Callable[[ErrorCode], Message] | None = None
    atomic: bool = True
    tell: Callable[[], object] | None = None


class Kept:
    """An answer that is the same for all who ask the same, encoded once: all of its frame but the correlation id."""

    __slots__ = ("rest", "start")

    def __init__(self, api: Api, version: int, message: Message) -> None:
        chunks = encode_response(api, version, 0, message)
        frame = b"".join(chunk for chunk in chunks if isinstance(chunk, bytes | bytearray | memoryview))
        self.start = frame[:LENGTH_BYTES]
        self.rest = frame[LENGTH_BYTES + CORRELATION_ID_BYTES :]

    def message(self, api: Api, version: int) -> Message:
        """Decodes the message again from the kept bytes."""
        return decode_response(api, version, memoryview(bytes(CORRELATION_ID_BYTES) + self.rest))[1]

    def message_in_steps(self, api: Api, version: int) -> Generator[None, None, Message]:
        """The same, in steps."""
        frame = memoryview(bytes(CORRELATION_ID_BYTES) + self.rest)
        position = decode_response_header(api, version, frame)[1]
        message, _ = yield from decode_steps(api.response_class, version, frame, position)
        return message


class NoAnswerYet(Enum):
    """Why there is none yet; see the module's head. PUT_OFF is the dispatcher's own: it runs the request again."""

    LATER = auto()
    AGAIN = auto()
    FORWARD = auto()
    PUT_OFF = auto()


LATER: Final = NoAnswerYet.LATER
AGAIN: Final = NoAnswerYet.AGAIN
FORWARD: Final = NoAnswerYet.FORWARD
PUT_OFF: Final = NoAnswerYet.PUT_OFF


class KeptAnswers:
    """Answers of one API that were encoded before, by what was asked."""

    __slots__ = ("_answers", "_source")

    def __init__(self) -> None:
        self._source: object = None
        self._answers: dict[Hashable, Kept] = {}

    def of(self, source: object, answers_max: int) -> dict[Hashable, Kept]:
        """The entries made from `source`; all are dropped when `source` is a new object, or when there are too many."""
        if source is not self._source or len(self._answers) >= answers_max:
            self._source, self._answers = source, {}
        return self._answers


Outcome = Message | Kept | Parked | Append | NoAnswerYet | None
OutcomeInSteps = Generator[NotResident | None, None, Outcome]


class RefuseFunction(Protocol):
    """The API's error response: every part of the request answered with `code`, as Kafka's getErrorResponse. None for
    who wants no answer.
    """

    def __call__(self, request: Request[Any], code: ErrorCode, message: str, /) -> Message | None: ...


class Handler(Generic[Node]):
    """An API in the registry of `node.handlers`, which a Node serves.

    Attributes:
        key: the API. What is in the registry is advertised, nothing else is.
        handle: the function that answers.
        needs: the right on the cluster without which nothing of a request is done; None: none is needed.
        refuse: makes the error response; by default it fills a top-level `error_code` (and `error_message`).
        min_version, max_version: what we serve; the schema's stable range unless said otherwise.
        advertised_min_version: Produce advertises versions that it refuses (KAFKA-18659).
    """

    __slots__ = (
        "advertised_min_version",
        "api",
        "handle",
        "key",
        "max_version",
        "min_version",
        "needs",
        "number",
        "refuse",
    )

    def __init__(
        self,
        key: ApiKey,
        handle: Callable[[Node, Request[Any], int], Outcome | OutcomeInSteps],
        refuse: RefuseFunction | None = None,
        *,
        min_version: int | None = None,
        max_version: int | None = None,
        advertised_min_version: int | None = None,
    ) -> None:
        self.key = key
        self.number = int(key)
        self.handle = handle
        self.needs = ROWS[key].first
        self.refuse: RefuseFunction = refuse or refuse_whole
        self.api = APIS[key]
        self.min_version = self.api.min_version if min_version is None else min_version
        self.max_version = self.api.stable_max_version if max_version is None else max_version
        self.advertised_min_version = self.min_version if advertised_min_version is None else advertised_min_version

    def of(self, node: Node, kind: str) -> BoundHandler:
        """As `node` serves it on listeners of a kind, "broker" or "controller"."""
        needs = ROWS[self.key].first_on_controllers if kind == "controller" else self.needs
        handle, versions = MethodType(self.handle, node), (self.min_version, self.max_version)
        return BoundHandler(
            self.key, self.number, self.api, handle, needs, self.refuse, *versions, self.advertised_min_version
        )


@dataclass(slots=True, eq=False)
class BoundHandler:
    """An API as one node serves it on one kind of listeners: with the node in `handle`, and what it `kept`; all else as
    in its Handler.
    """

    key: ApiKey
    number: int
    api: Api
    handle: Callable[[Request[Any], int], Outcome | OutcomeInSteps]
    needs: Right | None
    refuse: RefuseFunction
    min_version: int
    max_version: int
    advertised_min_version: int
    kept: KeptAnswers = field(default_factory=KeptAnswers)


class Served(dict[str, Mapping[int, BoundHandler]]):
    """What a node serves on each of its listeners, by API key: a controller listener has the controller's APIs."""

    def __init__(self, node: Node, handlers: Iterable[Handler[Node]], controller_listeners: Collection[str]) -> None:
        super().__init__()
        self.broker, self.controller = (
            {handler.number: handler.of(node, kind) for handler in handlers if kind in handler.api.listeners}
            for kind in ("broker", "controller")
        )
        self._controller_listeners = controller_listeners

    def __missing__(self, listener: str) -> Mapping[int, BoundHandler]:
        found = self[listener] = self.controller if listener in self._controller_listeners else self.broker
        return found


def refuse_whole(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """The error response of an API that has a top-level error code."""
    response = request.api.response_class()
    assert hasattr(response, "error_code"), f"{request.api.name} has no top-level error code: give its Handler a refuse"
    response.error_code = code
    if hasattr(response, "error_message"):
        response.error_message = message
    return response
