"""Settings of one listener: `listener.name.NAME.` before a name wins over the name alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.config.server import Settings
from penstock.errors import ConfigError


def settings(strict: bool = False, **extra: str) -> Settings:
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "INTERNAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:0",
        "inter.broker.listener.name": "INTERNAL",
        **{name.replace("__", "."): value for name, value in extra.items()},
    }
    return Settings.from_properties(given, strict=strict)


def test_what_is_prefixed_wins_for_its_listener_only() -> None:
    read = settings(
        **{
            "ssl.client.auth": "requested",
            "ssl.keystore.location": "/all.p12",
            "listener.name.internal.ssl.client.auth": "required",
        }
    )
    assert read.of_listener("INTERNAL").ssl_client_auth == "required"
    assert read.of_listener("internal").ssl_keystore_location == "/all.p12"
    assert read.of_listener("PLAINTEXT").ssl_client_auth == "requested"
    assert read.ssl_client_auth == "requested"
    assert read.warnings == ()


def test_a_dynamic_config_of_a_listener_wins_over_the_file() -> None:
    read = settings(**{"listener.name.internal.ssl.keystore.location": "/old.p12"})
    changed = read.with_dynamic({}, {"listener.name.internal.ssl.keystore.location": "/new.p12"})
    assert changed.of_listener("INTERNAL").ssl_keystore_location == "/new.p12"
    broken = read.with_dynamic({}, {"listener.name.internal.ssl.keystore.type": "XYZ"})
    assert broken.of_listener("INTERNAL").ssl_keystore_type == "JKS"
    assert "dynamic config left out" in broken.warnings[0]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("listener.name.interna.ssl.client.auth", "there is no listener interna .*; did you mean internal"),
        ("listener.name.INTERNAL.ssl.client.auth", "there is no listener INTERNAL .*; did you mean internal"),
        ("listener.name.internal.ssl.client.aut", "unknown setting ssl.client.aut; did you mean ssl.client.auth"),
        ("listener.name.internal.log.dirs", "log.dirs cannot be set for one listener"),
        ("listener.name.internal.plain.ssl.client.auth", "plain"),
        ("listener.name.", "there is no listener"),
    ],
)
def test_a_name_that_does_nothing_is_warned_about(name: str, sentence: str) -> None:
    read = settings(**{name: "required"})
    with pytest.raises(ConfigError, match=sentence):
        settings(strict=True, **{name: "required"})
    (warning,) = read.warnings
    assert name in warning
    assert read.of_listener("INTERNAL").ssl_client_auth == "none"


def test_a_bad_value_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r'listener\.name\.internal\.ssl\.client\.auth = "maybe" is not known'):
        settings(**{"listener.name.internal.ssl.client.auth": "maybe"})


@pytest.mark.parametrize("base", ["max.connections", "max.connection.creation.rate"])
def test_limits_on_connections_are_of_a_listener(base: str) -> None:
    name, attribute = f"listener.name.internal.{base}", base.replace(".", "_")
    read = settings(strict=True, **{name: "5"})
    assert getattr(read.of_listener("INTERNAL"), attribute) == 5
    assert getattr(read.of_listener("PLAINTEXT"), attribute) == 2**31 - 1
    assert getattr(read.with_dynamic({name: "6"}, {}).of_listener("INTERNAL"), attribute) == 6
    for bad in ("-1", "many", "2147483648"):
        with pytest.raises(ConfigError, match=re.escape(f'{name} = "{bad}"')):
            settings(**{name: bad})
    closed = read.with_dynamic({}, {name: "0"})
    assert getattr(closed.of_listener("INTERNAL"), attribute) == 5
    assert "would let nobody in" in closed.warnings[-1]


@pytest.mark.parametrize("name", ["max.connections.per.ip", "plain.max.connections"])
def test_other_limits_on_connections_are_not(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        settings(strict=True, **{f"listener.name.internal.{name}": "5"})


def test_what_means_nothing_here_is_listed() -> None:
    read = settings(**{"listener.name.internal.num.network.threads": "5"})
    assert "listener.name.internal.num.network.threads" in read.ignored
    assert read.warnings == ()


def test_secrets_of_a_listener_do_not_show() -> None:
    read = settings(**{"listener.name.internal.ssl.keystore.password": "opensesame"})
    view: Any = read.of_listener("INTERNAL")
    assert view.ssl_keystore_password == "opensesame"
    assert "opensesame" not in repr(view) + repr(read) + repr(read.prefixed)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.provider", "SunJSSE"),
        ("ssl.secure.random.implementation", "SHA1PRNG"),
        ("ssl.engine.factory.class", "com.example.Engines"),
        ("ssl.keymanager.algorithm", "Other"),
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2"),
        ("ssl.enabled.protocols", ""),
        ("ssl.protocol", "SSLv3"),
        ("ssl.keystore.type", "BKS"),
        ("ssl.endpoint.identification.algorithm", "ldaps"),
    ],
)
def test_what_cannot_be_done_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        settings(**{name: value})
