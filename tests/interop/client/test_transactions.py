"""Transactions through our client and commands: against Penstock, and where Java is there against Apache Kafka, alike;
with transaction.version 2 and before it."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer as Librdkafka
from interop.kafka_peer import KafkaPeer
from support.processes import wait_until

from penstock.cli.main import main
from penstock.client.admin import (
    Change,
    ConfigOperation,
    Resource,
    ResourceType,
    alter_configs,
    create_topic,
    describe_configs,
    wait_for_topic,
)
from penstock.client.client import LATEST, READ_COMMITTED, Client
from penstock.client.features import UpgradeType, describe_features, update_features
from penstock.client.producer import Message, Producer, producer_identity
from penstock.client.transactional import TRANSACTION_VERSION, Transactions
from penstock.client.transactions import describe_transaction, end_transaction, find_hanging, list_transactions
from penstock.errors import ErrorCode, RequestError
from penstock.records.builder import BatchBuilder
from penstock.testing.broker import LocalBroker

_numbers = count()
PARTITIONS = 3
VERIFICATION = "transaction.partition.verification.enable"
PRODUCE_OF_V1 = 11


JAVA = [pytest.mark.java, pytest.mark.slow]
BROKERS = [
    pytest.param(("penstock", 2), id="penstock-v2"),
    pytest.param(("penstock", 1), id="penstock-v1"),
    pytest.param(("kafka", 2), id="kafka-v2", marks=JAVA),
    pytest.param(("kafka", 1), id="kafka-v1", marks=JAVA),
]


@pytest.fixture(scope="module", params=BROKERS)
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """A running broker with this transaction.version."""
    name, level = request.param
    with LocalBroker() if name == "penstock" else KafkaPeer() as broker:
        run(broker.bootstrap, lambda client: set_level(client, level))
        yield broker.bootstrap


async def set_level(client: Client, level: int) -> None:
    """Finalizes a transaction.version."""
    (now,) = [each.level for each in await describe_features(client, [1]) if each.name == TRANSACTION_VERSION]
    if now != level:
        kind = UpgradeType.UPGRADE if now < level else UpgradeType.SAFE_DOWNGRADE
        await update_features(client, {TRANSACTION_VERSION: (level, kind)})


@pytest.fixture
def topic(bootstrap: str) -> str:
    """An empty topic of three partitions."""
    name = f"topic-{next(_numbers)}"

    async def create(client: Client) -> None:
        await create_topic(client, name, partitions=PARTITIONS, replication_factor=1)
        await wait_for_topic(client, name, expected=PARTITIONS)

    run(bootstrap, create)
    return name


@pytest.fixture
def name() -> str:
    """A transactional id of the test's own."""
    return f"copier-{next(_numbers)}"


def run(bootstrap: str, job: Callable[[Client], Awaitable[Any]]) -> Any:
    async def work() -> Any:
        async with Client(bootstrap, timeout_ms=20_000) as client:
            return await job(client)

    return asyncio.run(work())


