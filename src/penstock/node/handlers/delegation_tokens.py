"""CreateDelegationToken (key 38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41):
tokens with which somebody else logs in as oneself, for a time (KIP-48; for other owners, KIP-373).

Versions 1-3, 1-2, 1-2 and 1-3, flexible from 2. The first three are done by the active controller, where a broker
forwards them, and their rules are `penstock.metadata.delegation_tokens`. Who has come by a token, or without
credentials, gets none: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, and so does everybody where the controllers' listener is
PLAINTEXT, since an Envelope on it may be anybody's. Without delegation.token.secret.key all of them are
DELEGATION_TOKEN_AUTH_DISABLED.

A token for oneself needs no right, one for somebody else CREATE_TOKENS on that user. Owner, requester and renewers see
a token, with its HMAC, and so does who may DESCRIBE it, or has DESCRIBE_TOKENS on its owner; others are not told that
it exists. Controllers describe tokens, too; Apache Kafka's advertise that, and answer UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.delegation_tokens import DelegationToken, hmac_of
from penstock.metadata.limits import RENEWERS_PER_TOKEN_MAX
from penstock.metadata.token_control import check_renewers, create_token, expire_token, renew_token
from penstock.node.limits import TOKEN_OWNERS_PER_REQUEST_MAX, TOKENS_PER_STEP
from penstock.node.request import FORWARD, Append, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from penstock.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from penstock.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from penstock.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from penstock.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from penstock.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from penstock.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from penstock.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from penstock.security.authorizer import ANONYMOUS
from penstock.security.rights import CREATE_TOKENS, DESCRIBE_TOKEN, DESCRIBE_TOKENS

if TYPE_CHECKING:
    from penstock.node.broker import Broker

REQUESTER_VERSION = 3
NO_TIME_MS = -1
"""The time in a refusal that is not the controller's."""


def may_ask(node: Broker, request: Request[Any]) -> bool:
    """Whether the requester may ask for tokens at all: who has come by one or has shown no credentials may not, even if
    a function names it (`principal.builder.class`): the token would be as good as credentials, and from anywhere.
    """
    settings = node.state.settings
    protocols = settings.security_protocols
    protocol = protocols.get(request.listener, "PLAINTEXT")
    controllers = settings.controller_listener_names[0].upper() if settings.controller_listener_names else ""
    if request.principal.token_authenticated or "PLAINTEXT" in (protocol, protocols.get(controllers, "PLAINTEXT")):
        return False
    return protocol != "SSL" or not (request.connection.unproven or request.principal == ANONYMOUS)


def check_enabled(node: Broker) -> str:
    """The key of all tokens. Raises RequestError if there is none."""
    secret = node.state.settings.delegation_token_secret_key
    if not secret:
        raise RequestError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return secret


def create(node: Broker, request: Request[CreateDelegationTokenRequest], now_ms: int) -> Outcome:
    body, requester = request.body, str(request.principal)
    owner = requester
    if body.owner_principal_name:
        owner = f"{body.owner_principal_type or ''}:{body.owner_principal_name}"
    some = islice(body.renewers, RENEWERS_PER_TOKEN_MAX + 1)
    renewers = [f"{each.principal_type}:{each.principal_name}" for each in some]

    def refused(code: ErrorCode, time_ms: int = NO_TIME_MS) -> Message:
        return created(request.version, owner, requester, code=code, time_ms=time_ms)

    if not may_ask(node, request):
        return refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if body.owner_principal_name and body.owner_principal_type is None:
        return refused(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if owner != requester and not node.gate.allows(request, CREATE_TOKENS, owner):
        return refused(CREATE_TOKENS.refusal)
    try:
        check_renewers(renewers)
    except RequestError as error:
        return refused(error.code)
    if not node.controller.active:
        return FORWARD
    wall_ms = node.scheduler.wall.at(now_ms)
    try:
        secret = check_enabled(node)
        state, lifetime_ms = node.controller.state, body.max_lifetime_ms
        result = create_token(state, owner, requester, renewers, max_lifetime_ms=lifetime_ms, now_ms=wall_ms)
    except RequestError as error:
        return refused(error.code, 0)
    token = result.response
    response = created(request.version, owner, requester, token, hmac_of(secret, token.id))

    def tell() -> None:
        node.journal.token_changed(request, "created", token.id, owner=owner, expires_ms=token.expires_ms)

    return Append(result.records, response, failed=refused, tell=tell)


def created(
    version: int,
    owner: str,
    requester: str,
    token: DelegationToken | None = None,
    key: bytes = b"",
    *,
    code: ErrorCode = ErrorCode.NONE,
    time_ms: int = NO_TIME_MS,
) -> CreateDelegationTokenResponse:
    """The answer about a new token, or a refusal."""
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester_in(version, requester)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=time_ms if token is None else token.issued_ms,
        expiry_timestamp_ms=time_ms if token is None else token.expires_ms,
        max_timestamp_ms=time_ms if token is None else token.max_ms,
        token_id="" if token is None else token.id,
        hmac=key,
    )


