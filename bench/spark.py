"""Penstock's Spark source and its load against Spark's own Kafka connector, on this machine in one run.

The connector runs on the Spark that it was released with, on Apache Kafka 4.3.1 and on Penstock; Penstock's source
runs on both brokers too, and reads closed segments directly; the load writes a Delta table. Each side has a session of
its own with two cores and the same settings; they work one at a time, in turns, and medians of the turns are told.
Topics are filled by librdkafka, four partitions of some ten segments each. All of a record's columns are read.

Reads, rows/s: from the order to its end, planning included. CPU: seconds of the Spark side a million rows, its process
and all below it. At 1,000 records/s: the median time of a batch, and latency from the producer's timestamp to the time
of the file that makes the record visible (`_spark_metadata/N` of Spark's Parquet sink, `_delta_log/N.json`).

    python bench/spark.py             # at most 15 minutes
    python bench/spark.py --quick     # at most 4, small topics: fixed costs weigh more, the ratios are too small
    python bench/spark.py --only noop,table,stream,trickle --rounds 5
    python bench/spark.py --json FILE
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from peers import ROOT, Peer, running

sys.path.insert(0, str(ROOT / "tests"))
from interop.spark.connector import peer as connector

PARTITIONS = 4
SEGMENT_BYTES_LEAST, SEGMENTS = 1 << 20, 10
VALUES = 4096
TRICKLE_PER_S, TRICKLE_STEP_S, TRICKLE_WARM_S = 1_000, 0.01, 5
ARRIVAL_TIMEOUT_S = 60
FILES = {"penstock.read": "files"}
BROKER = {"penstock.read": "broker"}
SETTINGS = {"spark.driver.memory": "2g"}


@dataclass(frozen=True)
class Workload:
    """A topic's content: `batch` is the producer's largest batch in bytes; librdkafka's own default is 1 MB."""

    bytes: int
    codec: str
    batch: int = 1_000_000

    @property
    def topic(self) -> str:
        return f"{self.bytes}-{self.codec}-{self.batch // 1000}k"

    @property
    def title(self) -> str:
        size = "1 KB" if self.bytes == 1000 else f"{self.bytes} B"
        return f"{size}, {self.codec}" + (", batches of 16 KB" if self.batch < 1_000_000 else "")


@dataclass(frozen=True)
class System:
    """Who reads from where, and how: `do` is an order of the engine."""

    title: str
    engine: str
    broker: str
    do: str = "batch"
    to: str = "noop"
    options: dict[str, str] = field(default_factory=dict)


WORKLOADS = [Workload(size, codec) for size in (100, 1000) for codec in ("none", "lz4", "zstd")]
SMALL_BATCHES = Workload(100, "none", 16_000)
CONNECTOR, SOURCE = "connector", "penstock"
NOOP = [
    System("connector, Apache Kafka", CONNECTOR, "kafka"),
    System("connector, Penstock", CONNECTOR, "penstock"),
    System("Penstock's source, Apache Kafka", SOURCE, "kafka", options=BROKER),
    System("Penstock's source, through the broker", SOURCE, "penstock", options=BROKER),
    System("Penstock's source, direct", SOURCE, "penstock", options=FILES),
]
TABLE = [
    System("connector into Parquet, Apache Kafka", CONNECTOR, "kafka", to="parquet"),
    System("connector into Parquet, Penstock", CONNECTOR, "penstock", to="parquet"),
    System("Penstock's source into Parquet", SOURCE, "penstock", to="parquet", options=BROKER),
    System("Penstock's load into Delta", SOURCE, "penstock", do="load"),
]
STREAM = [
    System("connector, Apache Kafka", CONNECTOR, "kafka", do="available_now", to="parquet"),
    System("connector, Penstock", CONNECTOR, "penstock", do="available_now", to="parquet"),
    System("Penstock's source, through the broker", SOURCE, "penstock", "available_now", "parquet", BROKER),
    System("Penstock's source, direct", SOURCE, "penstock", "available_now", "parquet", FILES),
]
TRICKLE = [
    System("connector into Parquet, Apache Kafka", CONNECTOR, "kafka", do="start", to="parquet"),
    System("connector into Parquet, Penstock", CONNECTOR, "penstock", do="start", to="parquet"),
    System("Penstock's source into Parquet", SOURCE, "penstock", do="start", to="parquet"),
    System("Penstock's load into Delta", SOURCE, "penstock", do="start_load"),
]
PARTS = {"noop": NOOP, "table": TABLE, "stream": STREAM, "trickle": TRICKLE}


