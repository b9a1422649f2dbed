"""Which of the eight levels of quotas counts for a client, as one sees by how long it must wait.

Windows are hours here, so nothing is forgotten within a test, and what an answer says follows from the limit and all
that the client's group has produced. Each level has a limit of its own; so the wait tells which one counts, and who
shares it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pytest
from interop.clients.valid_security_requests import quota_entry
from interop.clients.wire import CLIENT_ID, Wire
from interop.kafka_peer import KafkaPeer, require_kafka
from interop.quotas.limited import PRODUCE_VERSION, of_bytes
from support.heard import until_heard
from support.requests import batch, produce

from penstock.config.jaas import PLAIN_MODULE
from penstock.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.quota.levels import Entity, group_of, levels_of
from penstock.testing.broker import LocalBroker

HOUR_S = 3_600
SETTINGS = {"quota.window.num": "2", "quota.window.size.seconds": str(HOUR_S)}
LIMITS = (8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0)
"""Of the levels, the most specific first, in bytes a second."""
RECORD_BYTES = 30_000
"""More than what the largest limit allows in an hour."""
SLACK_S = 120.0
"""How long all requests of a test may take: as much less may be left of a wait."""
TOPIC = "levels"


class Levels:
    """Sets limits for a client at some of the eight levels, and produces as it.

    `connect` makes a connection as a user. What each group has produced is kept, to know what the next answer must say.
    """

    def __init__(self, bootstrap: str, connect: Callable[[str], Wire], user: str) -> None:
        self.bootstrap = bootstrap
        self.connect = connect
        self.user = user
        self.levels = levels_of(user, CLIENT_ID)
        self.produced_bytes: Counter[tuple[str, str]] = Counter()
        self.size_bytes = 0

    def set(self, mask: int) -> None:
        """Sets limits at the levels of a mask, and deletes the others."""
        entries = [
            quota_entry(dict(entity), producer_byte_rate=LIMITS[level] if mask >> level & 1 else None)
            for level, entity in enumerate(self.levels)
        ]
        with Wire(self.bootstrap) as wire:
            answer = wire.ask(AlterClientQuotasRequest(entries=entries), 1)
        assert not any(each.error_code for each in answer.entries), answer

    def wait_s(self, user: str) -> float:
        """Produces once, and returns what the answer says."""
        with self.connect(user) as wire:
            answer = wire.ask(of_bytes(TOPIC, RECORD_BYTES), PRODUCE_VERSION)
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == 0
        wait_ms: int = answer.throttle_time_ms
        return wait_ms / 1_000

    def counting(self, mask: int) -> int | None:
        """The level that must count: the first that is set."""
        return next((level for level in range(len(self.levels)) if mask >> level & 1), None)

    def check(self, mask: int, user: str, entity: Entity | None, limit: float) -> None:
        """Produces as a user; asserts the wait that follows from a limit that is set for an entity."""
        wait_s = self.wait_s(user)
        if entity is None:
            assert wait_s == 0, f"{mask:08b}: nobody has limited {user}"
            return
        group = group_of(entity, user, CLIENT_ID)
        self.produced_bytes[group] += RECORD_BYTES
        count = self.produced_bytes[group]
        least_s, most_s = (size / limit - HOUR_S for size in (count, count * 1.01))
        assert least_s - SLACK_S < wait_s < most_s + 1, f"{mask:08b}: limit {limit} of {entity} for {user}"


MASKS = range(1 << len(LIMITS))


def checked(levels: Levels, heard: Callable[[str], None] = lambda bootstrap: None) -> None:
    """All combinations of levels, from none to all. `heard` waits until the broker knows of them."""
    for mask in MASKS:
        levels.set(mask)
        heard(levels.bootstrap)
        level = levels.counting(mask)
        entity, limit = (None, 0.0) if level is None else (levels.levels[level], LIMITS[level])
        levels.check(mask, levels.user, entity, limit)
    levels.set(0)


PASSWORDS: Mapping[str, str] = {"alice": "alice-secret", "bob": "bob-secret"}
USERS = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
SECURED = {
    **SETTINGS,
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
    "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secured.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {USERS};",
}


def logged_in(address: str, user: str) -> Wire:
    wire = Wire(address)
    assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = f"\0{user}\0{PASSWORDS[user]}".encode()
    assert wire.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
    return wire


@pytest.fixture
def secured() -> Iterator[Levels]:
    """Levels of alice, who logs in, on a broker of its own."""
    with LocalBroker(SECURED) as broker:
        broker.create_topic(TOPIC)
        yield Levels(broker.bootstrap, lambda user: logged_in(broker.addresses["SECURED"], user), "alice")


@pytest.mark.slow
def test_the_most_specific_of_eight_levels_counts_for_a_user_who_has_logged_in(secured: Levels) -> None:
    checked(secured)


@pytest.mark.slow
def test_a_users_limit_is_not_another_users_and_a_default_is_for_each_by_itself(secured: Levels) -> None:
    for_users = [entity for entity in secured.levels if ("user", "alice") in entity]
    for entity in for_users:
        mask = 1 << secured.levels.index(entity)
        secured.set(mask)
        secured.check(mask, "bob", None, 0.0)
    for level, entity in enumerate(secured.levels):
        if ("user", "alice") not in entity:
            secured.set(1 << level)
            for user in ("alice", "bob", "alice"):
                secured.check(1 << level, user, entity, LIMITS[level])
    assert ("", CLIENT_ID) in secured.produced_bytes, "a client id's limit is shared by its users"


@pytest.mark.java
@pytest.mark.long
def test_apache_kafka_has_the_same_levels() -> None:
    require_kafka()
    with KafkaPeer(properties=SETTINGS) as kafka:
        with Wire(kafka.bootstrap) as wire:
            wire.ask(produce(TOPIC, batch()), PRODUCE_VERSION)
        kafka.run_tool("org.apache.kafka.tools.TopicCommand", "--create", "--if-not-exists", "--topic", TOPIC)
        until_heard(kafka.bootstrap)
        checked(Levels(kafka.bootstrap, lambda user: Wire(kafka.bootstrap), "ANONYMOUS"), until_heard)
