"""Kafka's tools for groups say the same of Penstock's groups as of Apache Kafka's, but for random ids and ports."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from interop.kafka_peer import KafkaPeer, require_kafka
from interop.tools.toolbox import (
    CONFIGS,
    CONSUMER,
    CONSUMER_GROUPS,
    DELETE_RECORDS,
    GROUPS,
    TOPICS,
    Outcome,
    Toolbox,
)
from support.processes import wait_until

from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

TOPIC, OTHER = "group-tools", "group-tools-other"
PARTITIONS, RECORDS = 3, 10
TIMEOUT_S = 30.0
HOUR_MS = 3_600_000
MAX_POLL_INTERVAL_MS = 4 * HOUR_MS
"""Nobody polls the members while the tests run: librdkafka would have them leave after five minutes."""
FIRST_MS = (time.time_ns() // 1_000_000 // HOUR_MS - 10) * HOUR_MS
"""When the first record of each partition was made; the next ones are an hour apart."""


class Member(NamedTuple):
    """A member to be in a group: its client's name, the group's protocol, further settings of librdkafka's."""

    client: str
    protocol: str
    more: dict[str, object]


MEMBERED: dict[str, list[Member]] = {
    "tg-classic": [Member("reader", "classic", {})],
    "tg-cooperative": [
        Member("one", "classic", {"partition.assignment.strategy": "cooperative-sticky"}),
        Member("two", "classic", {"partition.assignment.strategy": "cooperative-sticky"}),
    ],
    "tg-static": [Member("static", "classic", {"group.instance.id": "instance-1"})],
    "tg-consumer": [Member("modern", "consumer", {})],
    "tg-consumer-range": [
        Member("modern-static", "consumer", {"group.remote.assignor": "range", "group.instance.id": "instance-2"})
    ],
    "tg-upgrading": [Member("older", "classic", {}), Member("newer", "consumer", {})],
}
EMPTY = {"tg-empty": "classic", "tg-consumer-empty": "consumer"}

Compare = Callable[..., tuple[Outcome, Outcome]]


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    require_kafka()
    with Toolbox() as toolbox:
        yield toolbox


@pytest.fixture(scope="module")
def both(tools: Toolbox) -> Iterator[Compare]:
    """Runs a tool against both, each with topics, groups and members as above; gives what it said of these."""
    with ExitStack() as stack:  # brokers of their own: what is said of all groups is said of these alone
        places = [stack.enter_context(LocalBroker()).bootstrap, stack.enter_context(KafkaPeer()).bootstrap]
        for bootstrap in places:
            fill(tools, bootstrap)
            for group, members in MEMBERED.items():
                join(stack, bootstrap, group, members)
            for group, protocol in EMPTY.items():
                with ExitStack() as leaving:
                    join(leaving, bootstrap, group, [Member("gone", protocol, {})])

        def run(tool: str, *arguments: object, stdin: str = "") -> tuple[Outcome, Outcome]:
            ours, kafkas = (masked(tools.run(tool, bootstrap, *arguments, stdin=stdin)) for bootstrap in places)
            return ours, kafkas

        yield run


