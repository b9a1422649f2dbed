"""When a pipeline's place is committed to its group, and what becomes of a commit that fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from penstock.client.client import Client, Partition
from penstock.errors import ErrorCode, RequestError, UnsupportedVersionError
from penstock.spark import group_offsets
from penstock.spark.group_offsets import GroupOffsets, commit_as_nobody
from penstock.spark.limits import (
    GROUP_COMMIT_INTERVAL_MS,
    GROUP_COMMIT_PARTITIONS,
    GROUP_COMMIT_REPEAT_MS,
    GROUP_COMMIT_RETRY_MS,
)

A, B = ("clicks", 0), ("clicks", 1)


@dataclass
class Coordinator:
    """Takes commits, unless it is told to answer otherwise; its clock is the group's."""

    commits: list[dict[Partition, int]] = field(default_factory=list)
    error: Exception | None = None
    codes: dict[Partition, ErrorCode] = field(default_factory=dict)
    now_ms: int = 1

    def take(self, ends: Mapping[Partition, int]) -> dict[Partition, ErrorCode]:
        self.commits.append(dict(ends))
        if self.error is not None:
            raise self.error
        return {partition: self.codes.get(partition, ErrorCode.NONE) for partition in ends}

    def clock(self) -> int:
        return self.now_ms


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def group(coordinator: Coordinator) -> GroupOffsets:
    return GroupOffsets("reports", coordinator.take, coordinator.clock)


def test_the_first_is_committed_at_once_and_then_what_moved(coordinator: Coordinator, group: GroupOffsets) -> None:
    group.reached({A: 5, B: 0})
    group.commit()
    group.reached({A: 9, B: 0})
    coordinator.now_ms += GROUP_COMMIT_INTERVAL_MS
    group.commit()
    assert coordinator.commits == [{A: 5, B: 0}, {A: 9}]


def test_commits_are_an_interval_apart_and_none_is_forgotten(coordinator: Coordinator, group: GroupOffsets) -> None:
    for end in range(5):
        group.reached({A: end})
        group.commit()
    coordinator.now_ms += GROUP_COMMIT_INTERVAL_MS - 1
    group.commit()
    assert coordinator.commits == [{A: 0}]
    coordinator.now_ms += 1
    group.commit()
    assert coordinator.commits == [{A: 0}, {A: 4}]


def test_the_last_does_not_wait(coordinator: Coordinator, group: GroupOffsets) -> None:
    group.reached({A: 1})
    group.commit()
    group.reached({A: 2})
    group.commit(last=True)
    group.commit(last=True)
    assert coordinator.commits == [{A: 1}, {A: 2}]


def test_offsets_that_do_not_move_are_committed_again_before_brokers_forget_them(
    coordinator: Coordinator, group: GroupOffsets
) -> None:
    group.reached({A: 1, B: 2})
    group.commit()
    coordinator.now_ms += GROUP_COMMIT_REPEAT_MS - 1
    group.reached({A: 3, B: 2})
    group.commit()
    coordinator.now_ms += GROUP_COMMIT_INTERVAL_MS
    group.commit()
    group.commit()
    assert coordinator.commits == [{A: 1, B: 2}, {A: 3}, {A: 3, B: 2}]


def test_a_commit_that_fails_is_one_warning_and_made_up_for(
    coordinator: Coordinator, group: GroupOffsets, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator.error = RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator")
    group.reached({A: 1})
    group.commit()
    coordinator.now_ms += GROUP_COMMIT_INTERVAL_MS
    group.commit()
    group.commit(last=True)
    assert len(coordinator.commits) == 1, "it is left alone for a while"
    coordinator.now_ms += GROUP_COMMIT_RETRY_MS
    group.commit()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "group reports: offsets are not committed, so its lag is not right: no coordinator" in caplog.text
    coordinator.error = None
    coordinator.now_ms += GROUP_COMMIT_RETRY_MS
    group.reached({A: 7})
    group.commit()
    assert len(coordinator.commits) == 2, "for longer each time"
    coordinator.now_ms += GROUP_COMMIT_RETRY_MS
    group.commit()
    assert coordinator.commits[-1] == {A: 7}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError(), "no coordinator took them in 5 s; are there offsets.topic.replication.factor brokers?"),
        (RequestError(ErrorCode.UNKNOWN_MEMBER_ID, "x"), "consumers are members of it; a pipeline needs a group of"),
        (RequestError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "group reports: refused"), "group reports: refused"),
    ],
)
def test_a_failure_says_what_a_person_can_do(
    coordinator: Coordinator, group: GroupOffsets, caplog: pytest.LogCaptureFixture, error: Exception, said: str
) -> None:
    coordinator.error = error
    group.reached({A: 1})
    group.commit()
    assert said in caplog.text


def test_brokers_without_groups_are_asked_once(
    coordinator: Coordinator, group: GroupOffsets, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator.error = UnsupportedVersionError("FIND_COORDINATOR")
    group.reached({A: 1})
    for _ in range(3):
        group.commit()
        coordinator.now_ms += GROUP_COMMIT_REPEAT_MS
    assert len(coordinator.commits) == 1
    assert len(caplog.records) == 1


def test_a_partition_that_is_refused_is_tried_again_and_the_others_are_not(
    coordinator: Coordinator, group: GroupOffsets, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator.codes = {B: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    group.reached({A: 1, B: 2})
    group.commit()
    assert "clicks-1: TOPIC_AUTHORIZATION_FAILED" in caplog.text
    coordinator.codes = {}
    coordinator.now_ms += GROUP_COMMIT_RETRY_MS
    group.commit()
    assert coordinator.commits == [{A: 1, B: 2}, {B: 2}]


def test_a_pipeline_that_reads_commits_does_not_move_itself(coordinator: Coordinator, group: GroupOffsets) -> None:
    group.reached({("__consumer_offsets", 3): 8, A: 1})
    group.commit()
    assert coordinator.commits == [{A: 1}]


def test_a_partition_that_is_gone_is_forgotten(coordinator: Coordinator, group: GroupOffsets) -> None:
    group.reached({A: 1, B: 2})
    group.commit()
    group.reached({A: 1})
    coordinator.now_ms += GROUP_COMMIT_REPEAT_MS
    group.commit()
    assert coordinator.commits == [{A: 1, B: 2}, {A: 1}]


def test_many_partitions_are_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {("wide", index): index for index in range(2 * GROUP_COMMIT_PARTITIONS + 1)}
    asked: list[dict[Partition, int]] = []

    async def alter(client: Client, group_id: str, some: Mapping[Partition, int]) -> dict[Partition, ErrorCode]:
        assert group_id == "reports"
        asked.append(dict(some))
        return dict.fromkeys(some, ErrorCode.NONE)

    monkeypatch.setattr(group_offsets, "alter_offsets", alter)
    codes = asyncio.run(commit_as_nobody(Client("127.0.0.1:1"), "reports", ends))
    assert [len(some) for some in asked] == [GROUP_COMMIT_PARTITIONS, GROUP_COMMIT_PARTITIONS, 1]
    assert {place: end for some in asked for place, end in some.items()} == ends
    assert codes.keys() == ends.keys()
