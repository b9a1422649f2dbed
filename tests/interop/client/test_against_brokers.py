"""The client and the commands against real brokers: Penstock's, and where Java is there Apache Kafka's, alike."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest
from interop.kafka_peer import KafkaPeer
from support.processes import TIMEOUT_S, wait_until

from penstock.cli.main import main
from penstock.client.admin import (
    Change,
    Config,
    ConfigOperation,
    Resource,
    ResourceType,
    alter_configs,
    create_partitions,
    create_topic,
    delete_topics,
    describe_configs,
    describe_topics,
    partition_sizes,
    wait_for_topic,
)
from penstock.client.client import EARLIEST, LATEST, MAX_TIMESTAMP, Client
from penstock.client.consumer import read_records
from penstock.client.producer import Message, Producer, Sent
from penstock.client.reader import read_range
from penstock.errors import ErrorCode, RequestError, UnreachableError
from penstock.records.compression import Codec
from penstock.testing.broker import LocalBroker

_numbers = count()


@pytest.fixture(scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """A running broker."""
    with LocalBroker() if request.param == "penstock" else KafkaPeer() as broker:
        yield broker.bootstrap


@pytest.fixture
def topic() -> str:
    """A topic name of the test's own."""
    return f"topic-{next(_numbers)}"


def run(bootstrap: str, job: Callable[[Client], Awaitable[Any]]) -> Any:
    async def work() -> Any:
        async with Client(bootstrap, timeout_ms=10_000) as client:
            return await job(client)

    return asyncio.run(work())


async def create(client: Client, topic: str, **options: Any) -> None:
    """Makes a topic of one partition; the broker knows it when this returns."""
    await create_topic(client, topic, partitions=1, **options)
    await wait_for_topic(client, topic, expected=1)


