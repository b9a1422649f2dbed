"""Asking a server that is not to be trusted with our time or memory."""

from __future__ import annotations

import os
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.issuer import Issuer
from support.processes import free_ports
from support.secured_broker import server_context
from support.tls import Authority

from penstock.client.bounded_fetch import FetchFailed, FetchLimits, fetch
from penstock.config.values import MiB, Password
from penstock.errors import ConfigError

LIMITS = FetchLimits(MiB, connect_ms=5000, read_ms=5000, all_ms=20_000)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer().serving() as issuer:
        yield issuer


def test_what_is_there_comes(issuer: Issuer) -> None:
    assert fetch(issuer.jwks_url, LIMITS) == issuer.jwks
    assert fetch(f"{issuer.jwks_url}", FetchLimits(len(issuer.jwks))) == issuer.jwks


def test_a_server_that_is_down_or_broken_may_do_better_later(issuer: Issuer) -> None:
    (port,) = free_ports(1)
    with pytest.raises(FetchFailed, match="cannot be asked") as down:
        fetch(f"http://127.0.0.1:{port}/jwks", LIMITS)
    issuer.mode = "broken"
    with pytest.raises(FetchFailed, match="answers 500") as broken:
        fetch(issuer.jwks_url, LIMITS)
    assert (down.value.again, broken.value.again) == (True, True)


def test_a_redirect_is_not_followed(issuer: Issuer) -> None:
    issuer.mode = "elsewhere"
    with pytest.raises(FetchFailed, match="answers 302") as failed:
        fetch(f"{issuer.base}/somewhere", LIMITS)
    assert not failed.value.again
    assert issuer.asked == ["/somewhere"]


def test_a_gigabyte_is_not_read(issuer: Issuer) -> None:
    issuer.mode = "huge"
    tracemalloc.start()
    try:
        with pytest.raises(FetchFailed, match="larger than 1048576 bytes"):
            fetch(issuer.jwks_url, LIMITS)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 * MiB


@pytest.mark.parametrize("mode", ["slow", "dribbling"])
def test_nobody_takes_longer_than_the_deadline(issuer: Issuer, mode: str) -> None:
    issuer.mode = mode
    began = time.monotonic()
    with pytest.raises(FetchFailed, match="no answer within 300 ms"):
        fetch(issuer.jwks_url, FetchLimits(MiB, all_ms=300))
    assert time.monotonic() - began < 10


def test_a_handshake_that_dribbles_has_the_deadline_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def dribble() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                for byte in b"\x16\x03\x03\x40\x00" + bytes(2000):
                    connection.sendall(bytes([byte]))
                    time.sleep(0.01)

        thread = threading.Thread(target=dribble, daemon=True)
        thread.start()
        began = time.monotonic()
        with pytest.raises(FetchFailed):
            fetch(f"https://127.0.0.1:{server.getsockname()[1]}/", FetchLimits(MiB, all_ms=300))
        assert time.monotonic() - began < 10
        thread.join()


def test_a_silence_ends_it_too(issuer: Issuer) -> None:
    issuer.mode = "slow"
    with pytest.raises(FetchFailed, match="timed out"):
        fetch(issuer.jwks_url, FetchLimits(MiB, read_ms=100))


def test_files(tmp_path: Path) -> None:
    (tmp_path / "with space").write_bytes(b"content")
    url = f"file://{tmp_path}/with%20space"
    assert fetch(url, LIMITS) == b"content"
    with pytest.raises(FetchFailed, match="larger than 6 bytes"):
        fetch(url, FetchLimits(6))
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "", "missing", "%00"):
        with pytest.raises(FetchFailed):
            fetch(f"file://{tmp_path}/{name}", LIMITS)
    with pytest.raises(FetchFailed, match="no ordinary file"):
        fetch("file:///dev/zero", LIMITS)


def test_tls_trusts_whom_it_is_told_to(tmp_path: Path) -> None:
    store = Authority(tmp_path).store("issuer")
    given = store.properties()
    trust = tuple((name, Password(given[name])) for name in given if "truststore" in name)
    with Issuer().serving(server_context(str(store.pem))) as issuer:
        assert fetch(issuer.jwks_url, LIMITS, tls=trust) == issuer.jwks
        with pytest.raises(FetchFailed, match=r"TLS connection to .* failed"):
            fetch(issuer.jwks_url, LIMITS)
    with pytest.raises(ConfigError):
        fetch("https://localhost:1/", LIMITS, tls=(("ssl.truststore.location", Password("/missing")),))
