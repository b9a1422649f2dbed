"""TLS of a node: the contexts of each listener, and of its links to others, kept current.

A listener's key and trust are read at start, which fails if they cannot be used. After that their files are looked at
every STORE_LOOK_S (by size, time and inode), at once after SIGHUP, and when a dynamic config changed. A change is taken
over for new connections if it may be: the key fits its certificate, which is valid now and has the old one's subject
and alternative names (unless ssl.allow.dn.changes, ssl.allow.san.changes); on the listener between brokers the node
must also trust itself: its new key, and its old key and trust with the new ones, since other nodes may still have those
(not if the old certificate has expired). Otherwise all stays as it was, and the log says why, once for each change.
Open connections stay as they are.

Files are read, and contexts made, in a thread.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from socket import socket
from typing import TYPE_CHECKING

from penstock.client.tls import Material, client_context, files_of, read_material, server_context, shake_hands
from penstock.config.broker.network import WITH_TLS
from penstock.config.broker.tls import TlsSettings
from penstock.errors import ConfigError
from penstock.events import events
from penstock.security.certificates import Facts, facts_of
from penstock.security.stores.der import DerError
from penstock.server.handshakes import Handshakes
from penstock.server.limits import STORE_LOOK_S
from penstock.server.tls_transport import TlsTransport
from penstock.server.transport import PlainTransport, Transport

if TYPE_CHECKING:
    from penstock.config.broker.settings import BrokerSettings
    from penstock.config.server import Settings

logger = events("server.tls")

DAY_S = 86_400
EXPIRY_WARNING_DAYS = 30
Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Contexts:
    """What new connections of a listener use: `server` None where this node only connects. `own`: its certificate."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext
    material: Material
    own: Facts | None


class ListenerTls:
    """TLS of one listener. `serves`: this node listens there; `between_brokers`: it is the inter-broker listener.

    Attributes: `contexts`, the current ones.
    """

    def __init__(self, name: str, settings: Settings, *, serves: bool, between_brokers: bool) -> None:
        self.name = name
        self._serves = serves
        self._between_brokers = between_brokers
        self._asks_by_itself = settings.security_protocols[name] == "SASL_SSL"
        self._values = self._used = settings.of_listener(name)
        self._stamp = stamp(self._values)
        self.contexts = self._make(settings, self._values)
        self._check_validity(self.contexts)

    def changed(self, settings: Settings) -> bool:
        """Whether the settings or the files are others than those that were last looked at. Blocks."""
        values = settings.of_listener(self.name)
        return of_tls(values) != of_tls(self._values) or stamp(values) != self._stamp

    def reload(self, settings: Settings) -> Contexts:
        """Contexts by the present settings and files, checked against the current ones. Blocks. Raises ConfigError.

        Whatever comes of it, the same settings and files are not looked at again.
        """
        values = self._values = settings.of_listener(self.name)
        self._stamp = stamp(values)
        new = self._tried(settings, values)
        self._used = values
        return new

    def check(self, settings: Settings) -> None:
        """Raises ConfigError if the settings of this listener are others than those in use, and could not be taken
        over. Blocks.
        """
        values = settings.of_listener(self.name)
        if of_tls(values) != of_tls(self._used):
            self._tried(settings, values)

    def _tried(self, settings: Settings, values: BrokerSettings) -> Contexts:
        new, old = self._make(settings, values), self.contexts
        self._check_validity(new)
        check_change(values, old.own, new.own)
        if self._between_brokers and old.server is not None and new.server is not None and not expired(old.own):
            self._trust_each_other(old.server, trusting(values, new.material), "the new trust, the old key")
            self._trust_each_other(new.server, trusting(self._used, old.material), "the old trust, the new key")
        return new

    def _make(self, settings: Settings, values: BrokerSettings) -> Contexts:
        try:
            material = read_material(values)
            server = server_context(values, material, self._client_auth(settings, values)) if self._serves else None
            client = client_context(values, material)
            own = None if material.key is None else facts_of(material.key.chain[0])
        except ConfigError as wrong:
            raise ConfigError(f"listener {self.name}: {wrong}") from None
        except DerError as wrong:
            raise ConfigError(f"listener {self.name}: the certificate of its key store has {wrong}") from None
        if self._between_brokers and server is not None:
            self._trust_each_other(server, trusting(values, material), "its trust store, its own key")
        return Contexts(server, client, material, own)

    def _client_auth(self, settings: Settings, values: BrokerSettings) -> str:
        """Whether clients must show a certificate: with SASL only if that is said for the listener itself (KIP-684)."""
        attribute = "ssl_client_auth"
        own = settings.prefixed.of(self.name)
        return "none" if self._asks_by_itself and attribute not in own else values.ssl_client_auth

    def _trust_each_other(self, server: ssl.SSLContext, client: ssl.SSLContext, what: str) -> None:
        try:
            shake_hands(server, client)
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or error.reason or error
            raise ConfigError(
                f"listener {self.name} is for brokers, and this node could not connect to itself ({what}): {reason}"
            ) from None

    def _check_validity(self, contexts: Contexts) -> None:
        own, now_s = contexts.own, time.time()
        if own is not None and not own.not_before_s <= now_s <= own.not_after_s:
            when = "is no longer valid" if now_s > own.not_after_s else "is not valid yet"
            raise ConfigError(f"listener {self.name}: the certificate of {own.subject} {when}")

    def warn_of_expiry(self) -> None:
        """Logs a warning if the certificate expires soon."""
        days = self.days_left()
        if days is not None and self.expires_soon:
            logger.warning("a certificate expires soon", listener=self.name, days=round(days, 1))

    @property
    def expires_soon(self) -> bool:
        """Whether this node's certificate has to be renewed."""
        days = self.days_left()
        return days is not None and days < EXPIRY_WARNING_DAYS

    def days_left(self) -> float | None:
        """Days until this node's certificate expires; None if it has none."""
        own = self.contexts.own
        return None if own is None else (own.not_after_s - time.time()) / DAY_S


