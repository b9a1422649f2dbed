"""`penstock guardian alarms` and `heal`: what they ask of Guardian, and what they print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.guardian.client import Answer

ALARM = {
    "id": "00000000-0000-0000-0000-000000000001",
    "cluster": "clicks",
    "kind": "dead-disk",
    "broker": 3,
    "dir": "/data/1",
    "state": "escalated",
    "since_ms": 1_800_000_000_000,
    "began_ms": 1_799_999_970_000,
    "evidence": ["broker 3 says that it cannot use /data/1 (error 56)"],
    "reason": "it came back after it was healed",
    "remedy": "give the replicas in it to living brokers, as the plan of the alarm says",
    "mode": "advise",
    "heals": 1,
    "returns": 1,
    "asked": False,
    "acknowledged": None,
}
SUSPICION = {**ALARM, "id": None, "state": "suspect", "kind": "dead-broker", "dir": None, "broker": 4}
RECOVERED = {**ALARM, "id": "00000000-0000-0000-0000-000000000002", "state": "recovered", "broker": 5}
PLAN = {"moves": [{}], "violations": [{"rule": "source", "text": "t-1 has no other living replica in sync"}]}


class Asked:
    """A Guardian that answers everything with one body, and notes what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.status = 200
        self.body: dict[str, Any] = {"alarms": [ALARM, SUSPICION, RECOVERED]}

    async def call(self, method: str, path: str, body: Any = None, **_: Any) -> Answer:
        self.calls.append((method, path, body))
        return Answer(self.status, self.body, 1, 1, 0)


@pytest.fixture
def guardian(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(
        "penstock.guardian.client.GuardianClient.call", lambda client, *words, **more: asked.call(*words, **more)
    )
    return asked


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(["guardian", *words])
        return code, "".join(capsys.readouterr())

    return run


def test_alarms_and_suspicions_are_listed_without_those_that_are_over(guardian: Asked, said: Any) -> None:
    code, text = said("alarms")
    assert code == 0
    assert guardian.calls == [("GET", "/v1/alarms", None)]
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["STATE", "CLUSTER", "KIND", "ABOUT", "SINCE", "ID"]
    assert lines[1] == [
        "escalated",
        "clicks",
        "dead-disk",
        "broker",
        "3",
        "/data/1",
        "2027-01-15T08:00:00.000Z",
        ALARM["id"],
    ]
    assert lines[2][-1] == "-"
    assert len(lines) == 3


def test_what_is_asked_for_is_asked_of_guardian(guardian: Asked, said: Any) -> None:
    code, text = said("alarms", "--cluster", "a b", "--state", "recovered", "--json")
    assert code == 0
    assert guardian.calls == [("GET", "/v1/alarms?cluster=a+b&state=recovered", None)]
    assert json.loads(text) == {"alarms": guardian.body["alarms"], "node": 1, "leader": 1, "age_ms": 0}


def test_that_nothing_is_wrong_is_said(guardian: Asked, said: Any) -> None:
    guardian.body = {"alarms": [RECOVERED]}
    assert said("alarms") == (0, "Nothing is wrong that Guardian can see.\n")


def test_one_alarm_is_told_in_sentences(guardian: Asked, said: Any) -> None:
    guardian.body = {**ALARM, "plan": PLAN, "acknowledged": "User:ann"}
    assert said("alarms", str(ALARM["id"])) == (
        0,
        "escalated: dead-disk, broker 3 /data/1 of cluster clicks\n"
        "first seen 2027-01-15T07:59:30.000Z, escalated since 2027-01-15T08:00:00.000Z\n"
        "- broker 3 says that it cannot use /data/1 (error 56)\n"
        "why it is escalated: it came back after it was healed\n"
        "remedy (advise): give the replicas in it to living brokers, as the plan of the alarm says\n"
        "acknowledged by User:ann\n"
        "the plan has 1 move; --json prints it for kafka-reassign-partitions\n"
        "left alone: t-1 has no other living replica in sync\n",
    )
    assert json.loads(said("alarms", str(ALARM["id"]), "--json")[1]) == guardian.body


@pytest.mark.parametrize(
    ("words", "asked", "sentence"),
    [
        (["alarms", "ID", "--acknowledge"], ("PATCH", "/v1/alarms/ID", {"acknowledged": True}), "escalated: dead-disk"),
        (["heal", "ID"], ("PATCH", "/v1/alarms/ID", {"heal": True}), "Guardian heals broker 3 /data/1 of clicks"),
        (["heal", "on", "--cluster", "c"], ("PATCH", "/v1/clusters/c", {"modes": {"heal": "act"}}), "heal is act."),
        (["heal", "off", "--cluster", "c"], ("PATCH", "/v1/clusters/c", {"modes": {"heal": "observe"}}), "is observe."),
    ],
)
def test_changes_are_asked_of_guardian(guardian: Asked, said: Any, words: list[str], asked: Any, sentence: str) -> None:
    guardian.body = ALARM
    code, text = said(*words)
    assert (code, guardian.calls) == (0, [asked])
    assert sentence in text


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["alarms", "--acknowledge"], "--acknowledge needs the id of an alarm"),
        (["heal", "on"], "heal on needs --cluster: which one?"),
        (["heal", "onn", "--cluster", "c"], "heal onn: with --cluster it must be one of on, advise, off"),
    ],
)
def test_what_makes_no_sense_is_refused(guardian: Asked, said: Any, words: list[str], error: str) -> None:
    code, text = said(*words)
    assert code == 2
    assert error in text
    assert not guardian.calls


def test_what_guardian_refuses_is_said(guardian: Asked, said: Any) -> None:
    guardian.status, guardian.body = 409, {"error": "the alarm is over: there is nothing to heal"}
    assert said("heal", "ID") == (1, "error: the alarm is over: there is nothing to heal\n")
