"""An object store and an Iceberg catalog whose answers get lost, in a process of their own.

    with LossyLake() as lake:
        lake.lose(COMMITS["delta"], Fault.UNANSWERED)      # the next request that is a commit
        lake.trouble(seed=7, rate=0.1, kill=(pid, 40))     # any request, and the death of a process at the fortieth
        lake.calm()                                        # what was late arrives, and then nothing goes wrong any more

A process of its own, because delta-rs holds Python's lock in some calls while it waits for the store. Behind the
proxies are moto's S3 and `RestCatalogServer`.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
import urllib.request
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from penstock.spark.lake.open import open_table
from penstock.spark.lake.table import LakeTable
from support.faulty_store import Fault, FaultyStore, Request

COMMITS = {
    "delta": r"PUT /lake/\S+/_delta_log/\d{20}\.json",
    "iceberg": r"POST /v1/namespaces/\w+/tables/\w+",
}
"""The requests by which commits happen."""
MAKINGS = {"delta": COMMITS["delta"], "iceberg": r"POST /v1/namespaces/\w+/tables"}
"""Those by which tables come to be."""
KEYS = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_REGION": "us-east-1"}
IMPATIENT = {
    "max_retries": "3",
    "retry_timeout": "20s",
    "backoff_config.init_backoff": "10ms",
    "backoff_config.max_backoff": "50ms",
}
"""delta-rs's options: by default it waits up to three minutes."""
PATIENCE_S = 60.0


class LossyLake:
    """The process. A context manager.

    Attributes:
        store: address of the proxy before the object store, which has the bucket `lake`.
        catalog: address of the proxy before the Iceberg REST catalog.
    """

    def __init__(self, directory: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, str(directory / "catalog.db")), daemon=True)
        self.store = self.catalog = ""

    def __enter__(self) -> Self:
        self._process.start()
        assert self._pipe.poll(PATIENCE_S), "the store does not start"
        self.store, self.catalog = self._pipe.recv()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _ask(self, *command: Any) -> Any:
        self._pipe.send(command)
        assert self._pipe.poll(PATIENCE_S), f"the store does not answer {command}"
        return self._pipe.recv()

    def lose(self, pattern: str, fault: Fault, times: int = 1) -> None:
        """What becomes of the next requests that begin with a pattern, which METHOD PATH are matched with."""
        self._ask("lose", [(pattern, fault.name)] * times)

    def trouble(self, seed: int, rate: float, kill: tuple[int, int] | None = None) -> None:
        """Any request meets any fault with a probability; a process dies at its n-th request from now, if named."""
        self._ask("trouble", seed, rate, kill)

    def calm(self) -> int:
        """Lets what is late arrive and ends all trouble; returns how many faults there were since the last time."""
        return int(self._ask("calm"))

    @property
    def waiting(self) -> int:
        """Faults of `lose` that no request has met yet."""
        return int(self._ask("waiting"))

    def options(self, table_format: str) -> dict[str, str]:
        """Storage options of a table here."""
        catalog = {"catalog.type": "rest", "catalog.uri": self.catalog} if table_format == "iceberg" else {}
        return {**KEYS, **IMPATIENT, "AWS_ENDPOINT_URL": self.store, "AWS_ALLOW_HTTP": "true", **catalog}

    def open(self, name: str, table_format: str, pipeline: str = "test") -> LakeTable:
        """A table in the bucket."""
        return open_table(
            f"s3://lake/{name}", pipeline, format=table_format, storage_options=self.options(table_format)
        )


class _Faults:
    """Decides what becomes of a request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: list[tuple[re.Pattern[str], Fault]] = []
        self._chance: Random | None = None
        self._rate = 0.0
        self._kill: tuple[int, int] | None = None
        self.met = 0

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            fault = self._choose(f"{request.method} {request.path}")
            self.met += fault is not None
            return fault

    def _choose(self, told: str) -> Fault | None:
        if self._armed and self._armed[0][0].match(told):
            return self._armed.pop(0)[1]
        if self._chance is None:
            return None
        fault = self._chance.choice(list(Fault)) if self._chance.random() < self._rate else None
        if self._kill is not None:
            pid, left = self._kill
            self._kill = (pid, left - 1) if left > 1 else None
            if left <= 1:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return fault

    def lose(self, some: list[tuple[str, str]]) -> None:
        self._armed += [(re.compile(pattern), Fault[name]) for pattern, name in some]

    def trouble(self, seed: int, rate: float, kill: tuple[int, int] | None) -> None:
        with self._lock:
            self._chance, self._rate, self._kill = Random(seed), rate, kill

    def calm(self) -> int:
        with self._lock:
            self._chance, self._kill, met, self.met = None, None, self.met, 0
            self._armed.clear()
            return met

    def waiting(self) -> int:
        return len(self._armed)


def _serve(pipe: Connection, database: str) -> None:
    """The process: serves until it is killed."""
    import logging

    from moto.server import ThreadedMotoServer
    from werkzeug.serving import WSGIRequestHandler

    from penstock.spark.lake.iceberg import OPTION_NAMES
    from support.rest_catalog import RestCatalogServer

    logging.disable(logging.CRITICAL)
    WSGIRequestHandler.disable_nagle_algorithm = True  # as the proxies
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    address = "http://{}:{}".format(*moto.get_host_and_port())
    urllib.request.urlopen(urllib.request.Request(f"{address}/lake", method="PUT")).close()
    direct = {OPTION_NAMES[name]: value for name, value in {**KEYS, "AWS_ENDPOINT_URL": address}.items()}
    faults = _Faults()
    with ExitStack() as stack:
        rest = stack.enter_context(RestCatalogServer(f"sqlite:///{database}", direct))
        proxies = [stack.enter_context(FaultyStore(each, faults)) for each in (address, rest.address)]
        pipe.send([proxy.address for proxy in proxies])
        while True:
            try:
                name, *arguments = pipe.recv()
            except EOFError:
                return
            found = getattr(faults, name)(*arguments)
            if name == "calm":
                for proxy in proxies:
                    proxy.settle()
            pipe.send(found)