def requester_in(version: int, requester: str) -> tuple[str, str, str]:
    """Type and name of a requester, about whom answers speak from version 3 on."""
    return requester.partition(":") if version >= REQUESTER_VERSION else ("", "", "")


def found_token(node: Broker, key: bytes) -> Stepped[DelegationToken | None]:
    """The token with an HMAC, on the active controller, in steps. Raises RequestError NOT_CONTROLLER."""
    state, pace = node.controller.state, Pace(TOKENS_PER_STEP)
    token_id: str | None = None
    for token_id in state.token_ids.looked_for(key):
        if token_id is None and pace.is_over():
            yield None
    if not node.controller.active or node.controller.state is not state:
        raise RequestError(ErrorCode.NOT_CONTROLLER)
    return None if token_id is None else state.image.delegation_tokens.get(token_id)


def renew(node: Broker, request: Request[RenewDelegationTokenRequest], now_ms: int) -> Stepped[Outcome]:
    if not may_ask(node, request):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME_MS)
    if not node.controller.active:
        return FORWARD
    check_enabled(node)
    found = yield from found_token(node, bytes(request.body.hmac))
    wall_ms = node.scheduler.wall.at(node.scheduler.now_ms)
    principal, period_ms = str(request.principal), request.body.renew_period_ms
    result = renew_token(node.controller.state, found, principal, period_ms, wall_ms)
    token = result.response

    def tell() -> None:
        node.journal.token_changed(request, "renewed", token.id, owner=token.owner, expires_ms=token.expires_ms)

    response = RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)
    return Append(result.records, response, tell=tell)


def expire(node: Broker, request: Request[ExpireDelegationTokenRequest], now_ms: int) -> Stepped[Outcome]:
    if not may_ask(node, request):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME_MS)
    if not node.controller.active:
        return FORWARD
    check_enabled(node)
    found = yield from found_token(node, bytes(request.body.hmac))
    wall_ms = node.scheduler.wall.at(node.scheduler.now_ms)
    result = expire_token(found, str(request.principal), request.body.expiry_time_period_ms, wall_ms)
    assert found is not None, "else it is refused"
    ends_ms = wall_ms if result.response is None else result.response.expires_ms

    def tell() -> None:
        what = "removed" if result.response is None else "given another end"
        node.journal.token_changed(request, what, found.id, owner=found.owner, expires_ms=ends_ms)

    return Append(result.records, ExpireDelegationTokenResponse(expiry_timestamp_ms=ends_ms), tell=tell)


def describe(node: Broker, request: Request[DescribeDelegationTokenRequest], now_ms: int) -> Stepped[Outcome]:
    if not may_ask(node, request):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret = check_enabled(node)
    named = request.body.owners
    if named is not None and len(named) > TOKEN_OWNERS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION)
    owners = None if named is None else frozenset(f"{each.principal_type}:{each.principal_name}" for each in named)
    tokens = node.state.image.delegation_tokens
    seen: list[DelegationToken] = []
    pace, shows = Pace(TOKENS_PER_STEP), shown_to(node, request)
    for token in tokens.values():
        if pace.is_over():
            yield None
        if (owners is None or token.concerns(owners)) and shows(token):
            seen.append(token)
    return DescribeDelegationTokenResponse(
        tokens=lazily(lambda token: described(request.version, token, hmac_of(secret, token.id)), seen)
    )


def shown_to(node: Broker, request: Request[Any]) -> Callable[[DelegationToken], bool]:
    """A function that says whether the requester sees a token."""
    requester = frozenset((str(request.principal),))

    def shows(token: DelegationToken) -> bool:
        return (
            token.concerns(requester)
            or node.gate.shows(request, DESCRIBE_TOKEN, token.id)
            or node.gate.shows(request, DESCRIBE_TOKENS, token.owner)
        )

    return shows


def described(version: int, token: DelegationToken, key: bytes) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = requester_in(version, token.requester)
    renewers = [each.partition(":") for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=key,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers
        ],
    )


def refuse_creation(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """The error, in whose answer Kafka names nobody."""
    nobody = str(ANONYMOUS)
    return created(request.version, nobody, nobody, code=code)


HANDLERS = (
    Handler(ApiKey.CREATE_DELEGATION_TOKEN, create, refuse_creation),
    Handler(ApiKey.RENEW_DELEGATION_TOKEN, renew),
    Handler(ApiKey.EXPIRE_DELEGATION_TOKEN, expire),
    Handler(ApiKey.DESCRIBE_DELEGATION_TOKEN, describe),
)
