"""Logins by OAUTHBEARER at a node: who gets in, for how long, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import Client, Node
from support.issuer import Issuer, listener_properties, unsigned
from support.logins import PROPERTIES, SECURED, handshake, log_in, token

from penstock.config.broker.oauthbearer import UNSECURED_HANDLER
from penstock.errors import ErrorCode
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.security.oauthbearer.exchange import OAuthBearerClient
from penstock.security.oauthbearer.keys import KeyRing, read_keys

URL = "https://issuer.example.com/keys"
REFUSED = '{"status":"invalid_token"}'
DELAY_MS = 100
BROKER = 4


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


class Secured:
    """A node that takes the issuer's tokens; `properties` with `__` for a point."""

    def __init__(self, issuer: Issuer, **properties: str) -> None:
        more = {name.replace("__", "."): text for name, text in properties.items()}
        mechanisms = {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}
        self.issuer = issuer
        self.node = Node(properties={**PROPERTIES, **mechanisms, **listener_properties(URL), **more})
        self.ring = KeyRing()
        for _, bearer in self.node.broker.settings.sasl.bearers:
            if bearer.keys is not None:
                self.ring = self.node.broker.dispatcher.logins.ring(bearer.keys)
        self.ring.keys = read_keys(issuer.jwks)

    @property
    def now_s(self) -> int:
        return self.node.wall.at(self.node.now_ms) // 1000

    def times(self, lifetime_s: int = 3600) -> dict[str, int]:
        """The claims of a token that is issued now."""
        return {"iat": self.now_s, "exp": self.now_s + lifetime_s}

    def token(self, subject: str = "alice", lifetime_s: int = 3600, **claims: Any) -> str:
        return self.issuer.token(subject, **{**self.times(lifetime_s), **claims})

    def connect(self) -> Client:
        return self.node.connect(SECURED)

    def begin(self, client: Client, text: str, version: int = 2) -> Any:
        """Shows a token; the first answer."""
        assert handshake(client, "OAUTHBEARER").error_code == 0
        return token(client, OAuthBearerClient(text).first(), version)

    def logged_in(self, subject: str = "alice", lifetime_s: int = 3600) -> Client:
        client = self.connect()
        assert self.begin(client, self.token(subject, lifetime_s)).error_code == 0
        return client

    def failure(self, client: Client, data: bytes) -> Any:
        """The answer to a message that ends the login."""
        client.send(SaslAuthenticateRequest(auth_bytes=data), 2)
        assert not client.answers, "a failure is answered after a while"
        self.node.advance(DELAY_MS)
        answer = client.receive()
        assert client.closed == "its login failed"
        return answer


def served(client: Client) -> bool:
    client.send(MetadataRequest(topics=[]), 9)
    return client.closed is None and not client.receive().topics


def test_a_good_token_lets_in_who_it_is_about_until_it_ends(issuer: Issuer) -> None:
    secured = Secured(issuer)
    client = secured.connect()
    answer = secured.begin(client, secured.token())
    assert (answer.error_code, answer.error_message, bytes(answer.auth_bytes)) == (0, "", b"")
    assert 3_599_000 < answer.session_lifetime_ms <= 3_600_000
    assert str(secured.node.broker.connections[client.number].principal) == "User:alice"
    assert served(client)


def test_the_shorter_of_both_lifetimes_counts(issuer: Issuer) -> None:
    secured = Secured(issuer, listener__name__secured__oauthbearer__connections__max__reauth__ms="60000")
    assert secured.begin(secured.connect(), secured.token()).session_lifetime_ms == 60_000
    assert secured.begin(secured.connect(), secured.token(lifetime_s=30)).session_lifetime_ms <= 30_000


def test_a_token_of_the_last_seconds_lets_in_for_none(issuer: Issuer) -> None:
    """The skew lets a token in that is over; the session is over, too."""
    secured = Secured(issuer)
    client = secured.connect()
    old = secured.token(iat=secured.now_s - 100, exp=secured.now_s - 10)
    answer = secured.begin(client, old)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
    client.send(MetadataRequest(topics=[]), 9)
    assert client.closed is not None
    assert "expired" in client.closed


def test_a_session_ends_with_its_token_and_a_new_one_keeps_it(issuer: Issuer) -> None:
    secured = Secured(issuer)
    stays, goes = secured.logged_in(lifetime_s=60), secured.logged_in(lifetime_s=60)
    secured.node.advance(30_000)
    assert secured.begin(stays, secured.token(lifetime_s=600)).error_code == 0
    secured.node.advance(31_000)
    assert served(stays)
    goes.send(MetadataRequest(topics=[]), 9)
    assert goes.closed is not None
    assert "expired" in goes.closed


def test_setting_the_clock_back_lengthens_no_session(issuer: Issuer) -> None:
    secured = Secured(issuer)
    client = secured.logged_in(lifetime_s=60)
    secured.node.wall.ahead_ms -= 86_400_000
    secured.node.advance(61_000)
    client.send(MetadataRequest(topics=[]), 9)
    assert client.closed is not None


