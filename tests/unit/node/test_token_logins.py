"""Logins by delegation token on a listener of a node: as whom, for how long, and when not."""

from __future__ import annotations

import pytest
from support.broker import Client, Node
from support.logins import SECURED, handshake, log_in, logged_in, next_token, token
from support.tokens import (
    DAY_MS,
    by_token,
    exchange_of,
    expired,
    log_in_by,
    made,
    renewed,
    with_tokens,
)

from penstock.errors import ErrorCode
from penstock.node.cold_reads import ColdRead
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.security.tokens import KeyUnderived

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
MINUTE_MS = 60_000


def served(client: Client) -> bool:
    """Whether the client is served."""
    client.send(MetadataRequest(topics=[]), 9)
    return client.closed is None and not client.receive().topics


def refused(node: Node, token_id: str, key: bytes) -> bool:
    """Whether nobody gets in with that."""
    client = node.connect(SECURED)
    return bool(log_in_by(client, token_id, key).error_code == FAILED) and client.closed is not None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_bearer_is_the_owner_and_came_by_a_token(mechanism: str) -> None:
    node = with_tokens()
    job = by_token(node, made(logged_in(node, "alice")), mechanism)
    principal = node.broker.connections[job.number].principal
    assert str(principal) == "User:alice"
    assert principal.token_authenticated
    assert served(job)


def test_a_login_lasts_as_long_as_its_token() -> None:
    node = with_tokens()
    issued = made(logged_in(node, "alice"))
    node.advance(MINUTE_MS)
    client = node.connect(SECURED)
    answer = log_in_by(client, issued.token_id, bytes(issued.hmac))
    assert answer.session_lifetime_ms == DAY_MS - MINUTE_MS
    node.advance(DAY_MS - MINUTE_MS - 1)
    assert served(client)
    node.advance(1)
    client.send(MetadataRequest(topics=[]), 9)
    assert client.closed is not None
    assert "expired" in client.closed
    assert refused(node, issued.token_id, bytes(issued.hmac))


def test_a_token_that_ends_during_the_exchange_lets_nobody_in() -> None:
    """A length of 0 would mean for ever to the client."""
    node = with_tokens()
    issued = made(logged_in(node, "alice"), max_lifetime_ms=10_000)
    for late_ms in (0, 1):  # the second begins in the last millisecond
        client = node.connect(SECURED)
        assert handshake(client, "SCRAM-SHA-256").error_code == 0
        sasl = exchange_of(issued.token_id, bytes(issued.hmac))
        final = next_token(sasl, bytes(token(client, sasl.first()).auth_bytes))
        assert final is not None
        if not late_ms:
            node.advance(9_999)
            assert token(client, final).session_lifetime_ms == 1
            continue
        node.advance(late_ms)
        client.send(SaslAuthenticateRequest(auth_bytes=final), 2)
        node.advance(200)
        assert client.receive().error_code == FAILED


def test_the_sooner_of_two_ends_counts() -> None:
    node = with_tokens(connections__max__reauth__ms=str(MINUTE_MS))
    issued = made(logged_in(node, "alice"), max_lifetime_ms=2 * MINUTE_MS)
    for lifetime_ms in (MINUTE_MS, MINUTE_MS, MINUTE_MS, 30_000):
        client = node.connect(SECURED)
        assert log_in_by(client, issued.token_id, bytes(issued.hmac)).session_lifetime_ms == lifetime_ms
        node.advance(30_000)


def test_who_has_a_renewed_token_logs_in_again_and_stays() -> None:
    node = with_tokens()
    alice = logged_in(node, "alice")
    issued = made(alice)
    job = by_token(node, issued)
    node.advance(DAY_MS - MINUTE_MS)
    assert renewed(alice, bytes(issued.hmac)).error_code == 0
    answer = log_in_by(job, issued.token_id, bytes(issued.hmac))
    assert (answer.error_code, answer.session_lifetime_ms) == (0, DAY_MS)
    node.advance(2 * MINUTE_MS)
    assert served(job)


