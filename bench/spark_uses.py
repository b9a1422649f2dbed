"""What pipelines do with records on Spark, against Spark's own Kafka connector, on this machine in one run.

- ceiling: what Spark takes from a Python source that hands over one cached batch, whatever the source; all columns and
  one, beside the connector and Penstock's source.
- json, avro: typed columns of the source, against the connector with `from_json` and `from_avro`.
- lake: a stream into a table, `penstock-lake` against the connector and Spark's Parquet sink.
- sink: a topic written to, exactly once, against the connector's sink, which may write rows twice.
- upsert: a million keys, half of them new, into a table of a million rows; against the same in Spark's own words: the
  table and the batch joined, the rows that win written to Parquet.
- merge, only if it is asked for: the same against MERGE of Delta's own jar, on Spark 4.2, which it was released for.
  It fetches both.

Sessions with two cores and the same settings work one at a time, in turns; medians of the turns are told, and
ratios are to the first of each table. Each turn is printed as it ends. An order that takes longer than its bound is
ended, with the threads of its JVM in the log; a part begins no round that its share of the time would not hold.

    python bench/spark_uses.py                          # at most 8 minutes
    python bench/spark_uses.py --only json,sink --minutes 4 --rounds 5
    python bench/spark_uses.py --scale 0.1              # does it run at all?
    python bench/spark_uses.py --only merge
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import spark
from interop.kafka_peer import FETCH_TIMEOUT_S, run
from interop.spark.connector import peer as connector
from peers import Peer, running
from spark import BROKER, CONNECTOR, FILES, SOURCE, OrderTimeoutError, Session, System, remove, say
from spark_filling import AVRO, as_avro, as_json, batches, fill, plain

from penstock.records.compression import Codec

FIELDS = "page string, user bigint, ms bigint, country string, bytes int, ok boolean"
JSON = {"penstock.value.format": "json", "penstock.value.schema": FIELDS}
OF_AVRO = {"penstock.value.format": "avro", "penstock.value.schema": json.dumps(AVRO)}
ONCE = {"penstock.exactly.once": "true", "penstock.sink.id": "bench", "penstock.staging": "DIRECTORY-staged"}
ONE_NODE = "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
"""Without these a cluster of one node has no coordinator of transactions."""
WARM_SHARE, WARM_TURNS = 0.2, 2
DELTA = "delta"
DELTA_VERSION, DELTA_GROUPS = "4.4.0", "io.delta,io.unitycatalog,org.roaringbitmap"
SPARK_AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"


@dataclass(frozen=True, slots=True)
class Case:
    """What is worked on: `make` gives a value of a record, `column` is the only one that is read."""

    title: str
    records: int
    bytes: int
    make: Callable[[Random], bytes] | None = None
    codec: Codec = Codec.NONE
    column: str = ""

    @property
    def topic(self) -> str:
        return f"{self.title.split(',')[0].lower().replace(' ', '-')}-{self.records}"


@dataclass(frozen=True, slots=True)
class Use:
    """A part of the run: its systems take turns over each of its cases. `is_read`: topics are filled for it."""

    title: str
    cases: Sequence[Case]
    systems: Sequence[System]
    is_read: bool = True


RAW = (Case("100 B", 6_000_000, 100, plain(100)), Case("1 KB", 2_000_000, 1000, plain(1000)))
USES = {
    "ceiling": Use(
        "Batch read into nothing, and what Spark takes from any Python source",
        [each for case in RAW for each in (case, replace(case, title=f"{case.title}, value alone", column="value"))],
        [
            System("connector, Apache Kafka", CONNECTOR, "kafka"),
            System("Penstock's source, through the broker", SOURCE, "penstock", options=BROKER),
            System("Penstock's source, direct", SOURCE, "penstock", options=FILES),
            System("a null Python source", SOURCE, "penstock", do="ceiling"),
        ],
    ),
    "json": Use(
        "JSON values as columns, into nothing",
        [Case("JSON", 3_000_000, 100, as_json, Codec.LZ4)],
        [
            System("connector and from_json, Apache Kafka", CONNECTOR, "kafka", do="typed", options=JSON),
            System("Penstock's source, through the broker", SOURCE, "penstock", do="typed", options=JSON | BROKER),
            System("Penstock's source, direct", SOURCE, "penstock", do="typed", options=JSON | FILES),
        ],
    ),
    "avro": Use(
        "Avro values as columns, into nothing",
        [Case("Avro", 6_000_000, 25, as_avro, Codec.LZ4)],
        [
            System("connector and from_avro, Apache Kafka", CONNECTOR, "kafka", do="typed", options=OF_AVRO),
            System("Penstock's source, through the broker", SOURCE, "penstock", do="typed", options=OF_AVRO | BROKER),
            System("Penstock's source, direct", SOURCE, "penstock", do="typed", options=OF_AVRO | FILES),
        ],
    ),
    "lake": Use(
        "AvailableNow into a table (zstd)",
        [replace(RAW[0], records=3_000_000), replace(RAW[1], records=750_000)],
        [
            System("connector into Parquet, Apache Kafka", CONNECTOR, "kafka", do="available_now", to="parquet"),
            System("Penstock's source into penstock-lake", SOURCE, "penstock", "available_now", "lake", BROKER),
            System("the same, direct", SOURCE, "penstock", "available_now", "lake", FILES),
        ],
    ),
    "sink": Use(
        "A batch of rows into a topic (lz4)",
        [Case("100 B", 2_000_000, 100), Case("1 KB", 500_000, 1000)],
        [
            System("connector, Apache Kafka", CONNECTOR, "kafka", do="sink", options={"kafka.compression.type": "lz4"}),
            System("Penstock's sink exactly once, Apache Kafka", SOURCE, "kafka", do="sink", options=ONCE),
            System("Penstock's sink exactly once, Penstock", SOURCE, "penstock", do="sink", options=ONCE),
        ],
        is_read=False,
    ),
    "upsert": Use(
        "A million keys into a table of a million rows of 100 B (zstd)",
        [Case("100 B", 1_000_000, 100)],
        [
            System("a join in Spark, written to Parquet", CONNECTOR, "kafka", do="rewrite"),
            System("upsert into penstock-lake", SOURCE, "penstock", do="upsert"),
        ],
        is_read=False,
    ),
}
USES["merge"] = replace(
    USES["upsert"],
    systems=[System("MERGE of delta-spark 4.4", DELTA, "kafka", do="merge"), USES["upsert"].systems[1]],
)
USUAL = [name for name in USES if name != "merge"]
Figures = dict[str, dict[str, list[float]]]
"""By case and system the rates, the processor seconds of a million rows, and the seconds of a turn."""


@dataclass
class Bench:
    """What a run has: brokers, sessions, limits, and the figures so far."""

    peers: Mapping[str, Peer]
    sessions: Mapping[str, Session]
    directory: Path
    scale: float
    rounds: int
    bound_s: float
    figures: dict[str, Figures] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    tables: int = 0
    filled: dict[tuple[str, str], int] = field(default_factory=dict)

    def part(self, name: str, until: float) -> None:
        """Warms the systems of a use and takes rounds, one at least, until there is no time for another."""
        use = USES[name]
        cases = [replace(case, records=int(case.records * self.scale)) for case in use.cases]
        warm = [replace(case, records=int(case.records * WARM_SHARE)) for case in cases[:1]]
        if use.is_read:
            self.fill(use, [*warm, *cases])
        for _ in range(WARM_TURNS):
            self.round(name, use, warm, "warm")
        for number in range(1, self.rounds + 1):
            began = time.monotonic()
            self.round(name, use, cases, f"round {number}")
            if time.monotonic() * 2 - began > until:
                break

    def fill(self, use: Use, cases: Sequence[Case]) -> None:
        """Makes the topics that a use reads from, on the brokers that it reads them from."""
        for case in cases:
            for broker in {system.broker for system in use.systems}:
                if (broker, case.topic) not in self.filled:
                    assert case.make is not None
                    made = batches(case.make, case.codec)
                    self.filled[broker, case.topic] = fill(self.peers[broker], case.topic, case.records, made)
        say("topics filled")

    def round(self, name: str, use: Use, cases: Sequence[Case], turn: str) -> None:
        for case in cases:
            for system in use.systems:
                self.turn(name, case, system, turn)

    def turn(self, name: str, case: Case, system: System, turn: str) -> None:
        """One order of a system, told as it ends; one that fails or takes too long is noted."""
        told = f"{turn:8} {name}: {case.title}, {system.title}"
        try:
            rate, cpu_s, seconds = self.measured(name, case, system)
        except OrderTimeoutError as error:
            self.failed(told, str(error))
            self.sessions[system.engine].restart()
        except RuntimeError as error:
            self.failed(told, str(error))
        else:
            say(f"{told}: {seconds:.2f} s, {rate / 1e6:.3f} M rows/s, {cpu_s:.2f} CPU-s a million")
            if turn != "warm":
                columns = self.figures.setdefault(name, {}).setdefault(f"{case.title} | {system.title}", {})
                for figure, value in (("rate", rate), ("cpu", cpu_s), ("seconds", seconds)):
                    columns.setdefault(figure, []).append(value)

    def failed(self, told: str, why: str) -> None:
        self.failures.append(f"{told}: {why}")
        say(f"{told}: FAILED: {why[-300:]}")

    def measured(self, name: str, case: Case, system: System) -> tuple[float, float, float]:
        """Rows a second, processor seconds of the Spark side a million rows, and seconds, of one order."""
        session, peer = self.sessions[system.engine], self.peers[system.broker]
        records = self.filled[system.broker, case.topic] if USES[name].is_read else case.records
        self.tables += 1
        table = self.directory / f"table-{self.tables}"
        order: dict[str, Any] = {"to": system.to, "options": dict(system.options), "directory": str(table)}
        order |= {"records": records, "bytes": case.bytes, "column": case.column}
        order |= {"bootstrap": peer.bootstrap, "topic": case.topic}
        if system.do == "sink":
            order["topic"] = f"written-{table.name}"
            peer.create_topic(order["topic"], spark.PARTITIONS)
        asked = partial(session.order, within_s=self.bound_s, **order)
        try:
            if name in ("upsert", "merge"):
                asked(do=f"before_{system.do}")
            cpu = session.cpu_seconds()
            answer = asked(do=system.do)
        finally:
            remove(table)
            remove(Path(f"{table}-staged"))
            if system.do == "sink":
                peer.delete_topic(order["topic"])
        if (there := answer.get("rows", records)) != records:
            raise RuntimeError(f"{there} rows of {records}")
        cpu_s = (session.cpu_seconds() - cpu) / records * 1e6
        return records / answer["seconds"], cpu_s, answer["seconds"]

    def print_part(self, name: str) -> None:
        """A Markdown table; ratios are to the part's first system."""
        first = USES[name].systems[0].title
        print(f"\n### {USES[name].title}\n\n| | | turns | s | rows/s | ratio | CPU-s a million | ratio |")
        print("|---|---|---|---|---|---|---|---|")
        rows = {key: {figure: statistics.median(each) for figure, each in columns.items()}
                for key, columns in self.figures.get(name, {}).items()}  # fmt: skip
        for key, one in rows.items():
            case, system = key.split(" | ")
            base = rows.get(f"{case} | {first}")
            rate, cpu = (f"{one[figure] / base[figure]:.2f}" if base else "-" for figure in ("rate", "cpu"))
            turns = len(self.figures[name][key]["rate"])
            figures = f"{one['seconds']:.1f} | {one['rate'] / 1e6:.2f} M | {rate} | {one['cpu']:.2f} | {cpu}"
            print(f"| {case} | {system} | {turns} | {figures} |", flush=True)


