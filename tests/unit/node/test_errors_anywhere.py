"""An error raised by whatever function a request runs, one after another: it ends that request, and nothing else.

Each API's request is executed once to see which functions it runs, from its frame to its answer and in the timers
afterwards. Then once for each of them in a new node, where the first call of that function raises. So what hands over
to code that serves one request, group or partition without a guard is found, whoever wrote it and wherever it is.

Nothing is raised in what no guard can be around: the loop's own functions and the guards themselves, by name below, and
in what keeps the metadata log. Without that a node cannot go on, which has tests of its own.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from support.broker import Client, Node
from support.plausible import plausible, world

import penstock
from penstock.node.handlers import registry
from penstock.node.request import Handler
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest

HANDLERS = registry()
APIS = pytest.mark.parametrize("handler", HANDLERS.values(), ids=[key.name for key in HANDLERS])
SOURCE = f"{Path(penstock.__file__).parent}/"
SOON_MS = 1_500
LATEST_MS = 60_000
"""By then whoever has not been answered has been told that it took too long."""
METADATA_LOG = "__cluster_metadata"

LOOP = {
    "node/broker.py": {"Broker.start", "Broker.take_effects", "Broker.next_deadline_ms"},
    "node/machine.py": {
        *("NodeMachine.received", "NodeMachine.tick"),
        *("NodeMachine.operation_completed", "NodeMachine.operation_failed"),
    },
    "node/dispatcher.py": {
        *("Dispatcher.received", "Dispatcher._introduced", "Dispatcher.execute", "Dispatcher.run"),
    },
    "node/request.py": {"Request.__init__"},
    "node/connection.py": {"Connection.pause_if_full"},
    "node/turns.py": None,
    "node/tenants.py": None,
    "node/line.py": None,
    "node/places.py": None,
    "node/timers.py": None,
    "node/duties.py": None,
    "node/scheduler.py": {
        *("Scheduler.tick", "Scheduler.next_deadline_ms", "Scheduler.soonest_deadline_ms", "Scheduler.wake_by"),
    },
    "node/calls.py": {"Calls.proceed"},
    "coordinator/runtime/runtime.py": {
        "Runtime.has_open_batches",
        "Runtime.flush",
        "Runtime.next_deadline_ms",
        "Runtime.tick",
    },
    "coordinator/runtime/timers.py": {"Timers.next_deadline_ms"},
    "log/manager.py": {"LogManager.has_operations", "LogManager.take_operations", "LogManager.next_deadline_ms"},
    "log/outbox.py": {"Outbox.take"},
    "log/deadlines.py": {"Deadlines.next_ms"},
}
"""What runs whoever is served: a node whose loop is broken ends. None: all of a file. The shell is around `received`
and closes the connection."""
GUARDS = {
    "node/bugs.py": None,
    "node/verification.py": {"Verifier._end_soon", "Verifier._end"},
    "node/broker.py": {"Broker._event_ended", "Broker.image_published"},
    "node/machine.py": {
        *("NodeMachine._operation_ended", "NodeMachine._operation_broke", "NodeMachine.operation_broke"),
        *("NodeMachine.answer", "NodeMachine.quorum_stirred"),
    },
    "node/dispatcher.py": {
        *("Dispatcher.broke", "Dispatcher._raised", "Dispatcher.later.<locals>.guarded"),
        "Dispatcher._append.<locals>.committed",
    },
    "node/exit.py": {"Exit.answer", "Exit._unencodable"},
    "node/handlers/group_coordinator.py": {"write.<locals>.done"},
    "node/publishing.py": {"Publishing._apply"},
    "node/scheduler.py": {"Scheduler.guarded", "Scheduler.bug"},
    "node/purgatory.py": None,
    "coordinator/runtime/shard.py": {"tell"},
    "replication/waiting.py": {"tell"},
}
"""What catches, and is called where nothing can be caught."""
QUORUM = ("raft/", "node/quorum.py", "node/replicated_log.py", "node/controller.py")
LOG_OF_METADATA = (*QUORUM, "metadata/", "node/committed.py")


class PlantedError(Exception):
    """What no code expects."""


def excluded(path: str, name: str) -> bool:
    """Whether nothing is raised in a function."""
    if path.startswith((*LOG_OF_METADATA, "testing/")):
        return True
    names = [table[path] for table in (LOOP, GUARDS) if path in table]
    return any(some is None or name.partition(".<locals>.<")[0] in some for some in names)


def keeps_metadata_log(frame: FrameType | None) -> bool:
    """Whether a call is made on behalf of the metadata log, and not of who is told of it."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(tuple(f"{SOURCE}{each}" for each in QUORUM)):
            return True
        if path.startswith((f"{SOURCE}node/publishing.py", f"{SOURCE}node/dispatcher.py", f"{SOURCE}node/journal.py")):
            return False
        if getattr(frame.f_locals.get("operation"), "order", "").startswith(METADATA_LOG):
            return True
        frame = frame.f_back
    return False


