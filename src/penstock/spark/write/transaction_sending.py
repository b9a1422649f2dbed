"""Sending the batches of a transaction: many requests in flight, and the order of each partition kept.

Of each partition some batches are under way at once (SINK_IN_FLIGHT_PER_PARTITION, or what the caller says), on one
connection, where brokers take them in order. If one fails for now, its successors fail for its sake: all that is under
way is waited for, and the first that is not acknowledged is sent again, and those after it. A broker that has a batch
already says so, and does not append it twice; it remembers the last five of a partition only, so of more in flight one
whose answer was lost may end the transaction, which then begins anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from penstock.client.client import Client, Partition
from penstock.client.connection import BrokerConnection
from penstock.client.limits import CLIENT_RETRY_BACKOFF_MS
from penstock.client.transactional import Transactions
from penstock.errors import ErrorCode, PenstockError, UnreachableError
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.spark.limits import SINK_IN_FLIGHT, SINK_IN_FLIGHT_PER_PARTITION
from penstock.spark.write.rows import SinkError

ACKS_ALL = -1
TAKEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Piece(NamedTuple):
    """A batch to send: `load()` gives its bytes, stamped, as often as it is sent."""

    load: Callable[[], bytearray]


class Refusal(NamedTuple):
    """Why a batch was not taken, for now."""

    why: str


class Times(Protocol):
    """How long sending may take, in milliseconds, as in Kafka's producers; see `ExactlyOnce`."""

    @property
    def transaction_timeout_ms(self) -> int: ...

    @property
    def request_timeout_ms(self) -> int: ...

    @property
    def delivery_timeout_ms(self) -> int: ...


class InFlight(NamedTuple):
    """Batches that may be under way at once: of a partition, and of all together."""

    per_partition: int = SINK_IN_FLIGHT_PER_PARTITION
    total: int = SINK_IN_FLIGHT


USUAL = InFlight()


