"""Users of SCRAM of any Kafka cluster: who there is, and setting and deleting passwords (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.admin import refused

if TYPE_CHECKING:
    from penstock.client.client import Client


@dataclass(frozen=True, slots=True)
class UserCredential:
    """One credential of a user; `mechanism` is Kafka's code."""

    user: str
    mechanism: int
    iterations: int


@dataclass(frozen=True, slots=True)
class SaltedPassword:
    """A password as it is sent: salted by the client."""

    iterations: int
    salt: bytes
    salted: bytes


async def describe_users(client: Client, users: Sequence[str] = ()) -> list[UserCredential]:
    """The credentials of these users, or of all if none is named. Raises RequestError for one who has none."""
    from penstock.protocol.messages.describe_user_scram_credentials_request import (
        DescribeUserScramCredentialsRequest,
        UserName,
    )

    named = [UserName(name=user) for user in users] or None
    answer = await client.send(DescribeUserScramCredentialsRequest(users=named))
    refused(answer.error_code, answer.error_message, "users")
    found = []
    for result in answer.results:
        refused(result.error_code, result.error_message, f"user {result.user}")
        found += [UserCredential(result.user, each.mechanism, each.iterations) for each in result.credential_infos]
    return found


async def set_password(client: Client, user: str, mechanism: int, password: SaltedPassword) -> None:
    """Sets a user's password for one mechanism. Raises RequestError."""
    from penstock.protocol.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )

    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=password.iterations,
        salt=password.salt,
        salted_password=password.salted,
    )
    await alter(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


async def delete_password(client: Client, user: str, mechanism: int) -> None:
    """Deletes a user's password for one mechanism. Raises RequestError."""
    from penstock.protocol.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
    )

    deletion = ScramCredentialDeletion(name=user, mechanism=mechanism)
    await alter(client, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))


async def alter(client: Client, request: object) -> None:
    answer = await client.send(request)
    for result in answer.results:
        refused(result.error_code, result.error_message, f"user {result.user}")