def fill(tools: Toolbox, bootstrap: str) -> None:
    """Makes the topics; each partition gets a record an hour."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for topic, partitions in ((TOPIC, PARTITIONS), (OTHER, 1)):
        created = tools.run(TOPICS, bootstrap, "--create", "--topic", topic, "--partitions", partitions)
        assert created.status == 0, created
        for number in range(RECORDS * partitions):
            at_ms = FIRST_MS + number // partitions * HOUR_MS
            producer.produce(topic, b"%d" % number, partition=number % partitions, timestamp=at_ms)
    assert producer.flush(TIMEOUT_S) == 0


def join(stack: ExitStack, bootstrap: str, group: str, members: list[Member]) -> None:
    """Has members join a group one after the other, and commit."""
    consumers: list[Consumer] = []
    for member in members:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": member.client,
                "group.protocol": member.protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
                **({"heartbeat.interval.ms": 200} if member.protocol == "classic" else {}),
                **member.more,
            }
        )
        stack.callback(consumer.close)
        consumer.subscribe([TOPIC])
        consumers.append(consumer)
        share(group, consumers)
    for consumer in consumers:
        mine = [TopicPartition(TOPIC, each.partition, 4 + each.partition) for each in consumer.assignment()]
        consumer.commit(offsets=mine, asynchronous=False)


def share(group: str, consumers: list[Consumer]) -> None:
    """Polls until each has partitions, and each partition an owner."""
    deadline = time.monotonic() + TIMEOUT_S
    owned: list[int] = []
    while len(owned) < PARTITIONS or not all(consumer.assignment() for consumer in consumers):
        assert time.monotonic() < deadline, f"{group}: only {owned} have owners"
        for consumer in consumers:
            message = consumer.poll(0.05)
            assert message is None or message.error() is None, message.error()
        owned = [partition.partition for consumer in consumers for partition in consumer.assignment()]


def masked(outcome: Outcome) -> Outcome:
    """Without what is random: member ids, and ports; the rows of tables in order."""

    def mask(text: str) -> str:
        text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "*" * 36, text)
        text = re.sub(r"(?<= )[A-Za-z0-9_/+-]{22}(?= )", "*" * 22, text)
        text = re.sub(r"127\.0\.0\.1:\d{4,5}", lambda found: "127.0.0.1:" + "*" * (len(found[0]) - 10), text)
        return re.sub(r"^\[?\d{4}-\d\d-\d\d \S+\]", "", text, flags=re.MULTILINE)

    return Outcome(outcome.status, mask(outcome.out), mask(outcome.error))


def agree(pair: tuple[Outcome, Outcome], contains: str = "") -> None:
    """Both say the same, row for row in any order, and say what is expected."""
    ours, kafkas = pair
    assert sorted(ours.out.splitlines()) == sorted(kafkas.out.splitlines())
    assert (ours.status, ours.error) == (kafkas.status, kafkas.error)
    assert contains in pair[0].out + pair[0].error


def agree_on(groups: list[str], pair: tuple[Outcome, Outcome]) -> None:
    """As `agree`, of the lines about these groups."""

    def of_groups(text: str) -> list[list[str]]:
        return sorted(line.split() for line in text.splitlines() if line.split()[:1] and line.split()[0] in groups)

    ours, kafkas = pair
    assert (ours.status, of_groups(ours.out)) == (kafkas.status, of_groups(kafkas.out))
    assert {row[0] for row in of_groups(ours.out)} == set(groups)


ALL = [*MEMBERED, *EMPTY]
CLASSIC = ["tg-classic", "tg-cooperative", "tg-empty", "tg-static"]


@pytest.mark.slow
def test_listing(both: Compare) -> None:
    agree_on(ALL, both(CONSUMER_GROUPS, "--list"))
    agree_on(ALL, both(CONSUMER_GROUPS, "--list", "--state"))
    agree_on(ALL, both(CONSUMER_GROUPS, "--list", "--type"))
    agree_on(ALL, both(CONSUMER_GROUPS, "--list", "--type", "--state"))
    agree_on([*EMPTY], both(CONSUMER_GROUPS, "--list", "--state", "empty"))
    agree_on([*MEMBERED], both(CONSUMER_GROUPS, "--list", "--state", "stable"))
    agree_on(CLASSIC, both(CONSUMER_GROUPS, "--list", "--type", "classic"))
    agree_on(["tg-consumer-empty"], both(CONSUMER_GROUPS, "--list", "--type", "consumer", "--state", "Empty"))


def test_listing_by_the_tool_of_all_kinds_of_groups(both: Compare) -> None:
    agree_on(ALL, both(GROUPS, "--list"))
    agree_on(ALL, both(GROUPS, "--list", "--consumer"))
    agree_on(CLASSIC, both(GROUPS, "--list", "--group-type", "classic"))
    agree_on(ALL, both(GROUPS, "--list", "--protocol", "consumer"))
    agree(both(GROUPS, "--list", "--share"))


@pytest.mark.slow
@pytest.mark.parametrize("group", ALL)
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--offsets",),
        ("--offsets", "--verbose"),
        ("--members",),
        ("--members", "--verbose"),
        ("--state",),
        ("--state", "--verbose"),
    ],
    ids=" ".join,
)
def test_describing(both: Compare, group: str, options: tuple[str, ...]) -> None:
    agree(both(CONSUMER_GROUPS, "--describe", "--group", group, *options), group)


def test_describing_all_and_none(both: Compare) -> None:
    agree_on(ALL, both(CONSUMER_GROUPS, "--describe", "--all-groups", "--offsets", "--verbose"))
    agree_on([*MEMBERED], both(CONSUMER_GROUPS, "--describe", "--all-groups", "--members", "--verbose"))
    agree_on(ALL, both(CONSUMER_GROUPS, "--describe", "--all-groups", "--state"))
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-missing"), "tg-missing not found")
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-missing", "--members"), "tg-missing not found")
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-missing", "--state"), "tg-missing not found")


FOURTH = time.strftime("%Y-%m-%dT%H:%M:%S.000", time.gmtime(FIRST_MS // 1000 + 3 * 3600))
"""When the fourth record of each partition was made; a test's id must not tell the time."""
RESETS = [
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-offset", "7"),
    ("--to-offset", "99"),
    ("--to-datetime", "FOURTH"),
    ("--to-datetime", "2001-01-01T00:00:00.000"),
    ("--to-datetime", "2099-01-01T00:00:00.000+02:00"),
    ("--by-duration", "PT5H30M"),
    ("--by-duration", "P9D"),
    ("--shift-by", "2"),
    ("--shift-by", "-3"),
    ("--shift-by", "1000"),
    ("--to-current",),
]