def avro_jars() -> list[Path]:
    """Spark's own functions for Avro, which no release of pyspark brings."""
    directory = connector.CACHE / "spark-avro"
    if not directory.exists():
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={SPARK_AVRO}", f"-DoutputDirectory={directory}"]
        run(command, timeout_s=FETCH_TIMEOUT_S, cwd=connector.CACHE)
    return sorted(directory.glob("*.jar"))


def delta_jars() -> list[Path]:
    """Delta's own jars, for the Spark of `matched_python`; the rest of what they need is Spark's."""
    directory = connector.CACHE / f"delta-spark-{DELTA_VERSION}"
    if not directory.exists():
        minor, _, _ = connector.VERSION.rpartition(".")
        parts = {"groupId": "io.delta", "artifactId": f"delta-spark_{minor}_2.13", "version": DELTA_VERSION}
        delta = "".join(f"<{tag}>{text}</{tag}>" for tag, text in parts.items())
        pom = connector.CACHE / "delta-spark.xml"
        pom.write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>penstock</groupId><artifactId>delta</artifactId>"
            f"<version>1</version><dependencies><dependency>{delta}</dependency></dependencies></project>"
        )
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
        run([*command, f"-DincludeGroupIds={DELTA_GROUPS}"], timeout_s=FETCH_TIMEOUT_S, cwd=connector.CACHE)
    return sorted(directory.glob("*.jar"))


