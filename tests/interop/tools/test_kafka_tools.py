"""Kafka's own tools against Penstock say what they say against Apache Kafka, but for what names the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interop.kafka_peer import KafkaPeer, require_kafka
from interop.tools.toolbox import (
    API_VERSIONS,
    CONFIGS,
    CONSUMER,
    DELETE_RECORDS,
    FEATURES,
    LOG_DIRS,
    OFFSETS,
    PERFORMANCE,
    PRODUCER,
    QUORUM,
    TOPICS,
    Outcome,
    Toolbox,
)
from support.heard import until_heard
from support.processes import wait_until

from penstock.node.handlers import registry
from penstock.protocol.api import APIS, ApiKey
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

Compare = Callable[..., tuple[Outcome, Outcome]]
CHANGES = {"--create", "--alter", "--delete"}
WITH_A_PLUGIN = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""APIs that Kafka has only with a plugin that takes what clients push."""
LINES = "".join(f"key{number}\tvalue{number}\n" for number in range(20))


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    require_kafka()
    with Toolbox() as toolbox:
        yield toolbox


@pytest.fixture(scope="module")
def both(tools: Toolbox, penstock_session: LocalBroker, kafka_peer: KafkaPeer) -> Compare:
    """Runs a tool against Penstock and against Kafka; gives what it said, without ids and addresses. Kafka's broker may
    hear of what its controller does after the tool has its answer; the next tool is run when it has.
    """

    def run(tool: str, *arguments: object, stdin: str = "") -> tuple[Outcome, Outcome]:
        ours = tools.run(tool, penstock_session.bootstrap, *arguments, stdin=stdin)
        kafkas = tools.run(tool, kafka_peer.bootstrap, *arguments, stdin=stdin)
        if CHANGES.intersection(arguments):
            until_heard(kafka_peer.bootstrap)
        return masked(ours), masked(kafkas)

    return run