def message(value: int, partition: int) -> Message:
    return Message(b"%d" % value, time.time_ns() // 1_000_000, partition=partition)


async def opened(client: Client, topic: str, name: str) -> tuple[Transactions, Producer]:
    """A transactional producer."""
    transactions = Transactions(client, name)
    await transactions.open()
    return transactions, Producer(client, topic, PARTITIONS, transactions=transactions)


async def write(producer: Producer, values: range) -> None:
    for value in values:
        await producer.add(message(value, value % PARTITIONS))
    await producer.flush()


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def penstock_command(bootstrap: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command against the broker; gives its exit code, output and errors."""

    def command(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = main([*words, "--bootstrap", bootstrap])
        said = capfd.readouterr()
        return code, said.out, said.err

    return command


def read(command: Command, topic: str, isolation: str = "read_committed") -> list[int]:
    """What a reader of this isolation sees."""
    return sorted(map(int, command("consume", topic, "--isolation", isolation)[1].split()))


def sees(command: Command, topic: str, values: list[int], isolation: str = "read_committed") -> None:
    """Waits until a reader sees just these: a commit is answered before its markers are written."""
    found: list[int] = []

    def come() -> bool:
        found[:] = read(command, topic, isolation)
        return found == values

    wait_until(come, f"{isolation} sees {values}, saw {found}", timeout_s=20)


def test_committed_transactions_are_seen_and_aborted_ones_are_not(
    bootstrap: str, topic: str, name: str, penstock_command: Command
) -> None:
    async def job(client: Client) -> None:
        transactions, producer = await opened(client, topic, name)
        for round_ in range(5):
            await write(producer, range(10 * round_, 10 * round_ + 10))
            await transactions.end(committed=round_ % 2 == 0)
        await transactions.end(committed=True)  # nothing takes part
        await write(producer, range(50, 60))  # stays open

    run(bootstrap, job)
    sees(penstock_command, topic, [*range(10), *range(20, 30), *range(40, 50)])
    sees(penstock_command, topic, list(range(60)), "read_uncommitted")


def test_a_second_producer_fences_the_first_and_aborts_what_it_had_open(
    bootstrap: str, topic: str, name: str, penstock_command: Command
) -> None:
    async def job(client: Client) -> None:
        first, zombie = await opened(client, topic, name)
        await write(zombie, range(5))
        second, producer = await opened(client, topic, name)
        await write(producer, range(10, 15))
        with pytest.raises(RequestError, match="another producer has taken it over"):
            await write(zombie, range(5, 8))
        with pytest.raises(RequestError, match="another producer has taken it over"):
            await first.end(committed=True)
        await second.end(committed=True)

    run(bootstrap, job)
    sees(penstock_command, topic, list(range(10, 15)))


def test_a_transaction_is_listed_described_and_ended_by_its_id(
    bootstrap: str, topic: str, name: str, penstock_command: Command
) -> None:
    async def job(client: Client) -> None:
        _, producer = await opened(client, topic, name)
        await write(producer, range(2))
        state = await describe_transaction(client, name)
        assert (state.state, state.under_way, state.timeout_ms) == ("Ongoing", True, 60_000)
        assert state.partitions == ((topic, 0), (topic, 1))
        assert name in [each.transactional_id for each in await list_transactions(client, states=["Ongoing"])]
        assert await list_transactions(client, longer_than_ms=3_600_000) == []
        (found,) = await list_transactions(client, pattern=f"{name[:4]}.*{name[4:]}|{name}")
        assert (found.state, found.producer_id, found.coordinator) == ("Ongoing", state.producer_id, 1)
        assert await list_transactions(client, pattern=name[:-1]) == []
        (found,) = await list_transactions(client, producer_ids=[state.producer_id])
        assert found.transactional_id == name

    run(bootstrap, job)
    code, out, error = penstock_command("transactions", "describe", name, "no-such-id")
    assert (code, out.startswith(f"{name}: Ongoing for ")) == (1, True)
    assert out.endswith(f"  partitions {topic}:0,1\n")
    assert "there is no transactional id no-such-id" in error
    (state,) = json.loads(penstock_command("transactions", "describe", name, "--json")[1])
    assert (state["state"], state["partitions"]) == ("Ongoing", [f"{topic}-0", f"{topic}-1"])
    (listed,) = json.loads(penstock_command("transactions", "list", "--match", name, "--json")[1])
    assert listed["state"] == "Ongoing"
    assert penstock_command("transactions", "list", "--state", "dead")[1] == "no such transactional ids\n"
    assert penstock_command("transactions", "list", "--match", "(")[0] == 2
    assert penstock_command("transactions", "abort", "--transactional-id", name)[0] == 2  # without --yes
    sees(penstock_command, topic, [])
    code, out, error = penstock_command("transactions", "abort", "--transactional-id", name, "--yes")
    assert (code, error) == (0, "")
    assert out.startswith(f"ended: {name} is ")
    sees(penstock_command, topic, [])
    is_stable(bootstrap, topic, {0: 2, 1: 2, 2: 0})
    assert "has no transaction under way" in penstock_command("transactions", "abort", "--transactional-id", name)[1]
    assert penstock_command("transactions", "abort", "--transactional-id", "no-such-id", "--yes")[0] == 1


async def stable(client: Client, topic: str) -> list[int]:
    """The last stable offset of each partition."""
    partitions = [(topic, index) for index in range(PARTITIONS)]
    found = await client.offsets(partitions, LATEST, isolation=READ_COMMITTED)
    return [found[each].offset for each in partitions]


def is_stable(bootstrap: str, topic: str, wanted: dict[int, int]) -> None:
    """Waits until these partitions have these last stable offsets."""

    def come() -> bool:
        found = run(bootstrap, lambda client: stable(client, topic))
        return all(found[partition] == offset for partition, offset in wanted.items())

    wait_until(come, f"last stable offsets are {wanted}", timeout_s=20)


@contextmanager
def unverified(bootstrap: str) -> Iterator[None]:
    """While this lasts, the broker takes batches of transactions that their coordinator does not know."""
    broker = Resource(ResourceType.BROKER, "1")

    def change(value: str | None) -> None:
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        run(bootstrap, lambda client: alter_configs(client, broker, [Change(VERIFICATION, operation, value)]))
        wanted = "true" if value is None else value

        def is_so() -> bool:
            found = run(bootstrap, lambda client: describe_configs(client, broker, [VERIFICATION]))
            return bool(found[0].value == wanted)

        wait_until(is_so, f"{VERIFICATION}={wanted}")

    change("false")
    try:
        yield
    finally:
        change(None)


def leave_hanging(bootstrap: str, topic: str, partition: int, records: int = 3) -> int:
    """Opens a transaction that no coordinator knows; returns its producer id."""

    async def job(client: Client) -> int:
        producer_id, epoch = await producer_identity(client)
        builder = BatchBuilder(producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True)
        for number in range(records):
            builder.append(time.time_ns() // 1_000_000, None, b"%d" % number)
        await client.produce(topic, partition, builder.build(), transactional_id="a-ghost", at_most=PRODUCE_OF_V1)
        return producer_id

    with unverified(bootstrap):
        return int(run(bootstrap, job))


def test_a_hanging_transaction_is_found_and_ended_by_one_command(
    bootstrap: str, topic: str, name: str, penstock_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commit(client: Client) -> None:
        transactions, producer = await opened(client, topic, name)
        await write(producer, range(100, 109))
        await transactions.end(committed=True)
        await write(producer, range(200, 209))  # open, and its coordinator knows it

    hanging_id = leave_hanging(bootstrap, topic, 1)
    run(bootstrap, commit)
    sees(penstock_command, topic, [101, 102, 104, 105, 107, 108])
    code, out, error = penstock_command("transactions", "hanging", "--topic", topic, "--longer-than", "0s", "--json")
    assert (code, error) == (0, "")
    (found,) = json.loads(out)
    wanted = {"topic": topic, "partition": 1, "start_offset": 0, "producer_id": hanging_id, "transactional_id": None}
    assert wanted.items() <= found.items()
    assert penstock_command("transactions", "hanging")[1] == "no transaction hangs for longer than 15m\n"
    assert penstock_command("transactions", "hanging", "--broker", "7")[0] == 2
    of_broker = penstock_command("transactions", "hanging", "--broker", "1", "--longer-than", "0s")[1]
    command = f"penstock transactions abort --topic {topic} --partition 1 --start-offset 0"
    assert command in of_broker

    monkeypatch.setattr("penstock.cli.doctor_transactions.USUAL_MS", -1)
    code, out, _ = penstock_command("doctor", "--json")
    said = {each["state"]: each for each in json.loads(out) if f"{topic}-" in each["found"]}
    assert f"{topic}-1 is held back at 0 by producer {hanging_id}, hanging" in said["fix"]["found"]
    assert (code, said["fix"]["remedy"]) == (1, command)
    assert f"transactional id {name}" in said["look"]["found"]

    words = command.split()[1:]
    assert penstock_command(*words)[0] == 2  # --yes is missing
    assert penstock_command(*words[:-1], "1", "--yes")[0] == 2  # nothing begins there
    started = run(bootstrap, lambda client: stable(client, topic))[0]
    code, _, error = penstock_command(
        "transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", str(started), "--yes"
    )
    assert (code, f"does not hang: {name} is Ongoing" in error) == (2, True)
    code, out, error = penstock_command(*words, "--yes")
    assert (code, error) == (0, "")
    sees(penstock_command, topic, list(range(100, 109)))
    assert penstock_command("transactions", "hanging", "--longer-than", "0s")[1].startswith("no transaction hangs")


def test_a_transaction_is_aborted_by_its_producers_id_and_epochs(
    bootstrap: str, topic: str, penstock_command: Command
) -> None:
    hanging_id = leave_hanging(bootstrap, topic, 2)
    words = ["transactions", "abort", "--topic", topic, "--partition", "2", "--producer-id", str(hanging_id), "--yes"]
    assert penstock_command(*words)[0] == 2
    is_stable(bootstrap, topic, {2: 0})
    assert penstock_command(*words, "--producer-epoch", "0", "--coordinator-epoch", "-1")[0] == 0
    is_stable(bootstrap, topic, {2: 4})

    async def search(client: Client) -> Any:
        return await find_hanging(client, [(topic, 2)], older_than_ms=0, now_ms=time.time_ns() // 1_000_000 + 1000)

    assert run(bootstrap, search) == []


def test_what_librdkafka_leaves_open_is_ended_by_its_id(bootstrap: str, topic: str, name: str) -> None:
    producer = Librdkafka({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(30) == 0
    run(bootstrap, lambda client: end_transaction(client, name))
    is_stable(bootstrap, topic, {0: 2})
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        producer.commit_transaction(30)


def test_produce_in_one_transaction_and_in_several(penstock_command: Command, topic: str, name: str) -> None:
    lines = "".join(f"{number}\n" for number in range(25))
    words = ("produce", topic, "--transactional-id", name, "--json")
    code, out, error = penstock_command(*words, stdin=lines)
    assert (code, json.loads(out)["records"], error) == (0, 25, "")
    sees(penstock_command, topic, list(range(25)))
    torn = "".join(f"k:{number}\n" for number in range(100, 125)) + "no separator\n"
    several = ("--transaction-records", "10", "--key-separator", ":")
    code, _, error = penstock_command(*words, *several, stdin=torn)
    assert (code, "the transaction is aborted; 20 records were committed before it" in error) == (2, True)
    sees(penstock_command, topic, [*range(25), *range(100, 120)])
    assert penstock_command(*words, "--transaction-timeout", "20m", stdin=lines)[2].startswith(
        f"error: transactional id {name}: its timeout must be above 0"
    )


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_a_produce_that_is_told_to_end_aborts_its_transaction(
    bootstrap: str, penstock_command: Command, topic: str, name: str, end: signal.Signals
) -> None:
    command = [sys.executable, "-m", "penstock", "produce", topic, "--transactional-id", name, "--partition", "0"]
    process = subprocess.Popen([*command, "--bootstrap", bootstrap], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"1\n2\n")
    process.stdin.flush()
    wait_until(lambda: read(penstock_command, topic, "read_uncommitted") == [1, 2], "it has written")
    process.send_signal(end)
    assert process.wait(30) == 128 + end
    process.stdin.close()
    is_stable(bootstrap, topic, {0: 3})
    sees(penstock_command, topic, [])


def test_a_produce_whose_id_is_taken_over_says_so(
    bootstrap: str, penstock_command: Command, topic: str, name: str
) -> None:
    command = [sys.executable, "-m", "penstock", "produce", topic, "--transactional-id", name]
    streams = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*command, "--bootstrap", bootstrap], **streams)  # type: ignore[call-overload]
    process.stdin.write("1\n")
    process.stdin.flush()
    wait_until(lambda: read(penstock_command, topic, "read_uncommitted") == [1], "it has written")
    assert penstock_command("produce", topic, "--transactional-id", name, "--value", "2")[0] == 0
    _, error = process.communicate("3\n", timeout=30)
    assert process.returncode == 1
    assert f"transactional id {name}: another producer has taken it over" in error
    assert "0 records were committed before it" in error
    sees(penstock_command, topic, [2])


def test_an_unknown_id_is_said(bootstrap: str) -> None:
    with pytest.raises(RequestError, match="there is no transactional id nobody") as unknown:
        run(bootstrap, lambda client: describe_transaction(client, "nobody"))
    assert unknown.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
