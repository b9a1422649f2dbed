"""Transactional clients behind one small interface, so that every one of them goes through the same tests.

A `TransactionalClient` keeps producers by name, each with a transactional id. `PYTHON_CLIENTS` are confluent-kafka
(librdkafka), kafka-python and aiokafka; `Process` is a program of another language that takes the same orders.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import aiokafka
import confluent_kafka
import kafka
from interop.clients.ordered_process import OrderedProcess

TIMEOUT_S = 30.0
POLL_S = 0.5
COPY_TRANSACTION_MS = 60_000

T = TypeVar("T")


class Copy(NamedTuple):
    """What to copy by transactions of a group: so many records, a batch of at most so many in each transaction."""

    transactional_id: str
    group: str
    protocol: str
    source: str
    target: str
    count: int
    batch: int


class RefusedError(Exception):
    """What a client says when it is not let do what it was ordered to."""


class TransactionalClient(Protocol):
    """Orders end when what they ask for is acknowledged, and raise RefusedError with the client's words otherwise."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def open(self, producer: str, transactional_id: str, timeout_ms: int) -> None:
        """Makes a producer and has it initialised."""

    def begin(self, producer: str) -> None: ...

    def send(self, producer: str, topic: str, partition: int, *values: str) -> None: ...

    def commit(self, producer: str) -> None: ...

    def abort(self, producer: str) -> None: ...

    def close(self, producer: str) -> None:
        """Ends a producer, whatever its transaction is at."""

    def copy(self, work: Copy) -> None:
        """Consumes, transforms and produces, with the group's offsets in the transactions; the first transaction is
        aborted, and done again.
        """

    def read(self, topic: str, partition: int, last: str) -> list[str]:
        """What is committed, from the beginning up to the value `last`."""


def patiently(step: Callable[[], int], count: int, what: str) -> None:
    """Repeats a step until the sum of what it gives is `count`."""
    done, deadline_s = 0, time.monotonic() + TIMEOUT_S
    while done < count:
        assert time.monotonic() < deadline_s, f"only {done} of {count} {what} in time"
        done += step()


