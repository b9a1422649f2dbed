"""What a load and a Spark read cost: rows a second into Delta and into nothing, a small job's time, and the latency.

    python bench/load.py                    2,000,000 records of 100 B in 4 partitions, uncompressed and lz4
    python bench/load.py --records 200000
    python bench/load.py --only small,latency           of: bulk, json, small, latency

The broker is Penstock's, on a fresh directory. Every load is verified from its table. Latency is from the moment that a
record is given to its producer, a process with librdkafka at a steady rate, to the return of the commit that has it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
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
SMALL_JOBS, SMALL_ROWS = 15, (1_000, 20_000, 100_000)
RATE, LATENCY_SECONDS, WARM_JOBS = 1_000, 15, 5
KINDS = ("bulk", "json", "small", "latency")


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


def options(peer: Peer, topic: str, table: Path, **more: Any) -> LoadOptions:
    return LoadOptions(peer.bootstrap, [topic], str(table), "bench", **more)


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


def json_values(spark: Any, peer: Peer, records: int, directory: Path) -> None:
    """Clicks of four flat fields, declared and found; and with a nested field, as JSON text."""
    declared = "page string, user string, ms bigint, share double"
    for name, nested, schema in (("declared", False, declared), ("found", False, None), ("nested text", True, None)):
        topic = f"json-{name.replace(' ', '-')}"
        peer.create_topic(topic, PARTITIONS)
        asyncio.run(fill_json(peer.bootstrap, topic, records, nested))
        with Load(spark, options(peer, topic, directory / topic, format="json", schema=schema)) as load:
            began = time.perf_counter()
            rows = 0
            while (outcome := load.run_job()) is not None:
                rows += outcome.rows
            seconds = time.perf_counter() - began
            assert rows == records
            assert all(verdict.clean for verdict in verify(load.lake))
        print(f"json          {records / seconds:12,.0f} rows/s  {name}, {seconds:.2f} s, clean")


async def fill_json(bootstrap: str, topic: str, records: int, nested: bool) -> None:
    builder = BatchBuilder(codec=Codec.LZ4)
    for i in range(BATCH_RECORDS):
        more = b',"at":{"x":%d,"y":[1,2]}' % i if nested else b""
        value = b'{"page":"/p/%d","user":"u%06d","ms":%d,"share":%.3f%s}' % (i % 997, i, i * 7919, i / 7, more)
        builder.append(int(time.time() * 1000), None, value)
    made = bytes(builder.build())
    async with Client(bootstrap) as client:
        for number in range(records // BATCH_RECORDS):
            await client.produce(topic, number % PARTITIONS, made)


def small_jobs(spark: Any, peer: Peer, directory: Path) -> None:
    """What a job costs, in the driver and on Spark."""
    for rows in SMALL_ROWS:
        for place, inline in (("driver", rows), ("Spark", 0)):
            topic = f"small-{rows}-{place}"
            peer.create_topic(topic, 1)
            seconds = []
            with Load(spark, options(peer, topic, directory / topic, inline_offsets=inline)) as load:
                for _ in range(SMALL_JOBS):
                    asyncio.run(fill_one(peer.bootstrap, topic, rows))
                    outcome = load.run_job()
                    assert outcome is not None
                    assert outcome.rows == rows
                    seconds.append(outcome.seconds)
                assert all(verdict.clean for verdict in verify(load.lake))
            median = statistics.median(seconds) * 1000
            print(
                f"small job     {median:12,.0f} ms median, {max(seconds) * 1000:,.0f} ms most, {rows:,} rows in {place}"
            )


async def fill_one(bootstrap: str, topic: str, records: int) -> None:
    async with Client(bootstrap) as client:
        for first in range(0, records, BATCH_RECORDS):
            await client.produce(topic, 0, batch(Codec.LZ4, min(BATCH_RECORDS, records - first), first))


def latency(spark: Any, peer: Peer, directory: Path, interval_ms: int) -> None:
    topic = f"latency-{interval_ms}"
    peer.create_topic(topic, 1)
    stop = threading.Event()
    delays: list[float] = []
    jobs: list[float] = []
    with Load(spark, options(peer, topic, directory / topic)) as load:

        def heard(outcome: Any) -> None:
            jobs.append(outcome.seconds)
            delays.extend(delays_of_last(load) if len(jobs) > WARM_JOBS else ())

        command = [sys.executable, __file__, "--produce", peer.bootstrap, topic]
        producer = subprocess.Popen(command)
        timer = threading.Timer(LATENCY_SECONDS, stop.set)
        timer.start()
        cpu, began = time.process_time(), time.monotonic()
        try:
            load.run(stop, interval_ms, heard, once=False)
        finally:
            timer.cancel()
            producer.terminate()
            producer.wait()
        cpu, seconds = time.process_time() - cpu, time.monotonic() - began
        assert all(verdict.clean for verdict in verify(load.lake))
    delays.sort()
    print(
        f"latency       {statistics.median(delays):12,.0f} ms p50, {delays[len(delays) * 99 // 100]:,.0f} ms p99, "
        f"{RATE:,} records/s, interval {interval_ms} ms, {len(jobs) / seconds:.1f} commits/s, "
        f"job {statistics.median(jobs) * 1000:.0f} ms, driver {cpu / seconds:.0%} of a core"
    )


def produce(bootstrap: str, topic: str) -> None:
    """RATE records a second until terminated."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    began, sent = time.monotonic(), 0
    while True:
        while sent < (time.monotonic() - began) * RATE:
            producer.produce(topic, value=b"%d".ljust(RECORD_BYTES, b"x") % sent)
            sent += 1
        producer.poll(0)
        time.sleep(0.002)


def delays_of_last(load: Load) -> list[float]:
    """Milliseconds until now of the rows of the newest file."""
    import pyarrow.parquet as pq

    now_ms = time.time() * 1000
    newest = max(Path(load.lake.uri).glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    return [now_ms - at.timestamp() * 1000 for at in pq.read_table(newest, columns=["timestamp"])[0].to_pylist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--produce", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.produce:
        produce(*arguments.produce)
    only = arguments.only.split(",")
    records = arguments.records // BATCH_RECORDS * BATCH_RECORDS
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True)
    print(f"commit {commit.strip()}, {records:,} records of {RECORD_BYTES} B, {PARTITIONS} partitions, local[*]")
    with tempfile.TemporaryDirectory(prefix="bench-load-") as name, running("penstock") as peer:
        directory = Path(name)
        spark = session("bench load", log=directory / "spark.log")
        try:
            peer.create_topic("warm", 1)
            publish(peer.bootstrap, "warm", 10)
            with Load(spark, options(peer, "warm", directory / "warm", inline_offsets=0)) as load:
                load.run_job()  # starts Spark's workers and loads the compiled kernels
            for codec in (Codec.NONE, Codec.LZ4) if "bulk" in only else ():
                bulk(spark, peer, codec, records, directory)
            if "json" in only:
                json_values(spark, peer, records // 2 // BATCH_RECORDS * BATCH_RECORDS, directory)
            if "small" in only:
                small_jobs(spark, peer, directory)
            for interval_ms in (250, 0) if "latency" in only else ():
                latency(spark, peer, directory, interval_ms)
        finally:
            end(spark)


if __name__ == "__main__":
    main()
