"""`penstock tokens`, as a person types it, and what the bearer of a token does."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.security.commands import Capture, Commands
from interop.security.token_cluster import SECRET, TokenBroker, client_file, token_file

from penstock.metadata.delegation_tokens import hmac_of
from penstock.testing.broker import LocalBroker

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[TokenBroker]:
    with TokenBroker() as made:
        yield made


def test_a_token_is_made_shown_renewed_and_ended(broker: TokenBroker, tmp_path: Path, capsys: Capture) -> None:
    alice, bob = (Commands(broker.secured, client_file(tmp_path, user), capsys) for user in ("alice", "bob"))
    assert bob("tokens", "describe") == "there are no delegation tokens that you may see\n"
    made = json.loads(alice("tokens", "create", "--renewer", "User:bob", "--max-lifetime", "2d", "--json"))
    assert b64decode(made["hmac"]) == hmac_of(SECRET, made["id"])
    assert made["max_ms"] - made["issued_ms"] == 48 * HOUR_MS
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:alice", "User:alice", ["User:bob"])
    shown = json.loads(bob("tokens", "describe", "--json"))
    assert shown == [{name: value for name, value in made.items() if name != "hmac"}]
    table = alice("tokens", "describe", "--owner", "User:alice")
    assert made["id"] in table
    assert made["hmac"] not in table
    renewed = json.loads(bob("tokens", "renew", made["id"], "--period", "1h", "--json"))
    assert renewed["expires_ms"] < made["expires_ms"]
    assert "expires at" in alice("tokens", "expire", made["id"], "--period", "10m")
    assert "has ended at" in alice("tokens", "expire", made["id"])
    refused = alice("tokens", "expire", made["id"], code=1)
    assert "there is none that you may see" in refused


def test_the_bearer_acts_as_the_owner(broker: TokenBroker, tmp_path: Path, capsys: Capture) -> None:
    alice = Commands(broker.secured, client_file(tmp_path, "alice"), capsys)
    text = alice("tokens", "create")
    token_id, key = (line.split()[-1] for line in text.splitlines() if line.split()[0] in ("id", "hmac"))
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        job = Commands(broker.secured, token_file(tmp_path, token_id, key, mechanism), capsys)
        topic = f"of-{mechanism}"
        job("topics", "create", topic)
        job("produce", topic, "--value", "one")
        assert job("consume", topic).split() == ["one"]
        assert "not by a token" in job("tokens", "describe", code=1)
    alice("tokens", "expire", token_id)
    assert "refuses the login" in job("topics", "list", code=1)


def test_who_may_not_is_told_why(broker: TokenBroker, tmp_path: Path, capsys: Capture) -> None:
    bob = Commands(broker.secured, client_file(tmp_path, "bob"), capsys)
    assert "needs CREATE_TOKENS on that user" in bob("tokens", "create", "--owner", "User:alice", code=1)
    assert "a renewer must be such as User:alice" in bob("tokens", "create", "--renewer", "Group:a", code=1)
    for words in (("--owner", "alice"), ("--renewer", ":"), ("--max-lifetime", "long")):
        bob("tokens", "create", *words, code=2)
    with LocalBroker() as plain:
        client = tmp_path / "plain.properties"
        client.write_text("security.protocol=PLAINTEXT\n")
        told = Commands(plain.bootstrap, client, capsys)("tokens", "create", code=1)
        assert "logged in with credentials" in told
    with TokenBroker(delegation__token__secret__key="") as without:
        told = Commands(without.secured, client_file(tmp_path, "bob"), capsys)("tokens", "create", code=1)
        assert "its nodes have no delegation.token.secret.key" in told