def masked(outcome: Outcome) -> Outcome:
    """Without topic ids, ports and times of day."""

    def mask(text: str) -> str:
        text = re.sub(r"TopicId: \S+", "TopicId: *", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:*", text)
        return re.sub(r"^\[?\d{4}-\d\d-\d\d[^\]]*\]", "", text, flags=re.MULTILINE)

    return Outcome(outcome.status, mask(outcome.out), mask(outcome.error))


def agree(pair: tuple[Outcome, Outcome], contains: str = "") -> None:
    ours, kafkas = pair
    assert ours == kafkas
    assert contains in ours.out + ours.error


def test_topics(both: Compare) -> None:
    agree(
        both(TOPICS, "--create", "--topic", "tools", "--partitions", 2, "--config", "retention.ms=1000000"), "Created"
    )
    agree(both(TOPICS, "--describe", "--topic", "tools"), "PartitionCount: 2")
    agree(both(TOPICS, "--alter", "--topic", "tools", "--partitions", 3))
    agree(both(TOPICS, "--describe", "--topic", "tools"), "Partition: 2")
    agree(both(TOPICS, "--list", "--topic", "tools"), "tools")
    agree(both(TOPICS, "--create", "--topic", "tools", "--if-not-exists"))
    agree(both(TOPICS, "--create", "--topic", "tools.doomed"))
    agree(both(TOPICS, "--delete", "--topic", "tools.doomed"))
    agree(both(TOPICS, "--describe", "--topic", "tools.doomed"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--create", "--topic", "tools"),
        ("--create", "--topic", "a/b"),
        ("--create", "--topic", "tools-bad", "--config", "retention.ms=never"),
        ("--create", "--topic", "tools-bad", "--replication-factor", 3),
        ("--create", "--topic", "tools-bad", "--partitions", 0),
        ("--alter", "--topic", "tools", "--partitions", 1),
        ("--delete", "--topic", "missing"),
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)
def test_a_refusal_ends_with_the_same_status_and_error(both: Compare, arguments: tuple[object, ...]) -> None:
    both(TOPICS, "--create", "--topic", "tools", "--partitions", 3, "--if-not-exists")
    ours, kafkas = both(TOPICS, *arguments)
    assert ours.status == kafkas.status
    assert exceptions(ours) == exceptions(kafkas)


def exceptions(outcome: Outcome) -> list[str]:
    """The classes of Java that an outcome names."""
    return re.findall(r"org\.apache\.kafka\.common\.errors\.\w+", outcome.out + outcome.error)


def test_configs(both: Compare) -> None:
    agree(both(TOPICS, "--create", "--topic", "tools-configs"))
    topic = ("--entity-type", "topics", "--entity-name", "tools-configs")
    agree(both(CONFIGS, "--alter", *topic, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"))
    agree(both(CONFIGS, "--describe", *topic), "retention.ms=5000")
    agree(both(CONFIGS, "--alter", *topic, "--delete-config", "retention.ms"))
    agree(both(CONFIGS, "--describe", *topic))
    ours, theirs = [
        sorted(re.findall(r"^  (\S+?)=", each.out, re.MULTILINE))
        for each in both(CONFIGS, "--describe", "--all", *topic)
    ]
    assert [name for name in ours if not name.startswith("penstock.")] == theirs
    broker = ("--entity-type", "brokers", "--entity-name", 1)
    agree(both(CONFIGS, "--alter", *broker, "--add-config", "log.cleaner.threads=2"), "Completed")
    wait_until(  # a broker hears of it a little later
        lambda: all("threads=2 sensitive" in each.out for each in both(CONFIGS, "--describe", *broker)), "it is known"
    )
    agree(both(CONFIGS, "--describe", *broker), "log.cleaner.threads=2")
    agree(both(CONFIGS, "--alter", *broker, "--delete-config", "log.cleaner.threads"))


def test_records_from_the_console_and_back(both: Compare) -> None:
    agree(both(TOPICS, "--create", "--topic", "tools-records", "--partitions", 2))
    keyed = ("--property", "parse.key=true")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        agree(both(PRODUCER, "--topic", "tools-records", "--compression-codec", codec, *keyed, stdin=LINES))
    for partition in (0, 1):
        found = both(OFFSETS, "--topic-partitions", f"tools-records:{partition}")
        agree(found, f"tools-records:{partition}:")
        count = int(found[0].out.rpartition(":")[2])
        printed = ("--property", "print.key=true", "--property", "print.offset=true")
        read = ("--partition", partition, "--offset", "earliest", "--max-messages", count)
        agree(both(CONSUMER, "--topic", "tools-records", *read, *printed), "value")
    for time in ("earliest", "latest", "earliest-local", "latest-tiered", "0", "99999999999999"):
        agree(both(OFFSETS, "--topic", "tools-records", "--time", time))


def test_deleting_records(both: Compare, tmp_path: Path) -> None:
    agree(both(TOPICS, "--create", "--topic", "tools-deleting"))
    agree(both(PRODUCER, "--topic", "tools-deleting", stdin=LINES))
    wanted = {"version": 1, "partitions": [{"topic": "tools-deleting", "partition": 0, "offset": 7}]}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wanted))
    agree(both(DELETE_RECORDS, "--offset-json-file", file), "low_watermark: 7")
    agree(both(OFFSETS, "--topic", "tools-deleting", "--time", "earliest"), "tools-deleting:0:7")


def test_log_directories(both: Compare) -> None:
    agree(both(TOPICS, "--create", "--topic", "tools-dirs"))
    wanted = (LOG_DIRS, "--describe", "--topic-list", "tools-dirs")
    wait_until(lambda: all('"tools-dirs-0"' in each.out for each in both(*wanted)), "the log has been made")
    described = both(*wanted)
    ours, kafkas = (json.loads(each.out.splitlines()[-1]) for each in described)
    for answer in (ours, kafkas):
        for broker in answer["brokers"]:
            for directory in broker["logDirs"]:
                directory["logDir"] = "*"
    assert ours == kafkas
    assert ours["brokers"][0]["logDirs"][0]["partitions"][0]["partition"] == "tools-dirs-0"


def test_the_performance_producer_with_its_idempotence(both: Compare) -> None:
    agree(both(TOPICS, "--create", "--topic", "tools-performance"))
    load = ("--topic", "tools-performance", "--num-records", 5000, "--record-size", 100, "--throughput", -1)
    for outcome in both(PERFORMANCE, *load):
        assert outcome.status == 0
        assert "5000 records sent" in outcome.out
    agree(both(OFFSETS, "--topic", "tools-performance"), "tools-performance:0:5000")


def test_api_versions_are_kafkas_less_what_is_not_served(both: Compare) -> None:
    ours, kafkas = (
        dict(re.findall(r"^\s(\w+\(\d+\)): (\d+(?: to \d+)?)", each.out, re.MULTILINE)) for each in both(API_VERSIONS)
    )
    served = [APIS[key] for key in registry() if "broker" in APIS[key].listeners and not APIS[key].own]
    assert set(ours) == {f"{api.name}({int(api.key)})" for api in served}
    pushed = {f"{APIS[key].name}({int(key)})" for key in WITH_A_PLUGIN}
    assert not pushed & set(kafkas)
    assert {name: kafkas[name] for name in ours.keys() - pushed} == {name: ours[name] for name in ours.keys() - pushed}


def test_the_quorum(both: Compare) -> None:
    ours, kafkas = both(QUORUM, "describe", "--status")
    fields = [re.findall(r"^(\w+):", each.out, re.MULTILINE) for each in (ours, kafkas)]
    assert fields[0] == fields[1]
    assert "LeaderId:               1" in ours.out
    ours, kafkas = both(QUORUM, "describe", "--replication")
    assert ours.out.splitlines()[0].split() == kafkas.out.splitlines()[0].split()
    assert "Leader" in ours.out


def test_features(both: Compare) -> None:
    levels = [
        dict(re.findall(r"Feature: (\S+).*?FinalizedVersionLevel: (\S+)", each.out))
        for each in both(FEATURES, "describe")
    ]
    assert levels[0]["metadata.version"] == levels[1]["metadata.version"]
    assert all(levels[1].get(name, "0") in (level, "0") for name, level in levels[0].items())