def test_who_logs_in_again_after_the_end_is_refused() -> None:
    node = with_tokens()
    alice = logged_in(node, "alice")
    issued = made(alice)
    job = by_token(node, issued)
    node.advance(MINUTE_MS)
    assert expired(alice, bytes(issued.hmac)).error_code == 0
    assert served(job), "a session ends with the token as it was at the login, as in Kafka"
    answer = log_in_by(job, issued.token_id, bytes(issued.hmac))
    assert answer.error_code == FAILED
    assert "re-authentication" in answer.error_message
    assert job.closed is not None


def test_a_removed_or_unknown_token_lets_nobody_in() -> None:
    node = with_tokens()
    alice = logged_in(node, "alice")
    issued, other = made(alice), made(alice)
    assert refused(node, issued.token_id, bytes(other.hmac))
    assert refused(node, "nothing", bytes(issued.hmac))
    assert refused(node, "alice", b"alice-secret")
    by_token(node, issued)
    assert expired(alice, bytes(issued.hmac)).error_code == 0
    assert refused(node, issued.token_id, bytes(issued.hmac))


def test_logging_in_again_may_go_from_a_password_to_a_token() -> None:
    """As in Kafka, for the same principal; from then on it has come by a token."""
    node = with_tokens(connections__max__reauth__ms=str(MINUTE_MS))
    client = logged_in(node, "alice", "SCRAM-SHA-256")
    issued = made(client)
    node.advance(10_000)
    assert log_in_by(client, issued.token_id, bytes(issued.hmac)).error_code == 0
    assert node.broker.connections[client.number].principal.token_authenticated
    node.advance(10_000)
    log_in(client, "alice", "SCRAM-SHA-256")
    assert not node.broker.connections[client.number].principal.token_authenticated


def test_the_key_is_derived_in_a_lane_and_what_follows_waits() -> None:
    node = with_tokens()
    issued = made(logged_in(node, "alice"))
    node.held = lambda operation: isinstance(operation, ColdRead) and isinstance(operation.missing, KeyUnderived)
    client = node.connect(SECURED)
    assert handshake(client, "SCRAM-SHA-256").error_code == 0
    sasl = exchange_of(issued.token_id, bytes(issued.hmac))
    client.send(SaslAuthenticateRequest(auth_bytes=sasl.first()), 2)
    client.send(SaslAuthenticateRequest(auth_bytes=b"too early"), 2)
    assert not client.answers
    node.held = None
    node.let_go()
    assert client.receive().error_code == 0
    node.advance(200)
    assert client.receive().error_code == FAILED, "the second token comes after the first"


def test_a_client_that_goes_while_its_key_is_derived_is_forgotten() -> None:
    node = with_tokens()
    issued = made(logged_in(node, "alice"))
    node.held = lambda operation: isinstance(operation, ColdRead) and isinstance(operation.missing, KeyUnderived)
    client = node.connect(SECURED)
    handshake(client, "SCRAM-SHA-256")
    sasl = exchange_of(issued.token_id, bytes(issued.hmac))
    client.send(SaslAuthenticateRequest(auth_bytes=sasl.first()), 2)
    node.disconnect(client)
    node.held = None
    node.let_go()
    by_token(node, issued)


def test_bare_tokens_log_in_too() -> None:
    node = with_tokens()
    issued = made(logged_in(node, "alice"))
    client = node.connect(SECURED)
    assert client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 0).error_code == 0
    sasl = exchange_of(issued.token_id, bytes(issued.hmac), "SCRAM-SHA-512")
    data: bytes | None = sasl.first()
    while data is not None:
        client.send_bytes(data)
        data = next_token(sasl, client.answers.popleft())
    assert served(client)


def test_a_plain_login_knows_no_tokens() -> None:
    node = with_tokens()
    issued = made(logged_in(node, "alice"))
    client = node.connect(SECURED)
    handshake(client, "PLAIN")
    client.send(SaslAuthenticateRequest(auth_bytes=f"\0{issued.token_id}\0secret".encode()), 2)
    node.advance(200)
    assert client.receive().error_code == FAILED
