"""Every real client with every mechanism that it has, over TLS: an ordinary user produces, and consumes in a group.

With a wrong password, or a certificate of an authority that the broker does not know, it gets nowhere, and says so as
an error of authentication, in its own words. Names that nobody has are in test_clients_log_in.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from interop.clients.logins import CLIENTS, Login, RefusedLoginError, Trips
from interop.kafka_peer import require_kafka
from interop.secured.brokers import create_acls
from interop.secured.grants import acls_of
from support.tls import Authority, KeyStore

from penstock.config.jaas import PLAIN_MODULE
from penstock.testing.broker import LocalBroker

pytestmark = [pytest.mark.java, pytest.mark.slow]

USER, PASSWORD = "alice", "canary-of-alice"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CERTIFICATE = "certificate"
WAYS = (*MECHANISMS, CERTIFICATE)
"""How to say who one is. Another mechanism is another row here, and its login in `Place.login`."""
GRANTS = {"topic:trip-*": "READ WRITE", "group:trip-*": "READ"}
REFUSALS = {
    "librdkafka": ("_AUTHENTICATION", "_SSL|_TRANSPORT|_ALL_BROKERS_DOWN"),
    "java": ("SaslAuthenticationException", "SslAuthenticationException|SSLHandshakeException"),
    "kafka-python": ("SaslAuthenticationFailed", "SSL|certificate|alert"),
    "aiokafka": ("SaslAuthenticationFailed", "SSL|certificate|KafkaConnectionError"),
    "franz-go": ("SASL_AUTHENTICATION_FAILED", "tls: "),
    "kafkajs": ("KafkaJSSASLAuthenticationError", "certificate|alert|ssl"),
}
"""What each says of a password that is wrong, and of a certificate that nobody knows."""


@dataclass
class Place:
    """A broker with a listener for passwords and one for certificates, and the user's keys: a right one, a foreign."""

    broker: LocalBroker
    trust: Path
    right: KeyStore
    foreign: KeyStore

    def address(self, way: str) -> str:
        return self.broker.addresses["CERTIFIED" if way == CERTIFICATE else "SECURED"]

    def login(self, way: str) -> Login:
        if way == CERTIFICATE:
            return Login(self.trust, key=self.right.pem)
        return Login(self.trust, way, USER, PASSWORD)

    def wrong_login(self, way: str) -> Login:
        wrong = {"key": self.foreign.pem} if way == CERTIFICATE else {"password": "wrong"}
        return replace(self.login(way), right=False, **wrong)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    elsewhere = Authority(tmp_path_factory.mktemp("elsewhere"), "Foreign CA")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CERTIFIED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": ("PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL,CERTIFIED:SSL"),
        "listener.name.secured.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
        "listener.name.certified.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        **authority.store("node").properties(),
    }
    with LocalBroker(settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for done in admin.alter_user_scram_credentials([credential]).values():
                done.result(30)
        create_acls(broker.bootstrap, acls_of(f"User:{USER}", GRANTS))
        yield Place(broker, authority.trust, authority.store(USER), elsewhere.store(USER))


@pytest.fixture(scope="module")
def trips() -> Iterator[Trips]:
    require_kafka()
    with Trips() as trips:
        yield trips


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", CLIENTS)
def test_it_gets_in_with_the_right_login_only(place: Place, trips: Trips, client: str, way: str) -> None:
    topic = f"trip-{client}-{way}"
    place.broker.create_topic(topic)
    with pytest.raises(RefusedLoginError) as refused:
        trips.make(client, place.wrong_login(way), place.address(way), topic, "nothing")
    said = REFUSALS[client][way == CERTIFICATE]
    assert re.search(said, str(refused.value), re.IGNORECASE), refused.value
    assert trips.make(client, place.login(way), place.address(way), topic, "value") == "value"


def test_who_may_not_is_told_so(place: Place) -> None:
    """The check itself: whoever is logged in has the rights of the user, and no others."""
    place.broker.create_topic("others")
    admin = AdminClient({"bootstrap.servers": place.address("PLAIN"), **place.login("PLAIN").librdkafka()})
    assert "others" not in admin.list_topics(timeout=30).topics
