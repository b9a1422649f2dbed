"""Publishes readings as records: JSON values, one batch a partition a second, on a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock.client.client import Client
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.partitioner import partition_for_key

Event = dict[str, Any]
PERIOD_S = 1.0


class Publisher:
    """Reads a source every second and publishes what it says to one topic, spread over its partitions by key.

    Args:
        bootstrap: the broker.
        topic: made if it is missing.
        partitions: of a topic that is made.
        read: gives the events of this moment.
        key: the field of an event that is its key.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, read: Callable[[], Sequence[Event]], key: str
    ) -> None:
        self.topic = topic
        self.published = 0
        self.failure: BaseException | None = None
        self._bootstrap, self._partitions, self._read, self._key = bootstrap, partitions, read, key
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"publish-{topic}", daemon=True)

    def start(self) -> None:
        """Begins publishing."""
        self._thread.start()

    def stop(self) -> None:
        """Ends publishing; what was read has been acknowledged."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._publish())
        except BaseException as error:
            self.failure = error

    async def _publish(self) -> None:
        async with Client(self._bootstrap, client_id=f"demo-{self.topic}") as client:
            await make_topic(client, self.topic, self._partitions)
            due = time.monotonic()
            while not self._stop.is_set():
                events = await asyncio.to_thread(self._read)
                batches: dict[int, list[Event]] = {}
                for event in events:
                    partition = partition_for_key(str(event[self._key]).encode(), self._partitions)
                    batches.setdefault(partition, []).append(event)
                for partition, some in batches.items():
                    await client.produce(self.topic, partition, self._batch(some))
                self.published += len(events)
                due = max(due + PERIOD_S, time.monotonic())
                await asyncio.to_thread(self._stop.wait, due - time.monotonic())

    def _batch(self, events: Sequence[Event]) -> bytes:
        builder = BatchBuilder(codec=Codec.LZ4)
        for event in events:
            value = json.dumps(event, separators=(",", ":")).encode()
            builder.append(event["time_ms"], str(event[self._key]).encode(), value)
        return bytes(builder.build())


async def make_topic(client: Client, name: str, partitions: int) -> None:
    """Creates a topic; one that is there is fine."""
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)
    answer = await client.send(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
    code = ErrorCode(answer.topics[0].error_code)
    if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise RequestError(code, f"cannot create topic {name}: {answer.topics[0].error_message or code.name}")
    for _ in range(100):
        try:
            await client.topic(name)
            return
        except PenstockError:
            await asyncio.sleep(0.05)
    await client.topic(name)
