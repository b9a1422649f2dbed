"""A mirror's rounds against a source that is made up: what is undone and waited for, and the batches of progress."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast
from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.client.client import LATEST, Client, Fetched, OffsetAt, Partition, TopicState
from penstock.errors import ConfigError
from penstock.pipelines.jobs.mirror_progress import Reached, decoded, key_of, value_of
from penstock.pipelines.jobs.mirror_sending import Pair, progress_batches
from penstock.pipelines.jobs.mirror_source import SourceReader, TopicsChanged
from penstock.pipelines.jobs.mirror_topics import Choice, Known, check_ids
from penstock.pipelines.limits import (
    MIRROR_FETCH_BYTES,
    MIRROR_FETCH_FIRST_BYTES,
    MIRROR_FETCH_LEAST_BYTES,
    MIRROR_PROGRESS_RECORDS,
    MIRROR_SLOW_MS,
)
from penstock.records.batch import headers
from penstock.records.reader import records

ONE, OTHER, TO = UUID(int=1), UUID(int=2), UUID(int=3)


class Source:
    """A cluster with one topic, whose partitions are empty and end at `end`."""

    def __init__(self, end: int = 10) -> None:
        self.end = end
        self.state = TopicState(ONE, (0, 0))
        self.remade_at_fetch = False
        self.asked: list[Partition] = []
        self.asked_bytes = 0

    async def topic(self, name: str, count: int = 0) -> TopicState:
        return self.state

    async def offsets(self, partitions: Iterable[Partition], at: int, **_: Any) -> dict[Partition, OffsetAt]:
        return {each: OffsetAt(self.end if at == LATEST else 0, -1, 0) for each in partitions}

    async def fetch(self, positions: Mapping[Partition, int], **more: Any) -> dict[Partition, Fetched]:
        self.asked, self.asked_bytes = list(positions), more["max_bytes"]
        if self.remade_at_fetch:
            self.state = TopicState(OTHER, (0, 0))
        return {each: Fetched(memoryview(b""), self.end, self.end, 0, ()) for each in positions}


def reader_of(source: Source) -> SourceReader:
    return SourceReader(cast(Client, source), {}, starting=LATEST, allow_data_loss=False)


def pair(topic_id: UUID = ONE) -> Pair:
    return Pair("t", topic_id, 2, "to.t", TO)


def test_what_a_round_began_with_is_undone_with_it() -> None:
    """Otherwise nobody would write down where these partitions began, and the next start would begin elsewhere."""

    async def run() -> None:
        source = Source()
        reader = reader_of(source)
        source.remade_at_fetch = True
        with pytest.raises(TopicsChanged):
            await reader.take([pair()])
        source.remade_at_fetch, source.state = False, TopicState(ONE, (0, 0))
        round_ = await reader.take([pair()])
        assert round_.moved == {pair().place(partition): Reached(10) for partition in range(2)}

    asyncio.run(run())


def test_a_topic_with_fewer_partitions_than_it_had_is_looked_at_again() -> None:
    async def run() -> None:
        source = Source()
        reader = reader_of(source)
        await reader.take([pair()])
        source.state = TopicState(ONE, (0,))
        with pytest.raises(TopicsChanged):
            await reader.take([pair()])

    asyncio.run(run())


def test_a_source_that_has_more_and_gives_nothing_is_not_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    async def run() -> None:
        source = Source()
        reader = reader_of(source)
        await reader.take([pair()])
        assert max(waited, default=0) == 0
        source.end = 15
        assert (await reader.take([pair()])).lag == 10
        assert max(waited) > 0

    monkeypatch.setattr(asyncio, "sleep", wait)
    asyncio.run(run())


def test_a_partition_without_a_leader_holds_nobody_up() -> None:
    async def run() -> None:
        source = Source(end=0)
        reader = reader_of(source)
        await reader.take([pair()])
        source.state = TopicState(ONE, (0, -1))
        source.end = 10
        assert (await reader.take([pair()])).lag == 11, "ten of one, and it is not known what the other has"
        assert source.asked == [("t", 0)]
        source.state = TopicState(ONE, (0, 0))
        await reader.take([pair()])
        assert source.asked == [("t", 0), ("t", 1)]

    asyncio.run(run())


def test_rounds_are_small_first_and_as_large_as_both_sides_are_quick() -> None:
    async def run() -> None:
        source = Source()
        reader = reader_of(source)

        async def fetched() -> int:
            await reader.take([pair()])
            return source.asked_bytes

        assert await fetched() == MIRROR_FETCH_FIRST_BYTES
        for _ in range(10):
            reader.sent(10)
        assert await fetched() == MIRROR_FETCH_BYTES
        reader.sent(MIRROR_SLOW_MS + 1)
        assert await fetched() == MIRROR_FETCH_BYTES // 2
        for _ in range(10):
            reader.sent(MIRROR_SLOW_MS + 1)
        assert await fetched() == MIRROR_FETCH_LEAST_BYTES

    asyncio.run(run())


def test_the_progress_of_many_partitions_is_several_batches() -> None:
    """One of them all would be larger than brokers take."""
    many = 2 * MIRROR_PROGRESS_RECORDS + 1
    wanted = {pair().place(partition): Reached(partition) for partition in range(many)}
    values = {key_of("m", place): value_of(each, "t" * 249, "u" * 249) for place, each in wanted.items()}
    batches = progress_batches(values, 0)
    found = []
    for each in batches:
        assert len(each.batch) < 64_000
        ((position, header),) = headers(each.batch)
        some = list(records(each.batch, header, position))
        assert len(some) == each.records
        found += [decoded(record.key or b"", record.value or b"") for record in some]
    assert dict(found) == wanted


def test_patterns_take_nothing_that_a_cluster_keeps_of_itself() -> None:
    choice = Choice(pattern=".*")
    for name, fits in (("__remote_log_metadata", False), ("__penstock_sinks", False), ("_schemas", True), ("a", True)):
        assert choice.fits(name, internal=False, same_cluster=False) is fits


def test_topics_without_ids_are_refused() -> None:
    """All of them would have one place for each partition."""
    check_ids({"t": Known(ONE, 1, False)}, "source")
    with pytest.raises(ConfigError, match="topic t of the source has no id"):
        check_ids({"t": Known(UUID(int=0), 1, False)}, "source")
