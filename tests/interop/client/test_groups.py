"""Groups through our client and commands: against Penstock, and where Java is there against Apache Kafka, alike."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from interop.kafka_peer import KafkaPeer
from support.processes import wait_until

from penstock.cli.main import main
from penstock.client.admin import create_topic, wait_for_topic
from penstock.client.client import EARLIEST, LATEST, Client
from penstock.client.groups import (
    alter_offsets,
    committed,
    delete_groups,
    delete_offsets,
    describe_group,
    lags,
    list_groups,
)
from penstock.client.member import Member
from penstock.client.producer import Message, Producer
from penstock.errors import ErrorCode, RequestError
from penstock.testing.broker import LocalBroker

_numbers = count()
PARTITIONS, RECORDS = 4, 40


@pytest.fixture(scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """A running broker."""
    with LocalBroker() if request.param == "penstock" else KafkaPeer() as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic of four partitions with ten records each."""
    name = f"topic-{next(_numbers)}"

    async def fill(client: Client) -> None:
        await create_topic(client, name, partitions=PARTITIONS, replication_factor=1)
        await wait_for_topic(client, name, expected=PARTITIONS)
        producer = Producer(client, name, PARTITIONS)
        await producer.open()
        for number in range(RECORDS):
            await producer.add(
                Message(str(number).encode(), time.time_ns() // 1_000_000, partition=number % PARTITIONS)
            )
        await producer.flush()

    run(bootstrap, fill)
    return name


@pytest.fixture
def group() -> str:
    """A group name of the test's own."""
    return f"group-{next(_numbers)}"


def run(bootstrap: str, job: Callable[[Client], Awaitable[Any]]) -> Any:
    async def work() -> Any:
        async with Client(bootstrap, timeout_ms=20_000) as client:
            return await job(client)

    return asyncio.run(work())


class Reader:
    """A librdkafka consumer in a group, which has its partitions when this is entered."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "client.id": "reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self.consumer.subscribe([topic])

    def __enter__(self) -> Consumer:
        seen = 0
        while seen < RECORDS:
            message = self.consumer.poll(30)
            assert message is not None
            assert message.error() is None
            seen += 1
        return self.consumer

    def __exit__(self, *_: object) -> None:
        self.consumer.close()


async def read_all(client: Client, member: Member, wanted: int) -> list[tuple[str, int, int]]:
    """Polls until there are so many records; (topic, partition, offset) of each, committed."""
    found: list[tuple[str, int, int]] = []
    while len(found) < wanted:
        found += [(topic, index, record.offset) for topic, index, record in await member.poll()]
    await member.commit()
    return found


def test_offsets_of_a_group_without_members_are_set_read_and_forgotten(bootstrap: str, topic: str, group: str) -> None:
    async def job(client: Client) -> None:
        with pytest.raises(RequestError) as unknown:
            await describe_group(client, group)
        assert unknown.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert await committed(client, group) == {}
        changes = {(topic, 0): 3, (topic, 1): 10}
        assert await alter_offsets(client, group, changes) == dict.fromkeys(changes, ErrorCode.NONE)
        assert {place: at.offset for place, at in (await committed(client, group)).items()} == changes
        state = await describe_group(client, group)
        assert (state.type, state.state, state.members) == ("classic", "Empty", ())
        assert [(lag.partition, lag.committed, lag.end, lag.lag) for lag in await lags(client, state)] == [
            ((topic, 0), 3, 10, 7),
            ((topic, 1), 10, 10, 0),
        ]
        assert group in [listed.group_id for listed in await list_groups(client)]
        assert await alter_offsets(client, group, {("no-such-topic", 0): 1}) == {
            ("no-such-topic", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        assert await delete_offsets(client, group, [(topic, 0)]) == {(topic, 0): ErrorCode.NONE}
        assert list(await committed(client, group)) == [(topic, 1)]
        assert await delete_groups(client, [group, "no-such-group"]) == {
            group: ErrorCode.NONE,
            "no-such-group": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert await committed(client, group) == {}

    run(bootstrap, job)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member_is_described_and_protected(
    bootstrap: str, topic: str, group: str, protocol: str
) -> None:
    async def job(client: Client) -> None:
        state = await describe_group(client, group)
        (member,) = state.members
        assert (state.type, state.state) == (protocol, "Stable")
        assert (member.client_id, member.host) == ("reader", "127.0.0.1")
        assert member.partitions == tuple((topic, index) for index in range(PARTITIONS))
        assert [(lag.committed, lag.lag) for lag in await lags(client, state)] == [(-1, -1)] * PARTITIONS
        (listed,) = [each for each in await list_groups(client) if each.group_id == group]
        assert (listed.type, listed.state) == (protocol, "Stable")
        with pytest.raises(RequestError, match="has members: stop them") as busy:
            await alter_offsets(client, group, {(topic, 0): 0})
        assert busy.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert await delete_groups(client, [group]) == {group: ErrorCode.NON_EMPTY_GROUP}

    with Reader(bootstrap, group, topic, protocol):
        run(bootstrap, job)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_share_a_topic_and_go_on_where_the_group_was(
    bootstrap: str, topic: str, group: str, protocol: str
) -> None:
    async def job(client: Client) -> None:
        everything = {(topic, index, offset) for index in range(PARTITIONS) for offset in range(10)}
        async with Member(client, group, [topic], start=EARLIEST, protocol=protocol) as first:
            assert set(await read_all(client, first, RECORDS)) == everything
            async with Client(bootstrap) as other, Member(other, group, [topic], protocol=protocol) as second:
                while not (len(first.positions) == len(second.positions) == PARTITIONS // 2):
                    assert await first.poll() == []
                    assert await second.poll() == []
                assert not first.positions.keys() & second.positions.keys()
            while len(first.positions) < PARTITIONS:
                assert await first.poll() == []
        state = await describe_group(client, group)
        assert (state.type, state.state) == (protocol, "Empty")
        assert [lag.lag for lag in await lags(client, state)] == [0] * PARTITIONS

    run(bootstrap, job)


def test_a_member_reads_no_more_than_it_is_asked_to_and_commits_just_that(
    bootstrap: str, topic: str, group: str
) -> None:
    async def job(client: Client) -> None:
        read = 0
        async with Member(client, group, [topic]) as member:
            while not read:
                read = len(await member.poll(3))
            await member.commit()
        assert read == 3
        assert sum(at.offset for at in (await committed(client, group)).values()) == 3
        async with Member(client, group, [topic], start=LATEST) as member:
            assert len(set(await read_all(client, member, RECORDS - 3))) == RECORDS - 3

    run(bootstrap, job)


def test_a_topic_that_is_not_there_is_said(bootstrap: str, group: str) -> None:
    async def job(client: Client) -> None:
        with pytest.raises(RequestError, match="no-such-topic"):
            async with Member(client, group, ["no-such-topic"]):
                raise AssertionError

    run(bootstrap, job)


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def penstock_command(bootstrap: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command against the broker; gives its exit code, output and errors."""

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        code = main([*words, "--bootstrap", bootstrap])
        said = capfd.readouterr()
        return code, said.out, said.err

    return command


def test_consume_as_a_member_goes_on_where_it_ended(penstock_command: Command, topic: str, group: str) -> None:
    lines = penstock_command("consume", topic, "--group", group, "--max", "7")[1].splitlines()
    assert len(lines) == 7
    lines += penstock_command("consume", topic, "--group", group)[1].splitlines()
    assert sorted(map(int, lines)) == list(range(RECORDS))
    assert penstock_command("consume", topic, "--group", group) == (0, "", "")
    assert penstock_command("consume", topic, "--group", group, "--partition", "1")[0] == 2
    assert penstock_command("consume", topic, "--group", group, "--offset", "5")[0] == 2


def test_consume_as_a_classic_member(penstock_command: Command, topic: str, group: str) -> None:
    classic = ("--group-protocol", "classic")
    lines = penstock_command("consume", topic, "--group", group, *classic)[1].splitlines()
    assert sorted(map(int, lines)) == list(range(RECORDS))
    (found,) = json.loads(penstock_command("groups", "describe", group, "--json")[1])
    assert (found["type"], found["state"]) == ("classic", "Empty")
    assert [each["lag"] for each in found["partitions"]] == [0] * PARTITIONS
    assert penstock_command("consume", topic, *classic)[0] == 2


def test_consume_ends_though_its_topic_has_got_partitions_since_it_began(
    penstock_command: Command, monkeypatch: pytest.MonkeyPatch, topic: str, group: str
) -> None:
    async def when_it_had_one(*_: object) -> tuple[dict[int, int], dict[int, int]]:
        return {0: 0}, {0: RECORDS // PARTITIONS}

    monkeypatch.setattr("penstock.cli.consume.ranges_of", when_it_had_one)
    code, lines, _ = penstock_command("consume", topic, "--group", group, "--group-protocol", "classic")
    assert (code, len(set(lines.splitlines()) & {"0", "4", "8"})) == (0, 3)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_member_that_is_told_to_end_leaves_the_group(
    penstock_command: Command, bootstrap: str, topic: str, group: str, end: signal.Signals
) -> None:
    command = [sys.executable, "-m", "penstock", "consume", topic, "--group", group, "--follow"]
    process = subprocess.Popen([*command, "--bootstrap", bootstrap], stdout=subprocess.PIPE)
    assert process.stdout is not None
    read = {process.stdout.readline() for _ in range(RECORDS)}
    assert len(read) == RECORDS
    process.send_signal(end)
    assert process.wait(30) == 128 + end
    process.stdout.close()
    (found,) = json.loads(penstock_command("groups", "describe", group, "--json")[1])
    assert (found["state"], found["members"]) == ("Empty", [])


def test_commands_of_groups(penstock_command: Command, bootstrap: str, topic: str, group: str) -> None:
    with Reader(bootstrap, group, topic, "classic") as consumer:
        consumer.commit(asynchronous=False)
        described = penstock_command("groups", "describe", group)[1].splitlines()
        assert described[:2] == [f"{group}: classic group, Stable, 1 member, lag 0", "  assignor range, coordinator 1"]
        assert described[3].split()[:5] == [f"{topic}-0", "10", "10", "0", "reader"]
        members = penstock_command("groups", "describe", group, "--members")[1].splitlines()
        assert members[3].split()[2:4] == ["4", f"{topic}:0-3"]
        told = penstock_command("groups", "reset", group, "--topic", topic, "--to", "earliest")[1].splitlines()
        assert told[-1].endswith("nothing was done: stop its 1 member, then add --execute")
        code, _, error = penstock_command("groups", "reset", group, "--topic", topic, "--to", "earliest", "--execute")
        assert (code, error) == (
            1,
            f"error: group {group} has members: stop them before its offsets are changed\n",
        )
        assert penstock_command("groups", "delete", group)[2].endswith("it has members: stop them first\n")
    (listed,) = [
        each for each in json.loads(penstock_command("groups", "list", "--json")[1]) if each["group_id"] == group
    ]
    assert (listed["state"], listed["type"]) == ("Empty", "classic")
    assert penstock_command("groups", "delete", group, "--topic", "other")[0] == 1
    assert penstock_command("groups", "delete", group, "--topic", topic)[0] == 0
    assert penstock_command("groups", "describe", group)[0] in (0, 1)  # Kafka drops an empty group with its last offset


def test_members_that_call_themselves_alike_are_told_apart(
    penstock_command: Command, bootstrap: str, topic: str, group: str
) -> None:
    readers = [Reader(bootstrap, group, topic, "consumer").consumer for _ in range(2)]
    with ExitStack() as stack:
        for reader in readers:
            stack.callback(reader.close)
        while not all(reader.assignment() for reader in readers):
            for reader in readers:
                reader.poll(0.1)
        rows = penstock_command("groups", "describe", group, "--members")[1].splitlines()[3:]
        members = {row.split()[-1][:8] for row in rows}
        assert len(members) == 2
        owners = [row.split()[4:6] for row in penstock_command("groups", "describe", group)[1].splitlines()[3:]]
        assert {owner for _, owner in owners} == members
    code, out, error = penstock_command("groups", "describe", group, "no-such-group")
    assert (code, out.splitlines()[0].split(":")[0]) == (1, group)
    assert "there is no group no-such-group; `penstock groups list` names those that are" in error


@pytest.mark.slow
def test_a_group_without_a_coordinator_says_what_may_be_wrong(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("penstock.client.coordinators.COORDINATOR_TIMEOUT_S", 0.1)
    with LocalBroker({"offsets.topic.replication.factor": "3"}) as broker:
        assert main(["groups", "describe", "g", "--bootstrap", broker.bootstrap]) == 1
    said = capfd.readouterr().err
    assert "group g: it has no coordinator" in said
    assert "as many brokers as offsets.topic.replication.factor" in said


def test_only_states_that_there_are_can_be_asked_for(penstock_command: Command) -> None:
    with pytest.raises(SystemExit):
        penstock_command("groups", "list", "--state", "emty")
    assert penstock_command("groups", "list", "--state", "Dead")[:2] == (0, "no such groups\n")


def test_configs_of_a_group_are_set_and_taken_back(penstock_command: Command, group: str) -> None:
    whose = ("--entity", "groups", "--name", group)

    def described() -> list[tuple[str, str]]:
        configs = json.loads(penstock_command("configs", "describe", *whose, "--json")[1])
        return [(config["name"], config["value"]) for config in configs]

    assert penstock_command("configs", "describe", *whose)[1].startswith("nothing was changed")
    assert penstock_command("configs", "alter", *whose, "--add", "consumer.session.timeout.ms=60000")[:2] == (
        0,
        f"changed group {group}\n",
    )
    changed = [("consumer.session.timeout.ms", "60000")]
    wait_until(lambda: described() == changed, "a broker hears of it a moment after the controller has it")
    refused = penstock_command("configs", "alter", *whose, "--add", "consumer.session.timeout.ms=60001")
    assert refused[0] == 1
    assert "must be less than or equal to group.consumer.max.session.timeout.ms" in refused[2]
    assert penstock_command("configs", "alter", *whose, "--delete", "consumer.session.timeout.ms")[0] == 0
    wait_until(lambda: not described(), "a broker hears of it a moment after the controller has it")
    assert (
        penstock_command("configs", "describe", "--entity", "groups")[2].strip() == "error: which group? --name GROUP"
    )


def test_a_reset_shows_what_it_would_do_and_does_it_when_told(
    penstock_command: Command, topic: str, group: str, tmp_path: Path
) -> None:
    def offsets() -> dict[int, int | None]:
        (found,) = json.loads(penstock_command("groups", "describe", group, "--json")[1])
        return {each["partition"]: each["committed_offset"] for each in found["partitions"]}

    def reset(*words: str) -> str:
        code, out, error = penstock_command("groups", "reset", group, *words)
        assert (code, error) == (0, "")
        return out

    shown = reset("--topic", f"{topic}:0,2", "--to", "4")
    assert shown.endswith("2 partitions would change; nothing was done: add --execute\n")
    assert penstock_command("groups", "describe", group)[0] == 1
    reset("--topic", f"{topic}:0-0,2", "--to", "4", "--execute")
    assert offsets() == {0: 4, 2: 4}
    assert reset("--topic", f"{topic}:0,2", "--to", "4", "--execute").startswith("nothing to change")
    reset("--topic", f"{topic}:0", "--by", "-1", "--execute")
    assert offsets() == {0: 3, 2: 4}
    reset("--all-topics", "--to", "latest", "--execute")
    assert offsets() == {0: 10, 2: 10}
    reset("--topic", topic, "--to", "1h", "--execute")  # all records are younger than an hour
    assert offsets() == dict.fromkeys(range(PARTITIONS), 0)
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},1,6\n{topic},3,99\n")
    changed = json.loads(reset("--from-file", str(plan), "--json", "--execute"))
    assert [(each["partition"], each["before"], each["after"]) for each in changed["partitions"]] == [
        (1, 0, 6),
        (3, 0, 10),
    ]
    assert offsets() == {0: 0, 1: 6, 2: 0, 3: 10}
    assert penstock_command("groups", "delete", group)[:2] == (0, f"deleted {group}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--topic", "TOPIC"], "say where to: --to or --by"),
        (["--topic", "TOPIC:9", "--to", "latest"], "has partitions 0 to 3, not 9"),
        (["--topic", "TOPIC:x", "--to", "latest"], "it must be like clicks, clicks:0,1 or clicks:0-3"),
        (["--topic", "TOPIC", "--by", "5"], "has no committed offset to go on from"),
        (["--all-topics", "--to", "latest"], "has no offsets: name the topics"),
        (
            ["--topic", "TOPIC", "--to", "yesterday"],
            "it must be earliest, latest, an offset, or a time such as 2026-01-31T08:00Z",
        ),
    ],
)
def test_a_reset_that_makes_no_sense_says_why(
    penstock_command: Command, topic: str, group: str, words: list[str], said: str
) -> None:
    code, _, error = penstock_command("groups", "reset", group, *(word.replace("TOPIC", topic) for word in words))
    assert code == 2
    assert said in error


def test_topics_are_watched_with_the_lag_of_their_readers(penstock_command: Command, topic: str, group: str) -> None:
    penstock_command("groups", "reset", group, "--topic", topic, "--to", "4", "--execute")
    shown = penstock_command("topics", "tail", topic, "--lag", "--count", "1")[1].splitlines()
    assert shown == [f"{topic}: 4 partitions, next offsets 40 in all, 0 records/s", f"  group {group}: lag 24"]
    looked = json.loads(penstock_command("topics", "tail", topic, "--lag", "--count", "1", "--json")[1])
    assert looked["groups"][group] == {topic: 24}
    assert penstock_command("topics", "tail", topic, "--every", "0")[0] == 2