class TransactionSending:
    """Sends the batches of one transaction.

    Args:
        client: connected.
        transactions: open; the partitions have joined.
        options: how long it may take.
        sent: told of each batch that a broker has acknowledged.
        in_flight: how many batches at once.
    """

    def __init__(
        self,
        client: Client,
        transactions: Transactions,
        options: Times,
        sent: Callable[[Partition], None] = lambda partition: None,
        in_flight: InFlight = USUAL,
    ) -> None:
        self._client = client
        self._transactions = transactions
        self._options = options
        self._deadline = asyncio.get_running_loop().time() + options.transaction_timeout_ms / 1000
        self._in_flight = in_flight
        self._room = asyncio.Semaphore(in_flight.total)
        self._sent = sent
        self._stopped = False

    async def send(self, work: Mapping[Partition, Iterable[Piece]]) -> None:
        """Returns when all is acknowledged. Raises SinkError, RequestError; then nothing is on its way any more."""
        outcomes = await asyncio.gather(
            *(self._send(partition, list(pieces)) for partition, pieces in work.items()), return_exceptions=True
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _send(self, partition: Partition, pieces: list[Piece]) -> None:
        done, taken_at = 0, asyncio.get_running_loop().time()
        try:
            while done < len(pieces) and not self._stopped:
                count, refusal = await self._to_leader(partition, pieces[done:])
                done += count
                if count:
                    taken_at = asyncio.get_running_loop().time()
                if refusal is not None and not self._stopped:
                    await self._again(partition, refusal, taken_at)
        except BaseException:
            self._stopped = True  # the others end what they have begun
            raise

    async def _to_leader(self, partition: Partition, pieces: list[Piece]) -> tuple[int, Refusal | None]:
        """How many batches the partition's leader has taken, and why it did not take the next one."""
        try:
            state = await self._client.topic(partition[0], partition[1] + 1)
            if partition[1] >= len(state.leaders):
                raise SinkError(
                    f"topic {partition[0]} has partitions 0 to {len(state.leaders) - 1} now: it was made again"
                )
            node_id = state.leaders[partition[1]]
            if node_id < 0:
                return 0, Refusal("it has no leader")
            connection = await self._client.connection(node_id)
        except UnreachableError as error:
            return 0, Refusal(str(error))
        return await self._window(connection, state.topic_id, partition, pieces)

    async def _again(self, partition: Partition, refusal: Refusal, taken_at: float) -> None:
        """Waits before the next try. Raises SinkError when there is no time for one."""
        now, options = asyncio.get_running_loop().time(), self._options
        limit = None
        if now > self._deadline:
            limit = f"transaction.timeout.ms = {options.transaction_timeout_ms}"
        elif now > taken_at + options.delivery_timeout_ms / 1000:
            limit = f"delivery.timeout.ms = {options.delivery_timeout_ms}"
        if limit is not None:
            raise SinkError(f"{partition[0]}-{partition[1]} did not take a batch within kafka.{limit}: {refusal.why}")
        await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)
        await self._refresh(partition[0])

    async def _refresh(self, topic: str) -> None:
        """Learns the leaders anew, if somebody can tell."""
        try:
            await self._client.refresh([topic])
        except UnreachableError:
            return

    async def _window(
        self, connection: BrokerConnection, topic_id: UUID, partition: Partition, pieces: list[Piece]
    ) -> tuple[int, Refusal | None]:
        """Sends batches in order until one is refused for now: how many were taken, and why the next one was not.

        Raises what says that a batch will never be taken, once all that is under way has its answer.
        """
        under_way: deque[asyncio.Task[Refusal | None]] = deque()
        begun = taken = 0
        refusal: Refusal | None = None
        failure: PenstockError | None = None
        while True:
            goes_on = refusal is None and failure is None and not self._stopped
            while goes_on and begun < len(pieces) and len(under_way) < self._in_flight.per_partition:
                await self._room.acquire()
                produce = self._produce(connection, topic_id, partition, pieces[begun])
                under_way.append(asyncio.create_task(produce))
                begun += 1
            if not under_way:
                break
            try:
                outcome = await under_way.popleft()
            except PenstockError as error:
                if refusal is None:  # what follows a batch that was refused for now is refused for its sake
                    failure = failure or error
                continue
            if refusal is None and failure is None:
                refusal = outcome
                if outcome is None:
                    taken += 1
                    self._sent(partition)
        if failure is not None:
            raise failure
        return taken, refusal

    async def _produce(
        self, connection: BrokerConnection, topic_id: UUID, partition: Partition, piece: Piece
    ) -> Refusal | None:
        """Sends one batch; it is on its way before this waits for anything. Raises RequestError, SinkError."""
        try:
            data = TopicProduceData(
                name=partition[0],
                topic_id=topic_id,
                partition_data=[PartitionProduceData(index=partition[1], records=piece.load())],
            )
            request = ProduceRequest(
                transactional_id=self._transactions.transactional_id,
                acks=ACKS_ALL,
                timeout_ms=self._options.request_timeout_ms,
                topic_data=[data],
            )
            answer = await connection.send(
                request, at_most=self._transactions.produce_at_most, timeout_ms=self._options.request_timeout_ms
            )
        except UnreachableError as error:
            return Refusal(str(error))
        finally:
            self._room.release()
        got = answer.responses[0].partition_responses[0]
        return self._outcome(partition, ErrorCode(got.error_code), got.error_message)

    def _outcome(self, partition: Partition, code: ErrorCode, message: str | None) -> Refusal | None:
        if code in TAKEN:
            return None
        if code.retriable:
            return Refusal(message or code.name)
        if code in LARGE:
            raise SinkError(
                f"a batch for {partition[0]}-{partition[1]} is larger than the topic's max.message.bytes ({code.name}):"
                " raise that, or at a sink lower kafka.batch.size; a record alone may be too large"
            )
        self._transactions.refused(code, message and f"{partition[0]}-{partition[1]}: {message}")
        raise AssertionError(code)
