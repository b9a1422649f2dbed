"""Users and tokens: what is kept of them, what repeated calls come to, what is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest

from penstock.errors import StorageError
from penstock.guardian.core import answering, calls, limits
from penstock.guardian.core.accounts import Role
from penstock.guardian.core.calls import Call, Known, Reply
from penstock.guardian.core.records import decode_records, encode_records
from penstock.guardian.core.resources import users
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import EMPTY, GuardianState, replay, snapshot_records
from penstock.protocol.messages.guardian.guardian_remove_token_record import GuardianRemoveTokenRecord
from penstock.protocol.messages.guardian.guardian_remove_user_record import GuardianRemoveUserRecord
from penstock.protocol.messages.guardian.guardian_token_record import GuardianTokenRecord

IDS: Iterator[UUID] = map(UUID, (f"00000000-0000-4000-8000-{number:012x}" for number in range(1, 1_000_000)))
ANN: dict[str, Any] = {"name": "ann", "roles": [{"role": "operator", "cluster": "clicks"}, {"role": "viewer"}]}


class Asked:
    """A state that calls of a super user change, by the bytes of their records."""

    def __init__(self) -> None:
        self.state: GuardianState = EMPTY
        self.written: list[bytes] = []
        self.wall_ms = 1_000
        self.random = Random(7)

    def ask(self, method: str, path: str, body: Any = None, request_id: UUID | None = None) -> Reply:
        encoded = json.dumps(body).encode()
        call = Call(method, path, encoded, request_id or next(IDS), "User:boss")
        known = Known(self.state, Sight(), self.wall_ms, self.random.randbytes)
        if not call.changes:
            return answering.read(known, call)
        change = answering.decide(known, call, lambda: next(IDS))
        values = encode_records(change.records)
        self.written += values
        self.state = replay(self.state, decode_records(values))
        return change.reply

    def token(self, user: str = "ann", **body: Any) -> str:
        reply = self.ask("POST", "/v1/tokens", {"user": user, **body})
        assert reply.status == calls.CREATED, reply
        return str(reply.body["token"])

    def logged_in(self, token: str) -> str | None:
        found = self.state.accounts.logged_in(token, self.wall_ms)
        return None if found is None else found.user


@pytest.fixture
def asked() -> Asked:
    found = Asked()
    for name in ("clicks", "views"):
        found.ask("POST", "/v1/clusters", {"name": name, "bootstrap": [f"{name}:1"]})
    assert found.ask("POST", "/v1/users", ANN).status == calls.CREATED
    return found


def test_a_user_is_added_changed_and_removed_with_its_tokens(asked: Asked) -> None:
    shown = asked.ask("GET", "/v1/users/ann").body
    assert shown == {
        "name": "ann",
        "roles": [{"role": "operator", "cluster": "clicks"}, {"role": "viewer", "cluster": None}],
        "tokens": [],
    }
    token = asked.token()
    changed = asked.ask("PATCH", "/v1/users/ann", {"roles": [{"role": "auditor"}, {"role": "auditor"}]})
    assert changed.body["roles"] == [{"role": "auditor", "cluster": None}]
    assert changed.body == asked.ask("GET", "/v1/users/ann").body
    assert asked.logged_in(token) == "ann", "other roles, the same tokens"
    assert asked.ask("DELETE", "/v1/users/ann").body == {"removed": "ann"}
    assert asked.logged_in(token) is None
    assert asked.state.accounts.tokens == {}
    assert asked.ask("GET", "/v1/users").body == {"users": []}
    asked.ask("POST", "/v1/users", ANN)
    assert asked.logged_in(token) is None, "a new user of the old name has none of its tokens"


def test_the_log_and_snapshots_hold_hashes_of_tokens_alone(asked: Asked) -> None:
    token = asked.token()
    secret = token.split("_")[2]
    snapshot = encode_records(snapshot_records(asked.state))
    kept = b"".join([*asked.written, *snapshot])
    assert hashlib.sha256(token.encode()).digest() in kept
    for part in (token.encode(), secret.encode(), bytes.fromhex(secret)):
        assert part not in kept
    for answer in (asked.ask("GET", "/v1/tokens"), asked.ask("GET", "/v1/users/ann"), asked.ask("GET", "/v1/audit")):
        assert secret not in str(answer.body)


def test_a_token_is_shown_once(asked: Asked) -> None:
    once = next(IDS)
    first = asked.ask("POST", "/v1/tokens", {"user": "ann"}, once)
    again = asked.ask("POST", "/v1/tokens", {"user": "ann"}, once)
    assert again.status == calls.CONFLICT
    assert first.body["id"] in again.body["error"]
    assert len(asked.state.accounts.tokens) == 1


def test_tokens_expire_and_are_revoked_one_by_one(asked: Asked) -> None:
    short, long = asked.token(valid_ms=500, label="short"), asked.token(valid_ms=5_000)
    assert [asked.logged_in(each) for each in (short, long)] == ["ann", "ann"]
    asked.wall_ms += 499
    assert asked.logged_in(short) == "ann"
    asked.wall_ms += 1
    assert [asked.logged_in(each) for each in (short, long)] == [None, "ann"]
    told = asked.ask("GET", "/v1/tokens?user=ann").body["tokens"]
    assert [(each["label"], each["expired"]) for each in told] == [("short", True), ("", False)]
    token_id = told[1]["id"]
    assert asked.ask("GET", f"/v1/tokens/{token_id}").body == told[1]
    removal = next(IDS)
    for _ in range(2):
        assert asked.ask("DELETE", f"/v1/tokens/{token_id}", None, removal).body == {"removed": token_id}
    assert asked.logged_in(long) is None
    refused = asked.ask("DELETE", f"/v1/tokens/{long}")
    assert refused.status == calls.NOT_FOUND
    assert long not in str(refused.body), "what may be a token is not repeated"


@pytest.mark.parametrize(
    "wrong",
    ["", "x", "pgt__", "Bearer", "pgt_{id}_{zeros}", "pgt_{other}_{secret}", "{token}0", " {token}", "pgt_{id}_é"],
)
def test_what_is_no_token_does_not_log_in(asked: Asked, wrong: str) -> None:
    token = asked.token()
    _, token_id, secret = token.split("_")
    text = wrong.format(token=token, id=token_id, secret=secret, zeros="0" * 64, other="f" * 16)
    assert asked.logged_in(token) == "ann"
    assert asked.logged_in(text) is None


def test_expired_tokens_make_room(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "GUARDIAN_USER_TOKENS_MAX", 2)
    for _ in range(2):
        asked.token(valid_ms=100)
    assert asked.ask("POST", "/v1/tokens", {"user": "ann"}).status == calls.CONFLICT
    asked.wall_ms += 100
    asked.token()
    assert len(asked.state.accounts.tokens) == 1


def test_a_cluster_that_is_forgotten_takes_its_roles_along(asked: Asked) -> None:
    asked.ask("DELETE", "/v1/clusters/clicks")
    asked.ask("POST", "/v1/clusters", {"name": "clicks", "bootstrap": ["clicks:1"]})
    assert asked.state.accounts.users["ann"].roles == (Role("viewer"),), "another cluster of the name is another"
    assert asked.ask("GET", "/v1/users/ann").body["roles"] == [{"role": "viewer", "cluster": None}]


def test_repeated_changes_are_made_once(asked: Asked) -> None:
    once, written = next(IDS), len(asked.written)
    for status in (calls.CREATED, calls.OK):
        assert asked.ask("POST", "/v1/users", {**ANN, "name": "ben"}, once).status == status
    assert asked.ask("POST", "/v1/users", {**ANN, "name": "cay"}, once).status == calls.CONFLICT
    removal = next(IDS)
    for _ in range(2):
        assert asked.ask("DELETE", "/v1/users/ben", None, removal).body == {"removed": "ben"}
    assert asked.ask("POST", "/v1/users", {**ANN, "name": "ben"}, once).body == {"name": "ben", "removed": True}
    assert len(asked.written) == written + 4


def test_a_snapshot_makes_the_same_state(asked: Asked) -> None:
    for number in range(20):
        asked.ask("POST", "/v1/users", {"name": f"u{number}", "roles": [{"role": "viewer", "cluster": "views"}]})
        asked.token(f"u{number}", label=str(number))
    asked.ask("DELETE", "/v1/users/u3")
    restored = replay(EMPTY, decode_records(encode_records(snapshot_records(asked.state))))
    assert restored == asked.state
    assert list(restored.accounts.users) == list(asked.state.accounts.users)
    assert list(restored.accounts.tokens) == list(asked.state.accounts.tokens)


@pytest.mark.parametrize(
    "record",
    [
        GuardianRemoveUserRecord(name="gone"),
        GuardianRemoveTokenRecord(token_id="gone"),
        GuardianTokenRecord(token_id="new", user="gone"),
    ],
)
def test_a_record_about_nobody_is_damage(asked: Asked, record: Any) -> None:
    with pytest.raises(StorageError, match=r"is about no (user|token) that is there"):
        replay(asked.state, [record])


BAD: tuple[tuple[str, str, Any, int, str], ...] = (
    ("POST", "/v1/users", {}, 400, "name is missing"),
    ("POST", "/v1/users", {**ANN, "name": "ben", "role": "admin"}, 400, "unknown field role; did you mean roles?"),
    ("POST", "/v1/users", ANN, 409, "user ann is there already"),
    ("POST", "/v1/users", {**ANN, "name": "User:ben"}, 400, "must be without User:"),
    ("POST", "/v1/users", {**ANN, "name": "a/b"}, 400, "must be letters"),
    ("POST", "/v1/users", {**ANN, "name": "a\nb"}, 400, "has control characters"),
    ("POST", "/v1/users", {**ANN, "name": "a" * 256}, 400, "at most 255"),
    ("POST", "/v1/users", {"name": "ben"}, 400, "list of 1 to 64 roles"),
    ("POST", "/v1/users", {"name": "ben", "roles": []}, 400, "list of 1 to 64 roles"),
    ("POST", "/v1/users", {"name": "ben", "roles": [{"role": "viewer"}] * 65}, 400, "list of 1 to 64 roles"),
    ("POST", "/v1/users", {"name": "ben", "roles": ["viewer"]}, 400, "each must be an object like"),
    ("POST", "/v1/users", {"name": "ben", "roles": [{"cluster": "clicks"}]}, 400, "role is missing"),
    ("POST", "/v1/users", {"name": "ben", "roles": [{"role": "boss"}]}, 400, "must be one of viewer"),
    ("POST", "/v1/users", {"name": "ben", "roles": [{"role": "viewer", "cluster": "clcks"}]}, 400, "mean clicks?"),
    ("POST", "/v1/users", {"name": "ben", "roles": [{"role": "auditor", "cluster": "clicks"}]}, 400, "all clusters"),
    ("PATCH", "/v1/users/ann", {"roles": None}, 400, "list of 1 to 64 roles"),
    ("PATCH", "/v1/users/ann", {"name": "ben"}, 400, "unknown field name"),
    ("PATCH", "/v1/users/an", ANN, 404, "there is no user an; did you mean ann?"),
    ("DELETE", "/v1/users", None, 405, "takes no DELETE"),
    ("POST", "/v1/tokens", {"user": "nobody"}, 400, "there is no user nobody"),
    ("POST", "/v1/tokens", {"user": "ann", "valid_ms": 0}, 400, "valid_ms must be a whole number"),
    ("POST", "/v1/tokens", {"user": "ann", "valid_ms": True}, 400, "valid_ms must be a whole number"),
    ("POST", "/v1/tokens", {"user": "ann", "valid_ms": 1e3}, 400, "valid_ms must be a whole number"),
    ("POST", "/v1/tokens", {"user": "ann", "valid_ms": limits.GUARDIAN_TOKEN_MAX_MS + 1}, 400, "valid_ms must be"),
    ("PATCH", "/v1/tokens/x", {}, 405, "takes no PATCH"),
    ("DELETE", "/v1/tokens/x", None, 404, "there is no token of this id"),
    ("GET", "/v1/tokens?user=nobody", None, 404, "there is no user nobody"),
    ("GET", "/v1/tokens?usr=ann", None, 400, "unknown query usr; did you mean user?"),
    ("GET", "/v1/users/ann/tokens", None, 404, "there is no /v1/users/ann/tokens"),
    ("POST", "/v1/clusters", {"name": "c", "bootstrap": ["[::1:1"]}, 400, "is not an address"),
    ("POST", "/v1/clusters", {"name": "c", "bootstrap": ["::1]:1"]}, 400, "is not an address"),
    ("POST", "/v1/clusters", {"name": "c", "bootstrap": ["c:1"], "idc": "a\x1b[2J"}, 400, "idc has control characters"),
    ("POST", "/v1/clusters", {"name": "c", "bootstrap": ["c:1"], "labels": {"a\0": ""}}, 400, "has control characters"),
)  # fmt: skip


@pytest.mark.parametrize("wrong", BAD, ids=[f"{each[0]} {each[4]}" for each in BAD])
def test_bad_input_is_refused_and_changes_nothing(asked: Asked, wrong: tuple[str, str, Any, int, str]) -> None:
    method, path, body, status, said = wrong
    written = len(asked.written)
    reply = asked.ask(method, path, body)
    assert reply.status == status, reply
    assert said in reply.body["error"]
    assert len(asked.written) == written


def test_there_are_only_so_many_users(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "GUARDIAN_USERS_MAX", 2)
    assert asked.ask("POST", "/v1/users", {**ANN, "name": "u1"}).status == calls.CREATED
    assert asked.ask("POST", "/v1/users", {**ANN, "name": "u2"}).status == calls.CONFLICT
