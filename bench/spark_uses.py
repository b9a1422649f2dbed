"""What pipelines do with records on Spark, against Spark's own Kafka connector, on this machine in one run.

Typed JSON (the source's columns against `from_json`), a stream into the lake (`penstock-lake` against Spark's Parquet
sink), a topic written to (the transactional sink against the connector's, which may write rows twice), and the ceiling:
what Spark takes from a Python source that hands over one cached batch, whatever the source. Sessions, settings, turns
and ratios are those of bench/spark.py.

    python bench/spark_uses.py                          # at most 10 minutes
    python bench/spark_uses.py --only typed,sink --rounds 5 --records 400000
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from random import Random

import spark
from interop.spark.connector import peer as connector
from peers import running
from spark import BROKER, CONNECTOR, FILES, NOOP, SOURCE, VALUES, Bench, Session, System, Workload, fill, say

FIELDS = "page string, user bigint, ms bigint, country string, bytes int, ok boolean"
TYPED = {"penstock.value.format": "json", "penstock.value.schema": FIELDS}
ONCE = {"penstock.exactly.once": "true", "penstock.sink.id": "bench", "penstock.staging": "DIRECTORY"}
USES = {
    "ceiling": [NOOP[0], NOOP[3], NOOP[4], System("a null Python source", SOURCE, "penstock", do="ceiling")],
    "typed": [
        System("connector and from_json, Apache Kafka", CONNECTOR, "kafka", do="typed", options=TYPED),
        System("connector and from_json, Penstock", CONNECTOR, "penstock", do="typed", options=TYPED),
        System("Penstock's source, through the broker", SOURCE, "penstock", do="typed", options=TYPED | BROKER),
        System("Penstock's source, direct", SOURCE, "penstock", do="typed", options=TYPED | FILES),
    ],
    "lake": [
        System("connector into Parquet, Apache Kafka", CONNECTOR, "kafka", do="available_now", to="parquet"),
        System("connector into Parquet, Penstock", CONNECTOR, "penstock", do="available_now", to="parquet"),
        System("Penstock's source into penstock-lake", SOURCE, "penstock", "available_now", "lake", BROKER),
        System("the same, direct", SOURCE, "penstock", "available_now", "lake", FILES),
    ],
    "sink": [
        System("connector, Apache Kafka", CONNECTOR, "kafka", do="sink"),
        System("connector, Penstock", CONNECTOR, "penstock", do="sink"),
        System("Penstock's sink, Apache Kafka", SOURCE, "kafka", do="sink"),
        System("Penstock's sink exactly once, Apache Kafka", SOURCE, "kafka", do="sink", options=ONCE),
        System("Penstock's sink exactly once, Penstock", SOURCE, "penstock", do="sink", options=ONCE),
    ],
}
TITLES = {
    "ceiling": "What Spark takes from a Python source: all columns into nothing",
    "typed": "JSON values as columns, into nothing",
    "lake": "AvailableNow into a table (zstd)",
    "sink": "A batch of rows into a topic",
}
RAW = [Workload(100, "none"), Workload(1000, "none")]
JSON = Workload(101, "lz4")


def clicks() -> list[bytes]:
    """JSON objects of about 100 bytes."""
    chance = Random(11)
    return [
        json.dumps(
            {
                "page": f"/shop/{chance.randrange(10_000)}",
                "user": chance.randrange(1 << 40),
                "ms": 1_700_000_000_000 + chance.randrange(10**9),
                "country": chance.choice(["DE", "FR", "US"]),
                "bytes": chance.randrange(100_000),
                "ok": chance.random() < 0.9,
            }
        ).encode()
        for _ in range(VALUES)
    ]


def measure(bench: Bench, parts: list[str]) -> None:
    """Fills the topics, warms both sides, and takes the turns."""
    turns = {part: [JSON] if part == "typed" else RAW for part in parts}
    for workload in {each: None for chosen in turns.values() for each in chosen}:
        for peer in bench.peers.values():
            fill(peer, workload, bench.records[workload.bytes], clicks() if workload is JSON else ())
            peer.create_topic(f"{workload.topic}-out", spark.PARTITIONS)
    say("topics filled")
    for number in range(bench.rounds + 1):
        for part, chosen in turns.items():
            for workload in chosen[:1] if not number else chosen:
                bench.bulk(part, workload, warm=not number)
        say(f"round {number}" if number else "warm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(USES), help="parts, of " + ",".join(USES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000, help="records of 100 B; a quarter as many of 1 KB")
    options = parser.parse_args()
    parts = [part for part in options.only.split(",") if part in USES]
    spark.PARTS.update(USES)
    jars = [str(jar) for jar in connector.jars()]
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-")))
        peers = {name: stack.enter_context(running(name)) for name in ("kafka", "penstock")}
        sessions: dict[str, Session] = {}
        for kind in (CONNECTOR, SOURCE):
            log = directory / f"{kind}.log"
            sessions[kind] = Session(kind, Path(sys.executable), jars, spark.same_settings(), log)
            stack.callback(sessions[kind].close)
        say("brokers and sessions are up")
        records = {100: options.records, 101: options.records, 1000: options.records // 4}
        bench = Bench(peers, sessions, directory, records, options.rounds, 0)
        measure(bench, parts)
    for part in parts:
        spark.print_rates(bench, part, TITLES[part])
    for failure in bench.failures:
        print(f"\nfailed: {failure}")
    sys.exit(1 if bench.failures else 0)


if __name__ == "__main__":
    main()
