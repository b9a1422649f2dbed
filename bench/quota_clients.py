"""Tenants for bench/quotas.py, each in a process of its own: they send as much as they may and write down what passed.

None of them looks at `throttle_time_ms`: what slows them down is the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, NamedTuple

from wire import Wire, answer_of, check, connect, connect_many, frame_of

from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder

PROCESSES = multiprocessing.get_context("spawn")
LOOK_EVERY_S = 0.1
FLOOD_BUFFER_BYTES = 1 << 20
Passed = tuple[float, int]
"""When something passed, as the process's monotonic clock says, and how many bytes it had."""


class Load(NamedTuple):
    """What a tenant does on each of its connections.

    `kind`: produce, fetch, metadata, or flood, which is to produce without answers. `size_bytes`: of a record, or at
    most of a fetch. `in_flight`: requests that wait for answers at a time.
    """

    kind: str
    topic: str = "load"
    client_id: str = "greedy"
    connections: int = 1
    size_bytes: int = 10_000
    in_flight: int = 1
    requests: int = 0
    """After so many requests, in all, it ends; 0 for no end."""


def set_quotas(bootstrap: str, client_id: str | None, limits: dict[str, float | None]) -> None:
    """Sets quotas of a client id, or of the default one; None deletes."""
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
    )

    async def ask() -> None:
        wire = await connect(bootstrap)
        answer = await wire.ask(ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[entry]))
        wire.close()
        check(answer.entries[0].error_code)

    asyncio.run(ask())
    time.sleep(0.5)  # Apache Kafka's broker hears of it a little later


def request_of(load: Load, client_id: str | None = None) -> bytes:
    """The frame that a tenant sends again and again."""
    by = load.client_id if client_id is None else client_id
    if load.kind == "metadata":
        return frame_of(ApiKey.METADATA, MetadataRequest(topics=None), by)
    if load.kind == "fetch":
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=load.size_bytes)
        topic = FetchTopic(topic=load.topic, partitions=[wanted])
        fetch = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=load.size_bytes, topics=[topic])
        return frame_of(ApiKey.FETCH, fetch, by)
    builder = BatchBuilder()
    builder.append(time.time_ns() // 1_000_000, None, os.urandom(load.size_bytes))
    data = PartitionProduceData(index=0, records=builder.build())
    topic_data = [TopicProduceData(name=load.topic, partition_data=[data])]
    acks = 0 if load.kind == "flood" else 1
    return frame_of(ApiKey.PRODUCE, ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topic_data), by)


def passed_by(load: Load, frame: bytes, answer: bytes) -> int:
    """The bytes that a request and its answer have brought to where they belong. Raises RuntimeError for an error."""
    if load.kind == "produce":
        (partition,) = answer_of(ApiKey.PRODUCE, answer).responses[0].partition_responses
        check(partition.error_code)
        return len(frame)
    if load.kind == "fetch":
        answered = answer_of(ApiKey.FETCH, answer)
        check(answered.error_code)
        return len(answer) if answered.responses else 0
    return len(answer)


async def ask_again(load: Load, wire: Wire, frame: bytes, passed: list[Passed], left: list[int]) -> None:
    """One request at a time, until cancelled or none is left."""
    while left[0] or not load.requests:
        left[0] -= 1
        size = passed_by(load, frame, await wire.exchange(frame))
        if size:
            passed.append((time.monotonic(), size))


async def flood(wire: Wire, frame: bytes) -> None:
    """Writes without an end, as far as the broker reads."""
    wire.transport.set_write_buffer_limits(FLOOD_BUFFER_BYTES)
    while True:
        while wire.transport.get_write_buffer_size() < FLOOD_BUFFER_BYTES:
            wire.transport.write(frame)
        await asyncio.sleep(0.001)


async def work(bootstrap: str, load: Load, ready: Callable[[], None], over: Callable[[], bool]) -> list[Passed]:
    """All that a tenant does."""
    wires = await connect_many(bootstrap, load.connections)
    frame, passed, left = request_of(load), list[Passed](), [load.requests]
    jobs: list[Coroutine[Any, Any, None]] = [
        flood(wire, frame) if load.kind == "flood" else ask_again(load, wire, frame, passed, left)
        for wire in wires
        for _ in range(1 if load.kind == "flood" else load.in_flight)
    ]
    tasks = [asyncio.create_task(job) for job in jobs]
    ready()
    while not over() and not all(task.done() for task in tasks):
        await asyncio.wait(tasks, timeout=LOOK_EVERY_S)
    for task in tasks:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for wire in wires:
        wire.transport.abort()
    for each in outcomes:
        if isinstance(each, Exception):
            raise each
    return passed


def in_process(bootstrap: str, load: Load, ready: Any, over: Any, results: Any) -> None:
    """The main function of a tenant's process."""
    try:
        results.send(asyncio.run(work(bootstrap, load, ready.set, over.is_set)))
    except Exception as error:
        ready.set()
        results.send(error)


class Tenant:
    """A running tenant; `passed` has all that passed once it is over."""

    def __init__(self, bootstrap: str, load: Load) -> None:
        self.passed: list[Passed] = []
        self._ready, self._over = PROCESSES.Event(), PROCESSES.Event()
        self._results, results = PROCESSES.Pipe(duplex=False)
        arguments = (bootstrap, load, self._ready, self._over, results)
        self._process = PROCESSES.Process(target=in_process, args=arguments)
        self._process.start()
        self._ready.wait()

    def wait(self) -> None:
        """Waits until it has done all its requests."""
        outcome = self._results.recv()
        self._process.join()
        if isinstance(outcome, Exception):
            raise outcome
        self.passed = outcome

    def end(self) -> None:
        """Ends it."""
        self._over.set()
        self.wait()


@contextlib.contextmanager
def tenant(bootstrap: str, load: Load) -> Iterator[Tenant]:
    """A tenant for the time of the block."""
    running = Tenant(bootstrap, load)
    try:
        yield running
    finally:
        running.end()


async def many_ids(bootstrap: str, load: Load, count: int, seconds: float) -> float:
    """As `count` clients, spread over the time, with one request each. Returns how long that took."""
    wires = await connect_many(bootstrap, load.connections)
    numbers, began_s = iter(range(count)), time.monotonic()

    async def some(wire: Wire) -> None:
        for number in numbers:
            await asyncio.sleep(began_s + number * seconds / count - time.monotonic())
            frame = request_of(load, f"client-{os.getpid()}-{number}")
            passed_by(load, frame, await wire.exchange(frame))

    await asyncio.gather(*map(some, wires))
    for wire in wires:
        wire.close()
    return time.monotonic() - began_s


def run_many_ids(bootstrap: str, load: Load, count: int, seconds: float) -> float:
    """`many_ids`, in a process of its own."""
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=send_result, args=(sender, partial(many_ids, bootstrap, load, count, seconds)))
    process.start()
    took_s = receiver.recv()
    process.join()
    if isinstance(took_s, Exception):
        raise took_s
    assert isinstance(took_s, float)
    return took_s


def send_result(sender: Any, make: Callable[[], Coroutine[Any, Any, float]]) -> None:
    """The main function of that process."""
    try:
        sender.send(asyncio.run(make()))
    except Exception as error:
        sender.send(error)
