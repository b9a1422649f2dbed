"""Listeners bind before the node starts, tell what is wrong with an address, and survive a lack of descriptors."""

from __future__ import annotations

import errno
import logging
import socket
from typing import Any

import pytest

from penstock.config.listeners import Endpoint
from penstock.errors import ConfigError
from penstock.server.disk import DESCRIPTORS_MAX
from penstock.server.limits import DESCRIPTORS_RESERVED, ShellLimits
from penstock.server.listener import Listener, bind_all, is_loopback


def endpoint(host: str = "127.0.0.1", port: int = 0) -> Endpoint:
    return Endpoint("PLAINTEXT", "PLAINTEXT", host, port)


def test_port_0_is_known_once_bound(world: Any) -> None:
    listener = Listener(endpoint())
    listener.serve(world.shell, 10)
    assert listener.endpoint.port > 0
    client = socket.create_connection(("127.0.0.1", listener.endpoint.port), 5)
    client.sendall(b"\0\0\0\2hi")
    world.run_until(lambda: world.node.frames == [(1, b"hi")])
    client.close()
    listener.stop_accepting()


def test_an_address_in_use_is_a_sentence_and_nothing_stays_bound() -> None:
    listener = Listener(endpoint())
    listener.socket.listen()
    taken = listener.endpoint.port
    with pytest.raises(
        ConfigError, match=rf"cannot listen on PLAINTEXT://127\.0\.0\.1:{taken}: Address already in use"
    ):
        bind_all((endpoint(), endpoint(port=taken)))
    listener.stop_accepting()


def test_an_address_that_is_not_ours_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        Listener(endpoint("192.0.2.1"))


def test_a_listener_open_to_the_network_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Listener(endpoint("0.0.0.0")).stop_accepting()
        Listener(endpoint()).stop_accepting()
    assert len([record for record in caplog.records if "open to the network" in record.getMessage()]) == 1


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("", False), ("example.org", False)],
)
def test_which_hosts_are_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_without_descriptors_a_client_is_closed_and_the_listener_goes_on(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener(endpoint())
    listener.serve(world.shell, 10)
    real = listener.socket
    refusals = [OSError(errno.EMFILE, "too many")]

    class Scarce:
        """The socket, refusing once for want of a descriptor."""

        def accept(self) -> Any:
            if refusals:
                raise refusals.pop()
            return real.accept()

        def fileno(self) -> int:
            return real.fileno()

        def close(self) -> None:
            real.close()

    monkeypatch.setattr(listener, "socket", Scarce())
    first = socket.create_connection(("127.0.0.1", listener.endpoint.port), 5)
    world.run_until(lambda: world.shell.entrance.refused == 1)
    assert first.recv(1) == b""
    second = socket.create_connection(("127.0.0.1", listener.endpoint.port), 5)
    second.sendall(b"\0\0\0\2hi")
    world.run_until(lambda: len(world.node.frames) == 1)
    first.close()
    second.close()
    listener.stop_accepting()


def test_clients_leave_descriptors_to_the_logs() -> None:
    from penstock.config.server import Settings

    limits = ShellLimits.of(Settings.for_node(log_dirs=("/data",)), descriptors=1064)
    assert limits.connections_max == 750


@pytest.mark.parametrize("descriptors", [200, 300, 1_064, 4_096, 1 << 20])
def test_clients_and_files_have_no_more_descriptors_than_there_are(descriptors: int) -> None:
    from penstock.config.server import Settings

    limits = ShellLimits.of(Settings.for_node(log_dirs=("/data",)), descriptors)
    assert limits.connections_max + limits.files_max + DESCRIPTORS_RESERVED <= descriptors
    few = ShellLimits.of(Settings.for_node(log_dirs=("/data",), max_connections=10), descriptors)
    assert few.files_max == min(DESCRIPTORS_MAX, descriptors - DESCRIPTORS_RESERVED - 10)
