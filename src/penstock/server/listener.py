"""Listening sockets: bound before the node starts (so that it knows its port if that is 0), accepting once it may."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import sys
from contextlib import suppress

from penstock.config.listeners import Endpoint, bracketed
from penstock.errors import ConfigError
from penstock.events import events
from penstock.server.limits import ACCEPTS_PER_TURN
from penstock.server.shell import Shell

logger = events("server.listener")

EVERY_INTERFACE = ("", "0.0.0.0", "::")
LACKS = {"PLAINTEXT": "encryption or passwords", "SASL_PLAINTEXT": "encryption"}
"""What a listener lacks that anybody can reach, by its security protocol."""
NO_DESCRIPTOR_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """One address that clients connect to.

    Attributes: `endpoint`, with the bound port.
    """

    def __init__(self, endpoint: Endpoint, receive_buffer_bytes: int = -1) -> None:
        """Binds the address, on all interfaces if the host is empty.

        Raises:
            ConfigError: the address is in use or not ours; the message says so.
        """
        host = endpoint.host
        try:
            family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
            found = socket.getaddrinfo(host or None, endpoint.port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.socket = bind(found[0][0], found[0][4], receive_buffer_bytes, both=not host)
        except OSError as error:
            raise ConfigError(f"cannot listen on {endpoint}: {error.strerror or error}") from error
        port = self.socket.getsockname()[1]
        self.endpoint = Endpoint(endpoint.listener, endpoint.security_protocol, host, port)
        self._spare: int | None = None
        self._shell: Shell | None = None
        lacks = LACKS.get(endpoint.security_protocol)
        if lacks is not None and not is_loopback(host):
            logger.warning(f"this listener is open to the network without {lacks}", address=self.endpoint)

    @property
    def address(self) -> str:
        """`host:port` for a client on this machine."""
        host = self.endpoint.host
        return f"{bracketed(host if host not in EVERY_INTERFACE else 'localhost')}:{self.endpoint.port}"

    def serve(self, shell: Shell, backlog: int) -> None:
        """Begins to accept."""
        self._shell = shell
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self.socket.listen(backlog)
        self._go_on()

    def stop_accepting(self) -> None:
        """Closes the listening socket; connections stay."""
        if self._shell is not None:
            self._shell.loop.remove_reader(self.socket.fileno())
            self._shell.entrance.forget(self.endpoint.listener)
            self._shell = None
        self.socket.close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _accept(self) -> None:
        shell = self._shell
        assert shell is not None
        shell.begin()
        listener, entrance = self.endpoint.listener, shell.entrance
        if (wait_ms := entrance.wait_ms(listener)) != 0:
            shell.loop.remove_reader(self.socket.fileno())
            entrance.wait(listener, wait_ms, self._go_on)
            return
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR_LEFT:
                    raise
                self._refuse_one(shell)
                break
            host = address[0].removeprefix("::ffff:")
            shell.accepted(sock, listener, host.partition("%")[0], f"{bracketed(host)}:{address[1]}")
            if not entrance.is_open(listener):
                break

    def _go_on(self) -> None:
        """Accepts, from the next turn of the loop on, if there is anybody to accept."""
        assert self._shell is not None
        self._shell.loop.add_reader(self.socket.fileno(), self._accept)

    def _refuse_one(self, shell: Shell) -> None:
        """No descriptor is left: uses the spare one to accept the next client and close it."""
        shell.entrance.refused += 1
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        with suppress(OSError):
            self.socket.accept()[0].close()
        try:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            logger.warning("no descriptor is left for clients")


def bind(family: int, address: tuple[object, ...] | str, receive_buffer_bytes: int, *, both: bool) -> socket.socket:
    """A bound, non-blocking socket that does not listen yet. `both`: an IPv6 socket that takes IPv4 as well."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        if receive_buffer_bytes > 0:  # before listen, so that accepted sockets have it from their first packet
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def is_loopback(host: str) -> bool:
    """Whether the address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind_all(endpoints: tuple[Endpoint, ...], receive_buffer_bytes: int = -1) -> list[Listener]:
    """Binds all or none."""
    listeners: list[Listener] = []
    try:
        for endpoint in endpoints:
            listeners.append(Listener(endpoint, receive_buffer_bytes))
    except BaseException:
        for listener in listeners:
            listener.stop_accepting()
        raise
    return listeners
