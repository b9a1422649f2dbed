"""Batches of a mirror arrive in order and once, however those in flight fail, come late or lose their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ErrorCode, RequestError
from penstock.pipelines.jobs.mirror_sending import Sending, Taken
from penstock.pipelines.limits import MIRROR_BATCHES_IN_FLIGHT
from penstock.records.batch import computed_crc, headers
from penstock.records.builder import BatchBuilder
from penstock.records.reader import records

LATE, TWICE, REFUSED, FINE = "late", "twice", "refused", "fine"


class Cluster:
    """A client of a cluster that minds sequences as brokers do; `fates` are of the batches, as they are sent.

    A late one is appended after those that were sent with it: the client's own second try.
    """

    def __init__(self, fates: Sequence[str] = ()) -> None:
        self.values: list[bytes | None] = []
        self.in_flight = self.most_in_flight = 0
        self.producers = 0
        self._fates = iter(fates)
        self._last: dict[int, list[tuple[int, int]]] = {}

    async def send(self, _: Any) -> Any:
        self.producers += 1
        return SimpleNamespace(error_code=0, producer_id=self.producers, producer_epoch=0)

    async def produce(self, topic: str, partition: int, batch: bytearray) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        fate = next(self._fates, FINE)
        for _ in range(2 * MIRROR_BATCHES_IN_FLIGHT if fate == LATE else 1):
            await asyncio.sleep(0)
        self.in_flight -= 1
        if fate == REFUSED:
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE)
        for _ in range(2 if fate == TWICE else 1):
            self._append(batch)

    def _append(self, batch: bytearray) -> None:
        ((position, header),) = headers(batch)
        assert header.crc == computed_crc(batch, 0, len(batch))
        last = self._last.setdefault(header.producer_id, [])
        if (header.base_sequence, header.last_sequence) in last[-5:]:
            return
        if last and header.base_sequence != last[-1][1] + 1:
            raise RequestError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        last.append((header.base_sequence, header.last_sequence))
        self.values += [record.value for record in records(batch, header, position)]


def batches(first: int, count: int) -> list[Taken]:
    """Batches of two records each."""
    found = []
    for number in range(first, first + count):
        builder = BatchBuilder()
        for part in (b"a", b"b"):
            builder.append(0, None, b"%d%s" % (number, part), ())
        found.append(Taken(builder.build(), 2))
    return found


def values(first: int, count: int) -> list[bytes]:
    return [b"%d%s" % (number, part) for number in range(first, first + count) for part in (b"a", b"b")]


def test_several_are_in_flight_but_not_before_the_first_is_there() -> None:
    cluster = Cluster()
    sending = Sending(cluster)  # type: ignore[arg-type]
    asyncio.run(sending.send("clicks", 0, batches(0, 1)))
    assert cluster.most_in_flight == 1
    asyncio.run(sending.send("clicks", 0, batches(1, 20)))
    assert cluster.most_in_flight == MIRROR_BATCHES_IN_FLIGHT
    assert (cluster.values, cluster.producers) == (values(0, 21), 1)


def test_what_follows_on_a_batch_that_is_refused_is_not_there_without_it() -> None:
    cluster = Cluster([FINE, FINE, REFUSED])
    sending = Sending(cluster)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="MESSAGE_TOO_LARGE"):
        asyncio.run(sending.send("clicks", 0, batches(0, 10)))
    assert cluster.values == values(0, 2)
    asyncio.run(sending.send("clicks", 0, batches(2, 10)))
    assert cluster.values == values(0, 12)


def test_partitions_have_sequences_of_their_own() -> None:
    clusters = [Cluster(), Cluster()]

    async def produce(topic: str, partition: int, batch: bytearray) -> None:
        await clusters[partition].produce(topic, partition, batch)

    async def both() -> None:
        sending = Sending(SimpleNamespace(send=clusters[0].send, produce=produce))  # type: ignore[arg-type]
        await asyncio.gather(*(sending.send("clicks", partition, batches(0, 7)) for partition in (0, 1)))

    asyncio.run(both())
    assert [cluster.values for cluster in clusters] == [values(0, 7)] * 2
    assert clusters[0].producers == 1


@given(st.lists(st.sampled_from([FINE, LATE, TWICE, REFUSED]), max_size=40), st.integers(1, 20))
def test_there_is_always_a_first_part_of_all_once_and_in_order(fates: list[str], count: int) -> None:
    cluster = Cluster(fates)
    try:
        asyncio.run(Sending(cluster).send("clicks", 0, batches(0, count)))  # type: ignore[arg-type]
    except RequestError:
        assert REFUSED in fates
        assert cluster.values == values(0, count)[: len(cluster.values)]
    else:
        assert cluster.values == values(0, count)
