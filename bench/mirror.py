"""How fast the job `mirror` copies over a distance: a proxy delays each way to the source, or to the target.

Both clusters are one node in a process of its own. A topic of 8 partitions is filled with records of 1 KB in batches of
16 KB (the default of Java's producer) or of 1 MB (that of librdkafka), and mirrored from its start; a run that has not
ended after so many seconds tells what it has done till then.

    python bench/mirror.py --mb 300 --round-trip-ms 50
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.pipelines.jobs.mirror import Mirror
from penstock.pipelines.jobs.mirror_topics import Choice
from penstock.testing.broker import LocalBroker

PARTITIONS = 8
VALUE_BYTES = 1000
READ_BYTES = 1 << 18
CHUNKS_UNDER_WAY = 1024
"""Chunks of one direction that the proxy holds; beyond it the sender waits, as it would at a full window."""
RUN_S = 20.0


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Passes bytes on, each chunk `delay_s` after it came."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_UNDER_WAY)

    async def receive() -> None:
        while data := await reader.read(READ_BYTES):
            await under_way.put((loop.time() + delay_s, data))
        await under_way.put((0.0, b""))

    receiving = asyncio.create_task(receive())
    try:
        while True:
            due, data = await under_way.get()
            if not data:
                break
            await asyncio.sleep(max(0.0, due - loop.time()))
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        receiving.cancel()
        writer.close()


async def delay(listening: socket.socket, port: int, round_trip_ms: float) -> None:
    """Serves a proxy to a port of this machine for ever."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port, limit=4 * READ_BYTES)
        half_s = round_trip_ms / 2000
        await asyncio.gather(pump(reader, there_writer, half_s), pump(there_reader, writer, half_s))

    server = await asyncio.start_server(serve, sock=listening, limit=4 * READ_BYTES)
    await server.serve_forever()


def node(round_trip_ms: float) -> None:
    """A broker behind a proxy, if there is a distance; says its address, and ends with its standard input."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"}
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listening.getsockname()[1]}" if round_trip_ms else f"127.0.0.1:{port}"
    settings["advertised.listeners"] = f"PLAINTEXT://{address}"
    if round_trip_ms and os.fork() == 0:
        asyncio.run(delay(listening, port, round_trip_ms))
    listening.close()
    with LocalBroker(settings):
        print(json.dumps(address), flush=True)
        sys.stdin.read()


@contextmanager
def started(round_trip_ms: float) -> Iterator[str]:
    """A node in a process of its own; its address."""
    command = [sys.executable, __file__, "--node", str(round_trip_ms)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        time.sleep(1)
        os.killpg(process.pid, 9)  # the proxy, and a node that does not end
        process.wait()


def fill(bootstrap: str, topic: str, mb: int, batch_bytes: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    settings = {"bootstrap.servers": bootstrap, "batch.size": batch_bytes, "linger.ms": 50, "acks": 1}
    producer = Producer({**settings, "queue.buffering.max.kbytes": 1 << 19, "max.in.flight": 1000})
    values = [os.urandom(VALUE_BYTES) for _ in range(1000)]
    for number in range(mb * 1000):
        while True:
            try:
                producer.produce(topic, values[number % 1000], partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0


def mirrored(source: str, target: str, topic: str) -> tuple[int, float, float]:
    """Records, seconds, and seconds of this process's processor."""
    mirror = Mirror((source, target), Choice([topic]), topic)
    count, began, cpu_began = 0, time.monotonic(), time.process_time()
    while (did := mirror.step()) is not None and time.monotonic() < began + RUN_S:
        count += did.rows
    ended = time.monotonic(), time.process_time()
    mirror.close()
    return count, ended[0] - began, ended[1] - cpu_began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=300)
    parser.add_argument("--round-trip-ms", type=float, default=50.0)
    parser.add_argument("--far", nargs="*", default=["nothing", "source", "target"])
    parser.add_argument("--batch-kb", nargs="*", type=int, default=[16, 1000])
    parser.add_argument("--node", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.node is not None:
        node(given.node)
        return
    for far in given.far:
        away = {side: given.round_trip_ms if side == far else 0.0 for side in ("source", "target")}
        with started(away["source"]) as source, started(away["target"]) as target:
            for batch_kb in given.batch_kb:
                topic = f"b{batch_kb}"
                fill(source, topic, given.mb, batch_kb * 1000)
                count, seconds, cpu = mirrored(source, target, topic)
                mb = count * VALUE_BYTES / 1e6
                print(
                    f"far: {far:8} batches of {batch_kb:4} KB: {mb / seconds:6.1f} MB/s"
                    f"  ({mb:.0f} MB in {seconds:.1f} s, {cpu:.1f} s of the mirror's processor)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
