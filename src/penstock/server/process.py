"""A node as a process of its own: signals, the event loop, memory, readiness, and messages at start.

    exit_code = run(settings, on_ready=lambda server: print(server.addresses))

The first SIGTERM or SIGINT stops the node cleanly, a second one at once, as if it crashed. With TLS, SIGHUP has the
node look at its key and trust stores. Under systemd (`Type=notify`) the service manager is told when the node serves
and when it stops.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.events import events
from penstock.server.garbage import collect_when_quiet, collect_young_only
from penstock.server.limits import raise_descriptor_limit
from penstock.server.server import Server
from penstock.server.tls import speaks_tls
from penstock.server.warming import warm

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.server.shell import Shell

logger = events("server")

KILLED_EXIT_CODE = 128


class Runnable(Protocol):
    """A node in the loop: `server.server.Server`, or one like it."""

    failed: asyncio.Event
    failure: Exception | None
    shell: Shell

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def reload_stores(self) -> None: ...


S = TypeVar("S", bound=Runnable)


def run(settings: Settings, *, on_ready: Callable[[Server], None] = lambda server: None) -> int:
    """Runs a node until it is told to stop; returns the exit code: 0 after a clean stop, 1 if the node failed.

    Raises ConfigError or StorageError, in a sentence, if the node cannot start.
    """
    return run_server(settings, lambda: Server(settings), on_ready)


def run_server(settings: Settings, make: Callable[[], S], on_ready: Callable[[S], None]) -> int:
    """`run`, of a node that `make` makes, in the loop; these are its settings."""
    say_what_is_odd(settings)
    raise_descriptor_limit()
    gc.disable()  # nothing made while starting is garbage; collecting it costs a tenth of the start
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(serve(settings, make, on_ready))


async def serve(settings: Settings, make: Callable[[], S], on_ready: Callable[[S], None]) -> int:
    """Starts the node, waits for a signal or its failure, stops it."""
    stop = asyncio.Event()
    server = make()
    install_signal_handlers(stop)
    if speaks_tls(settings):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.reload_stores)
    starting = asyncio.ensure_future(server.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        return 0
    starting.result()
    collect_young_only()
    notify_service_manager("READY=1")
    on_ready(server)
    warming = asyncio.ensure_future(warm())
    collecting = asyncio.ensure_future(collect_when_quiet(server.shell.turn_seconds))
    failing = asyncio.ensure_future(server.failed.wait())
    await asyncio.wait([stopping, failing], return_when=asyncio.FIRST_COMPLETED)
    notify_service_manager("STOPPING=1")
    logger.info("stopping")
    await server.stop()
    logger.info("stopped")
    for task in (warming, collecting, stopping, failing):
        task.cancel()
    return 1 if server.failure is not None else 0


def install_signal_handlers(stop: asyncio.Event) -> None:
    """SIGTERM and SIGINT set `stop`; a further one ends the process as a crash would."""

    def handle(number: int) -> None:
        if stop.is_set():
            os._exit(KILLED_EXIT_CODE + number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, handle, number)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop if it is installed, otherwise the standard one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def say_what_is_odd(settings: Settings) -> None:
    """Logs the warnings of the settings, and which settings have no meaning here."""
    for warning in settings.warnings:
        logger.warning(warning)
    if settings.ignored:
        logger.info("settings without meaning here are ignored", names=", ".join(settings.ignored))


def notify_service_manager(state: str) -> None:
    """Notifies systemd, if it started this process with NOTIFY_SOCKET (sd_notify)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, suppress(OSError):
        notify.sendto(state.encode(), address)
