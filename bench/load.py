"""What a load and a Spark read cost: rows a second into Delta and into nothing, a small job's time, and the latency.

    python bench/load.py                    2,000,000 records of 100 B in 4 partitions, uncompressed and lz4
    python bench/load.py --records 200000

The broker is Penstock's, on a fresh directory. Every load is verified from its table.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from peers import ROOT, Peer, running

from penstock.client.client import Client
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.spark.lake.verify import verify
from penstock.spark.load.load import Load, LoadOptions
from penstock.spark.session import end, session

PARTITIONS, RECORD_BYTES, BATCH_RECORDS = 4, 100, 5_000
SMALL_JOBS, SMALL_ROWS, LATENCY_JOBS = 20, 1_000, 30


def batch(codec: Codec, records: int, first: int = 0) -> bytes:
    """Records whose values are half digits that change and half that do not, so that compression has work."""
    builder = BatchBuilder(codec=codec)
    now_ms = int(time.time() * 1000)
    for i in range(first, first + records):
        builder.append(now_ms, None, f"{i * 2_654_435_761 % 10**50:050d}".ljust(RECORD_BYTES, "x").encode())
    return bytes(builder.build())


async def fill(bootstrap: str, topic: str, records: int, codec: Codec) -> None:
    """Publishes the same few batches again and again: making records is not what is measured."""
    async with Client(bootstrap) as client:
        batches = [batch(codec, BATCH_RECORDS, n * BATCH_RECORDS) for n in range(8)]
        for number in range(records // BATCH_RECORDS):
            await client.produce(topic, number % PARTITIONS, batches[number % len(batches)])


def publish(bootstrap: str, topic: str, records: int) -> None:
    async def one() -> None:
        async with Client(bootstrap) as client:
            await client.produce(topic, 0, batch(Codec.LZ4, records))

    asyncio.run(one())


def options(peer: Peer, topic: str, table: Path) -> LoadOptions:
    return LoadOptions(peer.bootstrap, [topic], str(table), "bench")


def bulk(spark: Any, peer: Peer, codec: Codec, records: int, directory: Path) -> None:
    topic = f"bulk-{codec.name.lower()}"
    peer.create_topic(topic, PARTITIONS)
    asyncio.run(fill(peer.bootstrap, topic, records, codec))
    with Load(spark, options(peer, topic, directory / topic)) as load:
        outcome = load.run_job()
        assert outcome is not None
        verdicts = verify(load.lake)
    assert all(verdict.clean for verdict in verdicts)
    assert sum(verdict.rows for verdict in verdicts) == records
    print(f"load, {codec.name.lower():5}   {records / outcome.seconds:12,.0f} rows/s  {outcome.seconds:.2f} s, clean")
    frame = spark.read.format("penstock").option("kafka.bootstrap.servers", peer.bootstrap).option("subscribe", topic)
    for name, columns in (("all columns", ["*"]), ("value", ["value"])):
        began = time.perf_counter()
        frame.load().select(*columns).write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - began
        print(f"read, {codec.name.lower():5}   {records / seconds:12,.0f} rows/s  {name} to noop, {seconds:.2f} s")


def small_jobs(spark: Any, peer: Peer, directory: Path) -> None:
    peer.create_topic("small", 1)
    seconds = []
    with Load(spark, options(peer, "small", directory / "small")) as load:
        for _ in range(SMALL_JOBS):
            publish(peer.bootstrap, "small", SMALL_ROWS)
            outcome = load.run_job()
            assert outcome is not None
            seconds.append(outcome.seconds)
        assert all(verdict.clean for verdict in verify(load.lake))
    median = statistics.median(seconds) * 1000
    print(f"small job     {median:12,.0f} ms median, {max(seconds) * 1000:,.0f} ms most, {SMALL_ROWS} rows")


def latency(spark: Any, peer: Peer, directory: Path) -> None:
    """From publishing to the commit that has it, with jobs back to back, as `penstock load --interval-ms 0`."""
    peer.create_topic("latency", 1)
    stop = threading.Event()

    def keep_publishing() -> None:
        while not stop.is_set():
            publish(peer.bootstrap, "latency", 10)
            stop.wait(0.02)

    delays: list[float] = []
    publisher = threading.Thread(target=keep_publishing)
    publisher.start()
    try:
        with Load(spark, options(peer, "latency", directory / "latency")) as load:
            load.run_job()
            for _ in range(LATENCY_JOBS):
                load.run_job()
                delays += delays_of_last(load)
    finally:
        stop.set()
        publisher.join()
    delays.sort()
    print(
        f"latency       {statistics.median(delays):12,.0f} ms median, {delays[len(delays) * 99 // 100]:,.0f} ms p99, "
        f"published to committed, {LATENCY_JOBS} jobs back to back"
    )


def delays_of_last(load: Load) -> list[float]:
    """Milliseconds until now of the rows of the newest file."""
    import pyarrow.parquet as pq

    now_ms = time.time() * 1000
    newest = max(Path(load.lake.directory).glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    return [now_ms - at.timestamp() * 1000 for at in pq.read_table(newest, columns=["timestamp"])[0].to_pylist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    records = parser.parse_args().records // BATCH_RECORDS * BATCH_RECORDS
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True)
    print(f"commit {commit.strip()}, {records:,} records of {RECORD_BYTES} B, {PARTITIONS} partitions, local[*]")
    with tempfile.TemporaryDirectory(prefix="bench-load-") as name, running("penstock") as peer:
        directory = Path(name)
        spark = session("bench load", log=directory / "spark.log")
        try:
            peer.create_topic("warm", 1)
            publish(peer.bootstrap, "warm", 10)
            with Load(spark, options(peer, "warm", directory / "warm")) as load:
                load.run_job()  # starts Spark's workers and loads the compiled kernels
            for codec in (Codec.NONE, Codec.LZ4):
                bulk(spark, peer, codec, records, directory)
            small_jobs(spark, peer, directory)
            latency(spark, peer, directory)
        finally:
            end(spark)


if __name__ == "__main__":
    main()
