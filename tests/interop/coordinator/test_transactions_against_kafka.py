"""Our transaction coordinator and Kafka's answer the same, write the same records and have the same markers sent,
whatever happens to some transactional ids: requests with right and wrong producers, commits that take long, appends
that are refused, time-outs, epochs that run out, fail-overs.

Three differences are wanted. When the epoch that fences a producer could not be written, Kafka keeps it in memory; here
it is not raised. An answer that needs no record waits here for the commits before it. And what Kafka does not answer
after a fail-over is answered NOT_COORDINATOR here.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from interop.coordinator.transaction_peer import answers_of_kafka
from unit.coordinator.one_partition import START_MS
from unit.coordinator.transaction.transaction_world import Answer, World

from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.transaction import ending as endings
from penstock.coordinator.transaction.transaction import (
    EPOCH_MAX,
    PREPARE_COMMIT,
    PREPARED,
    Partitions,
    Producer,
    TransactionState,
)
from penstock.errors import ErrorCode
from penstock.protocol.messages.transaction.transaction_log_key import TransactionLogKey
from penstock.protocol.messages.transaction.transaction_log_value import TransactionLogValue
from penstock.protocol.record_frames import decode_coordinator_key, decode_coordinator_value

pytestmark = pytest.mark.java

SCENARIOS = 120
STEPS = 150
IDS = ("a", "b", "c", "")
TIMEOUTS_MS = (10_000, 25_000, 60_000, 900_000, 900_001, 0, -1, 2**31 - 1)
INTERVAL_MS = 10_000
KINDS = {
    "init": 15, "add": 30, "end": 30, "mark": 30, "verify": 10, "advance": 6, "hold": 6, "commit": 12, "exhaust": 2,
    "fail over": 2,
}  # fmt: skip

Operation = dict[str, Any]


@pytest.mark.slow
def test_as_kafka() -> None:
    compare(range(SCENARIOS), STEPS)


@pytest.mark.long
def test_as_kafka_at_length() -> None:
    for first in range(SCENARIOS, 8 * SCENARIOS, SCENARIOS):
        compare(range(first, first + SCENARIOS), 2 * STEPS)


@pytest.mark.parametrize(
    ("where", "name", "planted"),
    [
        (endings, "is_repeated", lambda current, producer: endings.check_producer(current, producer) or False),
        (endings, "EPOCH_BUMP_FROM", 3),
    ],
)
def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, planted: object) -> None:
    monkeypatch.setattr(where, name, planted)
    with pytest.raises(AssertionError):
        compare(range(30), STEPS)


def compare(seeds: Sequence[int], steps: int) -> None:
    """The scenarios of some seeds; the cluster's transaction.version goes round."""
    histories = [History(seed, seed % 3) for seed in seeds]
    for history in histories:
        for _ in range(steps):
            history.step()
    scenarios = [{"now": START_MS, "version": each.version, "operations": each.operations} for each in histories]
    for history, told in zip(histories, answers_of_kafka(scenarios), strict=True):
        answers: list[Any] = []
        kafkas: list[Any] = []
        for number, (operation, ours) in enumerate(zip(history.operations, history.heard, strict=True)):
            theirs = read(told[number])
            before = history.operations[max(0, number - 12) : number]
            where = f"seed {history.seed}, step {number}: {operation} after {before}"
            assert (ours["records"], ours["markers"]) == (theirs["records"], theirs["markers"]), where
            answers += ours["answers"]
            kafkas += [each for each in theirs["answers"] if each["to"] not in history.lost]
            if ours["is_settled"]:
                assert sorted(answers, key=str) == sorted(kafkas, key=str), where
                answers, kafkas = [], []


