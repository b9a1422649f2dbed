"""`penstock quotas`, as a person types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.cli.main import main
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
    assert lines == [
        "for limit value",
        "default user, client id web consumer_byte_rate 3000",
        "default user, client id web producer_byte_rate 2000",
        "default address connection_creation_rate 20",
        "user alice producer_byte_rate 1048576",
        "user alice request_percentage 12.5",
    ]
    assert [each["entity"] for each in json.loads(said("list", "--user-default", "--json")[1])] == [
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
    assert said("list", "--json") == (0, "[]\n")


def explained(said: Any) -> None:
    """`list --effective` of those quotas."""
    lines = [" ".join(line.split()) for line in said("list", "--effective", "alice", "web")[1].splitlines()]
    assert "producer_byte_rate 1048576 user alice user alice" in lines
    assert "consumer_byte_rate 3000 default user, client id web user alice, client id web" in lines
    assert "controller_mutation_rate unlimited - -" in lines
    assert "3 user alice producer_byte_rate=1048576* request_percentage=12.5*" in lines
    assert "4 default user, client id web consumer_byte_rate=3000* producer_byte_rate=2000" in lines
    told = json.loads(said("list", "--effective", "alice", "web", "--json")[1])
    assert told["limits"]["consumer_byte_rate"] == {
        "value": 3000.0,
        "entity": {"client-id": "web", "user": None},
        "shared_by": {"user": "alice", "client-id": "web"},
    }
    assert [each["counts_for"] for each in told["levels"]][2:4] == [
        ["producer_byte_rate", "request_percentage"],
        ["consumer_byte_rate"],
    ]
    assert len(told["levels"]) == 8


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
        (["list", "--user", "a", "--effective", "a", "b"], "leave out the other options"),
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