def sessions_for(parts: Sequence[str]) -> dict[str, tuple[Path, list[Path]]]:
    """The sessions that some parts need: their Python and their jars."""
    python, kinds = Path(sys.executable), {system.engine for part in parts for system in USES[part].systems}
    found = {}
    if CONNECTOR in kinds:
        found[CONNECTOR] = python, [*connector.jars(), *(avro_jars() if "avro" in parts else ())]
    if DELTA in kinds:
        found[DELTA] = connector.matched_python(sys.executable), delta_jars()
    found[SOURCE] = python, []
    return found


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(USUAL), help="parts, of " + ",".join(USES))
    parser.add_argument("--minutes", type=float, default=8, help="the run begins no round that would end later")
    parser.add_argument("--rounds", type=int, default=3, help="of each part, at most")
    parser.add_argument("--scale", type=float, default=1, help="so many times the usual records")
    parser.add_argument("--bound-seconds", type=float, default=60, help="an order that takes longer is ended")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    until = time.monotonic() + options.minutes * 60
    parts = [part for part in options.only.split(",") if part in USES]
    kinds = sessions_for(parts)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-")))
        peers = {name: stack.enter_context(running(name, extra=ONE_NODE)) for name in ("kafka", "penstock")}
        sessions: dict[str, Session] = {}
        for kind, (python, jars) in kinds.items():
            log = directory / f"{kind}.log"
            sessions[kind] = Session(kind, python, [*map(str, jars)], spark.same_settings(), log)
            stack.callback(sessions[kind].close)
        say("brokers and sessions are up")
        bench = Bench(peers, sessions, directory, options.scale, options.rounds, options.bound_seconds)
        for number, part in enumerate(parts):
            now = time.monotonic()
            try:
                bench.part(part, now + max(0.0, until - now) / (len(parts) - number))
            finally:
                bench.print_part(part)
    for failure in bench.failures:
        print(f"\nfailed: {failure}")
    sys.exit(1 if bench.failures else 0)


if __name__ == "__main__":
    main()
