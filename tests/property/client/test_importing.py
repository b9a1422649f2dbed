"""Imports killed anywhere, run twice at once, whose batches arrive late: each record is there once, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.import_partition import (
    KILLED_AFTER,
    KILLED_BEFORE,
    KILLED_WITH_IT_UNDER_WAY,
    LATE,
    OK,
    SLOW,
    TOPIC_ID,
    TRUNCATED,
    Connection,
    Killed,
    Partition,
    source,
)

from penstock.client.importing import PartitionImport, Target

RECORDS = 40
FATES = [OK, OK, OK, LATE, KILLED_BEFORE, KILLED_WITH_IT_UNDER_WAY, KILLED_AFTER]


def work(partition: Partition, fate: Callable[[], str], batch_bytes: int) -> PartitionImport:
    records = source(RECORDS)
    target = Target("clicks", TOPIC_ID, 0, batch_bytes=batch_bytes)
    return PartitionImport(Connection(partition, fate), target, lambda: iter(records))  # type: ignore[arg-type]


def fate_of(fates: Iterator[str]) -> Callable[[], str]:
    """One after the other, then nothing happens any more."""
    return lambda: next(fates, OK)


async def run_until_done(partition: Partition, runs: list[PartitionImport]) -> None:
    """These at once; a killed one is no more."""
    outcomes: list[Any] = await asyncio.gather(*(run.run() for run in runs), return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None and not isinstance(outcome, Killed):
            raise outcome


SIZES = st.integers(100, 600)


@settings(max_examples=300)
@given(st.lists(st.tuples(SIZES, st.lists(st.sampled_from(FATES), max_size=30)), max_size=6), SIZES)
def test_an_import_that_is_killed_again_and_again_appends_each_record_once(
    runs: list[tuple[int, list[str]]], last_bytes: int
) -> None:
    partition = Partition()
    for batch_bytes, fates in runs:
        asyncio.run(run_until_done(partition, [work(partition, fate_of(iter(fates)), batch_bytes)]))
    asyncio.run(work(partition, lambda: OK, last_bytes).run())
    while partition.late:
        partition.deliver_late()
    assert partition.content() == [record[1:4] for record in source(RECORDS)]


@settings(max_examples=200)
@given(st.lists(SIZES, min_size=2, max_size=3), st.lists(st.sampled_from([SLOW, SLOW, *FATES]), max_size=60), SIZES)
def test_several_runs_at_once_append_each_record_once(sizes: list[int], fates: list[str], last_bytes: int) -> None:
    partition = Partition()
    fate = fate_of(iter(fates))
    asyncio.run(run_until_done(partition, [work(partition, fate, size) for size in sizes]))
    asyncio.run(work(partition, lambda: OK, last_bytes).run())
    while partition.late:
        partition.deliver_late()
    assert partition.content() == [record[1:4] for record in source(RECORDS)]


@settings(max_examples=200)
@given(st.lists(st.sampled_from([OK, OK, OK, TRUNCATED, KILLED_AFTER]), max_size=60), SIZES)
def test_what_a_log_loses_at_its_end_is_appended_again(fates: list[str], batch_bytes: int) -> None:
    """An unclean election: the last batches of the log are gone, and what its producers were known for with them."""
    partition = Partition()
    asyncio.run(run_until_done(partition, [work(partition, fate_of(iter(fates)), batch_bytes)]))
    asyncio.run(work(partition, lambda: OK, batch_bytes).run())
    assert partition.content() == [record[1:4] for record in source(RECORDS)]
