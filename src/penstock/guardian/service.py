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

from penstock.config.guardian import LISTENER, PREFIX, GuardianSettings
from penstock.config.server import Settings
from penstock.errors import ConfigError, StorageError
from penstock.events import events
from penstock.guardian.core.alarms.metrics import alarm_samples, canary_samples
from penstock.guardian.core.identity import GuardianIdentity, format_directory
from penstock.guardian.core.node import GuardianNode
from penstock.log.directory import LogDirectory
from penstock.node.metrics import GAUGE, Sample
from penstock.server.directory_lock import DirectoryLock
from penstock.server.disk import BlockingDisk
from penstock.server.issuer_keys import IssuerKeys
from penstock.server.limits import ShellLimits, descriptor_limit
from penstock.server.listener import bind_all
from penstock.server.node_server import NodeServer, work_ms
from penstock.server.plugging import plugged_of
from penstock.server.shell import Shell
from penstock.server.tls import Tls

if TYPE_CHECKING:
    from penstock.guardian.rest.endpoint import RestEndpoint

logger = events("guardian")


class GuardianServer(NodeServer):
    """One Guardian node. See the module's head.

    Args:
        settings: the node's. durable: False omits fsync, for tests.

    Attributes:
        address, rest_address: where it listens, `host:port`, once started; None for no REST API. node: likewise.
    """

    log = logger

    def __init__(self, settings: GuardianSettings, *, durable: bool = True) -> None:
        super().__init__(durable=durable)
        self.settings = settings
        self.address = ""
        self.rest_address: str | None = None
        self.node: GuardianNode
        self._lock: DirectoryLock | None = None
        self._disk: BlockingDisk | None = None
        self._rest: RestEndpoint | None = None

    @property
    def _living(self) -> GuardianNode:
        return self.node

    @property
    def _settings(self) -> Settings:
        return self.settings.node

    async def _listen(self) -> None:
        for listener in self._listeners:
            listener.serve(self.shell, self.shell.limits.backlog)
            self.address = listener.address
            logger.info("listening", listener=LISTENER, address=listener.address)
        if self.settings.penstock_guardian_rest_listener:
            await self._start_rest()

    async def _start_rest(self) -> None:
        try:
            from penstock.guardian.rest.endpoint import RestEndpoint
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{PREFIX}rest.listener needs {error.name}, which is not installed\n  pip install 'penstock[guardian]'"
            ) from None
        tls = self._tls
        assert tls is not None
        context = partial(tls.context, LISTENER) if self.settings.penstock_guardian_rest_tls else None
        rest = RestEndpoint(self.node, self.shell, context, self.node.bugs.of("connection"))
        self.rest_address = await rest.start(self.settings.penstock_guardian_rest_listener)
        self._rest = rest

    async def stop(self) -> None:
        """Stops cleanly, what is asked over HTTP first: it is answered as long as the node leads. May be repeated."""
        await self._stop_rest()
        await super().stop()

    async def _stop_rest(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            await rest.stop()

    async def _close(self) -> None:
        await self._stop_rest()
        await super()._close()

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
        self._watch_stores(tls)
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

    def node_samples(self) -> Iterator[Sample | None]:
        node, now_ms = self.node, self.shell.now_ms
        state, age_ms = node.quorum.state, node.quorum.age_ms(now_ms)
        yield Sample("penstock_guardian_leads", GAUGE, "Whether this node leads.", int(node.quorum.leads))
        yield Sample("penstock_guardian_may_act", GAUGE, "Whether it holds the lease.", int(node.may_act(now_ms)))
        yield Sample("penstock_guardian_clusters", GAUGE, "Clusters that are registered.", len(state.clusters))
        if age_ms is not None:
            yield Sample("penstock_guardian_age_seconds", GAUGE, "How old the state is at most.", age_ms / 1000)
        yield from alarm_samples(state, node.sight)
        if self._rest is not None:
            yield from self._rest.samples()
        yield from canary_samples(state, node.sight)
        yield from node.bugs.samples()

    def _close_directories(self) -> None:
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
