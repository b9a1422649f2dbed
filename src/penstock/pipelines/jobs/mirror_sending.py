"""What the job `mirror` gives the other cluster: batches in order, several of a partition in flight.

One at a time would be slow over a distance: with 50 ms to the other cluster and back, 20 batches a second, 320 KB of
them if they have 16 KB each. With several in flight one may fail and those behind it succeed. So batches carry a
producer's id and sequence: the other cluster refuses one whose predecessor it does not have, and knows one that it has,
whose answer was lost. The first of a partition goes alone, since of a producer that is new any sequence is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.producer import producer_identity
from penstock.errors import ErrorCode, RequestError
from penstock.pipelines.limits import MIRROR_BATCHES_IN_FLIGHT
from penstock.records.batch import CRC, CRC_POSITION, PRODUCER, PRODUCER_POSITION, computed_crc, increment_sequence

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@dataclass(frozen=True, slots=True)
class Taken:
    """A batch for the other cluster, and how many records it has."""

    batch: bytearray
    records: int


@dataclass(slots=True)
class Origin:
    """As whom the batches of a partition are sent, and what comes next."""

    producer_id: int
    producer_epoch: int
    next_sequence: int = 0
    is_known: bool = False
    """Whether the other cluster has a batch of it."""

    def stamp(self, taken: Taken) -> bytearray:
        """The batch as the next one of this producer; changed in place."""
        PRODUCER.pack_into(taken.batch, PRODUCER_POSITION, self.producer_id, self.producer_epoch, self.next_sequence)
        CRC.pack_into(taken.batch, CRC_POSITION, computed_crc(taken.batch, 0, len(taken.batch)))
        self.next_sequence = increment_sequence(self.next_sequence, taken.records)
        return taken.batch


class Sending:
    """The way to one cluster.

    Args:
        client: connected.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._identity: tuple[int, int] | None = None
        self._identifying = asyncio.Lock()
        self._origins: dict[Partition, Origin] = {}

    async def send(self, topic: str, partition: int, batches: Sequence[Taken]) -> None:
        """Returns when all are acknowledged.

        Raises RequestError, UnreachableError: then some of the first ones are there, in order, and perhaps the next.
        """
        if not batches:
            return
        key = (topic, partition)
        if key not in self._origins:
            self._origins[key] = Origin(*await self._identified())
        origin = self._origins[key]
        try:
            waiting = [origin.stamp(each) for each in batches]
            while waiting:
                window = waiting[: MIRROR_BATCHES_IN_FLIGHT if origin.is_known else 1]
                del waiting[: await self._acknowledged(key, window)]
                origin.is_known = True
        except BaseException:  # which of them the other cluster has, is not known: begin as somebody else
            del self._origins[key]
            self._identity = None
            raise

    async def _acknowledged(self, key: Partition, window: Sequence[bytearray]) -> int:
        """How many of the first batches of a window are there, at least one. Raises what kept the first from it."""
        requests = (self._client.produce(*key, batch) for batch in window)
        for number, outcome in enumerate(await asyncio.gather(*requests, return_exceptions=True)):
            if isinstance(outcome, BaseException):
                if number and isinstance(outcome, RequestError) and outcome.code is OUT_OF_ORDER:
                    return number  # the one before it came only when it was sent again
                raise outcome
        return len(window)

    async def _identified(self) -> tuple[int, int]:
        async with self._identifying:
            if self._identity is None:
                self._identity = await producer_identity(self._client)
            return self._identity