async def described_as(client: Client, resource: Resource, name: str, value: str) -> Config:
    """The config once it has this value: a broker hears of a change a moment after the controller has made it."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            (config,) = await describe_configs(client, resource, [name], documentation=True)
            if config.value == value:
                return config
            await asyncio.sleep(0.02)


def test_topics_are_created_described_extended_and_deleted(bootstrap: str, topic: str) -> None:
    async def job(client: Client) -> None:
        made = await create_topic(client, topic, partitions=2, configs={"retention.ms": "60000"})
        assert (made.partitions, made.replication_factor) == (2, 1)
        with pytest.raises(RequestError) as again:
            await create_topic(client, topic)
        assert again.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        await create_partitions(client, topic, 5)
        with pytest.raises(RequestError) as fewer:
            await create_partitions(client, topic, 3)
        assert fewer.value.code is ErrorCode.INVALID_PARTITIONS
        assert await wait_for_topic(client, topic, expected=5) == 5
        (described,) = await describe_topics(client, [topic])
        assert described.topic_id == made.topic_id
        assert [each.partition_index for each in described.partitions] == [0, 1, 2, 3, 4]
        outcome = await delete_topics(client, [topic, "no-such-topic"])
        assert outcome[topic] is None
        missing = outcome["no-such-topic"]
        assert missing is not None
        assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(bootstrap, job)


def test_validate_only_creates_nothing(bootstrap: str, topic: str) -> None:
    async def job(client: Client) -> None:
        await create_topic(client, topic, partitions=1, validate_only=True)
        with pytest.raises(RequestError, match="there is no such topic"):
            await describe_topics(client, [topic])

    run(bootstrap, job)


def test_configs_are_set_and_taken_back(bootstrap: str, topic: str) -> None:
    async def job(client: Client) -> None:
        await create(client, topic)
        resource = Resource(ResourceType.TOPIC, topic)
        await alter_configs(client, resource, [Change("retention.ms", ConfigOperation.SET, "1234")])
        config = await described_as(client, resource, "retention.ms", "1234")
        assert config.source == 1
        assert config.documentation
        await alter_configs(client, resource, [Change("retention.ms", ConfigOperation.DELETE, None)])
        config = await described_as(client, resource, "retention.ms", "604800000")
        assert config.source == 5
        with pytest.raises(RequestError) as wrong:
            await alter_configs(client, resource, [Change("retention.ms", ConfigOperation.SET, "soon")])
        assert wrong.value.code is ErrorCode.INVALID_CONFIG
        await client.refresh([])
        (node,) = client.brokers
        found = await describe_configs(client, Resource(ResourceType.BROKER, str(node)), ["node.id"])
        assert found[0].value == str(node)

    run(bootstrap, job)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_produced_is_read_back(bootstrap: str, topic: str, codec: Codec) -> None:
    messages = [
        Message(b"one", 1000, b"key", (("h", b"x"), ("null", None))),
        Message(None, 2000, b"key"),
        Message(b"", 3000),
        Message(b"v" * 100_000, 4000),
    ]
    sent: list[Sent] = []

    async def job(client: Client) -> None:
        await create(client, topic)
        producer = Producer(client, topic, 1, codec=codec, sent=sent.append, batch_bytes=1000)
        await producer.open()
        for message in messages:
            await producer.add(message)
        await producer.flush()
        key = (topic, 0)
        end = (await client.offsets([key], LATEST))[key].offset
        assert end == sum(batch.records for batch in sent) == 4
        found = [record async for _, record in read_records(client, topic, {0: 0}, ends={0: end})]
        assert [(r.value, r.timestamp_ms, r.key, r.headers) for r in found] == [
            (m.value, m.timestamp_ms, m.key, m.headers) for m in messages
        ]
        assert (await client.offsets([key], 2500))[key].offset == 2
        assert (await client.offsets([key], MAX_TIMESTAMP))[key].offset == 3
        assert (await client.offsets([key], EARLIEST))[key].offset == 0
        assert (await client.offsets([key], 9999))[key].offset == -1
        await client.refresh([])
        assert (await partition_sizes(client, client.brokers))[key] > 0
        ranges = [at async for at, _ in read_range(client, topic, 0, 0, end, fetch_bytes=1)]
        assert ranges[0] == 0
        assert len(ranges) == len(sent)

    run(bootstrap, job)


def test_acks_of_none_and_one(bootstrap: str, topic: str) -> None:
    async def job(client: Client) -> None:
        await create(client, topic)
        for acks in (0, 1):
            producer = Producer(client, topic, 1, acks=acks)
            await producer.open()
            await producer.add(Message(b"x", 1))
            await producer.flush()
        assert (await client.offsets([(topic, 0)], LATEST))[topic, 0].offset == 2

    run(bootstrap, job)


def test_a_record_that_is_too_large_is_refused_by_name(bootstrap: str, topic: str) -> None:
    async def job(client: Client) -> None:
        await create(client, topic, configs={"max.message.bytes": "1000"})
        producer = Producer(client, topic, 1)
        await producer.open()
        await producer.add(Message(b"x" * 2000, 1))
        with pytest.raises(RequestError) as refused:
            await producer.flush()
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE

    run(bootstrap, job)


def test_offsets_that_are_gone_and_topics_that_are_not_there(bootstrap: str, topic: str) -> None:
    async def job(client: Client) -> None:
        await create(client, topic)
        with pytest.raises(RequestError) as gone:
            await client.fetch({(topic, 0): 99})
        assert gone.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(RequestError) as no_partition:
            await client.offsets([(topic, 7)], LATEST)
        assert no_partition.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(RequestError, match="there is no such topic"):
            await wait_for_topic(client, "no-such-topic")

    run(bootstrap, job)


def test_nobody_there_is_said_in_a_sentence() -> None:
    with pytest.raises(UnreachableError, match=r"cannot reach 127\.0\.0\.1:1: connection refused"):
        run("127.0.0.1:1", lambda client: client.refresh(None))


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def penstock_command(bootstrap: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command against the broker; gives its exit code, output and errors."""

    def command(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([*words, "--bootstrap", bootstrap])
        said = capfd.readouterr()
        return code, said.out, said.err

    return command


def test_commands_of_topics(penstock_command: Command, topic: str) -> None:
    assert penstock_command("topics", "create", topic, "--partitions", "2", "--config", "segment.ms=99")[:2] == (
        0,
        f"created {topic}: partitions 2, replication factor 1\n",
    )
    assert penstock_command("topics", "create", topic)[0] == 1
    assert penstock_command("topics", "create", topic, "--if-not-exists")[0] == 0
    assert topic in penstock_command("topics", "list")[1].splitlines()
    (listed,) = (each for each in json.loads(penstock_command("topics", "list", "--json")[1]) if each["name"] == topic)
    assert (listed["partitions"], listed["replication_factor"]) == (2, 1)
    assert penstock_command("topics", "alter", topic, "--partitions", "3")[:2] == (0, f"{topic} has 3 partitions\n")
    (described,) = json.loads(penstock_command("topics", "describe", topic, "--json")[1])
    assert [each["end_offset"] for each in described["partitions"]] == [0, 0, 0]
    assert described["changed_configs"] == ["segment.ms"]
    assert "configs: segment.ms=99\n" in penstock_command("topics", "describe", topic)[1]
    code, out, error = penstock_command("topics", "delete", topic, "no-such-topic")
    assert (code, out) == (1, f"deleted {topic}\n")
    assert error.startswith("error: ")
    assert "no-such-topic" in error


def test_compacted_topics_are_topics_like_others_to_commands(penstock_command: Command, topic: str) -> None:
    code, _, err = penstock_command("topics", "create", topic, "--config", "cleanup.policy=compact,delete")
    assert (code, err) == (0, "")
    assert penstock_command("topics", "describe", topic)[2] == ""
    for entity, name in (("topics", "cleanup.policy"), ("brokers", "log.cleanup.policy")):
        named = ("--name", topic) if entity == "topics" else ()
        alter = ("configs", "alter", "--entity", entity, *named, "--add", f"{name}=compact", "--validate-only")
        assert penstock_command(*alter)[2] == ""


def test_a_topic_that_is_not_there_is_said_so_by_every_command(penstock_command: Command, topic: str) -> None:
    for action in ("describe", "delete"):
        code, _, err = penstock_command("topics", action, topic)
        assert (code, err) == (1, f"error: topic {topic}: there is no such topic (UNKNOWN_TOPIC_OR_PARTITION)\n")


def test_the_shell_is_told_the_topics(
    bootstrap: str, topic: str, penstock_command: Command, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    penstock_command("topics", "create", topic)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", bootstrap)
    assert main(["completion", "topics"]) == 0
    assert topic in capfd.readouterr().out.splitlines()


def test_commands_of_configs(penstock_command: Command, topic: str) -> None:
    def described() -> list[tuple[str, str, str]]:
        configs = json.loads(penstock_command("configs", "describe", "--name", topic, "--json")[1])
        return [(config["name"], config["value"], config["source"]) for config in configs]

    penstock_command("topics", "create", topic)
    assert penstock_command("configs", "describe", "--name", topic)[1].startswith("nothing was changed")
    assert penstock_command("configs", "alter", "--name", topic, "--add", "retention.ms=5")[0] == 0
    changed = [("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG")]
    wait_until(lambda: described() == changed, "a broker hears of it a moment after the controller has it")
    assert penstock_command("configs", "describe", "--name", topic, "retention.m")[0] == 2
    assert penstock_command("configs", "describe", "--entity", "brokers", "--name", "77")[0] == 2
    assert penstock_command("configs", "alter", "--name", topic, "--delete", "retention.ms", "--validate-only")[0] == 0
    assert "retention.ms" in penstock_command("configs", "describe", "--name", topic)[1]


def test_commands_produce_and_consume(penstock_command: Command, topic: str) -> None:
    penstock_command("topics", "create", topic, "--partitions", "2")
    lines = b"a:1\nb:2\nc:3\n"
    produced = penstock_command(
        "produce", topic, "--key-separator", ":", "--header", "h=x", "--json", "--timestamp", "5000", stdin=lines
    )
    assert produced[0] == 0
    assert json.loads(produced[1])["records"] == 3
    found = [json.loads(line) for line in penstock_command("consume", topic, "--json")[1].splitlines()]
    assert sorted((each["key"], each["value"], each["headers"][0][1]) for each in found) == [
        ("a", "1", "x"),
        ("b", "2", "x"),
        ("c", "3", "x"),
    ]
    assert penstock_command("produce", topic, "--value", "v", "--partition", "1", "--timestamp", "9000")[0] == 0
    newer = penstock_command("consume", topic, "--from", "6000", "--print", "partition,timestamp", "--separator", " ")
    assert newer[1] == "1 1970-01-01T00:00:09.000Z v\n"
    assert len(penstock_command("consume", topic, "--until", "6000")[1].splitlines()) == 3
    assert len(penstock_command("consume", topic, "--max", "2")[1].splitlines()) == 2
    assert penstock_command("consume", topic, "--offset", "latest")[:2] == (0, "")
    assert penstock_command("consume", topic, "--offset", "99")[0] == 2
    code, _, error = penstock_command("produce", topic, "--key-separator", ":", stdin=b"a:1\nnone\n")
    assert (code, error) == (2, "error: line 2 has no ':' between key and value\n  1 record was appended before that\n")
    assert penstock_command("consume", topic, "--max", "99")[1].count("\n") == 5


def test_a_bad_line_says_how_much_was_appended_before_it(penstock_command: Command, topic: str) -> None:
    penstock_command("topics", "create", topic, "--partitions", "1")
    lines = b"".join(b"%d:x\n" % number for number in range(100_000))
    code, _, error = penstock_command("produce", topic, "--key-separator", ":", stdin=lines + b"none\nlast:x\n")
    assert (code, error.splitlines()[1]) == (2, "  100,000 records were appended before that")
    assert len(penstock_command("consume", topic)[1].splitlines()) == 100_000
    code, _, error = penstock_command("produce", topic, "--key-separator", ":", "--value", "a:1", "--value", "none")
    assert (code, error) == (2, "error: --value has no ':' between key and value\n")
    assert len(penstock_command("consume", topic)[1].splitlines()) == 100_000


def test_arguments_that_are_not_text_are_bytes_where_bytes_may_be(penstock_command: Command, topic: str) -> None:
    penstock_command("topics", "create", topic, "--partitions", "1")
    raw = "\udcff"  # how Python gives a program the byte 0xFF of its command line
    assert penstock_command("produce", topic, "--header", f"h={raw}", "--key", raw, "--value", f"v{raw}")[0] == 0
    (found,) = [json.loads(line) for line in penstock_command("consume", topic, "--json")[1].splitlines()]
    assert (found["key"], found["value"]) == ({"base64": "/w=="}, {"base64": "dv8="})
    assert found["headers"] == [["h", {"base64": "/w=="}]]
    assert penstock_command("produce", topic, "--header", f"{raw}=h", "--value", "v")[0] == 2
    for words in (["produce", raw], ["consume", raw], ["topics", "create", raw], ["groups", "describe", raw]):
        code, out, error = penstock_command(*words)
        assert (code, out, error.count("\n")) == (1, "", 1), words
        assert error.startswith("error: "), words


def test_a_partition_that_is_not_there_is_a_wrong_use(penstock_command: Command, topic: str) -> None:
    penstock_command("topics", "create", topic, "--partitions", "2")
    for command in (["produce", topic, "--value", "v"], ["consume", topic]):
        code, _, error = penstock_command(*command, "--partition", "9")
        assert code == 2
        assert f"{topic} has partitions 0 to 1" in error


def test_the_name_of_a_brokers_default_leads_to_the_topics_config(penstock_command: Command, topic: str) -> None:
    code, _, error = penstock_command("topics", "create", topic, "--config", "log.retention.ms=5")
    assert code == 1
    assert "log.retention.ms" in error  # what to take instead is in the words of the broker


def test_a_delete_marker_is_a_null_value(penstock_command: Command, topic: str) -> None:
    penstock_command("topics", "create", topic, "--partitions", "1")
    assert penstock_command("produce", topic, "--null", "--key", "k")[0] == 0
    assert json.loads(penstock_command("consume", topic, "--json")[1])["value"] is None


def test_consume_follows_until_it_has_enough(penstock_command: Command, topic: str) -> None:
    penstock_command("produce", topic, "--value", "a", "--value", "b")
    assert penstock_command("consume", topic, "--follow", "--max", "2")[:2] == (0, "a\nb\n")


def test_produce_makes_a_missing_topic_and_consume_does_not(penstock_command: Command, topic: str) -> None:
    code, _, error = penstock_command("consume", topic)
    assert (code, error) == (1, f"error: topic {topic}: there is no such topic (UNKNOWN_TOPIC_OR_PARTITION)\n")
    assert penstock_command("produce", topic, "--value", "a")[0] == 0
    assert penstock_command("consume", topic)[1] == "a\n"
