"""Guardian logs in to a registered cluster by credentials of its own file, with TLS and SCRAM, and few rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.guardian_process import Guardian
from support.processes import wait_until

from penstock.testing.secure import SecureBroker, User

pytestmark = pytest.mark.slow

TOPIC = "clicks"


@pytest.fixture
def broker() -> Iterator[SecureBroker]:
    with SecureBroker() as found:
        found.create_topic(TOPIC, partitions=2)
        yield found


@pytest.fixture
def user(broker: SecureBroker) -> User:
    found = broker.add_user("guardian")
    broker.allow("guardian", "describe", cluster="kafka-cluster")
    broker.allow("guardian", "describe", "describe_configs", topic="*")
    return found


def credentials(name: str, user: User, **changes: str) -> dict[str, str]:
    """The lines of a file, after their prefix."""
    given = {setting: text for setting, text in user.properties.items() if setting != "bootstrap.servers"}
    return {f"credentials.{name}.{setting}": text for setting, text in {**given, **changes}.items()}


def failures(guardian: Guardian, cluster: str) -> dict[str, Any]:
    found: dict[str, Any] = guardian.json("inventory", cluster)["failures"]
    return found


def test_guardian_sees_a_secured_cluster(tmp_path: Path, broker: SecureBroker, user: User) -> None:
    wrong = credentials("wrong", user)
    wrong["credentials.wrong.sasl.jaas.config"] = wrong["credentials.wrong.sasl.jaas.config"].replace(
        user.password, "not-it"
    )
    guardian = Guardian(tmp_path, nodes=1, **{"sample.interval.ms": "300"}, **credentials("shop", user), **wrong)
    guardian.format()
    guardian.start(1)
    try:
        guardian.said("clusters", "add", "shop", "--bootstrap", user.bootstrap, "--credentials", "shop")

        def seen() -> bool:
            found = guardian.json("inventory", "shop")
            topics = {each["name"]: each for each in found["topics"]}
            return TOPIC in topics and topics[TOPIC]["min_insync_replicas"] == 1 and bool(found["disks"])

        wait_until(seen, "the cluster is seen", timeout_s=20)
        assert failures(guardian, "shop") == {}
        guardian.said("clusters", "remove", "shop")
        for name, words, said in (
            ("nobody", ("--credentials", "nobody"), "this node has no credentials nobody"),
            ("bad", ("--credentials", "wrong"), "cannot log in: it answers SASL_AUTHENTICATION_FAILED"),
            ("open", (), ""),
        ):
            guardian.said("clusters", "add", name, "--bootstrap", user.bootstrap, *words)
            wait_until(lambda name=name: "metadata" in failures(guardian, name), f"{name} is told")  # type: ignore[misc]
            assert said in failures(guardian, name)["metadata"]
            guardian.said("clusters", "remove", name)
        assert user.password not in (tmp_path / "node-1.log").read_text()
    finally:
        guardian.kill(1)
