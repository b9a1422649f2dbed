"""Kafka's tools for leaders, reassignments, features and brokers say of one Penstock node what they say of Kafka's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interop.kafka_peer import KafkaPeer, require_kafka
from interop.tools.toolbox import FEATURES, LEADER_ELECTION, REASSIGN, TOPICS, Outcome, Toolbox
from support.heard import until_heard

from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

Compare = Callable[..., tuple[Outcome, Outcome]]


@pytest.fixture(scope="module")
def both(penstock_session: LocalBroker, kafka_peer: KafkaPeer) -> Iterator[Compare]:
    """Runs a tool against Penstock and against Kafka; gives what it said, without addresses, paths and traces. Kafka's
    broker may hear of what its controller does after the tool has its answer; the next tool is run when it has.
    """
    require_kafka()
    with Toolbox() as toolbox:

        def run(tool: str, *arguments: object) -> tuple[Outcome, Outcome]:
            ours = toolbox.run(tool, penstock_session.bootstrap, *arguments)
            kafkas = toolbox.run(tool, kafka_peer.bootstrap, *arguments)
            until_heard(kafka_peer.bootstrap)
            return masked(ours), masked(kafkas)

        yield run


def masked(outcome: Outcome) -> Outcome:
    def mask(text: str) -> str:
        text = re.sub(r"^\tat .*\n", "", text, flags=re.MULTILINE)
        text = re.sub(r'"log_dirs":\["/[^"]*"\]', '"log_dirs":["*"]', text)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:*", text)
        return re.sub(r"\[\d{4}-\d\d-\d\d[^\]]*\]", "", text)

    return Outcome(outcome.status, mask(outcome.out), mask(outcome.error))


def agree(pair: tuple[Outcome, Outcome], contains: str) -> None:
    ours, kafkas = pair
    assert ours == kafkas
    assert contains in ours.out + ours.error


def test_elections(both: Compare) -> None:
    agree(both(TOPICS, "--create", "--topic", "elections", "--partitions", 2), "Created")
    for kind in ("preferred", "unclean"):
        one = ("--election-type", kind, "--topic", "elections")
        agree(both(LEADER_ELECTION, *one, "--partition", 1), "Valid replica already elected for partitions elections-1")
        agree(both(LEADER_ELECTION, *one, "--partition", 7), "elections-7")
    all_of_them = both(LEADER_ELECTION, "--election-type", "preferred", "--all-topic-partitions")
    assert [each.status for each in all_of_them] == [0, 0]


def test_a_reassignment_from_plan_to_end(both: Compare, tmp_path: Path) -> None:
    agree(both(TOPICS, "--create", "--topic", "moving", "--partitions", 2), "Created")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moving"}]}))
    generated = both(REASSIGN, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1")
    agree(generated, '"partition":1,"replicas":[1]')
    plan = tmp_path / "plan.json"
    plan.write_text(generated[0].out.strip().splitlines()[-1])
    agree(both(REASSIGN, "--execute", "--reassignment-json-file", plan), "Successfully started partition reassign")
    agree(both(REASSIGN, "--list"), "No partition reassignments found.")
    agree(both(REASSIGN, "--verify", "--reassignment-json-file", plan), "Reassignment of partition moving-0 is comple")
    throttled = ("--execute", "--reassignment-json-file", plan, "--throttle", 1_000_000)
    agree(both(REASSIGN, *throttled), "throttle limit was set to 1000000 B/s")
    agree(both(REASSIGN, "--verify", "--reassignment-json-file", plan), "Clearing topic-level throttles")
    agree(both(REASSIGN, "--cancel", "--reassignment-json-file", plan), "None of the specified partition reassignments")


@pytest.mark.parametrize(
    "partition",
    [
        {"topic": "moved", "partition": 0, "replicas": [1, 7]},
        {"topic": "moved", "partition": 0, "replicas": []},
        {"topic": "moved", "partition": 9, "replicas": [1]},
        {"topic": "nowhere", "partition": 0, "replicas": [1]},
    ],
    ids=["unknown broker", "no replicas", "unknown partition", "unknown topic"],
)
def test_a_reassignment_that_cannot_be(both: Compare, tmp_path: Path, partition: dict[str, object]) -> None:
    both(TOPICS, "--create", "--topic", "moved", "--if-not-exists")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    ours, kafkas = both(REASSIGN, "--execute", "--reassignment-json-file", plan)
    assert ours == kafkas
    assert ours.status != 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("downgrade", "--feature", "metadata.version=29"),
        ("downgrade", "--unsafe", "--feature", "metadata.version=29"),
        ("upgrade", "--feature", "metadata.version=29"),
        ("upgrade", "--feature", "nothing=0"),
        ("upgrade", "--feature", "nothing=1"),
        ("disable", "--feature", "nothing"),
    ],
    ids=" ".join,
)
def test_a_level_that_cannot_be(both: Compare, arguments: tuple[str, ...]) -> None:
    agree(both(FEATURES, *arguments), "")


def test_a_level_stays(both: Compare) -> None:
    agree(both(FEATURES, "upgrade", "--feature", "metadata.version=30", "--dry-run"), "can be upgraded to 30")
    agree(both(FEATURES, "upgrade", "--feature", "metadata.version=30"), "was upgraded to 30")
