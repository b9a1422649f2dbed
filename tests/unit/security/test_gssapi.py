"""The exchange of GSSAPI, state by state, over a toy Kerberos."""

from __future__ import annotations

from functools import partial

import pytest
from support.gss import ALICE, SERVICE, ToyKerberos

from penstock.security.gssapi import OFFER, GssapiClient, GssapiServer
from penstock.security.limits import SASL_MESSAGE_MAX_CHARACTERS
from penstock.security.sasl import LoginFailed, LoginInterrupted, Slow

TICKET = b"ticket alice@ACME for kafka/broker@ACME 7"


def server_of(kerberos: ToyKerberos, *, ends_with_ticket: bool = False) -> GssapiServer:
    return GssapiServer(partial(kerberos.acceptor, SERVICE), ends_with_ticket=ends_with_ticket)


def client_of(kerberos: ToyKerberos, host: str = "broker") -> GssapiClient:
    return GssapiClient(partial(kerberos.initiator, ALICE, host))


def tokens(server: GssapiServer, client: GssapiClient) -> list[bytes]:
    """What both say, until the client is in."""
    said = [client.first().run()]
    while True:
        said.append(server.evaluate(said[-1]).run())
        step = client.evaluate(said[-1])
        if step is None:
            return said
        said.append(step.run())


def after(kerberos: ToyKerberos, *given: bytes) -> GssapiServer:
    """A server that has had these tokens."""
    server = server_of(kerberos)
    for token in given:
        server.evaluate(token).run()
    return server


@pytest.mark.parametrize("mutual", [True, False])
def test_a_client_is_in_when_both_agree_on_no_layer(mutual: bool) -> None:
    kerberos = ToyKerberos(mutual=mutual)
    server, client = server_of(kerberos), client_of(kerberos)
    said = tokens(server, client)
    middle = [b"welcome 1", b""] if mutual else []
    assert said == [
        b"ticket alice@ACME for kafka/broker@ACME 1",
        *middle,
        b"1[\x01\0\0\0]",
        b"1[\x01\0\0\0]",
        b"",
    ]
    assert (server.complete, client.complete, server.user) == (True, True, "alice@ACME")
    assert server.expires_at_ms is None


def test_a_login_ends_with_the_ticket_where_logins_end() -> None:
    kerberos = ToyKerberos(expires_at_ms=1234)
    server = server_of(kerberos, ends_with_ticket=True)
    tokens(server, client_of(kerberos))
    assert server.expires_at_ms == 1234


def test_no_step_is_taken_before_it_is_run() -> None:
    opened: list[int] = []

    def opening() -> None:
        opened.append(1)
        raise AssertionError

    server = GssapiServer(opening, ends_with_ticket=False)  # type: ignore[arg-type]  # a toy
    assert isinstance(server.evaluate(TICKET), Slow)
    assert isinstance(GssapiClient(opening).first(), Slow)  # type: ignore[arg-type]  # a toy
    assert opened == []


@pytest.mark.parametrize(
    "given",
    [
        (b"",),
        (b"garbage",),
        (b"ticket alice@ACME for kafka/other@ACME 7",),
        (TICKET, b"not empty"),
        (TICKET, b"", b"garbage"),
        (TICKET, b"", b"8[\x01\0\0\0]"),
        (TICKET, b"", b"7[\x01\0\0]"),
        (TICKET, b"", b"7[\x02\0\0\0]"),
        (TICKET, b"", b"7[\x05\0\0\0]"),
        (TICKET, b"", b"7[]"),
    ],
)
def test_garbage_in_each_state_fails_the_login(given: tuple[bytes, ...]) -> None:
    server = after(ToyKerberos(), *given[:-1])
    with pytest.raises(LoginFailed) as failed:
        server.evaluate(given[-1]).run()
    assert (server.complete, failed.value.told) == (False, "")
    assert not isinstance(failed.value, LoginInterrupted)


def test_a_replay_fails_and_may_be_tried_again() -> None:
    kerberos = ToyKerberos()
    after(kerberos, TICKET)
    with pytest.raises(LoginInterrupted, match="replay"):
        server_of(kerberos).evaluate(TICKET).run()


def test_what_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(LoginFailed):
        server_of(ToyKerberos()).evaluate(b"x" * (SASL_MESSAGE_MAX_CHARACTERS + 1))
    with pytest.raises(LoginFailed):
        client_of(ToyKerberos()).evaluate(b"x" * (SASL_MESSAGE_MAX_CHARACTERS + 1))


def test_nothing_follows_the_end() -> None:
    server = after(ToyKerberos(), TICKET, b"", b"7[\x01\0\0\0]")
    assert server.complete
    with pytest.raises(LoginFailed):
        server.evaluate(b"")


def test_a_context_takes_no_more_tokens_than_kerberos_may() -> None:
    class Endless:
        complete = False
        peer = ""
        expires_at_ms = None

        def step(self, token: bytes) -> bytes:
            return b"go on"

        def wrap(self, data: bytes) -> bytes:
            return data

        unwrap = wrap

    server = GssapiServer(Endless, ends_with_ticket=False)
    for _ in range(8):
        assert server.evaluate(b"x").run() == b"go on"
    with pytest.raises(LoginFailed, match="too many tokens"):
        server.evaluate(b"x").run()


def test_an_authorization_id_changes_nothing() -> None:
    server = after(ToyKerberos(), TICKET, b"", b"7[\x01\0\0\0root]")
    assert (server.complete, server.user) == (True, "alice@ACME")


@pytest.mark.parametrize("offer", [b"\x06\0\0\0", b"\x01\0\0", b"", b"\x01\0\0\0\0"])
def test_a_client_refuses_a_server_without_no_layer(offer: bytes) -> None:
    client = client_of(ToyKerberos())
    client.first().run()
    step = client.evaluate(b"welcome 1")
    assert step is not None
    assert step.run() == b""
    last = client.evaluate(b"1[" + offer + b"]")
    assert last is not None
    with pytest.raises(LoginFailed, match="security layer"):
        last.run()


def test_a_client_that_is_in_hears_no_more() -> None:
    client = client_of(ToyKerberos(mutual=False))
    client.first().run()
    step = client.evaluate(b"1[" + OFFER + b"]")
    assert step is not None
    step.run()
    with pytest.raises(LoginFailed):
        client.evaluate(b"more")
    assert not client.complete
