"""Sending rows through librdkafka: one producer a Python worker and setting, kept from task to task.

Opening a producer costs a connection and a producer id, which a microbatch should not pay each time; so a worker keeps
the few that it used last, as the official connector does. A producer takes records into a bounded queue; when it is
full, the task waits. librdkafka reports only what it could not deliver: one such record fails the task, and its
producer is thrown away with all that waits in it, for the task that repeats it begins anew. What was delivered before
that stays: at least once.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.errors import AuthenticationError, ConfigError, UnreachableError
from penstock.spark.limits import SINK_PRODUCERS_MAX, SINK_ROWS_AT_ONCE
from penstock.spark.write.librdkafka import check_access, librdkafka_settings, refusal
from penstock.spark.write.options import WriteOptions, unknown_setting
from penstock.spark.write.rows import Row, SinkError, destinations, rows_of

POLL_S = 0.05
AUTO_CREATION_MS = 5_000
"""How long a cluster that makes topics by itself may take to do so."""
NO_SUCH_SETTING = "No such configuration property: "


class Sending:
    """A producer and what became of the records that it was given.

    Args:
        options: checked; the producer's settings may still be refused here.

    Raises:
        ConfigError: librdkafka does not take a setting, or a key store cannot be read.
        AuthenticationError, UnreachableError: of a secured cluster.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._failure: Any = None
        self._failed = 0
        self._partitions: dict[str, int] = {}
        self._refusal = ""
        check_access(options)
        own: dict[str, Any] = {"delivery.report.only.error": True, "logger": _Quiet()}
        own |= {"on_delivery": self._undelivered, "error_cb": self._troubled}
        try:
            self._producer = Producer({**dict(options.producer), **librdkafka_settings(options.security), **own})
        except KafkaException as error:
            raise config_error(error) from None

    def check(self, topic: str) -> int:
        """How many partitions a topic has, asked once a task. Raises SinkError, UnreachableError."""
        found = self._partitions.get(topic)
        return self._look_up(topic) if found is None else found

    def send(self, batch: Any, names: tuple[str, ...]) -> None:
        """Takes the rows of a batch; returns when they are queued. Raises SinkError, UnreachableError."""
        for start in range(0, batch.num_rows, SINK_ROWS_AT_ONCE):
            part = batch.slice(start, SINK_ROWS_AT_ONCE)
            rows = rows_of(part, names, self._options.topic)  # refuses null topics first
            for topic, low, high in destinations(part, names, self._options.topic):
                self._check_partitions(topic, low, high)
            if "headers" in names or "timestamp" in names:
                self._queue_whole(rows)
            else:
                self._queue_plain(rows)
            self._producer.poll(0)
            self._raise_failure()

    def finish(self) -> None:
        """Returns when all that was taken is acknowledged. Raises SinkError for the first record that is not.

        That ends: a record that cannot be delivered fails after `kafka.delivery.timeout.ms`.
        """
        while self._producer.flush(1.0):
            self._raise_failure()
        self._raise_failure()
        self._partitions.clear()  # the next task looks again: a topic may have grown, or be another one

    def discard(self) -> None:
        """Throws away what waits."""
        with suppress(KafkaException):
            self._producer.purge()
        self._producer.poll(0)

    def _queue_plain(self, rows: Row) -> None:
        produce = self._producer.produce
        topic = ""
        try:
            for topic, value, key, partition in zip(*rows[:4], strict=False):
                while True:
                    try:
                        produce(topic, value, key, partition)
                        break
                    except BufferError:
                        self._wait_for_room()
        except KafkaException as error:
            raise undelivered(error.args[0], topic) from None

    def _queue_whole(self, rows: Row) -> None:
        produce = self._producer.produce
        topic = ""
        try:
            for topic, value, key, partition, timestamp_ms, headers in zip(*rows, strict=False):
                while True:
                    try:
                        if headers is None:
                            produce(topic, value, key, partition, timestamp=timestamp_ms)
                        else:
                            produce(topic, value, key, partition, timestamp=timestamp_ms, headers=headers)
                        break
                    except BufferError:
                        self._wait_for_room()
        except KafkaException as error:
            raise undelivered(error.args[0], topic) from None

    def _wait_for_room(self) -> None:
        """Backpressure. It ends: a queued record is delivered, or fails in time and is reported."""
        self._producer.poll(POLL_S)
        self._raise_failure()

    def _undelivered(self, error: Any, message: Any) -> None:
        self._failed += 1
        if self._failure is None:
            self._failure = (error, message.topic(), message.partition())

    def _troubled(self, error: Any) -> None:
        """librdkafka tries logins and handshakes for ever; Kafka's clients do not."""
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self._refusal = self._refusal or error.str()

    def _raise_failure(self) -> None:
        if self._refusal:
            raise AuthenticationError(refusal(self._options, self._refusal))
        if self._failure is not None:
            error, topic, partition = self._failure
            raise undelivered(error, topic, partition)

    def _check_partitions(self, topic: str, low: int, high: int) -> None:
        count = self.check(topic)
        if high >= count:
            count = self._look_up(topic)  # it may have grown since
        if high >= count or low < -1:
            asked = high if high >= count else low
            raise SinkError(f"topic {topic} has partitions 0 to {count - 1}; a row's column `partition` is {asked}")

    def _look_up(self, topic: str) -> int:
        deadline = time.monotonic() + min(self._options.max_block_ms, AUTO_CREATION_MS) / 1000
        while True:
            try:
                state = self._producer.list_topics(topic, timeout=self._options.max_block_ms / 1000).topics[topic]
            except KafkaException as error:
                self._producer.poll(0)
                self._raise_failure()
                raise unreachable(self._options, error) from None
            if state.error is None and state.partitions:
                self._partitions[topic] = len(state.partitions)
                return len(state.partitions)
            missing = state.error is None or state.error.retriable() or is_missing(state.error)
            if not missing or time.monotonic() > deadline:
                raise no_topic(topic, self._options, state.error)
            self._producer.poll(POLL_S)  # the cluster may be making it


