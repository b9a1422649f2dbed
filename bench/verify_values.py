"""What `penstock verify --broker --values` costs beside the load that it proves: CPU seconds and peak memory.

Publishes records of about 90 B to a broker of its own, loads them as raw bytes and as JSON with a declared schema, in
this process, and runs the command in processes of their own.

    python bench/verify_values.py --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer

from penstock.spark.load.load import Load, LoadOptions
from penstock.testing.broker import LocalBroker

PARTITIONS = 4
SCHEMA = "page string, user string, ms bigint, status int, country string"


def publish(broker: LocalBroker, topic: str, rows: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "compression.type": "lz4"})
    for i in range(rows):
        value = {"page": f"/p/{i % 500}", "user": f"u{i % 9999}", "ms": i, "status": 200, "country": "DE"}
        producer.produce(topic, json.dumps(value).encode(), partition=i % PARTITIONS)
        if not i % 50_000:
            producer.flush()
    producer.flush()


def load(broker: LocalBroker, topic: str, table: Path, values: str) -> float:
    """Loads the topic; the CPU seconds that it took, the broker's aside."""
    schema = SCHEMA if values == "json" else None
    options = LoadOptions(
        broker.bootstrap, [topic], str(table), "bench", format=values, schema=schema, inline_offsets=1 << 40
    )
    began = time.process_time()
    with Load(None, options) as running:
        running.run(threading.Event(), 0, lambda _: None, once=True)
    return time.process_time() - began


def verify(broker: LocalBroker, table: Path, values: str) -> tuple[float, int]:
    """Runs the command; its CPU seconds and its peak memory in MiB."""
    command = [sys.executable, "-m", "penstock", "verify", str(table), "--broker", broker.bootstrap]
    process = subprocess.Popen([*command, "--values", values], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, "the table is not clean"
    return used.ru_utime + used.ru_stime, used.ru_maxrss >> 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with LocalBroker() as broker, tempfile.TemporaryDirectory() as directory:
        broker.create_topic("clicks", PARTITIONS)
        publish(broker, "clicks", arguments.rows)
        for form in ("raw", "json"):
            table = Path(directory) / form
            print(f"{form}: load {load(broker, 'clicks', table, form):.2f} s", flush=True)
            for values in ("none", "sample", "all"):
                seconds, memory = verify(broker, table, values)
                print(f"{form}: verify --values {values}: {seconds:.2f} s, {memory} MiB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
