"""The commands work as an ordinary user over SASL_SSL, on Penstock; who cannot log in is told what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.secured_kafka import write_properties
from interop.security.commands import Capture, Commands, use
from interop.security.secured_penstock import ALICE, PASSWORD, SecuredPenstock

from penstock.cli.main import main

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPenstock]:
    with SecuredPenstock(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def refused(broker: SecuredPenstock, file: Path, capture: Capture) -> str:
    return Commands(broker.secured, file, capture)("topics", "list", code=1)


def test_commands_log_in(broker: SecuredPenstock, tmp_path: Path, capsys: Capture) -> None:
    run = Commands(broker.secured, write_properties(tmp_path / "client.properties", broker.properties()), capsys)
    use(run, "clicks")
    assert run("sql", "select count(*) as found from clicks", "--csv").split() == ["found", "3"]
    assert PASSWORD not in run.said


def test_a_user_who_has_logged_in_is_seen_using_its_quota(
    broker: SecuredPenstock, tmp_path: Path, capsys: Capture
) -> None:
    run = Commands(broker.secured, write_properties(tmp_path / "client.properties", broker.properties()), capsys)
    run("topics", "create", "metered")
    run("quotas", "set", "--user", ALICE, "producer_byte_rate=100")
    try:
        run("produce", "metered", "--value", "x" * 5_000, "--client-id", "web")
        (line,) = run("quotas", "list", "--throttled").splitlines()[1:]
        assert line.split()[:3] == ["1", ALICE, "producer_byte_rate"], "the user, whatever its client is called"
        assert line.endswith(f"user {ALICE} (level 3)")
        explained = run("quotas", "explain", "--user", ALICE, "--client-id", "web")
        assert f"producer_byte_rate: 100, level 3, shared by all with user {ALICE}" in explained
    finally:
        run("quotas", "delete", "--user", ALICE)


def test_who_cannot_log_in_is_told_what_to_do(broker: SecuredPenstock, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "client.properties"
    said = refused(broker, write_properties(file, broker.properties(password="wrong")), capsys)
    assert "refuses the login of alice by PLAIN: Authentication failed" in said
    said = refused(broker, write_properties(file, broker.properties("SCRAM-SHA-512")), capsys)
    assert "does not take logins by SCRAM-SHA-512, but by PLAIN, SCRAM-SHA-256" in said
    trusting = {name: text for name, text in broker.properties().items() if "truststore" not in name}
    said = refused(broker, write_properties(file, trusting), capsys)
    assert "comes from an authority that is not trusted\n  ssl.truststore.location" in said
    assert main(["topics", "list", "--bootstrap", broker.secured]) == 1
    assert "security.protocol must be as the listener's is" in capsys.readouterr().err


def test_who_lacks_a_right_is_told_what_of(tmp_path: Path, capsys: Capture) -> None:
    """And sees what there is a right for: a consumer its topic, without the configs."""
    with SecuredPenstock(tmp_path, {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}) as broker:
        broker.create_topic("clicks")
        assert main(["acls", "add", "--allow", f"User:{ALICE}", "--bootstrap", broker.bootstrap,
                     "--consumer", "--topic", "clicks", "--group", "g"]) == 0  # fmt: skip
        file = write_properties(tmp_path / "client.properties", broker.properties())
        run = Commands(broker.secured, file, capsys)
        described = run("topics", "describe", "clicks")
        assert "configs: not allowed to see them (DESCRIBE_CONFIGS)" in described
        assert "end offset" in described
        described = run("topics", "describe", "clicks", "--json")
        assert '"configs": null' in described
        assert run("topics", "describe", "orders", code=1).startswith("error: topic orders: not allowed")
        assert run("users", "list", code=1).startswith("error: users: not allowed (CLUSTER_AUTHORIZATION_FAILED)")
        assert run("users", "remove", "bob", code=1).startswith("error: users: not allowed")
        assert run("topics", "create", "mine", code=1).startswith("error: topic mine: not allowed")
        assert run("topics", "delete", "clicks", code=1).startswith("error: topic clicks: not allowed")
        assert run("groups", "describe", "other", code=1).startswith("error: group other: not allowed")
        assert run("acls", "list", code=1).startswith("error: ACLs: not allowed")
        assert run("quotas", "list", code=1).startswith("error: quotas: not allowed (CLUSTER_AUTHORIZATION_FAILED)")
        assert run("quotas", "list", "--throttled", code=1).startswith("error: broker 1's use of quotas: not allowed")
        assert run("disks", code=1).startswith("error: log directories of broker 1: not allowed")
