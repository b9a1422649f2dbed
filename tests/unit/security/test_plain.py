"""PLAIN: who gets in, and what the others are told."""

from __future__ import annotations

import pytest

from penstock.security.plain import PlainClient, PlainServer
from penstock.security.sasl import LoginFailed

PASSWORDS = {"alice": "alice-secret", "ünal": "pässword", "nobody": ""}


@pytest.mark.parametrize("user", ["alice", "ünal"])
def test_the_right_password_logs_in(user: str) -> None:
    client, server = PlainClient(user, PASSWORDS[user]), PlainServer(PASSWORDS)
    answer = server.evaluate(client.first())
    assert (server.complete, server.user, answer) == (True, user, b"")
    assert client.evaluate(answer) is None
    assert client.complete


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0alice\0alice-secret ", "Invalid username or password"),
        (b"\0bob\0alice-secret", "Invalid username or password"),
        (b"\0nobody\0x", "Invalid username or password"),
        (b"\0\0alice-secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0nobody\0", "password not specified"),
        (b"bob\0alice\0alice-secret", "authorization id"),
        (b"bob\0alice\0wrong", "Invalid username or password"),
        (b"", "expected 3 tokens, got 1"),
        (b"\0alice\0alice-secret\0", "expected 3 tokens, got 4"),
        (b"\0\xff\0x", "Invalid username or password"),
        (b"\0alice\0" + b"x" * 70_000, ""),
    ],
)
def test_everything_else_does_not(token: bytes, told: str) -> None:
    server = PlainServer(PASSWORDS)
    with pytest.raises(LoginFailed) as failed:
        server.evaluate(token)
    assert told in failed.value.told
    assert not server.complete


def test_the_own_authorization_id_is_allowed() -> None:
    server = PlainServer(PASSWORDS)
    server.evaluate(b"alice\0alice\0alice-secret")
    assert server.complete


def test_nothing_follows_a_login() -> None:
    server = PlainServer(PASSWORDS)
    server.evaluate(b"\0alice\0alice-secret")
    with pytest.raises(LoginFailed):
        server.evaluate(b"\0alice\0alice-secret")


def test_a_client_wants_no_challenge() -> None:
    with pytest.raises(LoginFailed):
        PlainClient("alice", "x").evaluate(b"more")
