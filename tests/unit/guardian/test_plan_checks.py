"""Plans that are brought: whatever is in the file is refused with a sentence, and soon."""

from __future__ import annotations

import copy
import json
from time import process_time
from typing import Any
from uuid import UUID

import pytest

from penstock.guardian.core.resources.plans import detail_of
from penstock.guardian.core.sight import ClusterSight, SeenBroker, SeenDisk, SeenPartition, SeenTopic
from penstock.guardian.core.work import checks
from penstock.guardian.core.work.plans import Plan

ODD: tuple[Any, ...] = (
    *(None, True, 5, -1, 2**70, 1.5, float("nan"), float("inf"), "", "x", "\ud800"),
    *([], [1], [[]], ["any"], {}, {"broker": 1}),
)
PART = {
    "id": 1, "kind": "replica", "topic": "t", "partition": 0, "from": {"broker": 1, "dir": "/d"},
    "to": {"broker": 3, "dir": "/d"}, "bytes": 5, "why": "it is full",
}  # fmt: skip
PLAN = {
    "version": 1,
    "partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2], "log_dirs": ["any", "any"]}],
    "leaders": [{"topic": "t", "partition": 0, "broker": 3}],
    "moves": [PART],
}


@pytest.fixture
def seen() -> ClusterSight:
    partitions = tuple(SeenPartition("t", index, 1, 0, (1, 2), (1, 2)) for index in range(3))
    return ClusterSight(
        brokers={each: SeenBroker(each, "h", 1, f"r{each}") for each in (1, 2, 3)},
        topics={"t": SeenTopic("t", UUID(int=1), partitions)},
        disks={(each, "/d"): SeenDisk(each, "/d") for each in (1, 2, 3)},
    )


def places(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [before, *(place for key, each in inner for place in places(each, (*before, key)))]


def with_odd(place: tuple[Any, ...], odd: Any) -> Any:
    """The plan with something odd at a place."""
    if not place:
        return odd
    document: Any = copy.deepcopy(PLAN)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = odd
    return document


def test_a_plan_with_something_odd_anywhere_is_taken_or_refused(seen: ClusterSight) -> None:
    assert len(checks.moves_of(PLAN, seen, 0)) == 1
    refused = 0
    for place in places(PLAN):
        for odd in ODD:
            try:
                checks.moves_of(with_odd(place, odd), seen, 0)
            except checks.Unfit:
                refused += 1
    assert refused > 200


def test_log_dirs_that_are_no_list_are_refused(seen: ClusterSight) -> None:
    with pytest.raises(checks.Unfit, match=r"partitions\[0\].log_dirs must be a list"):
        checks.moves_of(with_odd(("partitions", 0, "log_dirs"), 5), seen, 0)


def test_many_moves_of_one_partition_are_read_in_time(seen: ClusterSight) -> None:
    """The leader reads a plan at once, between its heartbeats."""
    part = {"kind": "disk", "topic": "t", "partition": 0, "from": {"broker": 1}, "to": {"broker": 1}}
    began_s = process_time()
    assert len(checks.moves_of({**PLAN, "moves": [*[part] * 60_000, PART]}, seen, 0)[0].parts) == 60_001
    assert process_time() - began_s < 5


def test_a_figure_that_json_cannot_say_is_not_kept() -> None:
    """1e999 is read as infinite, and an answer with that would be no JSON."""
    document = json.loads('{"before": {"score": 1e999}, "after": {"score": 1' + "0" * 400 + "}}")
    kept = json.loads(detail_of(document, Plan(1, UUID(int=1), "balance", "User:ann", 0)), parse_constant=pytest.fail)
    assert kept["score_after"] == 10**400
    assert "score_before" not in kept
