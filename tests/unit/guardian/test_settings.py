"""The properties file of a Guardian node."""

from __future__ import annotations

import pytest

from penstock.config.guardian import GuardianSettings
from penstock.config.properties import parse
from penstock.errors import ConfigError
from penstock.guardian.core.quorum import raft_config

RIGHT = {
    "penstock.guardian.node.id": "2",
    "penstock.guardian.listener": "[::1]:9500",
    "penstock.guardian.voters": "1@a:9500,2@b:9500,3@c:9500",
    "penstock.guardian.data.dir": "/data",
}


def test_they_come_to_those_of_a_controller() -> None:
    settings = GuardianSettings.from_properties({**RIGHT, "penstock.guardian.request.timeout.ms": "700"})
    node = settings.node
    assert settings.voter_ids == (1, 2, 3)
    assert (node.is_broker, node.is_controller, node.node_id, node.directories) == (False, True, 2, ("/data",))
    (endpoint,) = node.listener_endpoints
    assert (endpoint.listener, endpoint.host, endpoint.port) == ("GUARDIAN", "::1", 9500)
    assert (node.socket_connection_setup_timeout_ms, node.controller_quorum_request_timeout_ms) == (700, 700)


def test_times_leave_room_for_the_lease() -> None:
    for timeout_ms in (100, 1_000, 60_000):
        given = {**RIGHT, "penstock.guardian.election.timeout.ms": str(timeout_ms)}
        settings = GuardianSettings.from_properties(given)
        config = raft_config(settings)
        assert settings.lease_ms == config.lease_ms == timeout_ms // 2
        assert config.fetch_wait_max_ms * 4 <= config.lease_ms
        assert config.leader_grace_ms > config.lease_ms
        assert config.start_election_ms >= config.lease_ms


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"penstock.guardian.voters": "1@a:9500,2@b:9500"}, "names 2 nodes: it must be one, three or five"),
        ({"penstock.guardian.voters": "2@a:9500,2@b:9500,3@c:9500"}, "names a node twice"),
        ({"penstock.guardian.voters": "1@a:9500"}, "does not name node 2, which this is"),
        ({"penstock.guardian.voters": "a:9500"}, "is not a node: it must be like 1@10.0.0.1:9500"),
        ({"penstock.guardian.voters": ""}, "names 0 nodes"),
        ({"penstock.guardian.node.id": "-5"}, "is too small"),
        ({"penstock.guardian.listener": "9500"}, "is not an address"),
        ({"penstock.guardian.data.dir": ""}, "data.dir is missing"),
        ({"penstock.guardian.security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"penstock.guardian.datadir": "x"}, "did you mean penstock.guardian.data.dir?"),
        ({"listeners": "PLAINTEXT://:9092"}, "listeners is a setting of brokers and controllers"),
        ({"controller.quorum.voters": "1@a:1"}, "controller.quorum.voters is a setting of brokers and controllers"),
        ({"ssl.keystore.lokation": "x"}, "unknown setting ssl.keystore.lokation"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        GuardianSettings.from_properties({**RIGHT, **changes})
    assert said in str(refused.value)


def test_the_line_is_said() -> None:
    text = "".join(f"{name}={value}\n" for name, value in RIGHT.items()) + "penstock.guardian.fetch.timeout.ms=soon\n"
    with pytest.raises(ConfigError, match=r"in g\.properties, line 5"):
        GuardianSettings.from_properties(parse(text, "g.properties"))


def test_what_is_missing_is_said_all_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        GuardianSettings.from_properties({})
    assert all(f"penstock.guardian.{name}" in str(refused.value) for name in ("node.id", "data.dir", "voters"))


WEB = {
    "penstock.guardian.credentials.web.security.protocol": "SASL_PLAINTEXT",
    "penstock.guardian.credentials.web.sasl.mechanism": "SCRAM-SHA-512",
    "penstock.guardian.credentials.web.sasl.jaas.config": (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="secret";'
    ),
    "penstock.guardian.credentials.plain.security.protocol": "PLAINTEXT",
}
WEB_JAAS = "penstock.guardian.credentials.web.sasl.jaas.config"


def test_credentials_become_logins_at_listeners_of_others() -> None:
    settings = GuardianSettings.from_properties({**RIGHT, **WEB})
    web = settings.credentials["web"]
    assert web.login is not None
    assert (web.listener, web.protocol, web.login.user, web.login.password) == (
        "CLUSTER-WEB", "SASL_PLAINTEXT", "ann", "secret"
    )  # fmt: skip
    assert settings.node.sasl.logins == {"CLUSTER-WEB": web.login}
    assert settings.node.security_protocols["CLUSTER-WEB"] == "SASL_PLAINTEXT"
    assert settings.node.dialled_listeners == ("CLUSTER-WEB", "CLUSTER-PLAIN")
    assert "secret" not in repr(web)
    assert [each.listener for each in settings.node.listener_endpoints] == ["GUARDIAN"], "it listens on no more"


def test_tls_of_credentials_is_that_of_their_listener() -> None:
    tls = {"penstock.guardian.credentials.shop.security.protocol": "SSL",
           "penstock.guardian.credentials.shop.ssl.truststore.location": "/etc/shop.pem"}  # fmt: skip
    node = GuardianSettings.from_properties({**RIGHT, **tls}).node
    assert node.of_listener("CLUSTER-SHOP").ssl_truststore_location == "/etc/shop.pem"
    assert node.of_listener("GUARDIAN").ssl_truststore_location is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"penstock.guardian.credentials.Web.security.protocol": "SSL"}, "must be small letters, digits"),
        ({"penstock.guardian.credentials.web": "SSL"}, "unknown setting"),
        ({"penstock.guardian.credentials.web.sasl.mechanizm": "PLAIN"}, "did you mean sasl.mechanism?"),
        ({"penstock.guardian.credentials.web.ssl.trustore.location": "x"}, "did you mean ssl.truststore.location?"),
        ({"penstock.guardian.credentials.web.node.id": "x"}, "unknown setting node.id"),
        ({"penstock.guardian.credentials.web.security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"penstock.guardian.credentials.web.security.protocol": "SSL"}, "does nothing"),
        ({"penstock.guardian.credentials.web.sasl.mechanism": "PLAIN"}, "has the login module of SCRAM, not of PLAIN"),
        ({"penstock.guardian.credentials.web.sasl.mechanism": "GSSAPI"}, "must be one of PLAIN, SCRAM-SHA-256"),
        ({"penstock.guardian.credentials.new.security.protocol": "SASL_SSL"}, "new.sasl.mechanism is missing"),
        ({WEB_JAAS: "secret-in-the-wrong-place"}, WEB_JAAS),
        (
            {WEB_JAAS: "org.apache.kafka.common.security.scram.ScramLoginModule required;"},
            "needs username and password",
        ),
    ],
)
def test_bad_credentials_are_refused_without_showing_them(changes: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        GuardianSettings.from_properties({**RIGHT, **WEB, **changes})
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)
