"""DescribeUserScramCredentials (key 50) and AlterUserScramCredentials (key 51): passwords of users (KIP-554).

Version 0, flexible. What is described is which mechanisms a user has, never a key; no users named means all. Changes go
to the active controller: 4,096 to 16,384 iterations, a user at most once a request. The request brings the salted
password, which is secret; what is kept of it is not enough to log in (`penstock.metadata.scram`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.scram import Deletion, Upsertion, alter_credentials, described
from penstock.node.limits import SCRAM_CHANGES_PER_REQUEST_MAX
from penstock.node.request import FORWARD, Append, Handler, Outcome, Request
from penstock.node.steps import lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from penstock.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from penstock.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from penstock.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle_describe(node: Broker, request: Request[DescribeUserScramCredentialsRequest], now_ms: int) -> Outcome:
    users = [each.name for each in request.body.users or ()]
    check_count(len(users))
    results = [
        DescribeUserScramCredentialsResult(
            user=user,
            error_code=error.code,
            error_message=error.message,
            credential_infos=[CredentialInfo(mechanism=code, iterations=iterations) for code, iterations in infos],
        )
        for user, error, infos in described(node.state.image.scram_credentials, users)
    ]
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


def handle_alter(node: Broker, request: Request[AlterUserScramCredentialsRequest], now_ms: int) -> Outcome:
    if not node.controller.active:
        return FORWARD
    body = request.body
    check_count(len(body.deletions) + len(body.upsertions))
    result = alter_credentials(
        node.controller.state.image.scram_credentials,
        [Deletion(each.name, each.mechanism) for each in body.deletions],
        [
            Upsertion(each.name, each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password))
            for each in body.upsertions
        ],
    )
    results = [
        AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
        for user, error in result.response
    ]
    return Append(result.records, AlterUserScramCredentialsResponse(results=results))


def check_count(count: int) -> None:
    if count > SCRAM_CHANGES_PER_REQUEST_MAX:
        sentence = f"At most {SCRAM_CHANGES_PER_REQUEST_MAX} users in one request."
        raise RequestError(ErrorCode.POLICY_VIOLATION, sentence)


def refuse_describe(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """The error, and as in Kafka once more for each user, whom it does not name."""
    users = () if request.body is None else request.body.users or ()

    def answer(_: UserName) -> DescribeUserScramCredentialsResult:
        return DescribeUserScramCredentialsResult(error_code=code, error_message=message or None, credential_infos=[])

    return DescribeUserScramCredentialsResponse(
        error_code=code, error_message=message or None, results=lazily(answer, users)
    )


def refuse_alter(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """Every user answered with the error."""
    body = request.body
    users = [] if body is None else [each.name for each in (*body.deletions, *body.upsertions)]

    def answer(user: str) -> AlterUserScramCredentialsResult:
        return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message or None)

    return AlterUserScramCredentialsResponse(results=lazily(answer, list(dict.fromkeys(users))))


HANDLERS = (
    Handler(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, handle_describe, refuse_describe),
    Handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, handle_alter, refuse_alter),
)
