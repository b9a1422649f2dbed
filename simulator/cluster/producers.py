"""Producers of a simulated cluster.

An `IdempotentProducer` writes one partition with acks=all, several batches in flight. What is not acknowledged it
sends again, with the same sequence numbers and in the same order, until it is: to the leader there is by then, once
nothing is under way any more.

Only the last batch of a producer is in the snapshots of producer states (Kafka's format). So a leader that has just
loaded one may refuse the first of several batches in flight as out of order although it has it; as Kafka's producer
does, the batches then count as failed, which may mean appended, and a new producer id goes on. One that has a single
batch in flight never loses its state.

A `PlainProducer` uses acks=1 and sends every value once, whatever comes of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder
from simulator.cluster.history import PartitionHistory
from simulator.cluster.load import AGAIN, RETRY_MS, Load
from simulator.world.checks import check
from simulator.world.network import Address

PRODUCE_VERSION, INIT_VERSION = 9, 4
PRODUCE_TIMEOUT_MS = 2_000
IN_FLIGHT_MAX = (1, 1, 1, 2, 5)
RECORDS_MAX = 4
FILLER_BYTES_MAX = 200


def produce(partition: PartitionHistory, builder: BatchBuilder, acks: int) -> ProduceRequest:
    """The request that appends a batch."""
    data = PartitionProduceData(index=partition.index, records=builder.build())
    topic = TopicProduceData(name=partition.topic, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic])


class Batch:
    """Values under their sequence numbers; `sent_at_end` is the partition's end when they were first sent."""

    __slots__ = ("acknowledged", "base_sequence", "sent_at_end", "values")

    def __init__(self, base_sequence: int, values: Sequence[bytes], sent_at_end: int) -> None:
        self.base_sequence = base_sequence
        self.values = values
        self.sent_at_end = sent_at_end
        self.acknowledged = False


class Writer(ABC):
    """What both kinds have in common: a partition, whose leader it looks for, and values that nobody else writes."""

    def __init__(self, load: Load, partition: PartitionHistory, name: str) -> None:
        self.load = load
        self.partition = partition
        self.name = name
        self.client = load.client(name)
        self.written = 0

    @property
    def leader(self) -> Address | None:
        return self.client.leaders.get((self.partition.topic, self.partition.index))

    @abstractmethod
    def go_on(self) -> None:
        """Does what is to be done next."""

    def find_leader(self) -> None:
        """Asks who leads, then goes on."""
        self.client.find_leaders(self.partition.topic, self.found)

    def found(self) -> None:
        """There was an answer as to who leads."""
        if self.leader is None:
            self.later(RETRY_MS)
        else:
            self.go_on()

    def later(self, delay_ms: int) -> None:
        """Goes on after a while."""
        self.load.simulation.after_ms(delay_ms, self.go_on)

    def new_values(self) -> list[bytes]:
        """Values that nobody has written before."""
        random = self.load.simulation.random
        values = []
        for _ in range(random.randrange(1, RECORDS_MAX + 1)):
            self.written += 1
            values.append(f"{self.name} {self.written} ".encode() + b"." * random.randrange(FILLER_BYTES_MAX))
        self.partition.sent.update(values)
        return values