@pytest.mark.slow
@pytest.mark.parametrize("form", RESETS, ids=" ".join)
def test_resetting(both: Compare, form: tuple[str, ...]) -> None:
    form = tuple(FOURTH if word == "FOURTH" else word for word in form)
    reset = ("--reset-offsets", "--group", "tg-reset")
    start = ("--to-offset", "4", "--topic", TOPIC)
    agree(both(CONSUMER_GROUPS, *reset, *start, "--execute"), "tg-reset")
    for scope in ((TOPIC,), (f"{TOPIC}:0,2",)):
        agree(both(CONSUMER_GROUPS, *reset, *form, "--topic", *scope), "tg-reset")
    agree(both(CONSUMER_GROUPS, *reset, *form, "--topic", f"{TOPIC}:1,2", "--dry-run", "--export"), TOPIC)
    agree(both(CONSUMER_GROUPS, *reset, *form, "--all-topics", "--execute"), "tg-reset")
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-reset"), "tg-reset")


def test_resetting_from_a_file_and_several_groups(both: Compare, tmp_path: Path) -> None:
    reset = ("--reset-offsets", "--group", "tg-file")
    two = ("--topic", TOPIC, "--topic", f"{OTHER}:0")
    agree(both(CONSUMER_GROUPS, *reset, "--to-offset", 2, *two, "--execute", "--export"), TOPIC)
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{TOPIC},0,5\n{TOPIC},2,1000\n{OTHER},0,0\n")
    agree(both(CONSUMER_GROUPS, *reset, "--from-file", plan, "--dry-run"), "tg-file")
    agree(both(CONSUMER_GROUPS, *reset, "--from-file", plan, "--execute"), "tg-file")
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-file"), "tg-file")
    several = ("--reset-offsets", "--group", "tg-file", "--group", "tg-second", "--to-earliest")
    agree(both(CONSUMER_GROUPS, *several, "--topic", TOPIC, "--execute"), "tg-second")
    agree(both(CONSUMER_GROUPS, *several, "--all-topics", "--export"), "tg-second")
    plan.write_text(f"tg-file,{TOPIC},0,1\ntg-second,{TOPIC},1,2\n")
    several = ("--reset-offsets", "--group", "tg-file", "--group", "tg-second", "--from-file", str(plan))
    agree(both(CONSUMER_GROUPS, *several, "--execute"), "tg-second")
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-second"), "tg-second")