class OrderTimeoutError(Exception):
    """An order took longer than it may; where it stood is in the session's log."""


class Session:
    """A process with a Spark session that takes orders; see spark_engine.py."""

    def __init__(self, kind: str, python: Path, jars: list[str], settings: dict[str, str], log: Path) -> None:
        self.log = log
        self.command = [str(python), str(ROOT / "bench" / "spark_engine.py")]
        self.first = {"kind": kind, "settings": settings, "jars": jars}
        self.start()

    def start(self) -> None:
        environment = dict(os.environ)
        if self.command[0] != sys.executable:
            environment.pop("PYTHONPATH", None)  # it has a Spark of its own, and `peers` may have set ours before it
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(self.command, stderr=file, cwd=self.log.parent, env=environment, **pipes)
        self.accounting = psutil.Process(self.process.pid)
        self.version = self.order(**self.first)["spark"]

    def restart(self) -> None:
        """Ends the session, whatever it does, and starts another."""
        self.kill()
        self.start()

    def order(self, within_s: float | None = None, **order: Any) -> dict[str, Any]:
        """Gives an order and waits for its answer.

        Raises RuntimeError for what failed, OrderTimeoutError when there is no answer in time: then the session must be
        started again.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        if within_s is not None and not select.select([self.process.stdout], [], [], within_s)[0]:
            self.dump()
            raise OrderTimeoutError(f"no answer within {within_s:g} s; its threads:\n{self.log.read_text()[-6000:]}")
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"the session died:\n{self.log.read_text()[-2000:]}"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return dict(answer)

    def cpu_seconds(self) -> float:
        """CPU seconds so far of the session, its JVM and its Python workers, ended ones included."""
        total = 0.0
        for process in (self.accounting, *self.accounting.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
        return total

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        for child in self.accounting.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self.process.kill()
        self.process.wait()

    def dump(self) -> None:
        """Has the JVM's main threads and those of the Python driver written to the log."""
        with self.log.open("a") as log:
            for child in self.accounting.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess, OSError):
                    if child.name() == "java":
                        command = ["jstack", str(child.pid)]
                        told = subprocess.run(command, check=False, capture_output=True, text=True).stdout
                        stacks = [stack for stack in told.split("\n\n") if "org.apache.spark.sql" in stack]
                        log.write("\n\n".join(stack[:3000] for stack in stacks))
        self.process.send_signal(signal.SIGUSR1)  # see spark_engine.py
        time.sleep(1)