class Confluent:
    """librdkafka."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers: dict[str, confluent_kafka.Producer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producers.clear()

    def _ask(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except confluent_kafka.KafkaException as refused:
            raise RefusedError(str(refused)) from refused

    def _producer(self, transactional_id: str, timeout_ms: int) -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self._ask(producer.init_transactions, TIMEOUT_S)
        return producer

    def _consumer(self, **settings: object) -> confluent_kafka.Consumer:
        common = {"enable.auto.commit": False, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        return confluent_kafka.Consumer({"bootstrap.servers": self._bootstrap, **common, **settings})

    def open(self, producer: str, transactional_id: str, timeout_ms: int) -> None:
        self._producers[producer] = self._producer(transactional_id, timeout_ms)

    def begin(self, producer: str) -> None:
        self._ask(self._producers[producer].begin_transaction)

    def send(self, producer: str, topic: str, partition: int, *values: str) -> None:
        failed: list[str] = []
        for value in values:
            self._ask(
                lambda value=value: self._producers[producer].produce(
                    topic, value, partition=partition, on_delivery=lambda error, _: error and failed.append(str(error))
                )
            )
        left = self._producers[producer].flush(TIMEOUT_S)
        if failed or left:
            raise RefusedError(failed[0] if failed else f"{left} records were not acknowledged")

    def commit(self, producer: str) -> None:
        self._ask(self._producers[producer].commit_transaction, TIMEOUT_S)

    def abort(self, producer: str) -> None:
        self._ask(self._producers[producer].abort_transaction, TIMEOUT_S)

    def close(self, producer: str) -> None:
        del self._producers[producer]

    def copy(self, work: Copy) -> None:
        producer = self._producer(work.transactional_id, COPY_TRANSACTION_MS)
        consumer = self._consumer(**{"group.id": work.group, "group.protocol": work.protocol})
        turns = 0

        def step() -> int:
            nonlocal turns
            messages = consumer.consume(work.batch, POLL_S)
            if not messages:
                return 0
            producer.begin_transaction()
            for message in messages:
                assert message.error() is None, message.error()
                producer.produce(work.target, b"copied:" + (message.value() or b""), partition=message.partition())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S)
            turns += 1
            if turns > 1:
                producer.commit_transaction(TIMEOUT_S)
                return len(messages)
            producer.abort_transaction(TIMEOUT_S)
            for committed in consumer.committed(consumer.assignment(), TIMEOUT_S):
                committed.offset = max(committed.offset, 0)
                consumer.seek(committed)
            return 0

        consumer.subscribe([work.source])
        try:
            patiently(step, work.count, "records were copied")
        finally:
            consumer.close()

    def read(self, topic: str, partition: int, last: str) -> list[str]:
        consumer = self._consumer(**{"group.id": "unused"})
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        values: list[str] = []
        try:
            while not values or values[-1] != last:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"only these came: {values}"
                assert message.error() is None, message.error()
                values.append((message.value() or b"").decode())
            return values
        finally:
            consumer.close()


class KafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers: dict[str, kafka.KafkaProducer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for producer in [*self._producers]:
            self.close(producer)

    def _ask(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(*arguments)
        except kafka.errors.KafkaError as refused:
            raise RefusedError(repr(refused)) from refused

    def _producer(self, transactional_id: str, timeout_ms: int) -> kafka.KafkaProducer:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._ask(producer.init_transactions)
        return producer

    def _consumer(self, **settings: object) -> kafka.KafkaConsumer:
        return kafka.KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            **settings,
        )

    def open(self, producer: str, transactional_id: str, timeout_ms: int) -> None:
        self._producers[producer] = self._producer(transactional_id, timeout_ms)

    def begin(self, producer: str) -> None:
        self._ask(self._producers[producer].begin_transaction)

    def send(self, producer: str, topic: str, partition: int, *values: str) -> None:
        client = self._producers[producer]

        def send() -> None:
            sent = [client.send(topic, value.encode(), partition=partition) for value in values]
            client.flush(TIMEOUT_S)
            for future in sent:
                future.get(TIMEOUT_S)

        self._ask(send)

    def commit(self, producer: str) -> None:
        self._ask(self._producers[producer].commit_transaction)

    def abort(self, producer: str) -> None:
        self._ask(self._producers[producer].abort_transaction)

    def close(self, producer: str) -> None:
        self._producers.pop(producer).close(timeout=0)

    def copy(self, work: Copy) -> None:
        producer = self._producer(work.transactional_id, COPY_TRANSACTION_MS)
        consumer = self._consumer(group_id=work.group, max_poll_records=work.batch)
        turns = 0

        def step() -> int:
            nonlocal turns
            found = consumer.poll(timeout_ms=int(POLL_S * 1000))
            if not found:
                return 0
            producer.begin_transaction()
            for partition, records in found.items():
                for record in records:
                    producer.send(work.target, b"copied:" + record.value, partition=partition.partition)
            offsets = {each: kafka.OffsetAndMetadata(consumer.position(each), "", -1) for each in found}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            turns += 1
            if turns > 1:
                producer.commit_transaction()
                return sum(map(len, found.values()))
            producer.abort_transaction()
            for each in consumer.assignment():
                consumer.seek(each, consumer.committed(each) or 0)
            return 0

        consumer.subscribe([work.source])
        try:
            patiently(step, work.count, "records were copied")
        finally:
            consumer.close()
            producer.close()

    def read(self, topic: str, partition: int, last: str) -> list[str]:
        consumer = self._consumer(consumer_timeout_ms=int(TIMEOUT_S * 1000))
        consumer.assign([kafka.TopicPartition(topic, partition)])
        consumer.seek(kafka.TopicPartition(topic, partition), 0)
        values: list[str] = []
        try:
            for message in consumer:
                values.append(message.value.decode())
                if values[-1] == last:
                    return values
        finally:
            consumer.close()
        raise AssertionError(f"only these came: {values}")


class Aiokafka:
    """aiokafka, on a loop of its own thread: its producers live from order to order."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers: dict[str, aiokafka.AIOKafkaProducer] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for producer in [*self._producers]:
            self.close(producer)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    def _run(self, work: Awaitable[T]) -> T:
        async def timely() -> T:
            return await asyncio.wait_for(work, TIMEOUT_S)

        running: Future[T] = asyncio.run_coroutine_threadsafe(timely(), self._loop)
        try:
            return running.result()
        except aiokafka.errors.KafkaError as refused:
            raise RefusedError(repr(refused)) from refused

    async def _producer(self, transactional_id: str, timeout_ms: int) -> aiokafka.AIOKafkaProducer:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await producer.start()
        return producer

    def _consumer(self, *topics: str, **settings: Any) -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            *topics,
            bootstrap_servers=self._bootstrap,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            **settings,
        )

    def open(self, producer: str, transactional_id: str, timeout_ms: int) -> None:
        self._producers[producer] = self._run(self._producer(transactional_id, timeout_ms))

    def begin(self, producer: str) -> None:
        self._run(self._producers[producer].begin_transaction())

    def send(self, producer: str, topic: str, partition: int, *values: str) -> None:
        client = self._producers[producer]

        async def send() -> None:
            sent = [await client.send(topic, value.encode(), partition=partition) for value in values]
            await asyncio.gather(*sent)

        self._run(send())

    def commit(self, producer: str) -> None:
        self._run(self._producers[producer].commit_transaction())

    def abort(self, producer: str) -> None:
        self._run(self._producers[producer].abort_transaction())

    def close(self, producer: str) -> None:
        with suppress(RefusedError, TimeoutError):
            self._run(self._producers.pop(producer).stop())

    def copy(self, work: Copy) -> None:
        async def copy() -> None:
            producer = await self._producer(work.transactional_id, COPY_TRANSACTION_MS)
            consumer = self._consumer(work.source, group_id=work.group, max_poll_records=work.batch)
            await consumer.start()
            copied = turns = 0
            try:
                while copied < work.count:
                    found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                    if not found:
                        continue
                    await producer.begin_transaction()
                    for partition, records in found.items():
                        for record in records:
                            await producer.send(work.target, b"copied:" + record.value, partition=partition.partition)
                    offsets = {partition: records[-1].offset + 1 for partition, records in found.items()}
                    await producer.send_offsets_to_transaction(offsets, work.group)
                    turns += 1
                    if turns > 1:
                        await producer.commit_transaction()
                        copied += sum(map(len, found.values()))
                        continue
                    await producer.abort_transaction()
                    for each in consumer.assignment():
                        consumer.seek(each, await consumer.committed(each) or 0)
            finally:
                await consumer.stop()
                await producer.stop()

        self._run(copy())

    def read(self, topic: str, partition: int, last: str) -> list[str]:
        async def read() -> list[str]:
            consumer = self._consumer()
            await consumer.start()
            try:
                consumer.assign([aiokafka.TopicPartition(topic, partition)])
                consumer.seek(aiokafka.TopicPartition(topic, partition), 0)
                values: list[str] = []
                while not values or values[-1] != last:
                    values.append((await consumer.getone()).value.decode())
                return values
            finally:
                await consumer.stop()

        return self._run(read())


class Process(OrderedProcess):
    """A program that takes the orders on standard input; see TransactionalClient.java."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        super().__init__([*command, bootstrap])

    def _order(self, *words: object) -> list[str]:
        told, *answer = self.ask(" ".join(map(str, words))).split()
        if told != "ok":
            raise RefusedError(" ".join(answer))
        return answer

    def open(self, producer: str, transactional_id: str, timeout_ms: int) -> None:
        self._order("open", producer, transactional_id, timeout_ms)

    def begin(self, producer: str) -> None:
        self._order("begin", producer)

    def send(self, producer: str, topic: str, partition: int, *values: str) -> None:
        self._order("send", producer, topic, partition, *values)

    def commit(self, producer: str) -> None:
        self._order("commit", producer)

    def abort(self, producer: str) -> None:
        self._order("abort", producer)

    def close(self, producer: str) -> None:
        self._order("close", producer)

    def copy(self, work: Copy) -> None:
        self._order("copy", *work)

    def read(self, topic: str, partition: int, last: str) -> list[str]:
        return self._order("read", topic, partition, last)


PYTHON_CLIENTS: dict[str, Callable[[str], TransactionalClient]] = {
    "librdkafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
