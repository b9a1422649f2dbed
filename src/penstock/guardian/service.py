"""One Guardian node in an asyncio loop: its directory locked, its listener bound, calls answered, stopped cleanly.

    server = GuardianServer(settings)
    await server.start()            # returns when the node listens; it may not know a leader yet
    server.address                  # "127.0.0.1:9500"
    await server.stop()

The listener is bound first, so that an address in use is reported before anything is read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from penstock.config.guardian import LISTENER, GuardianSettings
from penstock.errors import ConfigError, StorageError
from penstock.events import events
from penstock.guardian.core.alarms.metrics import alarm_samples, canary_samples
from penstock.guardian.core.identity import GuardianIdentity, format_directory
from penstock.guardian.core.node import GuardianNode
from penstock.log.directory import LogDirectory
from penstock.node.metrics import GAUGE, Sample
from penstock.server.clock import Clock
from penstock.server.directory_lock import DirectoryLock
from penstock.server.disk import BlockingDisk
from penstock.server.issuer_keys import IssuerKeys
from penstock.server.limits import ShellLimits, descriptor_limit
from penstock.server.listener import Listener, bind_all
from penstock.server.metrics import process_samples, shell_samples, tls_samples
from penstock.server.plugging import plugged_of
from penstock.server.server import STOP_TIMEOUT_S, work_ms
from penstock.server.shell import Shell
from penstock.server.tls import Tls

if TYPE_CHECKING:
    from penstock.server.http import HttpEndpoint

logger = events("guardian")


class GuardianServer:
    """One Guardian node. See the module's head.

    Args:
        settings: the node's. durable: False omits fsync, for tests.

    Attributes:
        address: where it listens, `host:port`, once started. node, shell: likewise.
        failed: set when the node cannot go on; `failure` is the reason.
    """

    def __init__(self, settings: GuardianSettings, *, durable: bool = True) -> None:
        self.settings = settings
        self.address = ""
        self.http_address: str | None = None
        self.failed = asyncio.Event()
        self.failure: Exception | None = None
        self.node: GuardianNode
        self.shell: Shell
        self._durable = durable
        self._clock = Clock()
        self._changed = asyncio.Event()
        self._listeners: list[Listener] = []
        self._lock: DirectoryLock | None = None
        self._disk: BlockingDisk | None = None
        self._tls: Tls | None = None
        self._looking: asyncio.Task[None] | None = None
        self._issuer_keys: IssuerKeys | None = None
        self._http: HttpEndpoint | None = None
        self._started = False
        self._stopping = False

    async def start(self) -> None:
        """Starts the node; returns when it listens.

        Raises ConfigError or StorageError, in a sentence, when it cannot; then nothing is left open.
        """
        assert not self._started, "a server starts once"
        try:
            self._open()
            assert self._issuer_keys is not None
            await self._issuer_keys.start()
            for listener in self._listeners:
                listener.serve(self.shell, self.shell.limits.backlog)
                self.address = listener.address
                logger.info("listening", listener=LISTENER, address=listener.address)
            if self.settings.node.penstock_metrics_listener:
                await self._start_http()
        except BaseException:
            await self._close()
            raise

    def _open(self) -> None:
        settings = self.settings.node
        limits = ShellLimits.of(settings, descriptor_limit())
        plugged = plugged_of(settings)
        tls = self._tls = Tls(settings, asyncio.get_running_loop())
        self._listeners = bind_all(settings.listener_endpoints, limits.receive_buffer_bytes)
        directory = self._directory(limits.files_max)
        node = self.node = GuardianNode(
            self.settings,
            directory,
            random=Random(os.urandom(16)),
            work_ms=work_ms,
            wall=self._clock.wall,
            nonces=SystemRandom(),
            plugged=plugged,
        )
        self.shell = Shell(
            node,
            asyncio.get_running_loop(),
            [directory],
            limits,
            clock=self._clock,
            lane_threads=settings.penstock_lane_threads,
            on_turn_end=self._look,
            transport_of=tls.transport,
        )
        self._issuer_keys = IssuerKeys(lambda: settings, node.dispatcher.logins.ring)
        tls.warn_of_expiry()
        if tls.watched:
            self._looking = asyncio.ensure_future(self._look_at_stores(tls))
        self._warn_of_strangers()
        node.start(self.shell.now_ms)
        self._started = True
        self.shell.kick()

    def _warn_of_strangers(self) -> None:
        """Says if anybody who reaches the listener may change what Guardian knows."""
        (endpoint,) = self.settings.node.listener_endpoints
        local = endpoint.host in ("localhost", "127.0.0.1", "::1")
        if not local and not self.settings.node.authorizer_class_name:
            logger.warning(
                "anybody who reaches this node may change what Guardian knows: set authorizer.class.name, super.users",
                listener=self.settings.penstock_guardian_listener,
            )

    def _directory(self, descriptors_max: int) -> LogDirectory:
        """The node's directory, locked. Raises ConfigError for one that is not there, StorageError for one in use."""
        path = self.settings.penstock_guardian_data_dir
        if not os.path.isdir(path):
            raise ConfigError(f"{path} is not formatted: there is no such directory\n  run `penstock guardian format`")
        try:
            self._lock = DirectoryLock(path)
            self._disk = BlockingDisk(0, path, durable=self._durable, descriptors_max=descriptors_max)
        except OSError as error:
            raise StorageError(f"{path} cannot be used: {error.strerror}") from error
        return LogDirectory(0, path, self._disk.loop, self._disk)

    async def stop(self) -> None:
        """Stops cleanly: hands over the leadership, sends the last answers, closes the log. May be repeated."""
        if not self._started or self._stopping:
            return
        self._stopping = True
        for listener in self._listeners:
            listener.stop_accepting()
        try:
            self.node.shutdown(self.shell.clock.now_ms())
            self.shell.kick()
            await asyncio.wait_for(self._until_stopped(), STOP_TIMEOUT_S)
        except TimeoutError:
            logger.error("the stop took too long and was cut short", timeout_s=STOP_TIMEOUT_S)
        finally:
            await self._close()

    async def _until_stopped(self) -> None:
        while not (self.node.stopped and not self.shell.busy and not self.shell.connections):
            if self.shell.broken is not None or (self.failure is not None and not self.shell.busy):
                return
            self._changed.clear()
            await self._changed.wait()

    @property
    def ready(self) -> bool:
        """Whether the node can answer."""
        return self._started and not self._stopping and self.failure is None and self.node.ready

    def samples(self) -> Iterator[Sample | None]:
        """Metrics of the node, the shell and the process."""
        node, now_ms = self.node, self.shell.now_ms
        state, age_ms = node.quorum.state, node.quorum.age_ms(now_ms)
        yield Sample("penstock_guardian_leads", GAUGE, "Whether this node leads.", int(node.quorum.leads))
        yield Sample("penstock_guardian_may_act", GAUGE, "Whether it holds the lease.", int(node.may_act(now_ms)))
        yield Sample("penstock_guardian_clusters", GAUGE, "Clusters that are registered.", len(state.clusters))
        if age_ms is not None:
            yield Sample("penstock_guardian_age_seconds", GAUGE, "How old the state is at most.", age_ms / 1000)
        yield from alarm_samples(state, node.sight)
        yield from canary_samples(state, node.sight)
        yield from node.bugs.samples()
        yield from shell_samples(self.shell)
        if self._tls is not None:
            yield from tls_samples(self._tls)
        yield from process_samples()

    async def _start_http(self) -> None:
        from penstock.server.http import HttpEndpoint

        settings, tls = self.settings.node, self._tls
        listener = settings.penstock_metrics_tls_listener
        assert tls is not None
        self._http = HttpEndpoint(
            self.samples,
            lambda: self.ready,
            self.node.bugs.of("connection"),
            context=partial(tls.context, listener) if listener else None,
            token=settings.penstock_metrics_token,
        )
        self.http_address = await self._http.start(settings.penstock_metrics_listener)

    async def _look_at_stores(self, tls: Tls) -> None:
        """Takes over changed keys and trust as long as the node runs."""
        while True:
            await tls.wait()
            await tls.look(self.settings.node)

    def reload_stores(self) -> None:
        """Has key and trust stores looked at now: what SIGHUP asks for."""
        if self._tls is not None:
            self._tls.look_now()

    def _look(self) -> None:
        """After each turn of the shell: checks whether the node has stopped or failed."""
        failure = self.shell.broken or self.node.failure
        if failure is not None and self.failure is None:
            self.failure = failure
            logger.error("the node cannot go on", reason=self.failure)
            self.failed.set()
        if not self._changed.is_set():
            self._changed.set()

    async def _close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
            self._looking = None
        if self._issuer_keys is not None:
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
        if self._disk is not None:
            self._disk.close()
            self._disk = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def format_node(settings: GuardianSettings, guardian_id: str | None, random: Random) -> GuardianIdentity:
    """Makes the directory of a node, and formats it. Raises ConfigError for one that cannot be Guardian's."""
    path = settings.penstock_guardian_data_dir
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}") from None
    disk = BlockingDisk(0, path)
    try:
        return format_directory(disk, path, settings, guardian_id, random)
    finally:
        with suppress(OSError):
            disk.close()