def test_resetting_all_groups(both: Compare) -> None:
    every = ("--reset-offsets", "--all-groups")
    agree(both(CONSUMER_GROUPS, *every, "--all-topics", "--to-current", "--dry-run"), "tg-empty")
    agree(both(CONSUMER_GROUPS, *every, "--topic", f"{TOPIC}:1", "--to-current", "--execute"), "tg-consumer-empty")


@pytest.mark.slow
def test_deleting_all_groups(tools: Toolbox) -> None:
    said = []
    with LocalBroker() as ours, KafkaPeer() as kafka:
        for bootstrap in (ours.bootstrap, kafka.bootstrap):
            fill(tools, bootstrap)
            for group in ("tg-a", "tg-b"):
                reset = ("--reset-offsets", "--group", group, "--to-latest", "--topic", TOPIC, "--execute")
                assert tools.run(CONSUMER_GROUPS, bootstrap, *reset).status == 0
            with ExitStack() as stack:
                join(stack, bootstrap, "tg-c", [Member("reader", "classic", {})])
                said.append([masked(tools.run(CONSUMER_GROUPS, bootstrap, "--delete", "--all-groups"))])
            said[-1].append(masked(tools.run(CONSUMER_GROUPS, bootstrap, "--delete", "--all-groups")))
            said[-1].append(masked(tools.run(CONSUMER_GROUPS, bootstrap, "--list")))
    for pair in zip(*said, strict=True):
        agree(pair)
    assert "tg-c" in said[0][0].out + said[0][0].error


def test_resetting_what_cannot_be(both: Compare) -> None:
    for group in ("tg-classic", "tg-consumer"):
        reset = ("--reset-offsets", "--group", group, "--to-earliest", "--topic", TOPIC)
        agree(both(CONSUMER_GROUPS, *reset, "--execute"))
    agree(both(CONSUMER_GROUPS, "--reset-offsets", "--group", "tg-x", "--to-earliest", "--topic", "missing"))
    agree(both(CONSUMER_GROUPS, "--reset-offsets", "--group", "tg-x", "--to-earliest", "--topic", f"{TOPIC}:9"))
    agree(both(CONSUMER_GROUPS, "--reset-offsets", "--group", "tg-x", "--to-current", "--topic", TOPIC))
    agree(both(CONSUMER_GROUPS, "--reset-offsets", "--group", "tg-x", "--shift-by", 1, "--topic", TOPIC))


def test_deleting_offsets(both: Compare) -> None:
    reset = ("--reset-offsets", "--group", "tg-offsets", "--to-offset", 3)
    agree(both(CONSUMER_GROUPS, *reset, "--topic", TOPIC, "--topic", OTHER, "--execute"))
    delete = ("--delete-offsets", "--group", "tg-offsets")
    agree(both(CONSUMER_GROUPS, *delete, "--topic", f"{TOPIC}:0,1"))
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-offsets"), "tg-offsets")
    agree(both(CONSUMER_GROUPS, *delete, "--topic", "missing"))
    agree(both(CONSUMER_GROUPS, *delete, "--topic", f"{TOPIC}:77"))
    agree(both(CONSUMER_GROUPS, *delete, "--topic", OTHER, "--topic", TOPIC))
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-offsets"))
    agree(both(CONSUMER_GROUPS, "--delete-offsets", "--group", "tg-missing", "--topic", TOPIC))
    for group in ("tg-classic", "tg-consumer"):
        agree(both(CONSUMER_GROUPS, "--delete-offsets", "--group", group, "--topic", f"{TOPIC}:0"))
        agree(both(CONSUMER_GROUPS, "--delete-offsets", "--group", group, "--topic", OTHER))


