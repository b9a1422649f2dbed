"""Logins with any names, passwords and bytes: the right password gets in, and nothing else does or breaks anything."""

from __future__ import annotations

import contextlib
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from penstock.config.jaas import SCRAM_MODULE, parse
from penstock.errors import ConfigError
from penstock.metadata.scram import ScramCredential, ScramMechanism
from penstock.security.plain import PlainClient, PlainServer
from penstock.security.sasl import Derivation, LoginFailed
from penstock.security.scram import ScramClient, ScramServer, credential_of, name_of, user_of

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
PASSWORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
MECHANISM = st.sampled_from(list(ScramMechanism))
KEY = b"k" * 32
SALT = b"salt"


@cache
def credential(mechanism: ScramMechanism) -> ScramCredential:
    return credential_of(mechanism, SALT, KEY, 4096)


def scram(mechanism: ScramMechanism) -> ScramServer:
    return ScramServer(mechanism, "server-nonce", lambda user, token: credential(mechanism), b"decoy")


@given(NAMES, MECHANISM, st.binary(min_size=1, max_size=32))
def test_only_the_key_of_the_password_logs_in(user: str, mechanism: ScramMechanism, key: bytes) -> None:
    for used in (KEY, key):
        client, server = ScramClient(mechanism, user, "any", "client-nonce"), scram(mechanism)
        assert isinstance(client.evaluate(server.evaluate(client.first())), Derivation)
        final = client.derived(used)
        with contextlib.suppress(LoginFailed):
            assert client.evaluate(server.evaluate(final)) is None
        assert server.complete == client.complete == (used == KEY)
        assert server.user == user


@given(NAMES)
def test_a_name_comes_back(user: str) -> None:
    assert user_of(name_of(user)) == user
    assert "," not in name_of(user)


@given(MECHANISM, st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)), max_size=4))
def test_bytes_log_nobody_in(mechanism: ScramMechanism, tokens: list[bytes]) -> None:
    for server in (scram(mechanism), PlainServer({"alice": "secret"})):
        for token in tokens:
            try:
                server.evaluate(token)
            except LoginFailed:
                continue
        assert not server.complete


@given(MECHANISM, st.data())
def test_a_changed_message_logs_nobody_in(mechanism: ScramMechanism, data: st.DataObject) -> None:
    client, server = ScramClient(mechanism, "alice", "any", "client-nonce"), scram(mechanism)
    client.evaluate(server.evaluate(client.first()))
    final = bytearray(client.derived(KEY))
    place = data.draw(st.integers(0, len(final) - 1))
    final[place] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(LoginFailed):
        server.evaluate(bytes(final))
    assert not server.complete


@given(NAMES, PASSWORDS, PASSWORDS)
def test_plain_lets_in_by_the_right_password_only(user: str, password: str, other: str) -> None:
    for given_one in (password, other):
        server = PlainServer({user: password})
        with contextlib.suppress(LoginFailed):
            server.evaluate(PlainClient(user, given_one).first())
        assert server.complete == (given_one == password)


@given(st.text(max_size=40))
def test_any_text_is_a_login_module_or_a_config_error(text: str) -> None:
    for whole in (text, f"{SCRAM_MODULE} required {text}"):
        try:
            parse(whole)
        except ConfigError:
            continue


@given(st.dictionaries(st.from_regex(r"[a-z_$][a-z0-9_.$-]*", fullmatch=True), st.text(max_size=20), max_size=4))
def test_quoted_options_come_back(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
        return f'"{"".join(escapes.get(each, each) for each in value)}"'

    text = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    assert parse(f"{SCRAM_MODULE} required {text};").options == options
