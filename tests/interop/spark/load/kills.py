"""Kills a load, its workers and the broker at random points, while a producer goes on, and then proves the table.

    with Run(directory, "delta", seed=20) as run:
        run.kill("driver")          # or "worker", or "broker"
        run.finish()                # the load catches up; clean, and as many rows as the producer knows of

Three real processes: a broker on a directory that outlives it, `penstock load`, and (a thread of this process) an
idempotent producer that counts what the broker acknowledged. A load that ends by itself after a kill must say why in
one line; it is then started again, as a service manager would.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from interop.hadoop_peer import HadoopPeer
from support.processes import free_ports

from penstock.client.client import Client
from penstock.client.groups import describe_group, lags
from penstock.errors import PenstockError
from penstock.spark.lake.open import open_table
from penstock.spark.lake.verify import verify
from penstock.spark.load.load import Load, LoadOptions

PENSTOCK = (sys.executable, "-m", "penstock")
KINDS = ("driver", "worker", "broker")
TOPIC, PARTITIONS, BURST = "clicks", 3, 100
PATIENCE_S = 240.0
"""How long anything may take that should happen soon."""
MOMENT_S = 0.3
"""A kill comes at a random point of so long after progress was seen: a job takes a tenth of it."""


class Run:
    """A broker, a producer and a load. A context manager: leaving it ends all of them.

    With `hadoop` the table is there, and its servers, apart, can be killed too.
    """

    def __init__(self, directory: Path, table_format: str, seed: int, hadoop: HadoopPeer | None = None) -> None:
        self._directory = directory
        self._hadoop = hadoop
        self._table = f"{hadoop.uri if hadoop else directory}/lake/clicks"
        self._format = table_format
        self._chance = random.Random(seed)
        self._ports = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self._ports[0]}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._producing = threading.Thread(target=self._produce, daemon=True)
        self._enough = threading.Event()
        self.acknowledged = 0
        self.refused: list[str] = []
        self.kills = 0

    def __enter__(self) -> Self:
        self._format_storage()
        self._start_broker()
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_S)
        self._producing.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._enough.set()
        self._producing.join(PATIENCE_S)
        for process in self._processes.values():
            if process.poll() is None:
                _kill_group(process)

    def kill(self, kind: str) -> None:
        """Waits until the load gets on, and then a random moment, and kills."""
        self._progress(needs_workers=kind == "worker")
        time.sleep(self._chance.uniform(0.0, MOMENT_S))  # not to wait for something: to kill at a random point
        if kind == "driver":
            _kill_group(self._processes["load"])
        elif kind == "broker":
            _kill_group(self._processes["broker"])
            self._start_broker()
        elif kind == "worker":
            self._kill_worker()
        else:
            assert self._hadoop is not None
            self._hadoop.kill(kind)
            self._hadoop.start(kind)
        self.kills += 1

    def finish(self) -> None:
        """Ends producer and load, lets a load catch up, and proves: clean, and as many rows as were acknowledged."""
        self._enough.set()
        self._producing.join(PATIENCE_S)
        assert not self._producing.is_alive(), "the producer did not get rid of its records"
        assert self.refused == []
        if "load" in self._processes:
            _kill_group(self._processes.pop("load"))
        options = LoadOptions(self.bootstrap, [TOPIC], self._table, "load", table_format=self._format)
        with Load(None, options) as load:
            load.run(threading.Event(), 0, lambda _: None, once=True)
            verdicts = verify(load.lake)
        assert all(verdict.clean for verdict in verdicts), verdicts
        assert sum(verdict.rows for verdict in verdicts) == self.acknowledged > 0
        shown = asyncio.run(self._lag())
        assert [lag for _, lag in shown] == [0] * PARTITIONS
        assert sum(committed for committed, _ in shown) == self.acknowledged

    async def _lag(self) -> list[tuple[int, int]]:
        """Committed offset and lag of the load's group in each partition."""
        async with Client(self.bootstrap) as client:
            group = await describe_group(client, "load-clicks")
            return [(each.committed, each.lag) for each in await lags(client, group)]

    def _progress(self, *, needs_workers: bool) -> None:
        """Returns when the table has grown by two commits of a load that runs now."""
        deadline = time.monotonic() + PATIENCE_S
        self._ensure_load(needs_workers=needs_workers)
        begin = self._version()
        while self._version() < begin + 2:
            assert time.monotonic() < deadline, self._log("load")
            self._ensure_load(needs_workers=needs_workers)
            time.sleep(0.05)  # leaves it the processor

    def _version(self) -> int:
        try:
            return open_table(self._table, "load", format=self._format, create=False).version
        except PenstockError:
            return 0

    def _ensure_load(self, *, needs_workers: bool) -> None:
        inline = "0" if needs_workers else "1000000"  # jobs of at most so many offsets need no worker
        running = self._processes.get("load")
        if running is not None and running.poll() is None:
            if not needs_workers or inline in running.args:  # type: ignore[operator]
                return
            _kill_group(running)
        elif running is not None and running.returncode != -signal.SIGKILL:
            said = self._log("load")
            assert "Traceback" not in said, said
            assert "error: " in said, said
        command = [
            sys.executable,
            "-m",
            "penstock",
            "load",
            TOPIC,
            "--table",
            self._table,
            "--bootstrap",
            self.bootstrap,
        ]
        more = ["--table-format", self._format, "--interval-ms", "0", "--inline-offsets", inline]
        spark_log = ["--spark-log", str(self._directory / "spark.log")]
        self._start("load", [*command, *more, *spark_log])

    def _kill_worker(self) -> None:
        """One of the Python processes that Spark's tasks run in."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self._ensure_load(needs_workers=True)
            load = self._processes["load"].pid
            workers = [each for each in psutil.process_iter() if _is_worker(each, load)]
            with contextlib.suppress(psutil.NoSuchProcess):
                if workers:
                    self._chance.choice(sorted(workers, key=lambda each: each.pid)).kill()
                    return
        raise AssertionError(f"there is no Python worker: {self._log('load')}")

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})

        def delivered(error: object, _: object) -> None:
            if error is None:
                self.acknowledged += 1
            else:
                self.refused.append(str(error))

        number = 0
        while not self._enough.wait(0.02):
            for _ in range(BURST):
                producer.produce(TOPIC, value=b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
                number += 1
            producer.poll(0)
        producer.flush(PATIENCE_S)

    def _format_storage(self) -> None:
        port, controller = self._ports
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "3",
        }
        file = self._directory / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        command = [
            sys.executable,
            "-m",
            "penstock",
            "storage",
            "format",
            "-t",
            "4L6g3nShT-eMCtK--X86sw",
            "-c",
            str(file),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)

    def _start_broker(self) -> None:
        file = self._directory / "server.properties"
        self._start("broker", [*PENSTOCK, "server", "start", str(file)])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._ports[0]), 1).close()
                return
            except OSError:
                assert self._processes["broker"].poll() is None, self._log("broker")
                assert time.monotonic() < deadline, self._log("broker")
                time.sleep(0.05)

    def _start(self, name: str, command: list[str]) -> None:
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _log(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text(errors="replace")[-3000:]


def _is_worker(process: psutil.Process, load: int) -> bool:
    """Of this load: by its session, for a worker whose parent was killed is adopted, and works on."""
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):  # so is one that nobody has reaped yet
        ours = os.getsid(process.pid) == load and process.name().startswith("python")
        return ours and any("pyspark" in part for part in process.cmdline())
    return False


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """A process and all that it started."""
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
