"""Our client, the commands and logins that end, against Apache Kafka over SASL_SSL, as an ordinary user with ACLs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.secured_kafka import PASSWORD, SHORT_LOGIN_MS, SecuredKafka, write_properties
from interop.security.commands import Capture, Commands, use

from penstock.client.client import Client
from penstock.client.security import client_security
from penstock.errors import AuthenticationError

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with SecuredKafka() as kafka:
        kafka.allow("all", topic="*")
        kafka.allow("all", group="*")
        kafka.allow("all", **{"transactional-id": "*"})
        kafka.allow("describe", cluster="")
        yield kafka


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_commands_log_in(kafka: SecuredKafka, tmp_path: Path, capsys: Capture, mechanism: str) -> None:
    file = write_properties(tmp_path / "client.properties", kafka.properties(mechanism))
    run = Commands(kafka.secured, file, capsys)
    use(run, f"clicks-{mechanism}")
    assert PASSWORD not in run.said


def test_a_wrong_password_and_an_unknown_authority_are_told_in_words(
    kafka: SecuredKafka, tmp_path: Path, capsys: Capture
) -> None:
    file = write_properties(tmp_path / "wrong.properties", kafka.properties(password="wrong"))
    said = Commands(kafka.secured, file, capsys)("topics", "list", code=1)
    assert "refuses the login of alice by SCRAM-SHA-512" in said
    trusting = {k: v for k, v in kafka.properties().items() if not k.startswith("ssl.")}
    file = write_properties(tmp_path / "untrusted.properties", trusting)
    said = Commands(kafka.secured, file, capsys)("topics", "list", code=1)
    assert "comes from an authority that is not trusted" in said


def test_a_login_that_ends_is_renewed_and_nothing_fails(kafka: SecuredKafka) -> None:
    properties = {**kafka.properties("SCRAM-SHA-256"), "security.protocol": "SASL_PLAINTEXT"}

    async def work() -> None:
        async with Client(kafka.brief, security=client_security(properties)) as client:
            connection = await client.connection(None)
            first = connection._log_in_at
            deadline = asyncio.get_running_loop().time() + 2.5 * SHORT_LOGIN_MS / 1000
            while asyncio.get_running_loop().time() < deadline:
                await client.refresh([])
                await asyncio.sleep(0.1)
            assert await client.connection(None) is connection
            assert connection._log_in_at > first

    asyncio.run(work())


def test_a_refused_login_is_not_tried_at_other_addresses(kafka: SecuredKafka) -> None:
    async def work() -> None:
        security = client_security(kafka.properties("PLAIN", password="wrong"))
        with pytest.raises(AuthenticationError):
            await Client([kafka.secured, kafka.brief], security=security).connection(None)

    asyncio.run(work())
