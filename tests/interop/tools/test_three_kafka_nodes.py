"""Kafka's tools say of three nodes of Penstock what they say of three nodes of Apache Kafka, faults included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from interop.kafka_peer import require_kafka
from interop.tools.three_nodes import KafkaCluster, Pair
from interop.tools.toolbox import (
    CLUSTER,
    CONFIGS,
    FEATURES,
    LEADER_ELECTION,
    LOG_DIRS,
    QUORUM,
    REASSIGN,
    TOPICS,
    Outcome,
    Toolbox,
)
from support.processes import Cluster

from penstock.cli.main import main

pytestmark = [pytest.mark.java, pytest.mark.slow]

FILTERS = (
    "--under-replicated-partitions",
    "--at-min-isr-partitions",
    "--under-min-isr-partitions",
    "--unavailable-partitions",
)


@pytest.fixture(scope="module")
def pair(three_nodes: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    require_kafka()
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as kafka, Toolbox() as tools:
        yield Pair(tools, three_nodes, kafka)


def create(pair: Pair, name: str, assignment: str, **configs: object) -> None:
    settings = [word for key in configs for word in ("--config", f"{key.replace('_', '.')}={configs[key]}")]
    pair.agree(TOPICS, "--create", "--topic", name, "--replica-assignment", assignment, *settings, contains="Created")


@contextmanager
def without(pair: Pair, node_id: int) -> Iterator[None]:
    """A node of each cluster is dead, and both have noticed; afterwards all is in sync again."""
    pair.kill(node_id)
    try:
        create_until(pair, node_id)
        yield
    finally:
        pair.start(node_id)
        pair.wait(TOPICS, "--describe", "--under-replicated-partitions", until=lambda out: out == "")


def create_until(pair: Pair, node_id: int) -> None:
    gone = f"noticed-{node_id}"
    pair.wait(TOPICS, "--describe", "--topic", gone, until=lambda out: len(re.findall(r"Isr: \d,\d\t", out)) == 1)


def test_partitions_in_every_state(pair: Pair) -> None:
    create(pair, "noticed-3", "1:2:3")
    create(pair, "strict", "1:2:3,2:1:3", min_insync_replicas=2)
    create(pair, "stricter", "2:3:1", min_insync_replicas=3)
    create(pair, "single", "3,1")
    pair.agree(TOPICS, "--describe", "--topic", "strict", contains="Replicas: 1,2,3")
    assert pair.agree(TOPICS, "--describe", "--under-replicated-partitions") == ""
    assert "stricter" in pair.agree(TOPICS, "--describe", "--at-min-isr-partitions")
    with without(pair, 3):
        found = {each: pair.agree(TOPICS, "--describe", each) for each in FILTERS}
        assert [name for name, out in found.items() if "stricter" in out] == [FILTERS[0], FILTERS[2]]
        assert [name for name, out in found.items() if "Topic: strict\t" in out] == [FILTERS[0], FILTERS[1]]
        assert "Topic: single\tPartition: 0\tLeader: none" in found["--unavailable-partitions"]


def test_a_reassignment_from_plan_to_end(pair: Pair, tmp_path: Path) -> None:
    create(pair, "moving", "1:2,2:1")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moving"}]}))
    generated = pair.run(REASSIGN, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3")
    ours, kafkas = (each.out.partition("Proposed")[0] for each in generated)  # the proposal begins anywhere
    assert ours == kafkas
    plan = write_plan(tmp_path, "moving", [2, 3], [3, 1])
    pair.agree(REASSIGN, "--execute", "--reassignment-json-file", plan, contains="Successfully started partition reas")
    pair.wait(REASSIGN, "--verify", "--reassignment-json-file", plan, until=lambda out: out.count("is completed") == 2)
    pair.agree(REASSIGN, "--verify", "--reassignment-json-file", plan, contains="moving-1 is completed")
    pair.agree(REASSIGN, "--list", contains="No partition reassignments found")
    pair.agree(TOPICS, "--describe", "--topic", "moving", contains="Replicas: 2,3")


def write_plan(directory: Path, topic: str, *replicas: list[int]) -> Path:
    plan = directory / "plan.json"
    partitions = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return plan


def test_a_reassignment_to_a_dead_broker_is_in_progress_until_it_is_cancelled(pair: Pair, tmp_path: Path) -> None:
    create(pair, "noticed-2", "1:2:3")
    create(pair, "stuck", "1:3")
    plan = write_plan(tmp_path, "stuck", [3, 2])
    with without(pair, 2):
        for cluster in (pair.penstock, pair.kafka):  # the tool itself has brokers that live only
            words = ["cluster", "reassign", "--plan", str(plan), "--no-wait", "--bootstrap", cluster.bootstrap]
            assert main(words) == 0
        pair.agree(REASSIGN, "--list", contains="stuck-0: replicas: 3,2,1. adding: 2. removing: 1.")
        pair.agree(REASSIGN, "--verify", "--reassignment-json-file", plan, contains="is still in progress")
        pair.agree(TOPICS, "--describe", "--topic", "stuck", contains="Adding Replicas")
        pair.agree(REASSIGN, "--cancel", "--reassignment-json-file", plan, contains="Successfully cancelled")
        pair.agree(TOPICS, "--describe", "--topic", "stuck")
        pair.agree(REASSIGN, "--list", contains="No partition reassignments found")


def test_leaders_come_back_by_a_preferred_election(pair: Pair) -> None:
    create(pair, "noticed-1", "2:1:3")
    create(pair, "led", "1:2")
    with without(pair, 1):
        pair.agree(TOPICS, "--describe", "--topic", "led", contains="Leader: 2")
        one = ("--topic", "led", "--partition", 0)
        pair.agree(LEADER_ELECTION, "--election-type", "preferred", *one, contains="led-0")
    pair.agree(LEADER_ELECTION, "--election-type", "preferred", *one, contains="Successfully completed leader election")
    pair.agree(LEADER_ELECTION, "--election-type", "preferred", *one, contains="Valid replica already elected")
    pair.wait(TOPICS, "--describe", "--topic", "led", until=lambda out: "Leader: 1" in out)
    pair.agree(TOPICS, "--describe", "--topic", "led")


def test_a_partition_whose_last_replica_is_lost_is_led_by_an_unclean_election(pair: Pair) -> None:
    create(pair, "lost", "3:1")
    pair.kill(1)
    pair.wait(TOPICS, "--describe", "--topic", "lost", until=lambda out: re.search(r"Isr: 3\t", out) is not None)
    pair.kill(3)
    pair.start(1)
    pair.wait(TOPICS, "--describe", "--topic", "lost", until=lambda out: "Leader: none" in out)
    one = ("--topic", "lost", "--partition", 0)
    pair.agree(LEADER_ELECTION, "--election-type", "preferred", *one, contains="lost-0")
    pair.agree(LEADER_ELECTION, "--election-type", "unclean", *one, contains="Successfully completed leader election")
    pair.wait(TOPICS, "--describe", "--topic", "lost", until=lambda out: "Leader: 1" in out)
    pair.agree(TOPICS, "--describe", "--topic", "lost", contains="Isr: 1")
    pair.start(3)
    pair.wait(TOPICS, "--describe", "--under-replicated-partitions", until=lambda out: out == "")


def test_the_quorum(pair: Pair) -> None:
    ours, kafkas = (numberless(each.out) for each in pair.run(QUORUM, "describe", "--status"))
    assert ours == kafkas
    assert "CurrentVoters" in ours
    ours, kafkas = (numberless(each.out) for each in pair.run(QUORUM, "describe", "--replication"))
    assert ours == kafkas
    assert ours.count("Follower") == 2


def numberless(text: str) -> str:
    """Rows without offsets, times and who leads; a negative number (unknown) stays one."""
    text = re.sub(r"^(ClusterId:\s+)\S+", r"\1*", text, flags=re.MULTILINE)
    text = re.sub(r'("id": )(\d+)', r"\1id\2", text)
    rows = [re.sub(r"(?<![\w*.])\d+", "#", re.sub(r"[ \t]+", " ", row)).rstrip() for row in text.splitlines()]
    return "\n".join([rows[0], *sorted(rows[1:])])


def test_features(pair: Pair) -> None:
    levels = [
        dict(re.findall(r"Feature: (\S+).*?FinalizedVersionLevel: (\S+)", each.out))
        for each in pair.run(FEATURES, "describe")
    ]
    assert levels[0]["metadata.version"] == levels[1]["metadata.version"]
    assert all(levels[1].get(name, "0") in (level, "0") for name, level in levels[0].items())


def test_log_directories(pair: Pair) -> None:
    create(pair, "dirs", "1:2,2:3,3:1")
    wanted = ("--describe", "--topic-list", "dirs", "--broker-list", "1,2,3")
    pair.wait(LOG_DIRS, *wanted, until=lambda out: out.count('"partition":"dirs-') == 6)  # a log is made a little later
    ours, kafkas = (directories(each.out) for each in pair.run(LOG_DIRS, *wanted))
    assert ours == kafkas
    assert [len(broker["logDirs"][0]["partitions"]) for broker in ours] == [2, 2, 2]


def directories(out: str) -> list[dict[str, list[dict[str, list[dict[str, object]]]]]]:
    brokers = json.loads(out.splitlines()[-1])["brokers"]
    for broker in brokers:
        for directory in broker["logDirs"]:
            directory["logDir"] = "*"
            directory["partitions"].sort(key=lambda each: each["partition"])
    return sorted(brokers, key=lambda broker: broker["broker"])


@pytest.mark.parametrize("controllers", [False, True])
def test_the_endpoints(pair: Pair, controllers: bool) -> None:
    rows = [lines(each.out) for each in pair.run(CLUSTER, "list-endpoints", controllers=controllers)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 1 + 3
    pair.agree(CLUSTER, "cluster-id", contains="Cluster ID: ", controllers=controllers)


def lines(out: str) -> list[list[str]]:
    """A table's rows, in order of the ids."""
    head, *rows = (line.split() for line in out.splitlines())
    return [head, *sorted(rows)]


