"""`penstock config check` looks into the key and trust stores of all listeners, as the node would at its start."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from support.tls import PASSWORD, Authority, KeyStore

from penstock.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def node(directory: Path, **settings: str) -> str:
    """A file of settings with a listener of TLS; `__` for a point."""
    path = directory / "server.properties"
    entries = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": str(directory / "data"),
        **{name.replace("__", "."): text for name, text in settings.items()},
    }
    path.write_text("".join(f"{name}={text}\n" for name, text in entries.items()))
    return str(path)


def of_store(store: KeyStore, **more: str) -> dict[str, str]:
    return {**store.properties(), **{name.replace("__", "."): text for name, text in more.items()}}


def check(capsys: Capture, path: str, *options: str, code: int) -> str:
    assert main(["config", "check", path, *options]) == code
    told = capsys.readouterr()
    assert PASSWORD not in told.out + told.err
    return told.err if code else told.out


def test_stores_that_fit_are_right(tmp_path: Path, authority: Authority, capsys: Capture) -> None:
    said = check(capsys, node(tmp_path, **of_store(authority.store("node"))), code=0)
    assert "is right" in said
    assert "warning" not in said


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ssl.keystore.password": "another"}, "password"),
        ({"ssl.keystore.location": "/nowhere/node.p12"}, "/nowhere/node.p12 cannot be read: no such file"),
        ({"ssl.truststore.location": "/nowhere/ca.pem"}, "/nowhere/ca.pem cannot be read: no such file"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, authority: Authority, capsys: Capture, settings: dict[str, str], expected: str
) -> None:
    said = check(capsys, node(tmp_path, **{**of_store(authority.store("node")), **settings}), code=1)
    assert "listener SSL: " in said
    assert expected in said
    assert "is right" in check(
        capsys, node(tmp_path, **{**of_store(authority.store("node")), **settings}), "--no-stores", code=0
    )


def test_a_certificate_has_not_expired(tmp_path: Path, authority: Authority, capsys: Capture) -> None:
    past = authority.store("node", starts=timedelta(days=-9), ends=timedelta(days=-1))
    assert "the certificate of CN=node is no longer valid" in check(capsys, node(tmp_path, **of_store(past)), code=1)
    soon = authority.store("node", ends=timedelta(days=9, hours=1))
    path = node(tmp_path, **of_store(soon))
    assert "listener SSL: its certificate expires in 9 days" in check(capsys, path, code=0)
    assert json.loads(check(capsys, path, "--json", code=0))["warnings"] == [
        "listener SSL: its certificate expires in 9 days"
    ]


def test_a_key_fits_its_certificate(tmp_path: Path, authority: Authority, capsys: Capture) -> None:
    one, other = authority.store("one"), authority.store("other")
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(one.key_pem + other.certificate_pem)
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(mixed)}
    assert "listener SSL: " in check(capsys, node(tmp_path, **settings), code=1)


def test_all_listeners_are_looked_at(tmp_path: Path, authority: Authority, capsys: Capture) -> None:
    """Each with settings of its own; as JSON, too."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,ONE://127.0.0.1:9094,TWO://127.0.0.1:9095,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,ONE:SSL,TWO:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        **of_store(authority.store("node")),
        "listener.name.one.ssl.keystore.password": "another",
        "listener.name.two.ssl.keystore.location": "/nowhere/two.p12",
    }
    path = node(tmp_path, **settings)
    said = check(capsys, path, code=1)
    assert "listener ONE: " in said
    assert "listener TWO: " in said
    assert main(["config", "check", path, "--json"]) == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert [each.partition(":")[0] for each in errors] == ["listener ONE", "listener TWO"]


def test_who_has_no_tls_needs_no_stores(tmp_path: Path, capsys: Capture) -> None:
    listeners = "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert "is right" in check(capsys, node(tmp_path, listeners=listeners), code=0)
