"""`penstock quotas`, as a person types it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.requests import batch

from penstock.cli.main import main
from penstock.client.client import Client
from penstock.testing.broker import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def said(broker: LocalBroker, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `penstock quotas` with words: its exit code, and all that it says."""

    def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["quotas", *words, "--bootstrap", broker.bootstrap])
        return code, "".join(capsys.readouterr())

    return run


def test_quotas_come_are_explained_and_go(said: Any) -> None:
    assert said("list") == (0, "there are no such quotas\n")
    code, text = said("set", "--user", "alice", "producer_byte_rate=1048576", "request_percentage=12.5")
    assert (code, text) == (0, "producer_byte_rate, request_percentage of user alice: set\n")
    assert (
        said("set", "--user-default", "--client-id", "web", "producer_byte_rate=2000", "consumer_byte_rate=3e3")[0] == 0
    )
    assert said("set", "--ip-default", "connection_creation_rate=20")[0] == 0
    assert said("set", "--client-id-default", "consumer_byte_rate=7", "--validate-only")[1].endswith(": valid\n")
    lines = [" ".join(line.split()) for line in said("list")[1].splitlines()]
    assert lines[lines.index("use now") - 1] == ""
    assert lines[: lines.index("use now") - 1] == [
        "for limit value",
        "default user, client id web consumer_byte_rate 3000",
        "default user, client id web producer_byte_rate 2000",
        "default address connection_creation_rate 20",
        "user alice producer_byte_rate 1048576",
        "user alice request_percentage 12.5",
    ]
    assert [each["entity"] for each in json.loads(said("list", "--user-default", "--json")[1])["quotas"]] == [
        {"client-id": "web", "user": None}
    ]
    explained(said)
    assert said("delete", "--user", "alice", "request_percentage")[0] == 0
    assert said("delete", "--user", "alice") == (0, "producer_byte_rate of user alice: deleted\n")
    code, text = said("delete", "--user", "alice")
    assert code == 2
    assert "user alice has no quota" in text
    assert said("delete", "--ip-default", "--json")[0] == 0
    assert said("delete", "--user-default", "--client-id", "web")[0] == 0
    assert json.loads(said("list", "--json")[1])["quotas"] == []


def explained(said: Any) -> None:
    """`explain` of those quotas."""
    lines = [
        " ".join(line.split()) for line in said("explain", "--user", "alice", "--client-id", "web")[1].splitlines()
    ]
    for line in (
        "producer_byte_rate: 1048576, level 3, shared by all with user alice",
        "2 user alice, default client id - sets nothing",
        "3 user alice 1048576 counts: the most specific that is set",
        "4 default user, client id web 2000 does not count: level 3 is more specific",
        "consumer_byte_rate: 3000, level 4, shared by all with user alice, client id web",
        "9 setting quota.consumer.default - sets nothing",
        "controller_mutation_rate: unlimited",
    ):
        assert line in lines
    told = json.loads(said("explain", "--user", "alice", "--client-id", "web", "--ip", "10.0.0.7", "--json")[1])
    limits = {each.pop("limit"): each for each in told["limits"]}
    consumer = limits["consumer_byte_rate"]
    assert consumer["shared_by"] == {"user": "alice", "client-id": "web"}
    assert (consumer["level"], consumer["value"]) == (4, 3000.0)
    assert consumer["entity"] == {"client-id": "web", "user": None}
    assert [each["why"] for each in consumer["levels"]] == ["not set"] * 3 + ["counts"] + ["not set"] * 5
    assert limits["connection_creation_rate"]["value"] == 20
    assert limits["connection_creation_rate"]["level"] == 2
    assert limits["controller_mutation_rate"]["level"] is None


def test_use_now_and_who_is_held_back_why_and_for_how_long(said: Any, broker: LocalBroker) -> None:
    broker.create_topic("use")
    client = ["--client-id", "greedy"]
    assert said("set", *client, "producer_byte_rate=1000")[0] == 0
    assert "nobody is held back" in said("list", "--throttled")[1]
    produce(broker.bootstrap, "use", 30_000)
    head, line = said("list", "--throttled")[1].splitlines()
    assert head.split()[:4] == ["broker", "client", "id", "limit"], "columns for what nobody has are left out"
    assert re.fullmatch(
        r"1 +greedy +producer_byte_rate +\d{4} +1000 +\d{3}% +for \d+\.\d s, [1-9]\d*\.\d s more +"
        r"client id greedy \(level 7\)",
        line.strip(),
    )
    shown = said("list", *client)[1]
    assert "client id greedy  producer_byte_rate   1000" in shown
    assert "client id greedy (level 7)" in shown
    assert "level 7" not in said("list", "--client-id", "quiet")[1]
    (answer,) = json.loads(said("list", "--throttled", "--json")[1])["brokers"]
    assert (answer["broker"], answer["failure"], answer["measures_mutations"]) == (1, None, True)
    (usage,) = answer["usages"]
    assert (usage["client_id"], usage["user"], usage["level"], usage["limit"]) == ("greedy", None, 7, 1000.0)
    assert usage["entity"] == {"client-id": "greedy"}
    assert usage["throttled_for_ms"] > 1_000
    assert said("delete", *client)[0] == 0


