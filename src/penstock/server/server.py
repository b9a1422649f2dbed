"""One node in an asyncio loop: directories locked, listeners bound, the broker booted, clients served, stopped cleanly.

    server = Server(settings)
    await server.start()            # returns when the node serves
    server.addresses["PLAINTEXT"]   # "127.0.0.1:9092"
    await server.stop()

Listeners are bound first, so that an address in use is reported before anything is read, and so that the node knows its
port, if it is 0, when it registers. The controllers' listener listens at once, since a quorum of several needs each of
them to start, and so do `early.start.listeners`. Those for clients listen once the node is ready: a client that comes
earlier is refused and tries again, whereas an answer from a node that does not know the cluster yet (no broker, no
controller) makes some clients wait for minutes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from random import Random, SystemRandom
from time import perf_counter
from typing import TYPE_CHECKING

from penstock.config.broker.network import SECURITY_PROTOCOLS
from penstock.errors import StorageError
from penstock.events import events
from penstock.log.events import LogEvent
from penstock.metadata.image import Endpoint as RegisteredEndpoint
from penstock.node.broker import Broker
from penstock.node.handlers import registry
from penstock.node.telemetry.pull import pull
from penstock.server.clock import Clock
from penstock.server.directories import Directories
from penstock.server.entrance import connection_limits
from penstock.server.issuer_keys import IssuerKeys
from penstock.server.limits import ShellLimits, descriptor_limit
from penstock.server.listener import Listener, bind_all
from penstock.server.metrics import process_samples, shell_samples, tls_samples
from penstock.server.pace import Pace
from penstock.server.plugging import plugged_of
from penstock.server.shell import Shell
from penstock.server.telemetry import MachineLook, asked_in
from penstock.server.tls import Tls
from penstock.server.workers import Workers

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.node.metrics import Sample
    from penstock.server.http import HttpEndpoint

logger = events("server")

STOP_TIMEOUT_S = 60.0
"""How long a clean stop may take before the node is left as after a crash."""


class Server:
    """One node. See the module's head.

    Args:
        settings: the node's.
        durable: False omits fsync, for nodes whose data nobody needs after the process has ended.

    Attributes:
        addresses: where each listener can be reached, `host:port` by listener name; filled by `start`.
        broker, shell: the node and the shell that runs it, once started.
        failed: set when the node cannot go on; `failure` is the reason.
    """

    def __init__(self, settings: Settings, *, durable: bool = True) -> None:
        self.settings = settings
        self.addresses: dict[str, str] = {}
        self.http_address: str | None = None
        self.failed = asyncio.Event()
        self.failure: Exception | None = None
        self.broker: Broker
        self.shell: Shell
        self._durable = durable
        self._clock = Clock()
        self._changed = asyncio.Event()
        self._listeners: list[Listener] = []
        self._directories: Directories | None = None
        self._http: HttpEndpoint | None = None
        self._tls: Tls | None = None
        self._issuer_keys: IssuerKeys
        self._looking: asyncio.Task[None] | None = None
        self._limited_by = settings
        self._started = False
        self._stopping = False

    async def start(self) -> None:
        """Starts the node; returns when it serves.

        Raises ConfigError or StorageError, in a sentence, when it cannot; then nothing is left open.
        """
        assert not self._started, "a server starts once"
        try:
            self._open()
            await self._issuer_keys.start()
            self._listen(early=True)
            while not self.broker.ready:
                if self.failure is not None:
                    raise StorageError(f"the node cannot start: {self.failure}") from self.failure
                self._changed.clear()
                await self._changed.wait()
            if self._tls is not None and self._tls.watched:
                await self._tls.look(self.broker.settings)  # dynamic configs may name other keys than the file
            self._listen(early=False)
            if self.settings.penstock_metrics_listener:
                await self._start_http()
        except BaseException:
            await self._close()
            raise

    @property
    def _early_listeners(self) -> frozenset[str]:
        controllers = (each.listener for each in self.settings.controller_endpoints)
        early = (name.upper() for name in self.settings.early_start_listeners or ())
        return frozenset((*controllers, *early))

    def _listen(self, *, early: bool) -> None:
        for listener in self._listeners:
            name = listener.endpoint.listener
            if (name in self._early_listeners) == early:
                listener.serve(self.shell, self.shell.limits.backlog)
                self.addresses[name] = listener.address
                logger.info("listening", listener=name, address=listener.address)

    async def stop(self) -> None:
        """Stops cleanly: gives up leaderships, sends the last answers, closes and marks the logs. May be repeated."""
        if not self._started or self._stopping:
            return
        self._stopping = True
        for listener in self._listeners:
            listener.stop_accepting()
        try:
            self.broker.shutdown(self.shell.clock.now_ms())
            self.shell.kick()
            await asyncio.wait_for(self._until_stopped(), STOP_TIMEOUT_S)
        except TimeoutError:
            logger.error("the stop took too long and was cut short", timeout_s=STOP_TIMEOUT_S)
        finally:
            await self._close()

    @property
    def ready(self) -> bool:
        """Whether the node leads its partitions and serves."""
        return self._started and not self._stopping and self.failure is None and self.broker.ready

    def recoveries(self) -> list[str]:
        """A line for each log directory with logs that are still to be recovered."""
        left = [(each.path, each.recovery) for each in self.broker.logs.table.directories if each.recovery.logs_left]
        return [f"recovering {path}: {recovery.logs_left} of {recovery.logs} logs left" for path, recovery in left]

    def samples(self) -> Iterator[Sample | None]:
        """All metrics of the node, the shell and the process; in steps, with None between some."""
        yield from self.broker.metrics_in_steps()
        yield from shell_samples(self.shell)
        if self._tls is not None:
            yield from tls_samples(self._tls)
        yield from process_samples()

    def telemetry(self, query: str) -> Generator[object, None, bytes]:
        """A frame of telemetry for the query of `/telemetry`, in steps. Raises ValueError for a query that is none."""
        return pull(self.broker, *asked_in(query))

    def _open(self) -> None:
        settings = self.settings
        limits = ShellLimits.of(settings, descriptor_limit())
        plugged = plugged_of(settings)
        tls = self._tls = Tls(settings, asyncio.get_running_loop())
        self._listeners = bind_all(settings.listener_endpoints, limits.receive_buffer_bytes)
        self._directories = Directories(settings, durable=self._durable, descriptors_max=limits.files_max)
        self.broker = Broker(
            settings,
            self._directories.of_logs,
            registry(),
            metadata_directory=self._directories.metadata,
            random=Random(os.urandom(16)),
            report=report,
            work_ms=work_ms,
            wall=self._clock.wall,
            nonces=SystemRandom(),
            plugged=plugged,
        )
        broker = self.broker
        broker.state.check_stores = tls.check
        pace = Pace(
            lambda: broker.settings.log_cleaner_io_max_bytes_per_second,
            lambda index: self.shell.lanes[index].slow,
        )
        self.shell = Shell(
            self.broker,
            asyncio.get_running_loop(),
            self._directories.all,
            limits,
            clock=self._clock,
            lane_threads=settings.penstock_lane_threads,
            workers=Workers({directory.index: directory.path for directory in self._directories.all}, pace=pace),
            on_turn_end=self._look,
            transport_of=tls.transport,
        )
        self.shell.entrance.configure(connection_limits(settings))
        broker.telemetry.machine = MachineLook(self.shell, self._directories.all)
        self._issuer_keys = IssuerKeys(lambda: broker.settings, broker.dispatcher.logins.ring)
        tls.warn_of_expiry()
        if tls.watched:
            self._looking = asyncio.ensure_future(self._look_at_stores(tls))
        self._started = True
        self.broker.start(self._advertised(), self.shell.now_ms, controller_endpoints=self._controller_endpoints())
        self.shell.kick()

    def _advertised(self) -> Sequence[RegisteredEndpoint]:
        """The advertised addresses, with the bound ports instead of 0."""
        bound = {listener.endpoint.listener: listener.endpoint for listener in self._listeners}
        registered = []
        for wanted in self.settings.advertised_endpoints:
            host = wanted.host or hostname()
            port = wanted.port or bound[wanted.listener].port
            protocol = SECURITY_PROTOCOLS.index(wanted.security_protocol)
            registered.append(RegisteredEndpoint(wanted.listener, host, port, protocol))
        return registered

    def _controller_endpoints(self) -> Sequence[RegisteredEndpoint]:
        """The addresses of this controller for other nodes, with the bound port instead of 0."""
        bound = {listener.endpoint.listener: listener.endpoint for listener in self._listeners}
        return [
            RegisteredEndpoint(
                each.listener,
                each.host or hostname(),
                each.port or bound[each.listener].port,
                SECURITY_PROTOCOLS.index(each.security_protocol),
            )
            for each in self.settings.controller_endpoints
        ]

    async def _look_at_stores(self, tls: Tls) -> None:
        """Takes over changed keys and trust as long as the node runs."""
        while True:
            await tls.wait()
            await tls.look(self.broker.settings)

    def reload_stores(self) -> None:
        """Has key and trust stores looked at now, not only in a while: what SIGHUP asks for."""
        if self._tls is not None:
            self._tls.look_now()

    def _look(self) -> None:
        """After each turn of the shell: checks whether the node has become ready, stopped, or failed, or has other
        settings.
        """
        failure = self.shell.broken or self.broker.failure
        if failure is not None and self.failure is None:
            self.failure = failure
            logger.error("the node cannot go on", reason=self.failure)
            self.failed.set()
        if self.broker.settings is not self._limited_by:
            self._limited_by = self.broker.settings
            self.shell.loop.call_soon(self.shell.guarded, self._limit_connections)
        if not self._changed.is_set():
            self._changed.set()

    def _limit_connections(self) -> None:
        """Puts the limits on connections into force; dynamic configs have changed, perhaps these."""
        limits = connection_limits(self._limited_by)
        if limits != self.shell.entrance.admission.limits:
            self.shell.entrance.configure(limits)

    async def _until_stopped(self) -> None:
        while not (self.broker.stopped and not self.shell.busy and not self.shell.connections):
            if self.shell.broken is not None or (self.failure is not None and not self.shell.busy):
                return
            self._changed.clear()
            await self._changed.wait()

    async def _start_http(self) -> None:
        from penstock.server.http import HttpEndpoint

        bugs = self.broker.bugs.of("connection")
        settings, tls = self.settings, self._tls
        listener = settings.penstock_metrics_tls_listener
        assert tls is not None
        context = partial(tls.context, listener) if listener else None
        self._http = HttpEndpoint(
            self.samples,
            lambda: self.ready,
            bugs,
            self.recoveries,
            context=context,
            token=settings.penstock_metrics_token,
            telemetry=self.telemetry,
        )
        self.http_address = await self._http.start(settings.penstock_metrics_listener)

    async def _close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
            self._looking = None
        if self._started:
            await self._issuer_keys.stop()
        if self._http is not None:
            await self._http.stop()
            self._http = None
        for listener in self._listeners:
            listener.stop_accepting()
        if self._started:
            self.shell.stop()
        if self._tls is not None:
            self._tls.close()
            self._tls = None
        if self._directories is not None:
            self._directories.close()
            self._directories = None


def work_ms() -> float:
    """The clock by which connections share the loop."""
    return perf_counter() * 1000


def hostname() -> str:
    """This machine's name, for a listener on all interfaces without an advertised one."""
    import socket

    return socket.getfqdn()


def report(event: LogEvent) -> None:
    """Logs an event of the log directories; losses and failures as warnings."""
    kind = type(event).__name__
    log = logger.warning if kind in SERIOUS_EVENTS else logger.info
    log(str(event))


SERIOUS_EVENTS = frozenset({
    "CheckpointUnreadable", "DirectoryFailed", "DirectoryFull", "LogBroken", "LogNotCleaned", "LogRecovered",
    "MetadataLogFull", "NotStoppedCleanly", "RecordsLost", "TailCut", "TimeIndexWrong",
})  # fmt: skip