def test_deleting_groups(both: Compare) -> None:
    for group in ("tg-doomed-1", "tg-doomed-2"):
        reset = ("--reset-offsets", "--group", group, "--to-latest", "--topic", TOPIC)
        agree(both(CONSUMER_GROUPS, *reset, "--execute"))
    agree(both(CONSUMER_GROUPS, "--delete", "--group", "tg-doomed-1"))
    agree(both(CONSUMER_GROUPS, "--delete", "--group", "tg-doomed-2", "--group", "tg-missing"))
    agree(both(CONSUMER_GROUPS, "--delete", "--group", "tg-classic"))
    agree(both(CONSUMER_GROUPS, "--delete", "--group", "tg-consumer", "--group", "tg-missing"))
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-doomed-1"), "tg-doomed-1 not found")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_in_a_group(both: Compare, protocol: str) -> None:
    group = f"tg-console-{protocol}"
    read = (CONSUMER, "--topic", OTHER, "--group", group)
    settings = ("--consumer-property", f"group.protocol={protocol}", "--property", "print.offset=true")
    agree(both(*read, *settings, "--from-beginning", "--max-messages", 4), "Processed a total of 4 messages")
    agree(both(CONSUMER_GROUPS, "--describe", "--group", group), group)
    agree(both(*read, *settings, "--max-messages", 3), "Processed a total of 3 messages")
    agree(both(CONSUMER_GROUPS, "--describe", "--group", group), group)


def test_configs_of_groups(both: Compare) -> None:
    group = ("--entity-type", "groups", "--entity-name", "tg-configured")

    def until_told(change: str, *, gone: bool = False) -> None:
        """A broker of Kafka's hears of it a little later."""
        wait_until(
            lambda: all((change in each.out) is not gone for each in both(CONFIGS, "--describe", *group)),
            f"{change} is {'gone' if gone else 'there'}",
        )

    agree(both(CONFIGS, "--describe", *group))
    for added in (
        "consumer.heartbeat.interval.ms=6000",
        "consumer.session.timeout.ms=50000,consumer.assignment.interval.ms=2000",
    ):
        agree(both(CONFIGS, "--alter", *group, "--add-config", added), "Completed")
        until_told(added.partition(",")[0])
        agree(both(CONFIGS, "--describe", *group), "6000")
    agree(both(CONFIGS, "--describe", "--entity-type", "groups"), "tg-configured")
    agree(both(CONFIGS, "--alter", *group, "--delete-config", "consumer.heartbeat.interval.ms"), "Completed")
    until_told("consumer.heartbeat.interval.ms=6000", gone=True)
    agree(both(CONFIGS, "--describe", *group))
    for wrong in ("consumer.heartbeat.interval.ms=soon", "consumer.session.timeout.ms=1", "no.such.config=1"):
        refusals = [
            (each.status, re.findall(r"org\.apache\.kafka\.common\.errors\.\w+", each.out + each.error)[:1])
            for each in both(CONFIGS, "--alter", *group, "--add-config", wrong)
        ]
        assert refusals[0] == refusals[1]
        assert refusals[0][0] == 1


def test_offsets_below_the_start_of_the_log(both: Compare, tmp_path: Path) -> None:
    reset = ("--reset-offsets", "--group", "tg-low")
    agree(both(CONSUMER_GROUPS, *reset, "--to-offset", 2, "--topic", OTHER, "--execute"))
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": OTHER, "partition": 0, "offset": 5}]}))
    agree(both(DELETE_RECORDS, "--offset-json-file", file))
    agree(both(CONSUMER_GROUPS, "--describe", "--group", "tg-low"), "tg-low")
    agree(both(CONSUMER_GROUPS, *reset, "--to-offset", 2, "--topic", OTHER, "--execute"))
    agree(both(CONSUMER_GROUPS, *reset, "--shift-by", -4, "--topic", OTHER))