def trusting(values: BrokerSettings, material: Material) -> ssl.SSLContext:
    """A client's context that looks at certificates and not at host names."""
    return client_context(values, material, check_host_name=False)


def expired(own: Facts | None) -> bool:
    """Whether a certificate is past its time: nobody trusts it any more, whatever takes its place."""
    return own is not None and time.time() > own.not_after_s


def check_change(values: BrokerSettings, old: Facts | None, new: Facts | None) -> None:
    """Raises ConfigError if a certificate may not take another one's place (Kafka's SslFactory)."""
    if old is None or new is None:
        if (old is None) != (new is None):
            raise ConfigError("a key store cannot be added or removed while the node runs")
        return
    if not values.ssl_allow_dn_changes and new.subject.casefold() != old.subject.casefold():
        raise ConfigError(
            f"the new certificate is of {new.subject}, the old one of {old.subject} (ssl.allow.dn.changes)"
        )
    missing = old.alternative_names - new.alternative_names
    if not values.ssl_allow_san_changes and missing:
        raise ConfigError("the new certificate lacks alternative names of the old one (ssl.allow.san.changes)")


def of_tls(values: BrokerSettings) -> list[object]:
    """The values that TLS depends on."""
    return [getattr(values, setting.attribute) for setting in TlsSettings.declared()]


def speaks_tls(settings: Settings) -> bool:
    """Whether any listener that this node has, or connects to, is encrypted."""
    return any(True for _ in names_with_tls(settings))


def stamp(values: BrokerSettings) -> Stamp:
    """What tells a changed file from an unchanged one. A file that is missing has none. Blocks."""
    found = []
    for path in files_of(values):
        with suppress(OSError, ValueError):
            status = os.stat(path)
            found.append((path, status.st_size, status.st_mtime_ns, status.st_ino))
    return tuple(found)


