"""A request on its way through the node, and what a handler may answer.

A handler is a plain function `handle(node, request, now_ms)`. It reads first and changes state after, since it may be
run again when a read was not resident. It returns one of:

- a response message: the answer, now; or `Kept`, one that was encoded before;
- `None`: there is no answer (Produce with acks=0);
- `Parked`: a later event or a deadline answers;
- `LATER`: the handler has arranged that `node.answer(request, message, now_ms)` is called once;
- `AGAIN`: a step of long work is done: run again soon, after others had their turn;
- `Append`: records for the controller's log; the answer leaves when they are committed and this broker's image has
  them;
- `FORWARD`: only the active controller can do it; run again when there is one, or time out.

A handler that may take long is a generator, which returns one of these. It yields None after every step, about half a
millisecond of work, so that others have their turn, or a `NotResident`, and is resumed once that is in memory.
Meanwhile nothing else of its connection executes, but all other state may change. `penstock.node.steps` helps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from struct import Struct
from types import MethodType
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.errors import ErrorCode, NotResident
from penstock.metadata.result import MetadataMessage
from penstock.node.connection import Answer, Connection
from penstock.node.own_calls import OwnCall
from penstock.protocol.api import APIS, Api, ApiKey
from penstock.protocol.codec import decode_steps
from penstock.protocol.frames import RequestHeader, decode_response, decode_response_header, encode_response
from penstock.protocol.message import Message
from penstock.quota.usages import ClientUsages
from penstock.security.authorizer import Principal
from penstock.security.rights import ROWS, Right

Body = TypeVar("Body")
Node = TypeVar("Node")

CALM_APIS = frozenset(
    {
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.FIND_COORDINATOR),
        *(ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH),
    }
)
"""Frequent APIs whose handlers, on a broker's listeners, never touch the quorum or the controller."""
LENGTH = Struct(">i")
CORRELATION_ID_BYTES = 4


class Request(Generic[Body]):
    """One request and its place in its connection's order.

    Attributes:
        body: the decoded message; None once the request is parked, so that its buffer can be reused. A handler that
            parks keeps what it needs.
        version: the API version of request and response.
        principal, listener, client_id: of the requester.
        arrived_ms: when the frame was delivered; deadlines count from here.
        frame_bytes: size of the frame, for the connection's bounds.
        broke: a bug has ended it: it was refused, and nothing that is still done for it matters.
        repeats, held: how often it was put off to be run again, and whether it waits for that now.
        long: it took more than one step, so its answer may be large.
        usages: what the client may use, and has; None: nobody counts this request.
        again: what is run, with the time, when the request is run again; None: its handler, from the start.
        abandoned: called if the connection goes away before the answer; set by the code that parks the request.
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
        "usages",
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
        self.answer: Answer = ()
        self.done = False
        self.broke = False
        self.held = False
        self.long = False
        self.again: Callable[[int], Outcome | OutcomeInSteps] | None = None
        self.repeats = 0
        self.abandoned: Callable[[], None] | None = None
        self.usages: ClientUsages | None = None

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

    When one of `keys` is fired (`node.purgatory.fire(key, now_ms)`), `complete(now_ms)` is called: it returns the
    answer, or None to wait on. At `deadline_ms` (None: no deadline) `expire(now_ms)` returns the answer. `cancelled`,
    if given, is called instead if the connection goes away first. `complete` is not called before the first event: a
    handler that can answer at once does not park.
    """

    keys: Sequence[Hashable]
    deadline_ms: int | None
    complete: Callable[[int], Message | None]
    expire: Callable[[int], Message]
    cancelled: Callable[[], None] | None = None


@dataclass(slots=True)
class Append:
    """Records for the controller's log and the answer that leaves when they are committed.

    `records` are metadata records as `metadata.controller` returns them. Without any, the answer still waits for what
    was appended before: a refusal may depend on it (INVALID_UPDATE_VERSION), and it may yet be undone. `failed` makes
    the answer when the append is lost (NOT_CONTROLLER, REQUEST_TIMED_OUT); by default the API's error response.
    `atomic` is that of the Result. `tell` writes the change to the log; by default the request and the response are
    logged.
    """

    records: Sequence[MetadataMessage]
    response: Message
    failed: Callable[[ErrorCode], Message] | None = None
    atomic: bool = True
    tell: Callable[[], object] | None = None


