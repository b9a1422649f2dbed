"""Apache Kafka and Penstock take turns on one data directory: each knows the users of SCRAM that the other made."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from interop.data_directory.turns import DataDirectory
from interop.kafka_peer import require_kafka
from support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow]


def users(admin: AdminClient) -> dict[str, list[tuple[str, int]]]:
    found = admin.describe_user_scram_credentials().result(30)
    return {
        user: [(each.mechanism.name, each.iterations) for each in credential.scram_credential_infos]
        for user, credential in found.items()
    }


def add(admin: AdminClient, user: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"secret")])[user].result(30)


def delete(admin: AdminClient, user: str) -> None:
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])[user].result(30)


def test_users_go_from_one_to_the_other_and_back(tmp_path: Path) -> None:
    """Users are deleted in the last turn only: a node of Kafka that starts may lose others over a deletion in its log
    (ScramDelta.apply forgets a mechanism's users when their map is empty for a moment).
    """
    require_kafka()
    known: dict[str, list[tuple[str, int]]] = {}
    with DataDirectory(tmp_path, formatted_by="penstock") as shared:
        for turn, who in enumerate(("penstock", "kafka", "penstock")):
            with shared.served_by(who):
                admin = AdminClient({"bootstrap.servers": shared.bootstrap})
                wait_until(lambda: users(admin) == known, f"{who} knows the users")  # noqa: B023 - called at once
                add(admin, f"user-{turn}")
                known[f"user-{turn}"] = [("SCRAM_SHA_512", 8192)]
                if turn == 2:
                    for user in ("user-0", "user-1"):
                        delete(admin, user)
                    assert list(users(admin)) == ["user-2"]