class Tls:
    """TLS of a node, for each listener that speaks it: makes transports, and keeps keys and trust current.

    Attributes: `reloads`, `failed_reloads`: changes that were taken over, and that were not.
    """

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        """Reads all stores. Blocks. Raises ConfigError."""
        self.reloads = self.failed_reloads = 0
        self._loop = loop
        self._protocols = settings.security_protocols
        self._handshakes: Handshakes | None = None
        self._listeners = {name: tls_of(name, settings) for name in names_with_tls(settings)}
        self._look_now = asyncio.Event()
        self._looking = asyncio.Lock()
        if self._listeners:
            self._handshakes = Handshakes(loop, settings.penstock_tls_handshake_threads)

    def transport(self, listener: str, sock: socket, host: str | None) -> Transport:
        """The transport of a new socket of a listener; `host` is whom we dialled, None for a client."""
        tls = self._listeners.get(listener.upper())
        if tls is None:
            return PlainTransport(sock)
        contexts = tls.contexts
        context = contexts.client if host is not None else contexts.server
        assert context is not None, "only a listener accepts"
        assert self._handshakes is not None
        return TlsTransport(sock, context, self._handshakes, host)

    def context(self, listener: str) -> ssl.SSLContext:
        """What new connections of clients to a listener that speaks TLS use now."""
        context = self._listeners[listener.upper()].contexts.server
        assert context is not None, "only a listener of this node has one"
        return context

    def days_left(self) -> Mapping[str, float]:
        """Days until each listener's certificate expires."""
        found = {name: tls.days_left() for name, tls in self._listeners.items()}
        return {name: days for name, days in found.items() if days is not None}

    @property
    def handshake_steps(self) -> int:
        """Steps of handshakes that run or wait for a thread."""
        return 0 if self._handshakes is None else self._handshakes.under_way

    def warn_of_expiry(self) -> None:
        """Logs a warning for each certificate that expires soon."""
        for tls in self._listeners.values():
            tls.warn_of_expiry()

    def close(self) -> None:
        """Ends the threads of handshakes."""
        if self._handshakes is not None:
            self._handshakes.close()

    @property
    def watched(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self._listeners)

    def look_now(self) -> None:
        """Has the stores looked at without waiting, after SIGHUP."""
        self._look_now.set()

    async def wait(self) -> None:
        """Waits until it is time to look again."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._look_now.wait(), STORE_LOOK_S)
        self._look_now.clear()

    def check(self, settings: Settings) -> None:
        """Raises ConfigError if the stores of these settings could not be taken over. Blocks; in any thread."""
        for tls in self._listeners.values():
            tls.check(settings)

    async def look(self, settings: Settings) -> None:
        """Takes over what has changed and may be; logs what may not."""
        async with self._looking:
            await self._look(settings)

    async def _look(self, settings: Settings) -> None:
        for tls in self._listeners.values():
            try:
                if not await self._loop.run_in_executor(None, tls.changed, settings):
                    continue
                contexts = await self._loop.run_in_executor(None, tls.reload, settings)
            except ConfigError as wrong:
                self.failed_reloads += 1
                logger.error("changed keys or trust cannot be used; the old ones stay", listener=tls.name, reason=wrong)
                continue
            except Exception:  # a bug: later changes must still be looked at
                self.failed_reloads += 1
                logger.error("a bug while changed keys or trust were read", listener=tls.name, trace=True)
                continue
            tls.contexts = contexts
            self.reloads += 1
            own = contexts.own
            logger.info("changed keys and trust are in use", listener=tls.name, subject=own and own.subject)
            tls.warn_of_expiry()


def names_with_tls(settings: Settings) -> Iterator[str]:
    """The listeners that this node has or connects to, and that are encrypted."""
    names = [each.listener for each in settings.listener_endpoints]
    names += [*(name.upper() for name in settings.controller_listener_names), *settings.dialled_listeners]
    yield from (name for name in dict.fromkeys(names) if settings.security_protocols.get(name) in WITH_TLS)


def tls_of(name: str, settings: Settings) -> ListenerTls:
    """TLS of one of them. Reads its stores; blocks. Raises ConfigError."""
    serves = name in [each.listener for each in settings.listener_endpoints]
    return ListenerTls(name, settings, serves=serves, between_brokers=name == settings.inter_broker_listener)
