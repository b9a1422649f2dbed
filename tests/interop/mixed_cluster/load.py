"""Clients at work while a cluster changes: an idempotent producer with acks=all, and a consumer that assigns.

Each record's value is its number within its partition, so that a lost, repeated or changed record shows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from interop.mixed_cluster.comparison import reads_are_whole

TIMEOUT_S = 60.0
PACE_S = 0.005
PADDING = b" " * 100


class Load:
    """Writes and reads from `start` until `finish`.

    Parameters: `security`, how librdkafka logs in; `settings`, more of the producer.

    Attributes: `acknowledged`, for each partition the value at each offset that was acknowledged; `delivered`, how
    many records were, some of them without an offset; `read`, for each
    partition what was read, as (offset, value); `failed`, what went wrong.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: Sequence[int],
        *,
        security: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        self._topic = topic
        self._partitions = list(partitions)
        common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0}
        common["topic.metadata.refresh.interval.ms"] = 1000
        common |= security or {}
        self._producer = Producer({**common, "enable.idempotence": True, "acks": "all", "linger.ms": 2, **settings})
        reading = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        self._consumer = Consumer({**common, **reading})
        self.acknowledged: dict[int, dict[int, bytes]] = {each: {} for each in partitions}
        self.delivered: dict[int, int] = dict.fromkeys(partitions, 0)
        self.read: dict[int, list[tuple[int, bytes]]] = {each: [] for each in partitions}
        self.failed: list[object] = []
        self._stopping = threading.Event()
        self._sent = 0
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._follow)]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def acknowledged_count(self) -> int:
        """How many records were acknowledged so far."""
        return sum(self.delivered.values())

    def acknowledged_counts(self) -> list[int]:
        """The same, for each partition."""
        return list(self.delivered.values())

    def finish(self) -> None:
        """Ends, and checks that what was acknowledged was read, at its offset, and that nothing was lost."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_S)
            assert not thread.is_alive()
        assert not self.failed, self.failed
        values = [b"%d" % number + PADDING for number in range(self._sent)]
        for partition in self._partitions:
            reads_are_whole(self.read[partition], values, self.acknowledged[partition])

    def records_written_twice(self, partition: int) -> int:
        """How many. librdkafka begins a new producer epoch when requests overtake each other as a leader changes; what
        was appended and answered NOT_LEADER_OR_FOLLOWER before that is written again. No broker can prevent that.
        """
        return len(self.read[partition]) - self._sent

    def _write(self) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failed.append(error)
            elif message.offset() is None:  # acknowledged by the success of a later one
                self.delivered[message.partition() or 0] += 1
            else:
                partition, offset, value = placed(message)
                self.acknowledged[partition][offset] = value
                self.delivered[partition] += 1

        while not self._stopping.is_set():
            for partition in self._partitions:
                value = b"%d" % self._sent + PADDING
                self._producer.produce(self._topic, value, partition=partition, on_delivery=delivered)
            self._sent += 1
            self._producer.poll(PACE_S)
        if self._producer.flush(TIMEOUT_S):
            self.failed.append("not everything was acknowledged in time")

    def _follow(self) -> None:
        consumer = self._consumer
        # From offset 0, not from the beginning: librdkafka gives up when it asks for that a leader that does not know
        # the new topic yet, while it repeats a fetch.
        consumer.assign([TopicPartition(self._topic, each, 0) for each in self._partitions])
        idle_s = 0.0
        try:
            while idle_s < TIMEOUT_S and not self._has_everything():
                message = consumer.poll(1.0)
                idle_s = idle_s + 1 if message is None else 0.0
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    partition, offset, value = placed(message)
                    self.read[partition].append((offset, value))
                elif not error.retriable():
                    self.failed.append(error)
        except KafkaException as refused:
            self.failed.append(refused)
        finally:
            consumer.close()

    def _has_everything(self) -> bool:
        """Whether the last record of each partition was read: all are written by then."""
        last = b"%d" % (self._sent - 1) + PADDING
        return not self._threads[0].is_alive() and all(found and found[-1][1] == last for found in self.read.values())


def placed(message: Message) -> tuple[int, int, bytes]:
    """The partition, the offset and the value of a record."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert isinstance(value, bytes)
    return partition, offset, value
