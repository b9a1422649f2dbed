"""What every node needs to run in an asyncio loop, whatever it serves: started and stopped once, watched meanwhile.

`server.server` makes it a broker or controller of a cluster, `guardian.service` a node of Guardian. They say what is
opened, and when which listener listens; everything else is the same: key and trust stores that are taken over as they
change, the HTTP endpoint of the metrics, failures, and a stop that waits until the last answer has left.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, Protocol

from penstock.server.clock import Clock
from penstock.server.issuer_keys import IssuerKeys
from penstock.server.listener import Listener
from penstock.server.metrics import process_samples, shell_samples, tls_samples
from penstock.server.node import Node
from penstock.server.shell import Shell
from penstock.server.tls import Tls

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.events import Events
    from penstock.node.bugs import Bugs
    from penstock.node.metrics import Sample
    from penstock.server.http import HttpEndpoint

STOP_TIMEOUT_S = 60.0
"""How long a clean stop may take before the node is left as after a crash."""


class LivingNode(Node, Protocol):
    """A node from its start to its end."""

    @property
    def ready(self) -> bool:
        """Whether it serves."""

    @property
    def stopped(self) -> bool:
        """Whether a clean stop is complete."""

    @property
    def failure(self) -> Exception | None:
        """Why it cannot go on."""

    @property
    def bugs(self) -> Bugs: ...

    def shutdown(self, now_ms: int) -> None:
        """Begins a clean stop."""


class NodeServer(ABC):
    """See the module's head.

    Attributes:
        http_address: where metrics are served, once started; None: nowhere.
        shell: what runs the node, once started.
        failed: set when the node cannot go on; `failure` is the reason.
    """

    log: ClassVar[Events]

    def __init__(self, *, durable: bool) -> None:
        """`durable`: False omits fsync, for nodes whose data nobody needs after the process has ended."""
        self.http_address: str | None = None
        self.failed = asyncio.Event()
        self.failure: Exception | None = None
        self.shell: Shell
        self._durable = durable
        self._clock = Clock()
        self._changed = asyncio.Event()
        self._listeners: list[Listener] = []
        self._http: HttpEndpoint | None = None
        self._tls: Tls | None = None
        self._issuer_keys: IssuerKeys | None = None
        self._looking: asyncio.Task[None] | None = None
        self._started = False
        self._stopping = False

    # What who derives from it adds

    @property
    @abstractmethod
    def _living(self) -> LivingNode:
        """The node, once it has been opened."""

    @property
    @abstractmethod
    def _settings(self) -> Settings:
        """The node's settings that are in force."""

    @abstractmethod
    def _open(self) -> None:
        """Binds the listeners, opens the directories, makes the node and the shell, and starts them.

        Raises ConfigError or StorageError, in a sentence; `_close` follows then.
        """

    @abstractmethod
    async def _listen(self) -> None:
        """Has the listeners listen, each when the node can serve it. Raises StorageError if that will never be."""

    @abstractmethod
    def _close_directories(self) -> None:
        """Closes and unlocks the directories that were opened."""

    @abstractmethod
    def node_samples(self) -> Iterator[Sample | None]:
        """Metrics of the node."""

    def recoveries(self) -> Iterable[str]:
        """A line for each log directory with logs that are still to be recovered."""
        return ()

    def _turn_ended(self) -> None:  # noqa: B027 - not every node has something to do
        """Called after each turn of the shell."""

    # Life

    async def start(self) -> None:
        """Starts the node; returns when it serves.

        Raises ConfigError or StorageError, in a sentence, when it cannot; then nothing is left open.
        """
        assert not self._started, "a server starts once"
        try:
            self._open()
            assert self._issuer_keys is not None
            await self._issuer_keys.start()
            await self._listen()
            if self._settings.penstock_metrics_listener:
                await self._start_http()
        except BaseException:
            await self._close()
            raise

    async def stop(self) -> None:
        """Stops cleanly: gives up leaderships, sends the last answers, closes and marks the logs. May be repeated."""
        if not self._started or self._stopping:
            return
        self._stopping = True
        for listener in self._listeners:
            listener.stop_accepting()
        try:
            self._living.shutdown(self.shell.clock.now_ms())
            self.shell.kick()
            await asyncio.wait_for(self._until_stopped(), STOP_TIMEOUT_S)
        except TimeoutError:
            self.log.error("the stop took too long and was cut short", timeout_s=STOP_TIMEOUT_S)
        finally:
            await self._close()

    async def _until_stopped(self) -> None:
        while not (self._living.stopped and not self.shell.busy and not self.shell.connections):
            if self.shell.broken is not None or (self.failure is not None and not self.shell.busy):
                return
            self._changed.clear()
            await self._changed.wait()

    @property
    def ready(self) -> bool:
        """Whether the node serves."""
        return self._started and not self._stopping and self.failure is None and self._living.ready

    def samples(self) -> Iterator[Sample | None]:
        """All metrics of the node, the shell and the process; in steps, with None between some."""
        yield from self.node_samples()
        yield from shell_samples(self.shell)
        if self._tls is not None:
            yield from tls_samples(self._tls)
        yield from process_samples()

    def reload_stores(self) -> None:
        """Has key and trust stores looked at now, not only in a while: what SIGHUP asks for."""
        if self._tls is not None:
            self._tls.look_now()

    def _watch_stores(self, tls: Tls) -> None:
        """Says which certificates expire soon; takes over changed keys and trust as long as the node runs."""
        tls.warn_of_expiry()
        if tls.watched:
            self._looking = asyncio.ensure_future(self._look_at_stores(tls))

    async def _look_at_stores(self, tls: Tls) -> None:
        while True:
            await tls.wait()
            await tls.look(self._settings)

    def _look(self) -> None:
        """After each turn of the shell: checks whether the node has become ready, stopped, or failed."""
        failure = self.shell.broken or self._living.failure
        if failure is not None and self.failure is None:
            self.failure = failure
            self.log.error("the node cannot go on", reason=self.failure)
            self.failed.set()
        self._turn_ended()
        if not self._changed.is_set():
            self._changed.set()

    async def _start_http(self) -> None:
        from penstock.server.http import HttpEndpoint

        settings, tls = self._settings, self._tls
        listener = settings.penstock_metrics_tls_listener
        assert tls is not None
        self._http = HttpEndpoint(
            self.samples,
            lambda: self.ready,
            self._living.bugs.of("connection"),
            self.recoveries,
            context=partial(tls.context, listener) if listener else None,
            token=settings.penstock_metrics_token,
        )
        self.http_address = await self._http.start(settings.penstock_metrics_listener)

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
        self._close_directories()


def work_ms() -> float:
    """The clock by which connections share the loop."""
    return perf_counter() * 1000
