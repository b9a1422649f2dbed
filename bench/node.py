"""What a produce or fetch request costs in the node: from the frame to the answer's chunks, without sockets and disk.

    python bench/node.py [--requests 20000] [--profile]

Frames are those of Kafka's Java producer: one partition, a batch of 16 KB with 100 B records, idempotent with
acks=all, and without. The disk takes writes and forgets them. CPU seconds of this process, best of three rounds.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.broker import Node
from support.requests import batch, fetch, produce, wanted

from penstock.log.disk import Buffer
from penstock.node.effects import Run, Send
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER
from penstock.protocol.message import Message

ROUNDS = 3
FRAMES_PER_TURN = 5
"""What a producer has in flight."""


def frame_of(message: Message, version: int) -> bytearray:
    chunks = frames.encode_request(API_BY_NUMBER[message.KEY], version, 1, "bench", message)
    return bytearray(b"".join(chunks)[4:])  # type: ignore[arg-type]


class Bench:
    """A node whose disk forgets what it is told to write."""

    def __init__(self) -> None:
        self.node = Node()
        self.topic_id = self.node.create_topic("t")
        disk = self.node.disks[0]
        self.client = self.node.connect()
        self.client.send(produce("t", batch()), 9)
        for _ in range(100):
            self.client.send(produce("t", batch(b"x" * 1000)), 9)
        self.node.advance(10)

        def forget(path: str, position: int, chunks: Sequence[Buffer]) -> None:
            """Takes the bytes."""

        disk.write = forget  # type: ignore[method-assign]
        self.sequence = 0

    def turn(self, views: Sequence[memoryview], now_ms: int) -> int:
        """One turn of a shell's loop; returns the number of answers."""
        broker, number = self.node.broker, self.client.number
        for view in views:
            broker.received(number, view, now_ms)
        answers = 0
        while effects := broker.take_effects():
            for effect in effects:
                if isinstance(effect, Run):
                    operation = effect.operation
                    result = operation.run(self.node.disks[0])  # type: ignore[arg-type]
                    broker.operation_completed(operation, result, now_ms)
                elif isinstance(effect, Send):
                    answers += 1
        return answers

    def produce_turns(self, version: int, acks: int, *, idempotent: bool, turns: int) -> list[list[memoryview]]:
        """Frames of all turns; sequences go on, so none is sent twice."""
        topic: Any = self.topic_id if version >= 13 else "t"
        made = []
        for _ in range(turns):
            views = []
            for _ in range(FRAMES_PER_TURN):
                fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": self.sequence} if idempotent else {}
                data = self.batches(fields)
                views.append(memoryview(frame_of(produce(topic, data, acks=acks), version)))
            made.append(views)
        return made

    def batches(self, fields: dict[str, int]) -> bytearray:
        values = [b"v" * 90] * 150
        if fields:
            self.sequence += len(values)
        return batch(*values, key=None, timestamp_ms=self.node.now_ms, **fields)


def measure(bench: Bench, name: str, turns: list[list[memoryview]], *, profile: bool) -> None:
    """Runs the turns in rounds and prints microseconds a request."""
    requests = sum(len(views) for views in turns)
    per_round = len(turns) // ROUNDS
    best = float("inf")
    profiler = cProfile.Profile()
    gc.collect()
    gc.freeze()
    for round_number in range(ROUNDS):
        part = turns[round_number * per_round : (round_number + 1) * per_round]
        now_ms = bench.node.now_ms
        if profile and round_number == ROUNDS - 1:
            profiler.enable()
        started = time.process_time()
        answers = sum(bench.turn(views, now_ms) for views in part)
        spent = time.process_time() - started
        profiler.disable()
        assert answers == sum(len(views) for views in part), "every request is answered"
        if not (profile and round_number == ROUNDS - 1):
            best = min(best, spent / sum(len(views) for views in part))
    print(f"{name:40} {best * 1e6:7.1f} us a request   ({requests} requests)")
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    turns = max(ROUNDS, options.requests // FRAMES_PER_TURN)
    bench = Bench()
    for name, version, acks, idempotent in (
        ("produce v9, acks=1", 9, 1, False),
        ("produce v13, acks=all, idempotent", 13, -1, True),
    ):
        frames_of_turns = bench.produce_turns(version, acks, idempotent=idempotent, turns=turns)
        measure(bench, name, frames_of_turns, profile=options.profile)
    one_by_one = [[memoryview(frame_of(fetch("t", wanted(offset=50)), 12))] for _ in range(options.requests)]
    measure(bench, "fetch v12, one partition, no session", one_by_one, profile=options.profile)


if __name__ == "__main__":
    main()
