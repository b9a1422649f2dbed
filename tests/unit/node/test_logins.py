"""Logins on a listener with SASL: in order, in time, and nothing else is served before."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import Client, Node
from support.logins import (
    MECHANISMS,
    SECURED,
    add_scram,
    client_of,
    handshake,
    log_in,
    logged_in,
    next_token,
    secured,
    token,
)
from support.requests import batch, fetch, produce

from penstock.config.jaas import PLAIN_MODULE
from penstock.errors import ErrorCode
from penstock.node.limits import LOGIN_FAILURES_LOGGED_PER_S
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

DELAY_MS = 100
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def principal(node: Node, client: Client) -> str:
    return str(node.broker.connections[client.number].principal)


def served(client: Client) -> bool:
    """Whether the client is served, as who is logged in."""
    client.send(MetadataRequest(topics=[]), 9)
    return client.closed is None and not client.receive().topics


def test_every_mechanism_logs_in_and_names_the_principal() -> None:
    node = secured()
    for mechanism in MECHANISMS:
        client = node.connect(SECURED)
        assert client.ask(VERSIONS, 3).error_code == 0
        answer = log_in(client, "alice", mechanism)
        assert (answer.session_lifetime_ms, answer.error_message) == (0, "")  # as Kafka: empty, not null
        assert principal(node, client) == "User:alice"
        assert served(client)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tokens_come_bare_after_a_handshake_of_version_0(mechanism: str) -> None:
    node = secured()
    client = node.connect(SECURED)
    assert handshake(client, mechanism, 0).error_code == 0
    sasl = client_of(mechanism, "bob")
    data: bytes | None = sasl.first()
    while data is not None:
        client.send_bytes(data)
        data = next_token(sasl, client.answers.popleft())
    assert principal(node, client) == "User:bob"
    assert served(client)


def test_a_bare_token_that_is_wrong_closes_without_an_answer() -> None:
    node = secured()
    client = node.connect(SECURED)
    handshake(client, "PLAIN", 0)
    client.send_bytes(b"\0alice\0wrong")
    assert (client.closed, list(client.answers)) == (None, [])
    node.advance(DELAY_MS)
    assert client.closed == "its login failed"
    assert not client.answers


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "unknown"])
def test_a_failed_login_is_answered_after_the_delay_and_closed(mechanism: str, user: str) -> None:
    node = secured()
    client = node.connect(SECURED)
    handshake(client, mechanism)
    sasl = client_of(mechanism, user, "wrong")
    data = sasl.first()
    if mechanism != "PLAIN":
        data = next_token(sasl, bytes(token(client, data).auth_bytes)) or b""
    client.send(SaslAuthenticateRequest(auth_bytes=data), 2)
    node.advance(DELAY_MS - 1)
    assert (client.closed, list(client.answers)) == (None, [])
    node.advance(1)
    answer = client.receive()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed: Invalid username or password"
        if mechanism == "PLAIN"
        else f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert client.closed == "its login failed"


def test_a_mechanism_that_is_not_enabled_is_answered_with_those_that_are() -> None:
    node = secured(sasl__enabled__mechanisms="SCRAM-SHA-256,PLAIN")
    client = node.connect(SECURED)
    client.send(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert not client.answers
    node.advance(DELAY_MS)
    answer = client.receive()
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["SCRAM-SHA-256", "PLAIN"]
    assert client.closed is not None


@pytest.mark.parametrize(
    "request_", [MetadataRequest(topics=None), produce("t", batch()), SaslAuthenticateRequest(auth_bytes=b"\0a\0b")]
)
def test_nothing_else_is_served_before(request_: Message) -> None:
    node = secured()
    for before in (False, True):
        client = node.connect(SECURED)
        if before:
            client.ask(VERSIONS, 3)
        client.send(request_, 9 if request_.KEY != 36 else 2)
        assert client.closed is not None
        assert "before login" in client.closed
        assert not client.answers


def test_a_second_api_versions_closes_but_an_unsupported_one_does_not() -> None:
    node = secured()
    client = node.connect(SECURED)
    frame = client.frame(VERSIONS, 3)
    frame[3] = 99
    client.send_bytes(frame)
    assert client.answers.popleft()[4:6] == b"\0\x23"
    client.asked.clear()
    assert client.ask(VERSIONS, 3).error_code == 0
    client.send(VERSIONS, 3)
    assert client.closed is not None


def test_what_stands_in_an_exchange_and_is_no_token_is_an_illegal_state() -> None:
    node = secured()
    client = node.connect(SECURED)
    handshake(client, "SCRAM-SHA-256")
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    node.advance(DELAY_MS)
    assert client.receive().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.closed is not None
    other = node.connect(SECURED)
    handshake(other, "SCRAM-SHA-256")
    other.send(MetadataRequest(topics=None), 9)
    node.advance(DELAY_MS)
    assert (other.closed, list(other.answers)) == ("its login failed", [])


def test_the_token_of_another_mechanism_fails() -> None:
    node = secured()
    for named, used in (("SCRAM-SHA-256", "PLAIN"), ("PLAIN", "SCRAM-SHA-512"), ("SCRAM-SHA-512", "SCRAM-SHA-256")):
        client = node.connect(SECURED)
        handshake(client, named)
        sasl = client_of(used, "alice")
        data = sasl.first()
        if "SCRAM" in named and "SCRAM" in used:
            data = next_token(sasl, bytes(token(client, data).auth_bytes)) or b""
        client.send(SaslAuthenticateRequest(auth_bytes=data), 2)
        node.advance(DELAY_MS)
        assert client.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def burst(client: Client, *requests: tuple[Message, int]) -> None:
    """All requests arrive before any is dealt with."""
    for message, version in requests:
        frame = memoryview(client.frame(message, version))
        client.node.broker.received(client.number, frame, client.node.now_ms)
    client.node.run()
    client.node.settle()


def test_what_follows_a_token_waits_for_it_even_if_it_arrived_with_it() -> None:
    node = secured()
    first = (SaslHandshakeRequest(mechanism="PLAIN"), 1)
    right, wrong = ((SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + each), 2) for each in (b"alice-secret", b"x"))
    last = (MetadataRequest(topics=[]), 9)
    client = node.connect(SECURED)
    burst(client, first, right, last)
    assert [client.receive().error_code for _ in range(2)] == [0, 0]
    assert client.receive().controller_id == 1
    other = node.connect(SECURED)
    burst(other, first, wrong, last, last)
    assert other.receive().error_code == 0
    assert other.paused
    node.advance(DELAY_MS)
    assert other.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not other.answers
    assert other.closed is not None


def test_a_login_has_one_deadline() -> None:
    node = secured(penstock__receive__timeout__ms="5000")
    silent, slow, quick = node.connect(SECURED), node.connect(SECURED), node.connect(SECURED)
    handshake(slow)
    log_in(quick, "alice")
    node.advance(4999)
    assert silent.closed is slow.closed is None
    node.advance(1)
    assert silent.closed == slow.closed == "no login within 5000 ms (penstock.receive.timeout.ms)"
    node.advance(100_000)
    assert quick.closed is None


def test_the_deadline_of_a_login_counts_from_the_beginning_of_the_handshake_before_it() -> None:
    node = secured(penstock__receive__timeout__ms="5000")
    node.advance(10_000)
    client = node.clients[77] = Client(node, 77)
    node.broker.connected(77, SECURED, "127.0.0.1:40000", node.now_ms, since_ms=node.now_ms - 4_000)
    node.advance(999)
    assert client.closed is None
    node.advance(1)
    assert client.closed == "no login within 5000 ms (penstock.receive.timeout.ms)"


def test_frames_before_login_are_small() -> None:
    node = secured(sasl__server__max__receive__size="1000")
    client = node.connect(SECURED)
    handshake(client)
    client.send(SaslAuthenticateRequest(auth_bytes=b"x" * 1000), 2)
    assert client.closed is not None
    assert "sasl.server.max.receive.size is 1000" in client.closed
    assert served(logged_in(node, "alice"))


def test_a_listener_without_sasl_says_so() -> None:
    client = secured().connect("PLAINTEXT")
    for version in (0, 1):
        assert handshake(client, "PLAIN", version).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert token(client, b"\0alice\0alice-secret").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert served(client)


def test_a_changed_password_counts_at_the_next_login() -> None:
    node = secured()
    client = logged_in(node, "alice", "SCRAM-SHA-256")
    add_scram(node, "alice", "new")
    assert served(client)
    log_in(node.connect(SECURED), "alice", "SCRAM-SHA-256", "new")
    late = node.connect(SECURED)
    handshake(late, "SCRAM-SHA-256")
    sasl = client_of("SCRAM-SHA-256", "alice")
    data = next_token(sasl, bytes(token(late, sasl.first()).auth_bytes))
    late.send(SaslAuthenticateRequest(auth_bytes=data), 2)
    node.advance(DELAY_MS)
    assert late.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_users_of_plain_change_while_the_node_runs(caplog: pytest.LogCaptureFixture) -> None:
    node = secured()
    name = "listener.name.secured.plain.sasl.jaas.config"
    for user, code in (('user_carol="canary"', 0), ('user_carol="canary', ErrorCode.INVALID_REQUEST)):
        config = AlterableConfig(name=name, value=f"{PLAIN_MODULE} required {user};")
        resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
        answer = node.connect().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == code
        assert "canary" not in str(answer)
        log_in(node.connect(SECURED), "carol", "PLAIN", "canary")
    late = node.connect(SECURED)
    handshake(late)
    late.send(SaslAuthenticateRequest(auth_bytes=client_of("PLAIN", "alice").first()), 2)
    node.advance(DELAY_MS)
    assert late.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    described = node.connect().ask(
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="1")]), 4
    )
    assert name in str(described)
    assert "canary" not in str(described) + caplog.text


# Logging in again


def renewable() -> Node:
    return secured(connections__max__reauth__ms="10000")


def test_a_login_that_ends_says_when_and_may_be_renewed() -> None:
    node = renewable()
    client = node.connect(SECURED)
    assert log_in(client, "alice", "SCRAM-SHA-256").session_lifetime_ms == 10_000
    node.advance(9_999)
    assert served(client)
    assert log_in(client, "alice", "SCRAM-SHA-256").session_lifetime_ms == 10_000
    node.advance(9_999)
    assert served(client)
    node.advance(1)
    assert not served(client)
    assert client.closed is not None
    assert "expired" in client.closed


def test_a_login_also_ends_while_the_process_stands_still() -> None:
    node = renewable()
    client = logged_in(node, "alice")
    node.advance(4_000)
    node.broker.scheduler.wall.stopped_ms += 5_999
    assert served(client)
    node.broker.scheduler.wall.stopped_ms += 1
    assert not served(client)
    assert "expired" in (client.closed or "")


def test_who_is_late_may_still_log_in_and_is_served_nothing_before() -> None:
    node = renewable()
    client = logged_in(node, "alice")
    node.advance(20_000)
    assert client.closed is None
    handshake(client)
    client.send(MetadataRequest(topics=[]), 9)
    node.advance(DELAY_MS)
    assert (client.closed, list(client.answers)) == ("its login failed", [])
    other = logged_in(node, "alice")
    node.advance(20_000)
    log_in(other, "alice")
    assert served(other)


def parked_fetch(offset: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
    return fetch("t", partition, max_wait_ms=100_000, min_bytes=1, max_bytes=10_000)


def fetched(client: Client) -> bytes:
    return bytes(client.receive().responses[0].partitions[0].records)


def test_a_fetch_that_waits_gets_nothing_once_its_login_has_ended() -> None:
    node = renewable()
    node.create_topic("t")
    writer = node.connect()
    late, renewed = logged_in(node, "alice"), logged_in(node, "bob")
    node.advance(8_000)
    late.send(parked_fetch(), 12)
    log_in(renewed, "bob")
    renewed.send(parked_fetch(), 12)
    node.advance(2_000)
    writer.ask(produce("t", batch()), 9)
    assert fetched(late) == b""
    assert fetched(renewed)
    log_in(late, "alice")
    late.send(parked_fetch(), 12)
    assert fetched(late)


def test_a_fetch_that_waits_while_its_client_logs_in_again_is_served_first() -> None:
    node = renewable()
    node.create_topic("t")
    client = logged_in(node, "alice")
    node.advance(8_000)
    client.send(parked_fetch(), 12)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    node.connect().ask(produce("t", batch()), 9)
    assert fetched(client)
    assert client.receive().error_code == 0
    assert token(client, b"\0alice\0alice-secret").error_code == 0
    assert served(client)


def test_the_answer_to_a_bare_token_waits_for_those_before_it() -> None:
    node = renewable()
    node.create_topic("t")
    client = logged_in(node, "alice")
    node.advance(8_000)
    client.send(parked_fetch(), 12)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    client.send_bytes(b"\0alice\0alice-secret")
    assert not client.answers
    node.connect().ask(produce("t", batch()), 9)
    assert fetched(client)
    assert client.receive().error_code == 0
    assert client.answers.popleft() == b""
    assert served(client)


def test_logging_in_again_is_for_the_same_principal_by_the_same_mechanism() -> None:
    node = renewable()
    for user, mechanism, sentence in (
        ("bob", "PLAIN", "Cannot change principals during re-authentication from User.alice: User.bob"),
        ("alice", "SCRAM-SHA-256", "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-auth"),
    ):
        client = logged_in(node, "alice")
        node.advance(2_000)
        assert handshake(client, mechanism).error_code == 0
        client.send(SaslAuthenticateRequest(auth_bytes=client_of(mechanism, user).first()), 2)
        node.advance(DELAY_MS)
        answer = client.receive()
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert sentence in answer.error_message
        assert client.closed is not None


def test_a_login_without_an_end_or_that_was_just_made_is_not_renewed() -> None:
    client = logged_in(secured(), "alice")
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert served(client)
    node = renewable()
    client = logged_in(node, "alice")
    log_in(client, "alice")
    node.advance(999)
    assert handshake(client).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert served(client)
    node.advance(1)
    log_in(client, "alice")


def test_lifetimes_are_those_of_listener_and_mechanism() -> None:
    node = secured(
        **{
            "connections.max.reauth.ms": "30000",
            "listener.name.secured.connections.max.reauth.ms": "20000",
            "listener.name.secured.plain.connections.max.reauth.ms": "10000",
        }
    )
    for mechanism, lifetime_ms in (("PLAIN", 10_000), ("SCRAM-SHA-256", 20_000)):
        assert log_in(node.connect(SECURED), "alice", mechanism).session_lifetime_ms == lifetime_ms


# What people see


def fail(node: Node, user: str = "alice", *, again: Client | None = None) -> None:
    client = again or node.connect(SECURED)
    handshake(client)
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0" + user.encode() + b"\0canary-password"), 2)


def test_failed_logins_are_told_a_few_times_a_second(caplog: pytest.LogCaptureFixture) -> None:
    node = secured()
    caplog.set_level("INFO")
    for _ in range(LOGIN_FAILURES_LOGGED_PER_S + 7):
        fail(node)
    lines = [record.getMessage() for record in caplog.records if "login failed" in record.getMessage()]
    assert len(lines) == LOGIN_FAILURES_LOGGED_PER_S
    expected = "login failed: wrong password mechanism=PLAIN user=alice listener=SECURED peer=127.0.0.1:40000"
    assert lines[0] == expected
    node.advance(1_000)
    fail(node, "eve" * 1000)
    line = caplog.records[-1].getMessage()
    assert "unknown user" in line
    assert line.endswith("more_since_the_last=7")
    assert len(line) < 500
    assert "canary" not in caplog.text


def test_logins_are_counted_under_kafkas_names() -> None:
    node = renewable()
    client = logged_in(node, "alice")
    log_in(node.connect(SECURED), "alice", version=0)
    fail(node)
    node.advance(2_000)
    log_in(client, "alice")
    node.advance(2_000)
    fail(node, again=client)
    expired = logged_in(node, "bob")
    node.advance(10_000)
    served(expired)
    values: dict[str, Any] = {
        each.name.removeprefix("kafka_server_socketservermetrics_"): each.value
        for each in node.broker.metrics()
        if each.labels.get("listener") == SECURED
    }
    assert values == {
        "successful_authentication_total": 3,
        "failed_authentication_total": 1,
        "successful_reauthentication_total": 1,
        "failed_reauthentication_total": 1,
        "successful_authentication_no_reauth_total": 1,
        "expired_connections_killed_count": 1,
    }
