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
from collections.abc import Iterator, Sequence
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from penstock.config.broker.network import SECURITY_PROTOCOLS
from penstock.errors import StorageError
from penstock.events import events
from penstock.log.events import LogEvent
from penstock.metadata.image import Endpoint as RegisteredEndpoint
from penstock.node.broker import Broker
from penstock.node.handlers import registry
from penstock.server.directories import Directories
from penstock.server.entrance import connection_limits
from penstock.server.issuer_keys import IssuerKeys
from penstock.server.limits import ShellLimits, descriptor_limit
from penstock.server.listener import bind_all
from penstock.server.node_server import NodeServer, work_ms
from penstock.server.pace import Pace
from penstock.server.plugging import plugged_of
from penstock.server.shell import Shell
from penstock.server.tls import Tls
from penstock.server.workers import Workers

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.node.metrics import Sample

logger = events("server")


class Server(NodeServer):
    """One node. See the module's head.

    Args:
        settings: the node's.
        durable: False omits fsync, for nodes whose data nobody needs after the process has ended.

    Attributes:
        addresses: where each listener can be reached, `host:port` by listener name; filled by `start`.
        broker: the node, once started.
    """

    log = logger

    def __init__(self, settings: Settings, *, durable: bool = True) -> None:
        super().__init__(durable=durable)
        self.settings = settings
        self.addresses: dict[str, str] = {}
        self.broker: Broker
        self._directories: Directories | None = None
        self._limited_by = settings

    @property
    def _living(self) -> Broker:
        return self.broker

    @property
    def _settings(self) -> Settings:
        return self.broker.settings  # dynamic configs may name other keys than the file

    async def _listen(self) -> None:
        self._serve(early=True)
        while not self.broker.ready:
            if self.failure is not None:
                raise StorageError(f"the node cannot start: {self.failure}") from self.failure
            self._changed.clear()
            await self._changed.wait()
        if self._tls is not None and self._tls.watched:
            await self._tls.look(self._settings)
        self._serve(early=False)

    @property
    def _early_listeners(self) -> frozenset[str]:
        controllers = (each.listener for each in self.settings.controller_endpoints)
        early = (name.upper() for name in self.settings.early_start_listeners or ())
        return frozenset((*controllers, *early))

    def _serve(self, *, early: bool) -> None:
        for listener in self._listeners:
            name = listener.endpoint.listener
            if (name in self._early_listeners) == early:
                listener.serve(self.shell, self.shell.limits.backlog)
                self.addresses[name] = listener.address
                logger.info("listening", listener=name, address=listener.address)

    def recoveries(self) -> list[str]:
        """A line for each log directory with logs that are still to be recovered."""
        left = [(each.path, each.recovery) for each in self.broker.logs.table.directories if each.recovery.logs_left]
        return [f"recovering {path}: {recovery.logs_left} of {recovery.logs} logs left" for path, recovery in left]

    def node_samples(self) -> Iterator[Sample | None]:
        yield from self.broker.metrics_in_steps()

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
        self._issuer_keys = IssuerKeys(lambda: broker.settings, broker.dispatcher.logins.ring)
        self._watch_stores(tls)
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

    def _turn_ended(self) -> None:
        if self.broker.settings is not self._limited_by:
            self._limited_by = self.broker.settings
            self.shell.loop.call_soon(self.shell.guarded, self._limit_connections)

    def _limit_connections(self) -> None:
        """Puts the limits on connections into force; dynamic configs have changed, perhaps these."""
        limits = connection_limits(self._limited_by)
        if limits != self.shell.entrance.admission.limits:
            self.shell.entrance.configure(limits)

    def _close_directories(self) -> None:
        if self._directories is not None:
            self._directories.close()
            self._directories = None


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