def test_a_broker_that_is_gone_is_unregistered(pair: Pair) -> None:
    create(pair, "noticed-2-again", "1:2:3")
    pair.kill(2)
    try:
        pair.wait(TOPICS, "--describe", "--topic", "noticed-2-again", until=lambda out: "Isr: 1,3" in out)
        ours, kafkas = (lines(each.out) for each in pair.run(CLUSTER, "list-endpoints", "--include-fenced-brokers"))
        assert ours == kafkas
        assert "fenced" in ours[2]
        pair.agree(CLUSTER, "unregister", "--id", 2, contains="Broker 2 is no longer registered.")
        pair.agree(CLUSTER, "unregister", "--id", 2)
        pair.agree(CLUSTER, "unregister", "--id", 7)
        ours, kafkas = (lines(each.out) for each in pair.run(CLUSTER, "list-endpoints", "--include-fenced-brokers"))
        assert ours == kafkas
        assert len(ours) == 1 + 2
        pair.agree(TOPICS, "--describe", "--topic", "noticed-2-again", contains="Replicas: 1,2,3")
    finally:
        pair.start(2)
        pair.wait(TOPICS, "--describe", "--under-replicated-partitions", until=lambda out: out == "")


def test_configs_of_brokers(pair: Pair) -> None:
    for where in (("--entity-name", 2), ("--entity-default",)):
        brokers = ("--entity-type", "brokers", *where)
        pair.agree(
            CONFIGS, "--alter", *brokers, "--add-config", "log.cleaner.threads=2,log.retention.ms=7", contains="Com"
        )
        pair.wait(CONFIGS, "--describe", *brokers, until=lambda out: "log.cleaner.threads=2" in out)
        pair.agree(CONFIGS, "--describe", *brokers, contains="log.cleaner.threads=2")
        for wrong in ("log.cleaner.threads=many", "broker.id=7", "log.cleaner.threads=-1"):
            ours, kafkas = pair.run(CONFIGS, "--alter", *brokers, "--add-config", wrong)
            assert ours.status == kafkas.status != 0
            assert refusals(ours) == refusals(kafkas) != []
        pair.agree(CONFIGS, "--alter", *brokers, "--delete-config", "log.cleaner.threads,log.retention.ms")
        pair.wait(CONFIGS, "--describe", *brokers, until=lambda out: "log.cleaner.threads" not in out)
        pair.agree(CONFIGS, "--describe", *brokers)
    pair.agree(CONFIGS, "--describe", "--entity-type", "brokers")


