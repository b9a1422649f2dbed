"""A node logs in to others before it asks anything, renews that in time, and says why it cannot."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.broker import Node
from support.gss import ALICE, ToyContext, ToyKerberos
from support.logins import PASSWORDS, SECURED, add_scram, secured

from penstock.config.jaas import KERBEROS_MODULE
from penstock.config.kerberos import KerberosLogin
from penstock.config.sasl import Sasl, SaslLogin
from penstock.metadata.persistent import PersistentMap
from penstock.node.effects import Dial, Effect, HangUp, Run, SendTo
from penstock.node.outgoing import Outgoing, Peer
from penstock.node.peer_logins import PeerLogins
from penstock.node.plugged import Plugged
from penstock.node.timers import TimerWheel
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.security.gssapi import GssError
from penstock.security.mechanisms import Mechanisms

PEER = Peer(2, "127.0.0.1", 9092, SECURED)
DELAY_MS = 100


class Caller:
    """The calling end, connected to a whole node that is asked."""

    def __init__(
        self, node: Node, mechanism: str, password: str | None = None, kerberos: ToyKerberos | None = None
    ) -> None:
        self.node = node
        login = SaslLogin(mechanism, "alice", PASSWORDS["alice"] if password is None else password)
        if kerberos is not None:
            login = SaslLogin(mechanism, ALICE.principal, "", ALICE)
        mechanisms = Mechanisms(lambda: Sasl({}, {SECURED: login}), PersistentMap, Random(2), kerberos=kerberos)
        self.effects: list[Effect] = []
        self.timers = TimerWheel()
        logins = PeerLogins(mechanisms, self.effects.append, 0)
        self.outgoing = Outgoing(
            1, timers=self.timers, random=Random(3), emit=self.effects.append, setup_timeout_ms=1_000, logins=logins
        )
        self.links: dict[int, Any] = {}
        self.answers: list[tuple[Any, str | None]] = []
        self.derived = 0
        self.dialled = 0

    def call(self) -> None:
        message = MetadataRequest(topics=[])

        def done(answer: Any, reason: str | None, now_ms: int) -> None:
            self.answers.append((answer, reason))

        self.outgoing.call(PEER, message, timeout_ms=30_000, done=done, now_ms=self.node.now_ms, version=9)
        self.run()

    def run(self) -> None:
        """Carries out everything that can be done now, on both ends."""
        while self.effects:
            effect = self.effects.pop(0)
            if isinstance(effect, Dial):
                self.dialled += 1
                self.links[effect.link] = self.node.connect(SECURED)
                self.outgoing.link_up(effect.link, self.node.now_ms)
            elif isinstance(effect, SendTo) and effect.link in self.links:
                self.links[effect.link].send_bytes(b"".join(map(bytes, effect.chunks))[4:])
            elif isinstance(effect, HangUp):
                if (client := self.links.pop(effect.link, None)) is not None:
                    self.node.disconnect(client)
            elif isinstance(effect, Run):
                self.derived += 1
                result = effect.operation.run(None)  # type: ignore[arg-type]  # it needs no disk
                effect.operation.owner.operation_completed(effect.operation, result, self.node.now_ms)
            self.deliver()

    def deliver(self) -> None:
        for link, client in list(self.links.items()):
            while client.answers and link in self.links:
                frame = memoryview(bytearray(client.answers.popleft()))
                self.outgoing.link_received(link, frame, self.node.now_ms)
            if client.closed is not None and self.links.pop(link, None) is not None:
                self.outgoing.link_lost(link, client.closed, self.node.now_ms)

    def advance(self, duration_ms: int) -> None:
        for _ in range(duration_ms // 50):
            self.node.advance(50)
            self.timers.advance(self.node.now_ms)
            self.deliver()
            self.run()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_link_logs_in_first(mechanism: str) -> None:
    caller = Caller(secured(), mechanism)
    caller.call()
    ((answer, reason),) = caller.answers
    assert (answer.controller_id, reason) == (1, None)
    assert caller.derived == (mechanism != "PLAIN")


def test_a_key_is_derived_once() -> None:
    caller = Caller(secured(), "SCRAM-SHA-256")
    for _ in range(3):
        caller.call()
        caller.outgoing.hang_up(PEER, "", "enough", caller.node.now_ms)
        caller.run()
    assert (len(caller.answers), caller.dialled, caller.derived) == (3, 3, 1)


def test_a_wrong_password_ends_the_calls_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caller = Caller(secured(), "SCRAM-SHA-256", "canary")
    caller.call()
    assert caller.answers == []
    caller.advance(2 * DELAY_MS)
    ((answer, reason),) = caller.answers
    assert answer is None
    assert reason is not None
    assert "this node cannot log in: it answers SASL_AUTHENTICATION_FAILED" in reason
    assert "this node cannot log in to another" in caplog.text
    assert "canary" not in caplog.text


def test_a_mechanism_that_the_other_side_lacks_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caller = Caller(secured(sasl__enabled__mechanisms="PLAIN"), "SCRAM-SHA-256")
    caller.call()
    caller.advance(2 * DELAY_MS)
    assert "it answers UNSUPPORTED_SASL_MECHANISM; its mechanisms are PLAIN" in str(caller.answers[0][1])


def test_a_login_is_renewed_on_the_same_link_before_it_ends() -> None:
    caller = Caller(secured(connections__max__reauth__ms="10000"), "SCRAM-SHA-256")
    caller.call()
    for _ in range(6):
        caller.advance(5_000)
        caller.call()
    assert [reason for _, reason in caller.answers] == [None] * 7
    assert (caller.dialled, caller.derived) == (1, 1)
    counters = caller.node.broker.dispatcher.logins.counters[SECURED]
    assert (counters.first, counters.again, counters.expired) == (1, 3, 0)


def test_a_renewal_that_fails_gives_up_the_link() -> None:
    caller = Caller(secured(connections__max__reauth__ms="10000"), "SCRAM-SHA-256")
    caller.call()
    add_scram(caller.node, "alice", "changed")
    caller.advance(11_000)
    assert caller.links == {}
    caller.call()
    caller.advance(1_000)
    assert "cannot log in" in str(caller.answers[-1][1])


GSSAPI = {
    "sasl__enabled__mechanisms": "GSSAPI",
    "sasl__kerberos__service__name": "kafka",
    "listener__name__secured__gssapi__sasl__jaas__config": f"{KERBEROS_MODULE} required useKeyTab=true "
    'principal="kafka/127.0.0.1@ACME";',
}


def test_a_link_logs_in_with_a_ticket_for_the_host_that_it_goes_to() -> None:
    kerberos = ToyKerberos()
    caller = Caller(secured(plugged=Plugged(kerberos=kerberos), **GSSAPI), "GSSAPI", kerberos=kerberos)
    caller.call()
    ((answer, reason),) = caller.answers
    assert (answer.controller_id, reason) == (1, None)
    (ticket,) = kerberos.seen
    assert ticket.startswith(b"ticket alice@ACME for kafka/127.0.0.1@ACME ")


def test_a_link_without_a_ticket_ends_the_calls_and_says_why() -> None:
    class Down(ToyKerberos):
        def initiator(self, login: KerberosLogin, host: str) -> ToyContext:
            raise GssError("Cannot contact any KDC for realm 'ACME'")

    caller = Caller(secured(plugged=Plugged(kerberos=ToyKerberos()), **GSSAPI), "GSSAPI", kerberos=Down())
    caller.call()
    caller.advance(2 * DELAY_MS)
    assert "this node cannot log in: GSSAPI: Cannot contact any KDC" in str(caller.answers[0][1])
