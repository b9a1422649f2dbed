"""What Guardian decides: the records of each change, and a clear refusal of each bad one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from penstock.guardian.core import answering, calls, limits
from penstock.guardian.core.calls import Call, Known, Reply
from penstock.guardian.core.records import decode_records, encode_records
from penstock.guardian.core.resources import clusters
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import EMPTY, GuardianState, replay, snapshot_records

IDS: Iterator[UUID] = map(UUID, (f"00000000-0000-4000-8000-{number:012x}" for number in range(1, 1_000_000)))
CLICKS: dict[str, Any] = {"name": "clicks", "bootstrap": ["10.0.0.7:9092"], "kind": "kafka", "idc": "north"}


class Asked:
    """A state that calls change, by the bytes of their records."""

    def __init__(self) -> None:
        self.state: GuardianState = EMPTY
        self.written: list[bytes] = []

    def ask(self, method: str, path: str, body: Any = None, request_id: UUID | None = None) -> Reply:
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        call = Call(method, path, encoded, request_id or next(IDS), "User:ann")
        known = Known(self.state, Sight(), wall_ms=1_000)
        if not call.changes:
            return answering.read(known, call)
        change = answering.decide(known, call, lambda: next(IDS))
        values = encode_records(change.records)
        self.written += values
        self.state = replay(self.state, decode_records(values))
        return change.reply

    def add(self, **body: Any) -> Reply:
        return self.ask("POST", "/v1/clusters", {**CLICKS, **body})


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_a_cluster_is_registered_changed_and_forgotten(asked: Asked) -> None:
    reply = asked.add(labels={"team": "web"}, credentials="vault:clicks", modes={"heal": "act"})
    assert reply.status == calls.CREATED
    shown = asked.ask("GET", "/v1/clusters/clicks").body
    assert shown == reply.body
    assert shown["credentials"] == "vault:clicks"
    modes = dict.fromkeys(("balance", "leaders", "topics", "throttle"), "observe")
    assert shown["modes"] == {**modes, "heal": "act"}
    changed = asked.ask("PATCH", "/v1/clusters/clicks", {"modes": {"all": "advise", "topics": "act"}})
    assert changed.body == asked.ask("GET", "/v1/clusters/clicks").body
    assert changed.body["modes"]["heal"] == "advise"
    assert changed.body["modes"]["topics"] == "act"
    assert changed.body["labels"] == {"team": "web"}
    assert asked.ask("DELETE", "/v1/clusters/clicks").body == {"removed": "clicks"}
    assert asked.ask("GET", "/v1/clusters").body == {"clusters": []}
    told = asked.ask("GET", "/v1/audit").body["changes"]
    assert [each["command"] for each in told] == [
        "DELETE /v1/clusters/clicks", "PATCH /v1/clusters/clicks", "POST /v1/clusters"
    ]  # fmt: skip
    assert {each["principal"] for each in told} == {"User:ann"}


def test_a_change_that_is_asked_for_again_is_not_made_again(asked: Asked) -> None:
    once = next(IDS)
    first = asked.ask("POST", "/v1/clusters", CLICKS, once)
    written = len(asked.written)
    again = asked.ask("POST", "/v1/clusters", CLICKS, once)
    assert (again.status, again.body) == (calls.OK, first.body)
    removal = next(IDS)
    for _ in range(2):
        assert asked.ask("DELETE", "/v1/clusters/clicks", None, removal).body == {"removed": "clicks"}
    assert asked.ask("POST", "/v1/clusters", CLICKS, once).body == {"name": "clicks", "removed": True}
    assert len(asked.written) == written + 2
    assert asked.ask("DELETE", "/v1/clusters/clicks", None, once).status == calls.CONFLICT


def test_only_so_many_changes_are_remembered(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.guardian.core.state.GUARDIAN_COMMANDS_REMEMBERED_MAX", 3)
    for number in range(5):
        asked.add(name=f"c{number}", bootstrap=[f"h{number}:1"])
    assert [each.subject for each in asked.state.commands.values()] == ["c2", "c3", "c4"]
    assert len(asked.state.clusters) == 5


def test_a_snapshot_makes_the_same_state(asked: Asked) -> None:
    for number in range(20):
        asked.add(name=f"c{number}", bootstrap=[f"h{number}:1"], labels={"n": str(number)}, modes={"heal": "act"})
    asked.ask("DELETE", "/v1/clusters/c3")
    asked.ask("PATCH", "/v1/clusters/c4", {"modes": {"balance": "advise"}})
    values = encode_records(snapshot_records(asked.state))
    restored = replay(EMPTY, decode_records(values))
    assert restored == asked.state
    assert list(restored.clusters) == list(asked.state.clusters)


BAD: tuple[tuple[Any, int, str], ...] = (
    (b"{", calls.BAD_REQUEST, "not JSON"),
    (b"[" * 100_000, calls.BAD_REQUEST, "not JSON"),
    (b"\xff", calls.BAD_REQUEST, "not JSON"),
    ([], calls.BAD_REQUEST, "must be a JSON object"),
    ({}, calls.BAD_REQUEST, "name is missing"),
    ({**CLICKS, "bootstrp": []}, calls.BAD_REQUEST, "unknown field bootstrp; did you mean bootstrap?"),
    ({**CLICKS, "name": "a b"}, calls.BAD_REQUEST, "must be letters"),
    ({**CLICKS, "name": ""}, calls.BAD_REQUEST, "must be letters"),
    ({**CLICKS, "name": 7}, calls.BAD_REQUEST, "name must be a text"),
    ({**CLICKS, "name": "a" * 256}, calls.BAD_REQUEST, "at most 255 characters"),
    ({**CLICKS, "kind": "rabbit"}, calls.BAD_REQUEST, "kind: rabbit must be one of penstock, kafka"),
    ({**CLICKS, "bootstrap": []}, calls.BAD_REQUEST, "list of 1 to 32 servers"),
    ({**CLICKS, "bootstrap": "h:1"}, calls.BAD_REQUEST, "list of 1 to 32 servers"),
    ({**CLICKS, "bootstrap": ["h"]}, calls.BAD_REQUEST, "is not an address"),
    ({**CLICKS, "bootstrap": ["h:0"]}, calls.BAD_REQUEST, "must name a host and a port"),
    ({**CLICKS, "bootstrap": [":9092"]}, calls.BAD_REQUEST, "must name a host and a port"),
    ({**CLICKS, "bootstrap": ["h:1"] * 33}, calls.BAD_REQUEST, "list of 1 to 32 servers"),
    ({**CLICKS, "idc": None}, calls.BAD_REQUEST, "idc is missing"),
    ({**CLICKS, "labels": {"a": 1}}, calls.BAD_REQUEST, "label a must be a text"),
    ({**CLICKS, "labels": {str(each): "" for each in range(65)}}, calls.BAD_REQUEST, "at most 64"),
    ({**CLICKS, "credentials": "\ud800"}, calls.BAD_REQUEST, "credentials is not UTF-8"),
    ({**CLICKS, "modes": {"heel": "act"}}, calls.BAD_REQUEST, "heel is no kind of action; did you mean heal?"),
    ({**CLICKS, "modes": {"heal": "do"}}, calls.BAD_REQUEST, "must be one of observe, advise, act"),
    ({**CLICKS, "modes": []}, calls.BAD_REQUEST, "modes must be an object"),
    ({**CLICKS, "labels": {"x": "y" * limits.GUARDIAN_BODY_MAX_BYTES}}, calls.TOO_LARGE, "at most"),
)


def test_an_id_of_a_registration_is_not_taken_for_another_cluster(asked: Asked) -> None:
    once = next(IDS)
    asked.ask("POST", "/v1/clusters", CLICKS, once)
    reply = asked.ask("POST", "/v1/clusters", {"name": "views", "bootstrap": ["10.0.0.8:9092"]}, once)
    assert reply.status == calls.CONFLICT
    assert "the request id was that of cluster clicks" in reply.body["error"]


@pytest.mark.parametrize("body", [{"\ud800": 1}, {**CLICKS, "modes": {"\ud800": "act"}}])
def test_a_refusal_that_quotes_what_is_no_text_can_be_sent(asked: Asked, body: Any) -> None:
    reply = asked.ask("POST", "/v1/clusters", body)
    assert reply.status == calls.BAD_REQUEST
    assert "?" in json.loads(reply.encoded)["error"]
    assert asked.written == []


@pytest.mark.parametrize(("body", "status", "said"), BAD, ids=[said for _, _, said in BAD])
def test_bad_input_is_refused_and_changes_nothing(asked: Asked, body: Any, status: int, said: str) -> None:
    reply = asked.ask("POST", "/v1/clusters", body)
    assert reply.status == status
    assert said in reply.body["error"]
    assert asked.written == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/clusters/clicks", {}, calls.METHOD_NOT_ALLOWED),
        ("PUT", "/v1/clusters", {}, calls.METHOD_NOT_ALLOWED),
        ("DELETE", "/v1/clusters", None, calls.METHOD_NOT_ALLOWED),
        ("PATCH", "/v1/audit", {}, calls.METHOD_NOT_ALLOWED),
        ("DELETE", "/v1/clusters/other", None, calls.NOT_FOUND),
        ("PATCH", "/v1/clusters/", {}, calls.NOT_FOUND),
        ("PATCH", "/v1/clusters/clicks", {"modes": {}}, calls.BAD_REQUEST),
        ("PATCH", "/v1/clusters/clicks", {"name": "x"}, calls.BAD_REQUEST),
        ("GET", "/v1/cluster", None, calls.NOT_FOUND),
        ("GET", "/v1/clusters/other", None, calls.NOT_FOUND),
        ("GET", "/" * 10_000, None, calls.NOT_FOUND),
        ("POST", "/v1/clusters", CLICKS, calls.CONFLICT),
        ("POST", "/v1/clusters", {**CLICKS, "name": "same-servers"}, calls.CONFLICT),
    ],
)
def test_what_cannot_be_is_refused(asked: Asked, method: str, path: str, body: Any, status: int) -> None:
    asked.add()
    written = len(asked.written)
    reply = asked.ask(method, path, body)
    assert reply.status == status
    assert len(reply.body["error"]) < 400
    assert len(asked.written) == written


def test_a_change_without_an_id_is_refused(asked: Asked) -> None:
    assert asked.ask("POST", "/v1/clusters", CLICKS, UUID(int=0)).status == calls.BAD_REQUEST


def test_a_federation_has_a_bound(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "GUARDIAN_CLUSTERS_MAX", 2)
    assert [asked.add(name=f"c{each}", bootstrap=[f"h{each}:1"]).status for each in range(3)] == [201, 201, 409]


def test_an_id_of_a_change_is_not_taken_for_one_with_another_body(asked: Asked) -> None:
    """The answer would be the present state, which reads as if the other change had been made."""
    asked.add()
    once = next(IDS)
    first = asked.ask("PATCH", "/v1/clusters/clicks", {"modes": {"heal": "act"}}, once)
    assert asked.ask("PATCH", "/v1/clusters/clicks", {"modes": {"heal": "act"}}, once).body == first.body
    reply = asked.ask("PATCH", "/v1/clusters/clicks", {"modes": {"heal": "observe"}}, once)
    assert reply.status == calls.CONFLICT
    assert "with another body" in reply.body["error"]
    restored = replay(EMPTY, decode_records(encode_records(snapshot_records(asked.state))))
    assert restored == asked.state


def test_a_change_with_a_query_is_refused(asked: Asked) -> None:
    """Not made without it: a name that has a question mark in it is none of what is there."""
    asked.add()
    for method, body in (("DELETE", None), ("PATCH", {"modes": {"heal": "act"}})):
        reply = asked.ask(method, "/v1/clusters/clicks?old", body)
        assert (reply.status, reply.body["error"]) == (400, "unknown query old")
    assert asked.ask("GET", "/v1/clusters/clicks").body["modes"]["heal"] == "observe"


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_is_no_number_of_json_is_refused(asked: Asked, number: bytes) -> None:
    reply = asked.ask("POST", "/v1/clusters", b'{"name": "x", "bootstrap": ["a:1"], "labels": ' + number + b"}")
    assert (reply.status, reply.body["error"]) == (400, "the body is not JSON")