class Kept:
    """An encoded answer without its correlation id, for all who ask the same."""

    __slots__ = ("rest", "start")

    def __init__(self, rest: bytes) -> None:
        """`rest` is the frame without its length and correlation id."""
        self.start = LENGTH.pack(CORRELATION_ID_BYTES + len(rest))
        self.rest = rest

    @classmethod
    def of(cls, api: Api, version: int, message: Message) -> Kept:
        """Encodes an answer."""
        chunks = encode_response(api, version, 0, message)
        frame = b"".join(chunk for chunk in chunks if isinstance(chunk, bytes | bytearray | memoryview))
        return cls(frame[LENGTH.size + CORRELATION_ID_BYTES :])

    def message(self, api: Api, version: int) -> Message:
        """Decodes the message from the kept bytes."""
        return decode_response(api, version, memoryview(bytes(CORRELATION_ID_BYTES) + self.rest))[1]

    def message_in_steps(self, api: Api, version: int) -> Generator[None, None, Message]:
        """Like `message`, in steps."""
        frame = memoryview(bytes(CORRELATION_ID_BYTES) + self.rest)
        position = decode_response_header(api, version, frame)[1]
        message, _ = yield from decode_steps(api.response_class, version, frame, position)
        return message


class NoAnswerYet(Enum):
    """Outcomes without an answer; see the module's head. PUT_OFF is the dispatcher's: it runs the request again."""

    LATER = auto()
    AGAIN = auto()
    FORWARD = auto()
    PUT_OFF = auto()


LATER: Final = NoAnswerYet.LATER
AGAIN: Final = NoAnswerYet.AGAIN
FORWARD: Final = NoAnswerYet.FORWARD
PUT_OFF: Final = NoAnswerYet.PUT_OFF


class KeptAnswers:
    """A cache of encoded answers of one API (Metadata, ApiVersions), by what was asked."""

    __slots__ = ("_answers", "_source")

    def __init__(self) -> None:
        self._source: object = None
        self._answers: dict[Hashable, Kept] = {}

    def of(self, source: object, answers_max: int) -> dict[Hashable, Kept]:
        """The answers made from `source`; all are dropped if `source` is a new object, or if there are too many."""
        if source is not self._source or len(self._answers) >= answers_max:
            self._source, self._answers = source, {}
        return self._answers


Outcome = Message | Kept | Parked | Append | NoAnswerYet | None
OutcomeInSteps = Generator[NotResident | None, None, Outcome]


class RefuseFunction(Protocol):
    """Makes the API's error response: every part of the request answered with `code`, as Kafka's getErrorResponse. None
    for a client that wants no answer.
    """

    def __call__(self, request: Request[Any], code: ErrorCode, message: str, /) -> Message | None: ...


class Handler(Generic[Node]):
    """An API in the registry of `node.handlers`, which a Node serves.

    Attributes:
        key: the API. Exactly the APIs in the registry are advertised.
        handle: the function that answers.
        needs: the right on the cluster without which the whole request is refused; None: none is needed.
        refuse: makes the error response; by default it fills a top-level `error_code` (and `error_message`).
        min_version, max_version: what we serve; by default the schema's stable range.
        advertised_min_version: Produce advertises versions that it refuses (KAFKA-18659).
        direct: answers the node's calls to itself without frames (`penstock.node.own_calls`), with the rights of a
            broker, and returns True; or returns False, and has done nothing. It leaves the request as it is.
    """

    __slots__ = (
        "advertised_min_version",
        "api",
        "direct",
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
        direct: Callable[[Node, Any, OwnCall, int], bool] | None = None,
    ) -> None:
        self.direct = direct
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
        """This API as `node` serves it on listeners of a kind, "broker" or "controller"."""
        needs = ROWS[self.key].first_on_controllers if kind == "controller" else self.needs
        return BoundHandler(
            self.key,
            self.number,
            self.api,
            MethodType(self.handle, node),
            needs,
            self.refuse,
            self.min_version,
            self.max_version,
            self.advertised_min_version,
            stirs=kind == "controller" or self.key not in CALM_APIS,
        )


@dataclass(slots=True, eq=False)
class BoundHandler:
    """A Handler as one node serves it on one kind of listeners, with the node in `handle` and the answers that it
    `kept`. `stirs`: whether it may change what the quorum or the controller has to do.
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
    stirs: bool
    kept: KeptAnswers = field(default_factory=KeptAnswers)


class Served(dict[str, Mapping[int, BoundHandler]]):
    """The APIs that a node serves on each of its listeners, by key; `controller_listeners` have the controller's."""

    def __init__(self, node: Node, handlers: Iterable[Handler[Node]], controller_listeners: Collection[str]) -> None:
        super().__init__()
        self.broker, self.controller = (
            {handler.number: handler.of(node, kind) for handler in handlers if kind in handler.api.listeners}
            for kind in ("broker", "controller")
        )
        self.controller_listeners = controller_listeners

    def __missing__(self, listener: str) -> Mapping[int, BoundHandler]:
        found = self[listener] = self.controller if listener in self.controller_listeners else self.broker
        return found


def refuse_whole(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """The error response of an API that has a top-level error code."""
    response = request.api.response_class()
    assert hasattr(response, "error_code"), f"{request.api.name} has no top-level error code: give its Handler a refuse"
    response.error_code = code
    if hasattr(response, "error_message"):
        response.error_message = message
    return response
