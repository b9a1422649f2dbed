"""AlterUserScramCredentials and DescribeUserScramCredentials through a whole node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.broker import Node

from penstock.errors import ErrorCode
from penstock.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from penstock.security.authorizer import StandardAuthorizer


def alter(node: Node, users: list[str], deletions: Sequence[str] = ()) -> dict[str, int]:
    answer = node.connect().ask(
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=user, mechanism=1) for user in deletions],
            upsertions=[
                ScramCredentialUpsertion(
                    name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"canary" * 6
                )
                for user in users
            ],
        ),
        0,
    )
    return {each.user: each.error_code for each in answer.results}


def described(node: Node, *users: str) -> Any:
    names = [UserName(name=user) for user in users] or None
    return node.connect().ask(DescribeUserScramCredentialsRequest(users=names), 0)


def test_a_users_credential_comes_and_goes() -> None:
    node = Node()
    assert alter(node, ["alice"]) == {"alice": 0}
    (result,) = described(node).results
    assert (result.user, [(each.mechanism, each.iterations) for each in result.credential_infos]) == (
        "alice",
        [(1, 4096)],
    )
    assert alter(node, ["bob"], ["alice"]) == {"alice": 0, "bob": 0}
    answer = described(node, "alice", "bob")
    assert [(each.user, each.error_code) for each in answer.results] == [
        ("alice", ErrorCode.RESOURCE_NOT_FOUND),
        ("bob", 0),
    ]


def test_credentials_survive_a_restart() -> None:
    node = Node()
    alter(node, ["alice"])
    node.restart()
    assert [each.user for each in described(node).results] == ["alice"]


def test_too_many_users_are_refused() -> None:
    node = Node()
    assert set(alter(node, [f"user-{number}" for number in range(1001)]).values()) == {ErrorCode.POLICY_VIOLATION}
    assert described(node, *[f"user-{number}" for number in range(1001)]).error_code == ErrorCode.POLICY_VIOLATION


def test_a_refused_description_has_the_error_for_each_user_too() -> None:
    node = Node(authorizer=StandardAuthorizer())
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = described(node, "alice", "bob")
    assert (answer.error_code, [each.error_code for each in answer.results]) == (code, [code, code])
    answer = described(node)  # with null users Kafka 4.3.1 does not answer at all
    assert (answer.error_code, list(answer.results)) == (code, [])
