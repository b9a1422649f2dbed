"""An S3-style object store for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Address of the store, with the bucket `lake`."""
    import urllib.request

    moto_server = pytest.importorskip("moto.server", reason="needs penstock[test]")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    try:
        urllib.request.urlopen(urllib.request.Request(f"{address}/lake", method="PUT")).close()
        yield address
    finally:
        server.stop()