def test_a_clock_that_is_set_forward_takes_no_old_token(issuer: Issuer) -> None:
    secured = Secured(issuer)
    old = secured.token(lifetime_s=60)
    secured.node.wall.ahead_ms += 91_000
    assert bytes(secured.begin(secured.connect(), old).auth_bytes).decode() == REFUSED


def test_whoever_logs_in_again_stays_who_they_are(issuer: Issuer) -> None:
    secured = Secured(issuer)
    client = secured.logged_in()
    secured.node.advance(5000)
    assert handshake(client, "OAUTHBEARER").error_code == 0
    answer = secured.failure(client, OAuthBearerClient(secured.token("bob")).first())
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals during re-authentication from User.alice: User.bob" in answer.error_message


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other"},
        {"aud": "other"},
        {"aud": None},
        {"exp": None},
        {"iat": None},
        {"sub": None},
        {"exp": 1, "iat": 0},
    ],
    ids=str,
)
def test_a_refused_token_is_answered_in_json_and_then_with_an_error(issuer: Issuer, claims: dict[str, Any]) -> None:
    secured = Secured(issuer)
    client = secured.connect()
    answer = secured.begin(client, secured.token(**claims))
    assert (answer.error_code, bytes(answer.auth_bytes).decode(), answer.session_lifetime_ms) == (0, REFUSED, 0)
    last = secured.failure(client, b"\x01")
    assert (last.error_code, last.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED)
    assert secured.node.broker.dispatcher.logins.counters[SECURED].first_failed == 1


def test_between_refusal_and_end_nothing_is_served(issuer: Issuer) -> None:
    secured = Secured(issuer)
    client = secured.connect()
    secured.begin(client, secured.token(aud="other"))
    client.send(MetadataRequest(topics=[]), 9)
    secured.node.advance(DELAY_MS)
    assert client.closed is not None
    assert not client.answers


@pytest.mark.parametrize("data", [b"", b"\x01", b"n,,\x01\x01", b"\0alice\0secret", b"n,,\x01auth=Bearer \xff\x01\x01"])
def test_what_is_no_message_is_a_failure_that_tells_nothing(issuer: Issuer, data: bytes) -> None:
    secured = Secured(issuer)
    client = secured.connect()
    handshake(client, "OAUTHBEARER")
    answer = secured.failure(client, data)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
    )


def test_tokens_come_bare_after_a_handshake_of_version_0(issuer: Issuer) -> None:
    secured = Secured(issuer)
    client = secured.connect()
    assert handshake(client, "OAUTHBEARER", 0).error_code == 0
    client.send_bytes(OAuthBearerClient(secured.token()).first())
    assert client.answers.popleft() == b""
    assert served(client)


def test_no_token_is_taken_without_keys_and_they_are_asked_for(issuer: Issuer) -> None:
    secured = Secured(issuer)
    wanted: list[int] = []
    secured.ring.keys, secured.ring.wanted = None, lambda: wanted.append(1)
    assert bytes(secured.begin(secured.connect(), secured.token()).auth_bytes).decode() == REFUSED
    secured.ring.keys = read_keys(issuer.jwks)
    strange = issuer.token(key=Issuer.new_key("strange"), **secured.times())
    assert bytes(secured.begin(secured.connect(), strange).auth_bytes).decode() == REFUSED
    assert len(wanted) == 2


def test_keys_that_are_gone_end_no_session(issuer: Issuer) -> None:
    secured = Secured(issuer)
    client = secured.logged_in()
    secured.ring.keys = None
    assert served(client)


def test_unsigned_tokens_only_where_they_are_allowed(issuer: Issuer) -> None:
    handler = {"listener.name.secured.oauthbearer.sasl.server.callback.handler.class": UNSECURED_HANDLER}
    opened, closed = Secured(issuer, **handler), Secured(issuer)
    for secured, answer in ((opened, ""), (closed, REFUSED)):
        text = unsigned({"sub": "bob", **secured.times()})
        assert bytes(secured.begin(secured.connect(), text).auth_bytes).decode() == answer


def test_nobody_makes_a_node_take_unsigned_tokens_while_it_runs(issuer: Issuer) -> None:
    secured = Secured(issuer)
    admin = secured.node.connect()
    for name, value in (
        ("listener.name.secured.oauthbearer.sasl.server.callback.handler.class", UNSECURED_HANDLER),
        ("listener.name.secured.oauthbearer.sasl.oauthbearer.jwks.endpoint.url", "https://evil.example.com"),
    ):
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
        answer = admin.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code != 0, answer
    unsigned_token = unsigned({"sub": "bob", **secured.times()})
    assert bytes(secured.begin(secured.connect(), unsigned_token).auth_bytes).decode() == REFUSED


def test_other_mechanisms_of_the_listener_go_on(issuer: Issuer) -> None:
    secured = Secured(issuer)
    client = secured.connect()
    log_in(client, "alice", "PLAIN")
    assert served(client)


def test_secrets_of_a_login_module_are_not_described(issuer: Issuer) -> None:
    jaas = "listener.name.secured.oauthbearer.sasl.jaas.config"
    module = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientSecret="canary";'
    secured = Secured(issuer, **{jaas: module})
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1")
    answer = secured.node.connect().ask(DescribeConfigsRequest(resources=[resource]), 4)
    assert "canary" not in str(answer)