class History:
    """Operations drawn at random, done to our coordinator, and what came of each. `lost`: those without an answer as
    the coordinator was another one then.
    """

    def __init__(self, seed: int, version: int) -> None:
        self.seed = seed
        self.version = version
        self.operations: list[Operation] = []
        self.heard: list[dict[str, Any]] = []
        self.random = Random(seed)
        self.world = World(version=version, transaction_max_timeout_ms=900_000)
        self.world.marks = False
        self.waiting: dict[int, Answer] = {}
        self.lost: set[int] = set()

    def step(self) -> None:
        world = self.world
        operation = self.draw()
        before, begun = len(world.written()), len(world.endings)
        world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS if operation.get("refused") else None
        codes = self.do(operation, len(self.operations))
        world.log.refuses = None
        failed_over = operation["kind"] == "fail over"
        self.operations.append(operation)
        self.heard.append(
            {
                "records": [] if failed_over else sorted(map(plain, world.written()[before:]), key=str),
                "answers": sorted(codes + self.answers(failed_over=failed_over), key=str),
                "markers": sorted(map(marker, world.endings[begun:]), key=str),
                "is_settled": world.commits,
            }
        )

    # What is drawn

    def draw(self) -> Operation:
        world, random = self.world, self.random
        kind = random.choices(list(KINDS), list(KINDS.values()))[0]
        if not world.commits and kind in ("advance", "mark", "exhaust", "hold"):
            kind = "commit"
        operation: Operation = {"kind": kind, "id": random.choice(IDS)}
        match kind:
            case "init":
                operation["timeout"] = random.choice(TIMEOUTS_MS[:4] if random.random() < 0.9 else TIMEOUTS_MS)
                if random.random() < 0.4:
                    operation.update(self.producer(operation["id"]))
            case "add" | "verify" | "end":
                operation.update(self.producer(operation["id"]))
                operation["version"] = random.choice((0, 2)) if self.version else 0
                operation["partitions"] = random.sample(range(4), random.randint(0, 3))
                operation["commit"] = random.random() < 0.5
            case "advance":
                operation["intervals"] = random.randint(1, 4)
            case "exhaust":
                operation["epoch"] = EPOCH_MAX - random.randint(1, 4)
        if random.random() < 0.1 and self.may_be_refused(operation):
            operation["refused"] = True
        return operation

    def producer(self, transactional_id: str) -> Operation:
        """Mostly the one that may use the id, or its last one."""
        random, found = self.random, self.world.state.ids.get(transactional_id)
        if self.world.state.writing.get(transactional_id, found) is None and found is not None:
            return {"producer": 5000, "epoch": 0}  # nobody knows the producer id of a new id before it is committed
        if found is None or random.random() < 0.05:
            return {"producer": random.randint(1000, 1004), "epoch": random.randint(0, 2)}
        producer_id = found.previous_producer_id if random.random() < 0.15 else found.producer_id
        epoch = found.epoch - 1 if random.random() < 0.2 else found.epoch
        if producer_id != found.producer_id:
            epoch = random.choice((EPOCH_MAX - 1, EPOCH_MAX - 2, found.epoch))
        return {"producer": max(0, producer_id), "epoch": min(max(0, epoch), EPOCH_MAX - 1)}  # no client has the last

    def may_be_refused(self, operation: Operation) -> bool:
        """Whether a refusal leaves the same behind on both sides. See the module's head."""
        found = self.world.state.ids.get(operation["id"])
        if found is None or operation["id"] in self.world.state.writing or found.state in PREPARED:
            return False
        is_fence = operation["kind"] == "init" and found.state is TransactionState.ONGOING
        return operation["kind"] in ("init", "add", "end") and not is_fence

    # What is done

    def do(self, operation: Operation, number: int) -> list[dict[str, Any]]:  # noqa: C901
        """Does it to our coordinator; returns an answer that is not one of the log's."""
        world, kind, name = self.world, operation["kind"], operation["id"]
        producer = Producer(operation.get("producer", 0), operation.get("epoch", 0))
        partitions = [("t", index) for index in operation.get("partitions", ())]
        version = operation.get("version", 0)
        match kind:
            case "init":
                expected = producer if "producer" in operation else None
                self.waiting[number] = world.init(name, timeout_ms=operation["timeout"], expected=expected)
            case "add":
                self.waiting[number] = world.add(producer, *partitions, version=version, of=name)
            case "end":
                self.waiting[number] = world.end(producer, commit=operation["commit"], version=version, of=name)
            case "verify":
                found = world.verify(producer, *partitions, of=name)
                return [{"to": number, "codes": {str(index): verified(found, index) for _, index in partitions}}]
            case "advance":
                world.advance(INTERVAL_MS * operation["intervals"])
            case "hold":
                world.commits = False
            case "commit":
                world.commits = True
                world.commit()
            case "mark":
                under_way = world.state.endings.get(name)
                if under_way is not None:
                    world.mark(under_way)
            case "exhaust":
                transaction = world.state.ids.get(name)
                if transaction is not None and not world.state.is_pending(name):
                    world.state.ids._current[name] = transaction._replace(epoch=operation["epoch"])  # as committed
            case "fail over":
                world.commits = True
                world.fail_over()
        return []

    def answers(self, *, failed_over: bool) -> list[dict[str, Any]]:
        found = []
        for number, answer in list(self.waiting.items()):
            if answer.done:
                del self.waiting[number]
                if failed_over and answer.code is ErrorCode.NOT_COORDINATOR:
                    self.lost.add(number)
                else:
                    value = answer.value if isinstance(answer.value, Producer) else Producer(-1, -1)
                    code = int(coordinator_error(answer.code))
                    found.append({"to": number, "code": code, "producer": value.id, "epoch": value.epoch})
        return found


def verified(found: Partitions | ErrorCode, index: int) -> int:
    """The error of a partition that was looked for."""
    if isinstance(found, ErrorCode):
        return int(found)
    return int(ErrorCode.TRANSACTION_ABORTABLE if index in found.get("t", ()) else ErrorCode.NONE)


def marker(ending: Any) -> dict[str, Any]:
    transaction = ending.transaction
    return {
        "id": ending.transactional_id,
        "producer": transaction.producer_id,
        "epoch": transaction.epoch,
        "commit": transaction.state is PREPARE_COMMIT,
        "version": transaction.client_version,
    }


def plain(record: tuple[str, TransactionLogValue | None, int]) -> dict[str, Any]:
    """A record without the order of its partitions."""
    name, value, version = record
    assert value is not None
    fields = {field: getattr(value, field) for field in type(value).KINDS if field != "transaction_partitions"}
    partitions = value.transaction_partitions
    named = None if partitions is None else sorted((each.topic, sorted(each.partition_ids)) for each in partitions)
    return {"id": name, "version": version, **fields, "partitions": named}


def read(answer: dict[str, Any]) -> dict[str, Any]:
    """What Kafka has told, in the form of ours."""
    records = []
    for key_text, value_text in answer["records"]:
        key = decode_coordinator_key("transaction", bytes.fromhex(key_text))
        assert isinstance(key, TransactionLogKey)
        value, version = decode_coordinator_value("transaction", key.KEY, bytes.fromhex(value_text))
        assert isinstance(value, TransactionLogValue)
        records.append(plain((key.transactional_id, value, version)))
    return {
        "records": sorted(records, key=str),
        "answers": answer["answers"],
        "markers": sorted(answer["markers"], key=str),
    }
