"""Publishes readings as records: JSON values, one batch a partition a second, on a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from abc import ABC, abstractmethod
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


class Publishing(ABC):
    """Publishes to one topic on a thread of its own, until it is told to stop.

    Args:
        bootstrap: the broker.
        topic: made if it is missing.
        partitions: of a topic that is made.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.published = 0
        self._bootstrap, self._partitions = bootstrap, partitions
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._topic_made = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"publish-{topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends publishing; what was read has been acknowledged."""
        self._stop.set()
        self._thread.join()

    def wait_for_topic(self) -> None:
        """Returns when the topic is there. Raises PenstockError if it could not be made."""
        self._topic_made.wait()
        self.check()

    def check(self) -> None:
        """Raises PenstockError if publishing has failed."""
        if self._failure is not None:
            raise PenstockError(f"publishing {self.topic} failed: {self._failure}") from self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            self._failure = error
        finally:
            self._topic_made.set()

    async def _work(self) -> None:
        async with Client(self._bootstrap, client_id=f"demo-{self.topic}") as client:
            await make_topic(client, self.topic, self._partitions)
            self._topic_made.set()
            await self._publish(client)

    async def _stopped_after(self, seconds: float) -> bool:
        """Waits; returns whether to stop."""
        return await asyncio.to_thread(self._stop.wait, max(0.0, seconds))

    @abstractmethod
    async def _publish(self, client: Client) -> None:
        """Publishes until it is told to stop, and counts the records in `published`."""


class Publisher(Publishing):
    """Reads a source every second and publishes what it says, spread over the topic's partitions by key.

    Args:
        read: gives the events of this moment.
        key: the key of an event; events of one key stay in order.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        read: Callable[[], Sequence[Event]],
        key: Callable[[Event], str],
    ) -> None:
        super().__init__(bootstrap, topic, partitions)
        self._read, self._key = read, key

    async def _publish(self, client: Client) -> None:
        due = time.monotonic()
        while True:
            due = max(due + PERIOD_S, time.monotonic())  # a rate needs a period before its first reading too
            if await self._stopped_after(due - time.monotonic()):
                return
            events = await asyncio.to_thread(self._read)
            batches: dict[int, list[Event]] = {}
            for event in events:
                partition = partition_for_key(self._key(event).encode(), self._partitions)
                batches.setdefault(partition, []).append(event)
            for partition, some in batches.items():
                await client.produce(self.topic, partition, self._batch(some))
            self.published += len(events)

    def _batch(self, events: Sequence[Event]) -> bytes:
        builder = BatchBuilder(codec=Codec.LZ4)
        for event in events:
            value = json.dumps(event, separators=(",", ":")).encode()
            builder.append(event["time_ms"], self._key(event).encode(), value)
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
