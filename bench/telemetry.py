"""What an answer of telemetry costs a broker with many busy replicas, how large it is, and what a reader needs for it.

The broker is a whole node without sockets, on simulated disks. Between two answers every partition gets a batch, and
gives one, of its own size, so that each row changes in the columns that change where there is work. CPU times are of
this process; the best and the median of the answers count, since what else the machine does makes them only longer.

    python bench/telemetry.py                      # 1,000 replicas
    python bench/telemetry.py --partitions 4000 --answers 30
"""

from __future__ import annotations

import argparse
import gc
from random import Random
from statistics import median
from time import process_time_ns

from support.broker import Client, Node
from support.requests import batch, fetch, produce, wanted

from penstock.guardian.telemetry.decode import decode
from penstock.guardian.telemetry.view import View
from penstock.node.telemetry.pull import pull
from penstock.server.garbage import MIDDLE_PASSES, NEVER, YOUNG_OBJECTS

CLIENTS = 20
TOPICS = 20


def work(
    clients: list[Client], topics: list[str], each: int, random: Random, offsets: dict[tuple[str, int], int]
) -> None:
    """Every partition gets a batch of a size of its own, and consumers read it."""
    for topic in topics:
        client = random.choice(clients)
        batches = [
            batch(random.randbytes(random.randrange(100, 3_000)), *[b"x"] * random.randrange(20)) for _ in range(each)
        ]
        answer = client.ask(produce(topic, *batches), 9, f"client {client.number}")
        found = answer.responses[0].partition_responses
        assert all(one.error_code == 0 for one in found)
        places = [wanted(index, offsets.get((topic, index), 0)) for index in range(each)]
        got = client.ask(fetch(topic, *places), 12, f"client {client.number}")
        assert all(one.records for one in got.responses[0].partitions)
        for one in got.responses[0].partitions:
            offsets[topic, one.partition_index] = one.high_watermark


def work_of_years(node: Node, topics: list[str], each: int, random: Random) -> None:
    """Counters that are as large as those of a broker that has run for long."""
    for topic in topics:
        for index in range(each):
            counters = node.broker.replicas.traffic.of(topic, index)
            for name in counters.__slots__:
                setattr(counters, name, random.randrange(1 << 42))


def answer_of(node: Node, view: View) -> tuple[bytes, float, float]:
    """A frame, the CPU time that it took in ms, and that of its longest step."""
    began = last = process_time_ns()
    steps, longest = pull(node.broker, view.incarnation, view.sequence), 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            now = process_time_ns()
            return ended.value, (now - began) / 1e6, max(longest, now - last) / 1e6
        now = process_time_ns()
        longest, last = max(longest, now - last), now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--answers", type=int, default=20)
    options = parser.parse_args()
    gc.set_threshold(YOUNG_OBJECTS, MIDDLE_PASSES, NEVER)  # as in a server
    random, each = Random(1), options.partitions // TOPICS
    node = Node()
    topics = [f"orders.of.region-{number}" for number in range(TOPICS)]
    for topic in topics:
        node.create_topic(topic, partitions=each)
    work_of_years(node, topics, each, random)
    clients, view, offsets = [node.connect() for _ in range(CLIENTS)], View(), {}
    figures: list[tuple[float, ...]] = []
    for number in range(options.answers + 1):
        work(clients, topics, each, random, offsets)
        frame, broker_ms, step_ms = answer_of(node, view)
        began = process_time_ns()
        view.take(decode(frame))
        reader_ms = (process_time_ns() - began) / 1e6
        if number:
            figures.append((broker_ms, step_ms, len(frame) / 1000, reader_ms))
        else:
            print(f"the first, whole one: {broker_ms:.2f} ms, {len(frame) / 1000:.1f} KB, reader {reader_ms:.2f} ms")
    names = ("ms at the broker", "ms of its longest step", "KB", "ms at the reader")
    for name, values in zip(names, zip(*figures, strict=True), strict=True):
        print(f"{name:24} best {min(values):7.2f}   median {median(values):7.2f}")


if __name__ == "__main__":
    main()
