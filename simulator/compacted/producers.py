"""Producers of compacted topics: few keys, again and again, and now and then a delete marker.

Sometimes an answer does not reach a producer for seconds, and it sends its batch again: by then the cleaner may have
taken all records out of that one, whose sequence has to be known all the same, by whoever leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from penstock.errors import ErrorCode
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from simulator.cluster.load import Load
from simulator.cluster.producers import FILLER_BYTES_MAX, RECORDS_MAX, Batch, IdempotentProducer
from simulator.compacted.history import KeyedHistory
from simulator.compacted.records import NAME, Written
from simulator.world.network import Address

KEYS = 12
MARKER_PROBABILITY = 0.2
UNHEARD_PROBABILITY, UNHEARD_MS_MAX = 0.1, 3_000
CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4)


class KeyedProducer(IdempotentProducer):
    """One of them; see the module's head. `unheard`: how many answers did not reach it."""

    def __init__(self, load: Load, history: KeyedHistory, name: str) -> None:
        super().__init__(load, history, name)
        self.history = history
        self.unheard = 0
        self._codec = load.simulation.random.choice(CODECS)

    def new_values(self) -> list[bytes]:
        """The names of new records."""
        random = self.load.simulation.random
        names = []
        for _ in range(random.randrange(1, RECORDS_MAX + 1)):
            self.written += 1
            name = f"{self.name} {self.written}".encode()
            key = b"key-%d" % random.randrange(KEYS)
            value = None if random.random() < MARKER_PROBABILITY else b"." * random.randrange(FILLER_BYTES_MAX)
            self.history.send(name, Written(key, value, self.load.simulation.now_ms))
            names.append(name)
        return names

    def _repeat(self) -> None:
        """Gives up what may soon be deleted for its age (`delivery.timeout.ms`): whoever has a replica made by then
        does not know of it, and would take it again."""
        if not self._is_late:
            super()._repeat()
            return
        self._give_up()
        self.go_on()

    @property
    def _is_late(self) -> bool:
        retention_ms = self.history.cleanup.retention_ms
        if retention_ms is None or not self.window:
            return False
        oldest = self.history.written[self.window[0].values[0]]
        return self.load.simulation.now_ms - oldest.timestamp_ms >= retention_ms // 2

    def _fill(self, builder: BatchBuilder, values: Sequence[bytes]) -> None:
        builder.codec = self._codec
        for name in values:
            key, value, timestamp_ms = self.history.written[name]
            builder.append(timestamp_ms, key, value, ((NAME, name),))

    def _answered(self, leader: Address, batch: Batch, response: Any) -> None:
        answered = super()._answered
        answer = None if response is None else response.responses[0].partition_responses[0]
        random = self.load.simulation.random
        if answer is None or answer.error_code != ErrorCode.NONE or random.random() >= UNHEARD_PROBABILITY:
            answered(leader, batch, response)
            return
        self._is_there(batch, answer.base_offset)
        for number, name in enumerate(batch.values):
            self.history.acknowledge(answer.base_offset + number, name, batch.sent_at_end)
        self.unheard += 1
        self.load.simulation.after_ms(random.randrange(UNHEARD_MS_MAX), partial(answered, leader, batch, None))

    def _acknowledge(self, batch: Batch, base_offset: int) -> None:
        self._is_there(batch, base_offset)
        super()._acknowledge(batch, base_offset)

    def _is_there(self, batch: Batch, base_offset: int) -> None:
        """A batch was appended. One that was given up is of an earlier producer id, of which nobody asks any more."""
        if batch in self.window:
            count = len(batch.values)
            self.history.appended(self.producer_id, batch.base_sequence + count - 1, base_offset + count - 1)
