"""Generated clicks on their way: into a topic, as fast as event time says, or as lines into a file."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from typing import BinaryIO, Protocol

import numpy as np

from penstock.client.client import Client
from penstock.pipelines.generate.batches import Batches
from penstock.pipelines.generate.clicks import TIME, VISITOR, Array, Clicks, Planted
from penstock.records.compression import Codec
from penstock.records.partitioner import partition_for_key

RECORDS_PER_BATCH = 2_000
TIMES_KEPT_MAX = 10_000
"""Requests of which it is known how long they took; the oldest are forgotten."""


class Stop(Protocol):
    """The signal that ends a stream early, such as a threading.Event."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool: ...


class Pace:
    """How much may be out by now: event time passes `speed` times as fast as the clock; 0 is without waiting."""

    def __init__(self, speed: float) -> None:
        self._speed, self._began, self._passed_s = speed, time.monotonic(), 0

    def second(self, stop: Stop) -> None:
        """Returns when one more second of event time has passed, or at a stop."""
        self._passed_s += 1
        if self._speed:
            stop.wait(max(0.0, self._began + self._passed_s / self._speed - time.monotonic()))


class Sending:
    """Sends requests to a topic that exists; equal keys go to equal partitions, as Kafka's producer chooses them.

    `times_ms`: how long the last requests took, from their sending to their answers.
    """

    def __init__(self, client: Client, clicks: Clicks, topic: str, partitions: int, codec: Codec = Codec.LZ4) -> None:
        self.sent = 0
        self.times_ms: deque[float] = deque(maxlen=TIMES_KEPT_MAX)
        self._client, self._clicks, self._topic, self._partitions = client, clicks, topic, partitions
        self._batches = Batches(codec)
        self._chosen = np.empty(0, np.int32)

    async def send(self, rows: Array) -> None:
        """Returns when all of it is acknowledged."""
        keys, values = self._clicks.encode(rows)
        chosen = self._partition_of_visitors()[rows[:, VISITOR]]

        async def one(partition: int) -> None:
            (places,) = np.nonzero(chosen == partition)
            for begin in range(0, len(places), RECORDS_PER_BATCH):
                some = places[begin : begin + RECORDS_PER_BATCH]
                batch = self._batches.build(rows[some, TIME], keys.take(some), values.take(some))
                began = time.perf_counter()
                await self._client.produce(self._topic, partition, batch)
                self.times_ms.append((time.perf_counter() - began) * 1_000)

        await asyncio.gather(*(one(partition) for partition in np.unique(chosen).tolist()))
        self.sent += len(rows)

    def _partition_of_visitors(self) -> Array:
        known, clients = len(self._chosen), self._clicks.population.clients
        if known < len(clients):
            new = [partition_for_key(client.encode(), self._partitions) for client in clients[known:]]
            self._chosen = np.concatenate([self._chosen, np.array(new, np.int32)])
        return self._chosen


def write_lines(rows: Array, clicks: Clicks, file: BinaryIO) -> None:
    _, values = clicks.encode(rows)
    file.write(b"".join(value + b"\n" for value in values.cast("binary").to_pylist()))


def truth_lines(planted: Sequence[Planted]) -> list[bytes]:
    """The ground truth, one JSON object an address."""
    return [json.dumps(asdict(each), separators=(",", ":")).encode() for each in planted]
