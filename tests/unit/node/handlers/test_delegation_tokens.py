"""The four APIs of delegation tokens through a whole node: who may ask, who sees what, and what is kept."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import pytest
from support.broker import Client, Node
from support.logins import SECURED, log_in, logged_in
from support.tokens import (
    DAY_MS,
    HOUR_MS,
    SECRET,
    by_token,
    creation,
    expired,
    made,
    renewed,
    seen,
    seen_ids,
    with_tokens,
)

from penstock.errors import ErrorCode
from penstock.metadata.delegation_tokens import hmac_of
from penstock.node.channel import deserialized, serialized
from penstock.node.plugged import Plugged
from penstock.protocol import frames
from penstock.protocol.acls import Acl, AclOperation, PatternType, PermissionType, ResourceType
from penstock.protocol.api import API_BY_NUMBER
from penstock.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from penstock.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.security.authorizer import Principal, StandardAuthorizer
from penstock.security.certificates import Shown

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def authorized() -> Node:
    return with_tokens(StandardAuthorizer(["User:ANONYMOUS", "User:node"]))


def allow(node: Node, operation: AclOperation, resource: ResourceType, name: str, who: str = "User:bob") -> None:
    acl = Acl(resource, name, PatternType.LITERAL, who, "*", operation, PermissionType.ALLOW)
    creation_ = AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    assert not node.connect().ask(CreateAclsRequest(creations=[creation_]), 3).results[0].error_code


def codes(client: Client) -> set[int]:
    """What the four APIs answer."""
    return {
        client.ask(creation(), 3).error_code,
        renewed(client, b"key").error_code,
        expired(client, b"key").error_code,
        seen(client).error_code,
    }


def test_a_token_is_made_described_renewed_and_ended() -> None:
    node = with_tokens()
    alice = logged_in(node, "alice", "SCRAM-SHA-256")
    token = made(alice, "User:bob")
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
    assert bytes(token.hmac) == hmac_of(SECRET, token.token_id)
    assert token.expiry_timestamp_ms - token.issue_timestamp_ms == DAY_MS
    (described,) = seen(alice).tokens
    assert bytes(described.hmac) == bytes(token.hmac)
    assert [(each.principal_type, each.principal_name) for each in described.renewers] == [("User", "bob")]
    node.advance(HOUR_MS)
    bob = logged_in(node, "bob")
    answer = renewed(bob, bytes(token.hmac))
    assert (answer.error_code, answer.expiry_timestamp_ms) == (0, token.expiry_timestamp_ms + HOUR_MS)
    answer = expired(alice, bytes(token.hmac), 60_000)
    assert answer.error_code == 0
    assert seen(alice).tokens[0].expiry_timestamp == answer.expiry_timestamp_ms
    assert expired(bob, bytes(token.hmac)).error_code == 0
    assert seen_ids(alice) == set()
    assert renewed(alice, bytes(token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert expired(alice, b"nothing").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_is_served(version: int) -> None:
    node = with_tokens()
    alice = logged_in(node, "alice")
    request = creation()
    if version < 3:
        request.owner_principal_type = request.owner_principal_name = ""
    token = alice.ask(request, version)
    assert token.error_code == 0
    assert [each.token_id for each in seen(alice, version=version).tokens] == [token.token_id]
    for ask in (renewed, expired):
        assert ask(alice, bytes(token.hmac), version=min(version, 2)).error_code == 0


def test_who_has_no_credentials_or_came_by_a_token_gets_nothing() -> None:
    node = with_tokens()
    assert codes(node.connect()) == {NOT_ALLOWED}
    alice = logged_in(node, "alice")
    assert NOT_ALLOWED not in codes(alice)
    job = by_token(node, made(alice))
    assert codes(job) == {NOT_ALLOWED}
    refused = job.ask(creation(owner="User:bob"), 3)
    assert (refused.principal_name, refused.token_requester_principal_name, refused.expiry_timestamp_ms) == (
        "bob",
        "alice",
        -1,
    )
    assert renewed(job, b"").expiry_timestamp_ms == expired(job, b"").expiry_timestamp_ms == -1


def test_one_way_tls_shows_no_credentials() -> None:
    """A client of a TLS listener without a certificate is anonymous; with one it has a name."""
    protocols = f"PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,{SECURED}:SSL"
    node = with_tokens(listener__security__protocol__map=protocols)
    assert codes(node.connect(SECURED)) == {NOT_ALLOWED}
    assert NOT_ALLOWED not in codes(node.connect(SECURED, Shown("CN=alice", b"")))
    nobody = node.connect(SECURED, Shown("CN=alice", b""))
    node.broker.connections[nobody.number].principal = Principal("User", "ANONYMOUS")
    assert codes(nobody) == {NOT_ALLOWED}


def test_a_name_by_a_function_is_no_credential() -> None:
    """It may be by the address alone, and a token would be good from any."""
    protocols = f"PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,{SECURED}:SSL"
    by_address = Plugged({"sites:web": lambda session: Principal("User", "web")})
    node = with_tokens(
        plugged=by_address,
        listener__security__protocol__map=protocols,
        listener__name__secured__principal__builder__class="sites:web",
    )
    assert codes(node.connect(SECURED)) == {NOT_ALLOWED}
    assert NOT_ALLOWED not in codes(node.connect(SECURED, Shown("CN=alice", b"")))


def test_controllers_without_credentials_have_no_tokens() -> None:
    """As in Kafka, where the Envelope comes by their listener."""
    protocols = f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{SECURED}:SASL_PLAINTEXT"
    node = with_tokens(listener__security__protocol__map=protocols)
    assert codes(logged_in(node, "alice")) == {NOT_ALLOWED}


@pytest.mark.parametrize("secret", ["", None])
def test_without_the_key_there_are_no_tokens(secret: str | None) -> None:
    node = with_tokens(delegation__token__secret__key=secret or "")
    assert codes(logged_in(node, "alice")) == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
    answer = logged_in(node, "alice").ask(creation(), 3)
    assert (answer.principal_name, answer.issue_timestamp_ms, bytes(answer.hmac)) == ("alice", 0, b"")


def test_a_renewer_is_a_user() -> None:
    node = with_tokens()
    answer = logged_in(node, "alice").ask(creation("Group:admins"), 3)
    assert (answer.error_code, answer.issue_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, -1)


def test_the_parts_of_a_request_are_bounded() -> None:
    node = with_tokens()
    alice = logged_in(node, "alice")
    answer = alice.ask(creation(*["User:bob"] * 101), 3)
    assert (answer.error_code, answer.issue_timestamp_ms) == (ErrorCode.POLICY_VIOLATION, -1)
    assert alice.ask(creation(*["User:bob"] * 100), 3).error_code == 0
    assert seen(alice, *[f"User:{number}" for number in range(1_001)]).error_code == ErrorCode.POLICY_VIOLATION
    assert seen(alice, *[f"User:{number}" for number in range(1_000)]).error_code == 0


def test_a_token_for_somebody_else_needs_the_right_to_it() -> None:
    node = authorized()
    bob = logged_in(node, "bob")
    assert made(bob).principal_name == "bob", "a token for oneself needs none"
    assert made(bob, owner="User:bob").principal_name == "bob"
    refused = bob.ask(creation(owner="User:alice"), 3)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    allow(node, AclOperation.CREATE_TOKENS, ResourceType.USER, "User:alice")
    token = made(bob, owner="User:alice")
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "bob")
    assert str(node.broker.connections[by_token(node, token).number].principal) == "User:alice"
    assert renewed(bob, bytes(token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renewed(logged_in(node, "alice"), bytes(token.hmac)).error_code == 0


def test_one_sees_ones_own_tokens_and_those_one_has_a_right_to() -> None:
    node = authorized()
    alice, bob = logged_in(node, "alice"), logged_in(node, "bob")
    own = made(alice).token_id
    renewable = made(alice, "User:bob").token_id
    assert (seen_ids(alice), seen_ids(bob)) == ({own, renewable}, {renewable})
    assert seen_ids(alice, "User:bob") == {renewable}, "the owners that are asked for may also be renewers"
    assert seen_ids(bob, "User:alice") == {renewable}
    assert seen_ids(bob, "User:eve") == set()
    assert list(bob.ask(DescribeDelegationTokenRequest(owners=[]), 3).tokens) == []
    allow(node, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, own)
    assert seen_ids(bob) == {own, renewable}
    third = made(alice).token_id
    assert third not in seen_ids(bob)
    allow(node, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice")
    assert seen_ids(bob) == {own, renewable, third}


def test_an_api_with_many_tokens_takes_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.handlers.delegation_tokens.TOKENS_PER_STEP", 2)
    node = with_tokens()
    alice = logged_in(node, "alice")
    tokens = [made(alice) for _ in range(9)]
    assert len(seen_ids(alice)) == 9
    node.restart()
    alice = logged_in(node, "alice")
    assert len(seen_ids(alice)) == 9, "they survive a restart"
    for token in tokens:
        assert renewed(alice, bytes(token.hmac)).error_code == 0
    assert renewed(alice, b"nothing").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_the_controller_removes_a_token_when_its_time_is_over() -> None:
    node = with_tokens(delegation__token__expiry__check__interval__ms="60000")
    alice = logged_in(node, "alice")
    made(alice, max_lifetime_ms=30_000)
    kept = made(alice).token_id
    node.advance(29_000)
    assert len(seen_ids(alice)) == 2
    node.advance(91_000)
    node.run()
    assert seen_ids(alice) == {kept}


def forwarded(node: Node, request: Any, version: int, principal: Principal) -> Any:
    """What a controller answers to a request in an Envelope, which the node `node` brings."""
    chunks: Sequence[Any] = frames.encode_request(API_BY_NUMBER[request.KEY], version, 7, "client", request)
    client = node.connect("CONTROLLER")
    log_in(client, "node", password="node-secret")
    envelope = EnvelopeRequest(
        request_data=b"".join(chunks)[4:],
        request_principal=serialized(principal),
        client_host_address=ip_address("10.0.0.7").packed,
    )
    answer = client.ask(envelope, 0)
    assert answer.error_code == 0
    api = API_BY_NUMBER[request.KEY]
    return frames.decode_response(api, version, memoryview(bytearray(answer.response_data)))[1]


def test_an_envelope_says_whether_somebody_came_by_a_token() -> None:
    node = authorized()
    alice, by_a_token = Principal("User", "alice"), Principal("User", "alice", token_authenticated=True)
    assert deserialized(serialized(by_a_token)).token_authenticated
    assert not deserialized(serialized(alice)).token_authenticated
    assert alice == by_a_token, "they are the same principal"
    token = forwarded(node, creation(), 3, alice)
    assert (token.error_code, token.principal_name) == (0, "alice")
    assert forwarded(node, creation(), 3, by_a_token).error_code == NOT_ALLOWED
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert forwarded(node, creation(owner="User:bob"), 3, alice).error_code == code


def test_the_log_tells_what_happened_and_no_hmac(caplog: pytest.LogCaptureFixture) -> None:
    node = with_tokens()
    with caplog.at_level(logging.DEBUG):
        alice = logged_in(node, "alice")
        token = made(alice)
        renewed(alice, bytes(token.hmac))
        expired(alice, bytes(token.hmac), 1000)
        expired(alice, bytes(token.hmac))
    said = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    for what in ("created", "renewed", "given another end", "removed"):
        assert f"delegation token {what}" in said
    assert token.token_id in said
    assert b64encode(bytes(token.hmac)).decode() not in said
    assert bytes(token.hmac).hex() not in said