def test_a_setting_that_kafka_dropped_is_the_last_level(capsys: pytest.CaptureFixture[str]) -> None:
    with LocalBroker({"quota.producer.default": "1000"}) as broker:

        def said(*words: str) -> str:
            capsys.readouterr()
            assert main(["quotas", *words, "--bootstrap", broker.bootstrap]) == 0
            return capsys.readouterr().out

        broker.create_topic("use")
        produce(broker.bootstrap, "use", 30_000)
        (line,) = said("list", "--throttled").splitlines()[1:]
        assert line.split()[:5] == ["1", "greedy", "producer_byte_rate", line.split()[3], "1000"]
        assert line.endswith("quota.producer.default (setting)")
        explained = [" ".join(line.split()) for line in said("explain", "--client-id", "greedy").splitlines()]
        assert explained[0].startswith("producer_byte_rate: 1000 on broker 1, level 9, shared by all with client id")
        assert "9 setting quota.producer.default 1000 on broker 1 counts: the most specific that is set" in explained
        said("set", "--client-id-default", "producer_byte_rate=2000")
        explained = [" ".join(line.split()) for line in said("explain", "--client-id", "greedy").splitlines()]
        assert "9 setting quota.producer.default 1000 on broker 1 does not count: level 8 is more specific" in explained


def produce(bootstrap: str, topic: str, size_bytes: int) -> None:
    """Sends a record as client `greedy`."""

    async def send() -> None:
        async with Client(bootstrap, client_id="greedy") as client:
            await client.produce(topic, 0, batch(b"x" * size_bytes, timestamp_ms=1_700_000_000_000))

    asyncio.run(send())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["set", "producer_byte_rate=1"], "whose?"),
        (["delete"], "whose?"),
        (["set", "--user", "a", "--user-default", "producer_byte_rate=1"], "--user and --user-default"),
        (["set", "--user", "", "producer_byte_rate=1"], "--user needs a name"),
        (["set", "--ip", "10.0.0.7", "--user", "a", "connection_creation_rate=1"], "an address has quotas of its own"),
        (["set", "--user", "a", "producer_byte_rate"], "LIMIT=VALUE"),
        (["set", "--user", "a", "producer_byterate=1"], "did you mean producer_byte_rate?"),
        (["set", "--user", "a", "connection_creation_rate=1"], "unknown limit connection_creation_rate"),
        (["set", "--ip", "10.0.0.7", "producer_byte_rate=1"], "unknown limit producer_byte_rate"),
        (["set", "--user", "a", "producer_byte_rate=1", "producer_byte_rate=2"], "twice"),
        *[
            (["set", "--user", "a", f"producer_byte_rate={value}"], "a whole number greater than 0")
            for value in ("0", "-1", "1.5", "nan", "inf", "much", "")
        ],
        (["set", "--user", "a", "request_percentage=nan"], "a number greater than 0"),
        (["explain"], "which client?"),
        (["explain", "--user", ""], "who has not logged in is ANONYMOUS"),
        (["explain", "--ip", "a.host.invalid"], "it must be an address"),
        (["list", "--top", "0"], "it must be 1 to 1000"),
        (["list", "--top", "1001"], "it must be 1 to 1000"),
    ],
)
def test_what_cannot_be_meant_is_said(said: Any, words: list[str], sentence: str) -> None:
    code, text = said(*words)
    assert code == 2
    assert sentence in text


def test_what_the_broker_refuses_is_said(said: Any) -> None:
    code, text = said("set", "--ip", "a.host.invalid", "connection_creation_rate=1")
    assert code == 1
    assert "a.host.invalid is not a valid IP or resolvable host." in text
    code, text = said("set", "--user", "a", "producer_byte_rate=1e300")
    assert code == 1
    assert "too large for a LONG" in text