def refusals(outcome: Outcome) -> list[str]:
    """The exceptions that an outcome names: the sentences are each one's own."""
    return re.findall(r"org\.apache\.kafka\.common\.errors\.\w+", outcome.error + outcome.out)


def test_levels_up_and_down(pair: Pair) -> None:
    elr = ("--feature", "eligible.leader.replicas.version=1")
    pair.agree(FEATURES, "upgrade", *elr, "--dry-run", contains="can be upgraded to 1")
    pair.agree(FEATURES, "upgrade", *elr, contains="was upgraded to 1")
    pair.agree(FEATURES, "upgrade", *elr)
    pair.agree(FEATURES, "downgrade", "--feature", "eligible.leader.replicas.version=0", contains="was downgraded to 0")
    pair.agree(FEATURES, "downgrade", "--metadata", "4.2-IV1")
    pair.agree(FEATURES, "version-mapping", contains="metadata.version=30")
    pair.agree(FEATURES, "upgrade", *elr, controllers=True, contains="was upgraded to 1")
    pair.agree(FEATURES, "disable", "--feature", "eligible.leader.replicas.version", controllers=True)


def test_the_quorum_by_its_controllers(pair: Pair) -> None:
    for what in ("--status", "--replication"):
        ours, kafkas = (numberless(each.out) for each in pair.run(QUORUM, "describe", what, controllers=True))
        assert ours == kafkas


def test_penstock_cluster_says_of_apache_kafka_what_it_says_of_penstock(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    create(pair, "both", "1:2,2:3,3:1")
    found = []
    for cluster in (pair.penstock, pair.kafka):
        capsys.readouterr()
        bootstrap = ("--bootstrap", cluster.bootstrap)
        assert main(["cluster", "drain", "2", *bootstrap]) == 0
        assert main(["cluster", "undrain", "2", *bootstrap]) == 0
        capsys.readouterr()
        assert main(["cluster", "describe", "--json", *bootstrap]) == 0
        described = json.loads(capsys.readouterr().out)
        brokers = [(each["id"], each["rack"], each["fenced"], each["replicas"]) for each in described["brokers"]]
        found.append((described["voters"], described["counts"], described["topics"], brokers))
        assert main(["cluster", "quorum", "--json", *bootstrap]) == 0
        quorum = json.loads(capsys.readouterr().out)
        assert all(voter["lag_ms"] < 10_000 and voter["lag"] >= 0 for voter in quorum["voters"])
    assert found[0] == found[1]
