"""The commands work as an ordinary user on a cluster of Penstock that wants a login; who has none is told what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.secured_kafka import write_properties
from interop.security.commands import Capture, Commands, use

from penstock.cli.main import main
from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.testing.broker import LocalBroker

PASSWORD = "canary-of-alice"
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
    "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{PASSWORD}";',
}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(SETTINGS) as broker:
        yield broker


def client_file(directory: Path, mechanism: str = "PLAIN", password: str = PASSWORD) -> Path:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="alice" password="{password}";',
    }
    return write_properties(directory / f"{mechanism}.properties", properties)


def test_commands_log_in(broker: LocalBroker, tmp_path: Path, capsys: Capture) -> None:
    run = Commands(broker.addresses["SECURED"], client_file(tmp_path), capsys)
    use(run, "clicks")
    assert PASSWORD not in run.said


def test_a_wrong_password_and_a_missing_login_are_told_in_words(
    broker: LocalBroker, tmp_path: Path, capsys: Capture
) -> None:
    run = Commands(broker.addresses["SECURED"], client_file(tmp_path, password="wrong"), capsys)
    said = run("topics", "list", code=1)
    assert "refuses the login of alice by PLAIN: Authentication failed" in said
    run = Commands(broker.addresses["SECURED"], client_file(tmp_path, "SCRAM-SHA-512"), capsys)
    assert "does not take logins by SCRAM-SHA-512, but by PLAIN, SCRAM-SHA-256" in run("topics", "list", code=1)
    assert main(["topics", "list", "--bootstrap", broker.addresses["SECURED"]]) == 1
    assert "sasl.mechanism and sasl.jaas.config say how to log in" in capsys.readouterr().err