class Calls:
    """Hears of each call, and raises at the first one of `target`."""

    def __init__(self, target: CodeType | None = None) -> None:
        self.target = target
        self.seen: dict[CodeType, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self.seen or not code.co_filename.startswith(SOURCE):
            return
        if self.target is None:
            if not excluded(code.co_filename[len(SOURCE) :], code.co_qualname) and not keeps_metadata_log(frame):
                self.seen[code] = None
        elif code is self.target and not keeps_metadata_log(frame):
            sys.setprofile(None)
            self.seen[code] = None
            raise PlantedError

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hears meanwhile. Nothing is collected: a generator that an earlier request left would be called to close."""
        before = sys.getprofile()
        gc.disable()
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(before)
            gc.enable()


def execute(handler: Handler, version: int, calls: Calls) -> tuple[Node, Client]:
    """The API's request in a new node, and what follows."""
    node, topic_id = world()
    node.bugs_expected = True
    client = node.connect("PLAINTEXT" if "broker" in handler.api.listeners else "CONTROLLER")
    frame = client.frame(plausible(handler, topic_id, version), version)
    with calls.heard():
        client.send_bytes(frame)
        node.advance(SOON_MS)
    return node, client


def functions_run(handler: Handler, version: int) -> list[CodeType]:
    """Which functions the request runs; a first time is for what is done once and then remembered."""
    execute(handler, version, Calls())
    calls = Calls()
    node, _ = execute(handler, version, calls)
    assert not node.bugs
    return list(calls.seen)


def hurt_by(node: Node, client: Client) -> str:
    """Who else was hurt than the one request."""
    if node.broker.failure is not None:
        return f"the node: {node.broker.failure!r}"
    if [type(bug) for bug in node.bugs] != [PlantedError]:
        return f"not one report but {node.bugs}"
    if sum(node.broker.bugs.counts.values()) != 1:
        return f"not counted once: {node.broker.bugs.counts}"
    if not client.answers and client.closed is None:
        node.advance(LATEST_MS)
    if not client.answers and client.closed is None:
        return "its client, which hears nothing"
    other = node.connect()
    answered = other.ask(ApiVersionsRequest(), 0).error_code == 0 and other.ask(MetadataRequest(topics=[]), 8).brokers
    return "" if answered else "others"


def check(handler: Handler, functions: list[CodeType], version: int | None = None) -> None:
    found: dict[str, str] = {}
    for target in functions:
        calls = Calls(target)
        name = f"{target.co_filename[len(SOURCE) :]} {target.co_qualname}"
        try:
            node, client = execute(handler, handler.max_version if version is None else version, calls)
        except PlantedError:
            found[name] = "the loop"
            continue
        assert calls.seen, f"{name} was not called again"
        if whom := hurt_by(node, client):
            found[name] = whom
    assert not found


@pytest.fixture(scope="module")
def ways_of_all() -> list[CodeType]:
    """What the plainest request runs: nearly every other does too."""
    handler = HANDLERS[ApiKey.API_VERSIONS]
    return functions_run(handler, handler.max_version)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of nodes have much to say."""
    caplog.set_level("CRITICAL")


@APIS
def test_an_error_in_any_function_of_its_own_ends_a_request(handler: Handler, ways_of_all: list[CodeType]) -> None:
    own = functions_run(handler, handler.max_version)
    check(handler, own if handler.key is ApiKey.API_VERSIONS else [each for each in own if each not in ways_of_all])


@pytest.mark.slow
@APIS
def test_an_error_in_what_all_requests_run_ends_that_request(handler: Handler, ways_of_all: list[CodeType]) -> None:
    check(handler, [each for each in functions_run(handler, handler.max_version) if each in ways_of_all])


@pytest.mark.slow
@APIS
def test_an_error_in_what_only_an_older_version_runs_ends_that_request(handler: Handler) -> None:
    tried = set(functions_run(handler, handler.max_version))
    for version in range(handler.max_version - 1, handler.min_version - 1, -1):
        own = [each for each in functions_run(handler, version) if each not in tried]
        check(handler, own, version)
        tried.update(own)
