"""Random histories of offsets, plain and in transactions, beside Kafka's own OffsetMetadataManager."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from interop.coordinator.offset_peer import answers_of_kafka
from unit.coordinator.one_partition import START_MS
from unit.coordinator.world import Answer, World

from penstock.coordinator.group import maintenance
from penstock.coordinator.group.offsets.state import Offsets
from penstock.errors import ErrorCode

pytestmark = pytest.mark.java

HISTORIES, LENGTH = 150, 60
HOUR_MS = 3_600_000
KINDS = ("commit", "commit in transaction", "end", "delete offset", "delete group", "expire")
WEIGHTS = (4, 8, 4, 2, 1, 2)


def history(random: Random) -> list[dict[str, Any]]:
    """Operations at random. The time stands still or jumps so far that offsets expire."""
    operations: list[dict[str, Any]] = []
    now_ms = START_MS
    for number in range(LENGTH):
        (kind,) = random.choices(KINDS, WEIGHTS)
        now_ms += random.choice((0, 0, 1, HOUR_MS, 40 * HOUR_MS))
        operation: dict[str, Any] = {
            "operation": kind.removesuffix(" in transaction"),
            "now": now_ms,
            "refused": random.random() < 0.1,
            "group": random.choice("gh"),
            "topic": random.choice("tu"),
            "partition": random.randrange(2),
            "offset": number,
            "generation": random.choice((-1, -1, -1, 0, 3)),
        }
        if kind in ("commit in transaction", "end"):
            operation["producer"] = random.randrange(3)
            operation["commit"] = random.random() < 0.7
        operations.append(operation)
    return operations


def answers_of_penstock(operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a group coordinator of ours answers to each operation."""
    world = World()
    return [answer(world, operation) for operation in operations]


def answer(world: World, operation: dict[str, Any]) -> dict[str, Any]:
    world.now_ms = operation["now"]
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS if operation["refused"] else None
    records = Counted(world)
    asked = ask(world, operation)
    world.log.refuses = None
    code = int(asked.code)
    if isinstance(asked.value if asked.response is not None else None, list):
        code = asked.value[0].error_code
    told = {"code": code, "records": records.count(), "groups": {}}
    for group in sorted(each.group_id for each in world.list_groups()):
        places = {"t": [0, 1], "u": [0, 1]}
        both = [world.fetch_offsets(places, group=group, require_stable=stable) for stable in (False, True)]
        told["groups"][group] = [
            {
                f"{topic.name}{each.partition_index}": [each.error_code, each.committed_offset]
                for topic in fetched.value.topics
                for each in topic.partitions
            }
            for fetched in both
        ]
    return told


class Counted:
    """Counts the records that are written from now on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._end = world.log.end_offset

    def count(self) -> int:
        return self._world.log.end_offset - self._end


def ask(world: World, operation: dict[str, Any]) -> Answer[Any]:
    group, producer_id = operation["group"], operation.get("producer")
    place = (operation["topic"], operation["partition"])
    match operation["operation"]:
        case "commit" if producer_id is None:
            generation_id = operation["generation"]
            return world.commit_offsets(
                {place: operation["offset"]}, group=group, generation_id=generation_id, version=5
            )
        case "commit":
            return world.commit_in_transaction(
                {place: operation["offset"]},
                group=group,
                producer_id=operation["producer"],
                generation_id=operation["generation"],
            )
        case "end":
            return world.end_transaction(producer_id=operation["producer"], commit=operation["commit"])
        case "delete offset":
            return world.delete_offsets({place[0]: [place[1]]}, group=group)
        case "delete group":
            return world.delete_groups(group)
        case "expire":
            return world.write(lambda state: maintenance.expire(state, ("expiry",), world.now_ms), None)
    raise AssertionError(operation)


def compare(seeds: range) -> list[str]:
    """The first difference of each history."""
    histories = [history(Random(seed)) for seed in seeds]
    different = []
    for seed, operations, theirs in zip(seeds, histories, answers_of_kafka(histories), strict=True):
        ours = answers_of_penstock(operations)
        for step, (operation, *both) in enumerate(zip(operations, ours, theirs, strict=True)):
            if operation["refused"]:
                for told in both:  # one is told the append's error, the other that of the operation
                    told["code"] = told["records"] = 0
            if both[0] != both[1]:
                different.append(f"history {seed}, step {step}: {operation}\nPenstock: {both[0]}\nKafka:    {both[1]}")
                break
    return different


def test_offsets_are_what_they_are_in_kafka() -> None:
    different = compare(range(HISTORIES))
    assert not different, f"{len(different)} of {HISTORIES}\n" + different[0]


def test_the_comparison_finds_pending_offsets_that_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake that is planted: offsets count as soon as they are written."""
    right = Offsets.put_all
    monkeypatch.setattr(Offsets, "put_all", lambda self, producer_id, *rest: right(self, -1, *rest))
    assert compare(range(5))