def values(size: int) -> list[bytes]:
    """Values of which half is random hex digits and half is the same, so that compression has work and success."""
    chance = Random(7)
    return [chance.randbytes(size // 4).hex().encode().ljust(size, b"x") for _ in range(VALUES)]


def fill(peer: Peer, workload: Workload, records: int, pool: Sequence[bytes] = ()) -> None:
    """Makes a topic and publishes `records` into it, with keys and values of the pool, evenly over its partitions."""
    segment_bytes = max(SEGMENT_BYTES_LEAST, records * workload.bytes // PARTITIONS // SEGMENTS)
    peer.create_topic(workload.topic, PARTITIONS, **{"segment.bytes": str(segment_bytes), "retention.ms": "-1"})
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "compression.type": workload.codec,
            "linger.ms": 50,
            "batch.size": workload.batch,
            "batch.num.messages": max(1, min(10_000, workload.batch // workload.bytes)),
            "queue.buffering.max.messages": 200_000,
        }
    )
    pool = pool or values(workload.bytes)
    for number in range(records):
        while True:
            try:
                producer.produce(workload.topic, pool[number % len(pool)], b"%08d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise RuntimeError(f"{peer.name} did not take all of {workload.topic}")


def trickle(peer: Peer, topic: str, seconds: float) -> int:
    """Publishes TRICKLE_PER_S records a second, each with the time at which it was made; how many."""
    producer = Producer({"bootstrap.servers": peer.bootstrap, "linger.ms": 1})
    value = values(100)[0]
    began, sent = time.time(), 0
    while (now := time.time()) < began + seconds:
        for _ in range(int((now - began) * TRICKLE_PER_S) - sent):
            producer.produce(topic, value, partition=sent % PARTITIONS, timestamp=int(time.time() * 1000))
            sent += 1
        producer.poll(0)
        time.sleep(TRICKLE_STEP_S)
    if producer.flush(30):
        raise RuntimeError(f"{peer.name} did not take the trickle")
    return sent


def commits(table: Path) -> Iterator[tuple[float, list[Path]]]:
    """The commits of a Delta table or of Spark's Parquet sink: when each became visible (ms), and its data files."""
    delta = table / "_delta_log"
    directory, pattern = (delta, r"\d+\.json") if delta.exists() else (table / "_spark_metadata", r"\d+(\.compact)?")
    told: set[str] = set()
    names = [path for path in directory.glob("*") if re.fullmatch(pattern, path.name)] if directory.exists() else []
    for path in sorted(names, key=lambda each: each.stat().st_mtime_ns):
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
        added = [line["add"]["path"] for line in lines if "add" in line] + [
            line["path"] for line in lines if "path" in line
        ]
        fresh = [name for name in added if name not in told]
        told.update(fresh)
        yield path.stat().st_mtime_ns / 1e6, [table / Path(name).name for name in fresh]


def latencies(table: Path, from_ms: float) -> list[float]:
    """Milliseconds from the producer's timestamp to visibility, of the records made from `from_ms` on."""
    found: list[float] = []
    for visible_ms, files in commits(table):
        for file in files:
            made_us = pq.read_table(file, columns=["timestamp"])[0].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            found += [visible_ms - each / 1000 for each in made_us.to_pylist() if each >= from_ms * 1000]
    return sorted(found)


def remove(table: Path) -> None:
    for directory in (table, Path(f"{table}-checkpoint")):
        shutil.rmtree(directory, ignore_errors=True)


def rows_of(table: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for _, files in commits(table) for file in files)


@dataclass
class Bench:
    """What a run has: brokers, sessions, sizes, and the figures so far."""

    peers: dict[str, Peer]
    sessions: dict[str, Session]
    directory: Path
    records: dict[int, int]
    rounds: int
    trickle_s: float
    figures: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    tables: int = 0

    def note(self, part: str, row: str, system: System, **figures: float) -> None:
        column = self.figures.setdefault(part, {}).setdefault(f"{row} | {system.title}", {})
        for name, value in figures.items():
            column.setdefault(name, []).append(value)

    def table(self) -> Path:
        self.tables += 1
        return self.directory / f"table-{self.tables}"

    def bulk(self, part: str, workload: Workload, *, warm: bool) -> None:
        """One turn of every system over a topic."""
        for system in PARTS[part]:
            session, table, records = self.sessions[system.engine], self.table(), self.records[workload.bytes]
            order: dict[str, Any] = {
                "do": system.do,
                "to": system.to,
                "options": system.options,
                "directory": str(table),
            }
            order |= {"records": records, "bytes": workload.bytes}
            cpu = session.cpu_seconds()
            try:
                bootstrap = self.peers[system.broker].bootstrap
                answer = session.order(bootstrap=bootstrap, topic=workload.topic, **order)
                there = answer.get("rows", records)
                if there != records:
                    raise RuntimeError(f"{there} rows of {records}")
            except RuntimeError as error:
                self.failures.append(f"{part}, {workload.title}, {system.title}: {error}")
                continue
            finally:
                remove(table)
            if not warm:
                cpu_s = (session.cpu_seconds() - cpu) / records * 1e6
                self.note(part, workload.title, system, rate=records / answer["seconds"], cpu=cpu_s)

    def trickles(self, number: int) -> None:
        """One turn of every system at a trickle."""
        for system in TRICKLE:
            peer, session, table = self.peers[system.broker], self.sessions[system.engine], self.table()
            topic = f"trickle-{table.name}"
            peer.create_topic(topic, PARTITIONS)
            try:
                answer, found, cpu = self.one_trickle(system, peer, session, topic, table)
            except RuntimeError as error:
                self.failures.append(f"trickle, {system.title}: {error}")
                continue
            p50, p99 = statistics.median(found), found[len(found) * 99 // 100]
            self.note("trickle", "1,000 records/s", system, batch=answer["batch_ms"], p50=p50, p99=p99, cpu=cpu)
            remove(table)

    def one_trickle(
        self, system: System, peer: Peer, session: Session, topic: str, table: Path
    ) -> tuple[dict[str, Any], list[float], float]:
        """The engine's answer, the latencies, and the CPU seconds of the Spark side a second."""
        order = {"bootstrap": peer.bootstrap, "topic": topic, "to": system.to, "directory": str(table)}
        session.order(do=system.do, options=system.options, **order)
        sent = trickle(peer, topic, TRICKLE_WARM_S)
        from_ms, cpu = time.time() * 1000, session.cpu_seconds()
        sent += trickle(peer, topic, self.trickle_s)
        cpu = (session.cpu_seconds() - cpu) / self.trickle_s
        deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
        while (there := rows_of(table)) < sent and time.monotonic() < deadline:
            time.sleep(0.5)
        answer = session.order(do=system.do.replace("start", "stop"))
        if there != sent:
            raise RuntimeError(f"{there} rows of {sent} arrived")
        return answer, latencies(table, from_ms), cpu


def medians(figures: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(each) for name, each in figures.items()}


def print_rates(bench: Bench, part: str, title: str) -> None:
    """A Markdown table of rates; ratios are to the connector on Apache Kafka."""
    print(f"\n### {title}\n\n| records | | rows/s | ratio | CPU-s a million | ratio |\n|---|---|---|---|---|---|")
    rows = {key: medians(each) for key, each in bench.figures.get(part, {}).items()}
    base_key = PARTS[part][0].title
    for key, figures in rows.items():
        workload, system = key.split(" | ")
        base = rows.get(f"{workload} | {base_key}", {})
        rate, cpu = (f"{figures[name] / base[name]:.2f}" if base else "-" for name in ("rate", "cpu"))
        print(f"| {workload} | {system} | {figures['rate']:,.0f} | {rate} | {figures['cpu']:.2f} | {cpu} |")


def print_trickle(bench: Bench) -> None:
    print("\n### At 1,000 records/s\n\n| | batch, ms | latency p50, ms | ratio | p99, ms | ratio | CPU-s a second |")
    print("|---|---|---|---|---|---|---|")
    rows = {key.split(" | ")[1]: medians(each) for key, each in bench.figures.get("trickle", {}).items()}
    base = rows.get(TRICKLE[0].title)
    for system, one in rows.items():
        p50, p99 = (f"{one[name] / base[name]:.2f}" if base else "-" for name in ("p50", "p99"))
        figures = f"{one['batch']:.0f} | {one['p50']:.0f} | {p50} | {one['p99']:.0f} | {p99} | {one['cpu']:.2f}"
        print(f"| {system} | {figures} |")


def ratios(bench: Bench, part: str, system: System, figure: str) -> list[float]:
    """Of every workload: the system's figure over that of the connector on Apache Kafka."""
    rows = {key: medians(each) for key, each in bench.figures.get(part, {}).items()}
    base = PARTS[part][0].title
    found = []
    for key, figures in rows.items():
        workload, title = key.split(" | ")
        if title == system.title and f"{workload} | {base}" in rows:
            found.append(figures[figure] / rows[f"{workload} | {base}"][figure])
    return found


def print_aims(bench: Bench) -> None:
    """Whether each aim is met by every workload, with the least and the most."""
    print("\n### Aims, against the connector on Apache Kafka\n\n| aim | least | most | |\n|---|---|---|---|")
    aims = [
        ("to noop through the broker: at least 3 times the rows/s", "noop", NOOP[3], "rate", 3.0),
        ("to noop by direct reads: at least 5 times the rows/s", "noop", NOOP[4], "rate", 5.0),
        ("load into Delta: at least 4 times the connector into Parquet", "table", TABLE[3], "rate", 4.0),
        ("p50 latency of the load: at most half", "trickle", TRICKLE[3], "p50", 0.5),
    ]
    for title, part, system, figure, wanted in aims:
        found = ratios(bench, part, system, figure)
        if not found:
            print(f"| {title} | - | - | not measured |")
            continue
        met = max(found) <= wanted if figure == "p50" else min(found) >= wanted
        print(f"| {title} | {min(found):.2f} | {max(found):.2f} | {'met' if met else 'missed'} |")


def measure(bench: Bench, parts: list[str], workloads: list[Workload]) -> None:
    """Fills the topics, warms both sides, and takes the turns."""
    for workload in workloads:
        for peer in bench.peers.values():
            fill(peer, workload, bench.records[workload.bytes])
    say("topics filled")
    streamed = [each for each in workloads if each.topic in (workloads[0].topic, WORKLOADS[1].topic)]
    turns = {part: workloads for part in parts if part != "trickle"}
    if "stream" in turns:
        turns["stream"] = streamed
    for part in turns:
        bench.bulk(part, workloads[0], warm=True)
    say("warm")
    for number in range(bench.rounds):
        for part, chosen in turns.items():
            for workload in chosen:
                bench.bulk(part, workload, warm=False)
        say(f"round {number + 1} of reads")
    for number in range(max(1, bench.rounds // 2) if "trickle" in parts else 0):
        bench.trickles(number)
        say(f"round {number + 1} at a trickle")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def same_settings() -> dict[str, str]:
    """The settings of Penstock's sessions, for the connector's too."""
    from penstock.spark.session import DEFAULTS

    return {name: each.value for name, each in DEFAULTS.items() if each.only != "cluster"} | SETTINGS


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few records, two workloads, one round")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, of " + ",".join(PARTS))
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--records", type=int, help="records of 100 B; a quarter as many of 1 KB (1,500,000; quick: 400,000)"
    )
    parser.add_argument("--trickle-seconds", type=float)
    parser.add_argument("--same-spark", action="store_true", help="the connector on Penstock's Spark, not on its own")
    parser.add_argument("--json", help="also write all figures to this file")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    parts = [part for part in options.only.split(",") if part in PARTS]
    records = options.records or (400_000 if options.quick else 1_500_000)
    rounds = options.rounds or (1 if options.quick else 3)
    workloads = [WORKLOADS[0], WORKLOADS[4]] if options.quick else [*WORKLOADS, SMALL_BATCHES]
    if parts == ["trickle"]:
        workloads = []
    python = Path(sys.executable) if options.same_spark else connector.matched_python(sys.executable)
    jars = [str(jar) for jar in connector.jars()]
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-")))
        peers = {name: stack.enter_context(running(name)) for name in ("kafka", "penstock")}
        sessions: dict[str, Session] = {}
        for kind, interpreter in ((CONNECTOR, python), (SOURCE, Path(sys.executable))):
            settings = same_settings()
            sessions[kind] = Session(kind, interpreter, jars, settings, directory / f"{kind}.log")
            stack.callback(sessions[kind].close)
        say("brokers and sessions are up")
        trickle_s = options.trickle_seconds or (8 if options.quick else 30)
        bench = Bench(peers, sessions, directory, {100: records, 1000: records // 4}, rounds, trickle_s)
        measure(bench, parts, workloads)
    report(bench, parts)
    if options.json:
        Path(options.json).write_text(json.dumps(bench.figures, indent=1))
    sys.exit(1 if bench.failures else 0)


def report(bench: Bench, parts: list[str]) -> None:
    commit = subprocess.check_output(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, text=True)
    versions = ", ".join(f"{kind} on Spark {session.version}" for kind, session in bench.sessions.items())
    sizes = ", ".join(f"{count:,} of {size} B" for size, count in bench.records.items())
    print(f"Commit {commit.strip()}; {versions}; {sizes}; medians of {bench.rounds}.")
    titles = {
        "noop": "Batch read of all columns into nothing",
        "table": "Batch read into a table (zstd)",
        "stream": "AvailableNow into Parquet",
    }
    for part in parts:
        if part == "trickle":
            print_trickle(bench)
        else:
            print_rates(bench, part, titles[part])
    print_aims(bench)
    for failure in bench.failures:
        print(f"\nfailed: {failure}")


if __name__ == "__main__":
    main()