class _Quiet:
    """librdkafka says on stderr what it also reports; the report is enough."""

    def log(self, *_: object) -> None:
        """Drops a line."""


_KEPT: OrderedDict[tuple[int, WriteOptions], Sending] = OrderedDict()


def take(options: WriteOptions) -> Sending:
    """The worker's producer for these options, out of the kept ones; `keep` puts it back after good work."""
    key = (os.getpid(), options)  # what a fork left behind has no threads
    return _KEPT.pop(key, None) or Sending(options)


def keep(options: WriteOptions, sending: Sending) -> None:
    """Keeps a producer for the next task; the one that was used longest ago ends if there are too many."""
    _KEPT[os.getpid(), options] = sending
    while len(_KEPT) > SINK_PRODUCERS_MAX:
        _KEPT.popitem(last=False)


def config_error(error: KafkaException) -> ConfigError:
    """Translates librdkafka's error about a setting into our words."""
    text: str = error.args[0].str().strip()
    if text.startswith(NO_SUCH_SETTING):
        return unknown_setting(text.removeprefix(NO_SUCH_SETTING).strip('"'))
    return ConfigError(f"a producer setting cannot be used: {text.removeprefix('Failed to create producer: ')}")


def is_missing(error: Any) -> bool:
    """Whether a broker says that there is no such topic."""
    return error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)


def no_topic(topic: str, options: WriteOptions, error: Any) -> SinkError:
    """The error for a topic that cannot be written to."""
    if error is None or is_missing(error):
        why = "the cluster makes none by itself: `penstock topics create` does"
        return SinkError(f"there is no topic {topic} at {options.bootstrap}, and {why}")
    return SinkError(f"topic {topic} at {options.bootstrap}: {error.str()} ({error.name()})")


def unreachable(options: WriteOptions, error: KafkaException) -> UnreachableError:
    """The error for brokers that do not answer."""
    why = error.args[0].name().lstrip("_")
    return UnreachableError(
        f"no broker at {options.bootstrap} answered within kafka.max.block.ms = {options.max_block_ms} ({why})"
    )


def undelivered(error: Any, topic: str, partition: int = -1) -> SinkError:
    """The error for a record that was not acknowledged."""
    where = topic if partition < 0 else f"{topic}-{partition}"
    why = error.str().removeprefix("Local: ").removeprefix("Broker: ")
    return SinkError(f"a record for {where} was not written: {why} ({error.name().lstrip('_')})")