class IdempotentProducer(Writer):
    """acks=all; see the module's head.

    Attributes:
        window: batches that are not acknowledged, or wait for an earlier one, in the order of their sequence numbers.
        acknowledged: how many batches were.
    """

    def __init__(self, load: Load, partition: PartitionHistory, name: str) -> None:
        super().__init__(load, partition, name)
        self.producer_id = -1
        self.epoch = -1
        self.window: deque[Batch] = deque()
        self.acknowledged = 0
        self._sequence = 0
        self._in_flight = 0
        self._in_flight_max = load.simulation.random.choice(IN_FLIGHT_MAX)
        self._repeating = False
        self._turn = 0

    def go_on(self) -> None:
        if self.producer_id < 0:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            self.client.ask_any(request, INIT_VERSION, self._got_id)
        elif self.leader is None:
            self.find_leader()
        elif self._repeating:
            self._repeat()
        else:
            self._send_new()

    def _got_id(self, response: Any) -> None:
        if response is None or response.error_code:
            code = ErrorCode.NONE if response is None else ErrorCode(response.error_code)
            check(response is None or code in AGAIN, "ids are given", f"{self.name}: {code.name}")
            self.later(RETRY_MS)
            return
        given = self.load.producer_ids
        check(response.producer_id not in given, "a producer id is given once", str(response.producer_id))
        given.add(response.producer_id)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self.go_on()

    def _send_new(self) -> None:
        """One more batch, if there is room; when nothing is to be done, nothing is waited for."""
        if not self.load.going_on:
            return
        if self._in_flight < self._in_flight_max:
            batch = Batch(self._sequence, self.new_values(), self.partition.end)
            self._sequence += len(batch.values)
            self.window.append(batch)
            self._send(batch)
        self.later(self.load.think())

    def _repeat(self) -> None:
        self._repeating = False
        for batch in self.window:
            if not batch.acknowledged:
                self._send(batch)
        self._send_new()

    def _send(self, batch: Batch) -> None:
        leader = self.leader
        assert leader is not None
        builder = BatchBuilder(
            producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=batch.base_sequence
        )
        self._fill(builder, batch.values)
        self._in_flight += 1
        request = produce(self.partition, builder, acks=-1)
        self.client.ask(leader, request, PRODUCE_VERSION, lambda response: self._answered(leader, batch, response))

    def _fill(self, builder: BatchBuilder, values: Sequence[bytes]) -> None:
        """Puts the records of a batch into it, each time that it is sent."""
        for value in values:
            builder.append(self.load.simulation.now_ms, None, value)

    def _answered(self, leader: Address, batch: Batch, response: Any) -> None:
        self._in_flight -= 1
        code = None
        if response is not None:
            answer = response.responses[0].partition_responses[0]
            code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._acknowledge(batch, answer.base_offset)
        else:
            self._failed(leader, batch, code)
        if self._repeating and self._in_flight == 0:
            self.load.simulation.after_ms(RETRY_MS, self.find_leader)

    def _acknowledge(self, batch: Batch, base_offset: int) -> None:
        """Also of a batch that was given up."""
        for number, value in enumerate(batch.values):
            self.partition.acknowledge(base_offset + number, value, batch.sent_at_end)
        batch.acknowledged = True
        self.acknowledged += 1
        while self.window and self.window[0].acknowledged:
            self.window.popleft()

    def _failed(self, leader: Address, batch: Batch, code: ErrorCode | None) -> None:
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._out_of_order(leader, batch)
        elif code is not None:
            check(code in AGAIN, "a batch is taken or refused for a time", f"{self.name}: {code.name}")
        self.client.leaders.pop((self.partition.topic, self.partition.index), None)
        if not self._repeating:
            self._repeating = True
            self.load.simulation.trace(f"{self.name}: {'no answer' if code is None else code.name} from {leader[0]}")

    def _out_of_order(self, leader: Address, batch: Batch) -> None:
        """Right for a batch whose predecessor failed, and from a leader that has been cut off and lacks what others
        have; for the first batch at the real leader, only if it may have been appended before."""
        if not self.window or self.window[0] is not batch or not self.load.really_leads(leader, self.partition):
            return
        detail = f"{self.name}: sequence {batch.base_sequence} refused"
        lost = self._in_flight_max > 1 or self.partition.unclean
        check(lost, "a producer's state survives", detail)
        self.load.simulation.trace(f"{detail}; a new producer id goes on")
        self._give_up()

    def _give_up(self) -> None:
        """What is under way counts as failed, which may mean appended, and a new producer id goes on."""
        self.window.clear()
        self.producer_id = -1
        self._sequence = 0

    # While `_repeating`, nothing new is sent: `_in_flight` comes to 0, then the leader is looked for.

    def later(self, delay_ms: int) -> None:
        self._turn += 1
        turn = self._turn
        self.load.simulation.after_ms(delay_ms, lambda: self._on_time(turn))

    def _on_time(self, turn: int) -> None:
        if turn == self._turn and not self._repeating:
            self.go_on()

    def found(self) -> None:
        if self.leader is None:
            self.load.simulation.after_ms(RETRY_MS, self.find_leader)
        else:
            self.go_on()


class PlainProducer(Writer):
    """acks=1, no idempotence, one batch in flight, never repeated."""

    def go_on(self) -> None:
        if not self.load.going_on:
            return
        leader = self.leader
        if leader is None:
            self.find_leader()
            return
        builder = BatchBuilder()
        for value in self.new_values():
            builder.append(self.load.simulation.now_ms, None, value)
        self.client.ask(leader, produce(self.partition, builder, acks=1), PRODUCE_VERSION, self._answered)

    def _answered(self, response: Any) -> None:
        code = ErrorCode.NONE
        if response is not None:
            code = ErrorCode(response.responses[0].partition_responses[0].error_code)
            check(code in AGAIN or code is ErrorCode.NONE, "a batch is taken or refused for a time", code.name)
        if response is None or code is not ErrorCode.NONE:
            self.client.leaders.pop((self.partition.topic, self.partition.index), None)
        self.later(self.load.think())
