"""What one job of a load takes on, planned from the table and from what the brokers say they have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.client.client import EARLIEST, LATEST, OffsetAt
from penstock.errors import ErrorCode, RequestError
from penstock.spark.lake.records import Gap, TopicPartition
from penstock.spark.load.load import Load, LoadOptions, Plan
from penstock.spark.read.plan import DataLossError

TOPIC_ID = UUID(int=1)


class FakeClient:
    """A cluster of one topic: partition i has the offsets from `first[i]` to before `last[i]`."""

    def __init__(self, first: list[int], last: list[int], error: ErrorCode = ErrorCode.NONE) -> None:
        self.at: dict[int, list[int]] = {EARLIEST: first, LATEST: last}
        self.error = error

    async def refresh(self, topics: Iterable[str]) -> SimpleNamespace:
        partitions = [SimpleNamespace(partition_index=i) for i in range(len(self.at[LATEST]))]
        topic = SimpleNamespace(name="clicks", topic_id=TOPIC_ID, partitions=partitions, error_code=self.error)
        return SimpleNamespace(topics=[topic])

    async def offsets(
        self, partitions: Iterable[tuple[str, int]], at: int, *, isolation: int
    ) -> dict[tuple[str, int], OffsetAt]:
        return {key: OffsetAt(self.at[at][key[1]], 0, 0) for key in partitions}


class FakeLake:
    """A table that knows where it ends."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        self.ends = ends

    def end(self, partition: TopicPartition) -> int | None:
        return self.ends.get(partition.partition)


def plan(client: FakeClient, ends: Mapping[int, int], **options: int | bool) -> Plan:
    load = Load.__new__(Load)  # without Spark, a table and connections
    load.options = LoadOptions("nowhere:1", ["clicks"], "table", "test", **options)  # type: ignore[arg-type]
    load._client = client  # type: ignore[assignment]
    load.lake = FakeLake(ends)  # type: ignore[assignment]
    return asyncio.run(load.plan())


def spans(made: Plan) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in made.ranges]


def of(partition: int) -> TopicPartition:
    return TopicPartition("clicks", TOPIC_ID, partition)


def test_a_first_job_takes_all_that_the_brokers_have() -> None:
    made = plan(FakeClient([0, 5], [10, 20]), {})
    assert spans(made) == [(0, 0, 10), (1, 5, 20)]
    assert made.starts == {of(0): 0, of(1): 5}
    assert made.ends == {of(0): 10, of(1): 20}
    assert made.lag == 0


def test_a_later_job_begins_where_the_table_ends_and_leaves_out_what_has_nothing_new() -> None:
    assert spans(plan(FakeClient([0, 0, 0], [10, 20, 30]), {0: 10, 1: 15})) == [(1, 15, 20), (2, 0, 30)]


def test_a_load_that_starts_at_the_latest_takes_nothing_old() -> None:
    assert spans(plan(FakeClient([0], [10]), {}, starting=LATEST)) == []


def test_a_start_beyond_the_last_record_is_the_end() -> None:
    client = FakeClient([0], [10])
    client.at[1_000] = [-1]
    assert spans(plan(client, {}, starting=1_000)) == []


def test_a_bounded_job_takes_the_same_part_of_every_partition() -> None:
    made = plan(FakeClient([0, 0], [1000, 3000]), {}, offsets_per_job=400)
    assert spans(made) == [(0, 0, 100), (1, 0, 300)]
    assert made.lag == 3600


def test_a_bounded_job_gets_every_partition_on() -> None:
    made = plan(FakeClient([0, 0], [1, 1_000_000]), {}, offsets_per_job=10)
    assert all(size > 0 for size in (end - start for _, start, end in spans(made)))
    assert len(made.ranges) == 2


def test_offsets_that_retention_took_are_an_error_or_a_gap() -> None:
    with pytest.raises(DataLossError, match="the table ends at 3, the brokers have 5 to 10"):
        plan(FakeClient([5], [10]), {0: 3})
    made = plan(FakeClient([5], [10]), {0: 3}, fail_on_data_loss=False)
    assert made.gaps == [Gap(of(0), 3, 5, "deleted")]
    assert (made.starts, spans(made)) == ({of(0): 3}, [(0, 5, 10)])


def test_all_of_it_deleted_moves_the_end_without_a_record() -> None:
    made = plan(FakeClient([10], [10]), {0: 3}, fail_on_data_loss=False)
    assert (made.ends, made.ranges, made.gaps) == ({of(0): 10}, [], [Gap(of(0), 3, 10, "deleted")])


def test_a_log_that_ends_before_the_table_is_an_error_even_so() -> None:
    with pytest.raises(DataLossError, match="the table ends at 30, the brokers have 0 to 10"):
        plan(FakeClient([0], [10]), {0: 30}, fail_on_data_loss=False)


def test_a_topic_that_is_not_there_is_named() -> None:
    with pytest.raises(RequestError, match="topic clicks: UNKNOWN_TOPIC_OR_PARTITION"):
        plan(FakeClient([], [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), {})
