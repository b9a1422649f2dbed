"""Keeps the keys current that tokens of OAUTHBEARER are checked with: fetches JWKS in threads, and puts them into the
node's rings.

When to fetch, and how long keys are used that could not be fetched anew, is `security.oauthbearer.refresh`. A node does
not start without the keys of each of its listeners. What comes is bounded in size and time; a set that cannot be used
changes nothing and is reported, once for each reason in a row.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client.bounded_fetch import FetchFailed, FetchLimits, fetch
from penstock.config.oauthbearer import KeySource
from penstock.errors import ConfigError
from penstock.events import events
from penstock.security.oauthbearer.keys import BadKeys, KeyRing, Keys, read_keys
from penstock.security.oauthbearer.refresh import Refresh
from penstock.server.limits import JWKS_MAX_BYTES, KEY_SOURCES_LOOK_S

if TYPE_CHECKING:
    from penstock.config.server import Settings

T = TypeVar("T")
logger = events("server.issuer_keys")


class Source:
    """The keys of one source: when they are fetched, and where they are put."""

    def __init__(self, source: KeySource, ring: KeyRing) -> None:
        self._source = source
        self._ring = ring
        self._refresh = Refresh(source, now_ms())
        self._told = ""
        self._wanted = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        ring.wanted = self._wanted.set

    async def first(self) -> None:
        """Fetches them for the start. Raises ConfigError if they do not come."""
        until_ms = now_ms() + self._source.retry_max_ms
        while (why := await self._fetch()) is not None:
            pause_ms = max(0, self._refresh.due_ms - now_ms())
            if now_ms() + pause_ms > until_ms:
                raise ConfigError(
                    f"no start without keys to check tokens with: {why}\n"
                    f"  sasl.oauthbearer.jwks.endpoint.url is {self._source.url}"
                )
            await asyncio.sleep(pause_ms / 1000)

    def keep(self) -> None:
        """Fetches them anew from now on, when it is time."""
        self._keeping = asyncio.ensure_future(self._keep())

    async def stop(self) -> None:
        """Fetches nothing more."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), max(0, self._refresh.due_ms - now_ms()) / 1000)
            if self._wanted.is_set():
                self._wanted.clear()
                self._refresh.wanted(now_ms())
            if self._refresh.due_ms <= now_ms():
                self._tell(await self._fetch())

    async def _fetch(self) -> str | None:
        """Fetches them. Returns why that failed."""
        try:
            keys = await aside(lambda: fetched(self._source))
        except (FetchFailed, BadKeys, ConfigError) as wrong:
            self._refresh.failed(now_ms())
            return str(wrong)
        except Exception:  # a bug: the keys must be fetched again
            self._refresh.failed(now_ms())
            logger.error("a bug while the keys of an issuer were fetched", url=self._source.url, trace=True)
            return "a bug"
        self._ring.keys = keys
        self._refresh.succeeded(now_ms())
        return None

    def _tell(self, why: str | None) -> None:
        """Tells people what has changed about fetching, and puts keys away that are too old."""
        url = self._source.url
        if why is None:
            if self._told:
                logger.info("the keys of an issuer could be fetched again", url=url)
        elif self._ring.keys is not None and self._refresh.is_stale(now_ms()):
            self._ring.keys = None
            logger.error("the keys of an issuer are too old: no token is taken until new ones come", url=url)
        elif why != self._told:
            logger.warning("the keys of an issuer cannot be fetched; the old ones stay", url=url, reason=why)
        self._told = why or ""


class IssuerKeys:
    """See the module's head. `settings`: the present ones. `ring`: the node's keys of a source."""

    def __init__(self, settings: Callable[[], Settings], ring: Callable[[KeySource], KeyRing]) -> None:
        self._settings = settings
        self._ring = ring
        self._sources: dict[KeySource, Source] = {}
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Fetches all keys, and keeps them current from now on. Raises ConfigError for those that do not come."""
        for source in await self._find():
            await source.first()
            source.keep()
        if self._settings().sasl.listeners:
            self._looking = asyncio.ensure_future(self._look())

    async def stop(self) -> None:
        """Fetches nothing more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for source in self._sources.values():
            await source.stop()

    async def _look(self) -> None:
        """The mechanisms of a listener may change while the node runs, and so may a login module, which says what the
        connection to an issuer trusts.
        """
        while True:
            await asyncio.sleep(KEY_SOURCES_LOOK_S)
            for source in await self._find():
                source.keep()

    async def _find(self) -> list[Source]:
        """Takes up the sources that the present settings name, and drops others. Returns those that are new."""
        named = [bearer.keys for _, bearer in self._settings().sasl.bearers if bearer.keys is not None]
        for gone in [each for each in self._sources if each not in named]:
            await self._sources.pop(gone).stop()
        new = {each: Source(each, self._ring(each)) for each in dict.fromkeys(named) if each not in self._sources}
        self._sources.update(new)
        return list(new.values())


def now_ms() -> int:
    """What goes on whoever sets the clock, in ms. Called on the loop."""
    return int(asyncio.get_running_loop().time() * 1000)


def fetched(source: KeySource) -> Keys:
    """The keys of a source. Blocks. Raises FetchFailed, BadKeys, ConfigError."""
    return read_keys(fetch(source.url, FetchLimits(JWKS_MAX_BYTES), tls=source.tls))


async def aside(work: Callable[[], T]) -> T:
    """Does work in a thread of its own, which no stop of the process waits for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(outcome: Callable[[Any], None], value: Any) -> None:
        def set_unless_given_up() -> None:
            if not future.done():
                outcome(value)

        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(set_unless_given_up)

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            tell(future.set_exception, error)
        else:
            tell(future.set_result, result)

    threading.Thread(target=run, name="issuer-keys", daemon=True).start()
    return await future
