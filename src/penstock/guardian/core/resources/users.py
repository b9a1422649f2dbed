"""`/v1/users`: who may do what, by roles; `/v1/tokens`: by what users log in over HTTP. For admins of all clusters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from penstock.config.nearest import did_you_mean
from penstock.guardian.core.accounts import (
    AUDITOR,
    ID_BYTES,
    PRINCIPAL_TYPE,
    ROLES,
    SECRET_BYTES,
    Role,
    Token,
    User,
    hash_of,
    new_token,
    token_record,
    user_record,
)
from penstock.guardian.core.calls import (
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    OK,
    Call,
    Decided,
    Known,
    Refused,
    Reply,
    Resource,
    body_of,
    text_of,
)
from penstock.guardian.core.described import (
    REMOVED,
    Operation,
    choice,
    flag,
    listed,
    or_null,
    shape,
    text,
    whole,
)
from penstock.guardian.core.limits import (
    GUARDIAN_TEXT_MAX,
    GUARDIAN_TOKEN_DEFAULT_MS,
    GUARDIAN_TOKEN_MAX_MS,
    GUARDIAN_USER_ROLES_MAX,
    GUARDIAN_USER_TOKENS_MAX,
    GUARDIAN_USERS_MAX,
)
from penstock.guardian.core.records import GuardianRecord
from penstock.guardian.core.resources.clusters import cluster_named
from penstock.guardian.core.state import Command, GuardianState
from penstock.protocol.messages.guardian.guardian_remove_token_record import GuardianRemoveTokenRecord
from penstock.protocol.messages.guardian.guardian_remove_user_record import GuardianRemoveUserRecord

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@=,+ -]*")
"""Among these are the distinguished names of certificates, which are names of principals."""

ROLE = shape(
    "Role",
    {"role": choice("What it lets a user do.", ROLES)},
    {"cluster": or_null(text("The cluster that it is for; null, or left out: all of them."))},
)
USER = shape(
    "User",
    {
        "name": text("The user's name, that of its principal (User:NAME) over Kafka's protocol."),
        "roles": listed(ROLE),
        "tokens": listed(text("The id of a token.")),
    },
)
TOKEN = shape(
    "Token",
    {
        "id": text("By this it is revoked."),
        "user": text("Whose it is."),
        "label": text("What it is for."),
        "created_ms": whole("Wall time."),
        "expires_ms": whole("Wall time from which on it does not count."),
        "expired": flag("Whether that time has come."),
    },
)
MADE_TOKEN = shape("NewToken", {**TOKEN["properties"], "token": text("The token itself. It is shown this once.")})
TOLD_USER = {"name": "ann", "roles": [{"role": "operator", "cluster": "clicks"}], "tokens": ["9f86d081884c7d65"]}
TOLD_TOKEN = {
    "id": "9f86d081884c7d65", "user": "ann", "label": "laptop", "created_ms": 1_780_000_000_000,
    "expires_ms": 1_787_776_000_000, "expired": False,
}  # fmt: skip


class Users(Resource):
    """See the module's head."""

    path = "/v1/users"
    operations = (
        Operation("GET", "All users", shape("Users", {"users": listed(USER)}), example={"users": [TOLD_USER]}),
        Operation("GET", "One user", USER, named=True, example=TOLD_USER),
        Operation(
            "POST", "Add a user", USER, example={**TOLD_USER, "tokens": []},
            body=shape("NewUser", {"name": text("A new name."), "roles": listed(ROLE)}),
            body_example={"name": "ann", "roles": [{"role": "operator", "cluster": "clicks"}]},
        ),
        Operation(
            "PATCH", "Give a user other roles", USER, named=True, example=TOLD_USER,
            body=shape("NewRoles", {"roles": listed(ROLE, "All roles that it has from now on.")}),
            body_example={"roles": [{"role": "viewer"}]},
        ),
        Operation("DELETE", "Remove a user, and its tokens", REMOVED, named=True, example={"removed": "ann"}),
    )  # fmt: skip

    def read(self, known: Known, call: Call, name: str) -> Reply:
        state = known.state
        if name:
            return Reply(OK, shown(state, user_named(state, name)))
        return Reply(OK, {"users": [shown(state, each) for each in state.accounts.users.values()]})

    def decide(self, known: Known, call: Call, name: str, new_id: Callable[[], UUID]) -> Decided:
        state = known.state
        if not name and call.method == "POST":
            user = new_user(state, body_of(call, ("name", "roles")))
            return Decided((user_record(user),), user.name, Reply(CREATED, shown(state, user)))
        if not name or call.method not in ("PATCH", "DELETE"):
            raise Refused(METHOD_NOT_ALLOWED, f"{call.place} takes no {call.method}")
        user = user_named(state, name)
        if call.method == "DELETE":
            removal = GuardianRemoveUserRecord(name=user.name)
            return Decided((removal,), user.name, Reply(OK, {"removed": user.name}))
        user = User(user.name, roles_of(state, body_of(call, ("roles",)).get("roles")))
        return Decided((user_record(user),), user.name, Reply(OK, shown(state, user)))

    def repeated(self, known: Known, call: Call, made: Command) -> Reply:
        if call.method == "POST" and text_of(body_of(call, ("name", "roles")), "name") != made.subject:
            raise Refused(CONFLICT, f"the request id was that of user {made.subject} before")
        if call.method == "DELETE":
            return Reply(OK, {"removed": made.subject})
        user = known.state.accounts.users.get(made.subject)
        return Reply(OK, shown(known.state, user) if user is not None else {"name": made.subject, "removed": True})


class Tokens(Resource):
    """See the module's head."""

    path = "/v1/tokens"
    operations = (
        Operation(
            "GET", "All tokens, without their secrets", shape("Tokens", {"tokens": listed(TOKEN)}),
            example={"tokens": [TOLD_TOKEN]}, query={"user": "Those of one user."},
        ),
        Operation("GET", "One token, without its secret", TOKEN, named=True, example=TOLD_TOKEN),
        Operation(
            "POST", "Make a token, which is shown this once", MADE_TOKEN,
            example={**TOLD_TOKEN, "token": "pgt_9f86d081884c7d65_" + "0123456789abcdef" * 4},
            body=shape(
                "TokenWanted",
                {"user": text("Whose it is to be.")},
                {
                    "label": text("What it is for."),
                    "valid_ms": whole("How long it counts.", default=GUARDIAN_TOKEN_DEFAULT_MS,
                                      minimum=1, maximum=GUARDIAN_TOKEN_MAX_MS),
                },
            ),
            body_example={"user": "ann", "label": "laptop", "valid_ms": GUARDIAN_TOKEN_DEFAULT_MS},
        ),
        Operation("DELETE", "Revoke a token", REMOVED, named=True, example={"removed": "9f86d081884c7d65"}),
    )  # fmt: skip

    def read(self, known: Known, call: Call, name: str) -> Reply:
        if name:
            return Reply(OK, told(token_named(known.state, name), known.wall_ms))
        tokens = list(known.state.accounts.tokens.values())
        user = call.query(("user",)).get("user")
        if user is not None:
            user_named(known.state, user)
            tokens = [each for each in tokens if each.user == user]
        return Reply(OK, {"tokens": [told(each, known.wall_ms) for each in tokens]})

    def decide(self, known: Known, call: Call, name: str, new_id: Callable[[], UUID]) -> Decided:
        if not name and call.method == "POST":
            return made_token(known, body_of(call, ("user", "label", "valid_ms")))
        if not name or call.method != "DELETE":
            raise Refused(METHOD_NOT_ALLOWED, f"{call.place} takes no {call.method}")
        token = token_named(known.state, name)
        return Decided((GuardianRemoveTokenRecord(token_id=token.id),), token.id, Reply(OK, {"removed": token.id}))

    def repeated(self, known: Known, call: Call, made: Command) -> Reply:
        if call.method == "DELETE":
            return Reply(OK, {"removed": made.subject})
        lost = f"token {made.subject} was made by this request, and is shown only once: revoke it and make another"
        raise Refused(CONFLICT, lost)


def made_token(known: Known, body: Mapping[str, Any]) -> Decided:
    """A new token of a user, whose tokens that have expired go. Raises Refused."""
    user = user_named(known.state, text_of(body, "user"), BAD_REQUEST)
    label = text_of(body, "label", "")
    valid_ms = body.get("valid_ms", GUARDIAN_TOKEN_DEFAULT_MS)
    if type(valid_ms) is not int or not 0 < valid_ms <= GUARDIAN_TOKEN_MAX_MS:
        raise Refused(BAD_REQUEST, f"valid_ms must be a whole number from 1 to {GUARDIAN_TOKEN_MAX_MS}")
    theirs = known.state.accounts.tokens_of(user.name)
    expired = [each for each in theirs if known.wall_ms >= each.expires_ms]
    if len(theirs) - len(expired) >= GUARDIAN_USER_TOKENS_MAX:
        raise Refused(CONFLICT, f"{user.name} has {GUARDIAN_USER_TOKENS_MAX} tokens: revoke one first")
    token_id = known.new_secret(ID_BYTES)
    while token_id.hex() in known.state.accounts.tokens:
        token_id = known.new_secret(ID_BYTES)
    secret = new_token(token_id, known.new_secret(SECRET_BYTES))
    token = Token(token_id.hex(), user.name, hash_of(secret), label, known.wall_ms, known.wall_ms + valid_ms)
    records: list[GuardianRecord] = [GuardianRemoveTokenRecord(token_id=each.id) for each in expired]
    records.append(token_record(token))
    return Decided(records, token.id, Reply(CREATED, {**told(token, known.wall_ms), "token": secret}))


def user_named(state: GuardianState, name: str, status: int = NOT_FOUND) -> User:
    """The user of this name. Raises Refused, with this status."""
    user = state.accounts.users.get(name)
    if user is None:
        near = did_you_mean(name, state.accounts.users)
        raise Refused(status, f"there is no user {name[:GUARDIAN_TEXT_MAX]}{near}")
    return user


def token_named(state: GuardianState, token_id: str) -> Token:
    """The token of this id. Raises Refused, which does not repeat what was given: it may be the token itself."""
    token = state.accounts.tokens.get(token_id)
    if token is None:
        raise Refused(NOT_FOUND, "there is no token of this id: GET /v1/tokens lists the ids")
    return token


def new_user(state: GuardianState, body: Mapping[str, Any]) -> User:
    """The user that is to be added. Raises Refused."""
    name = text_of(body, "name")
    if name.startswith(PRINCIPAL_TYPE):
        raise Refused(BAD_REQUEST, f"name: {name} must be without {PRINCIPAL_TYPE}")
    if not NAME.fullmatch(name):
        raise Refused(BAD_REQUEST, f"name: {name!r} must be letters, digits, spaces and any of ._@=,+-")
    if name in state.accounts.users:
        raise Refused(CONFLICT, f"user {name} is there already")
    if len(state.accounts.users) >= GUARDIAN_USERS_MAX:
        raise Refused(CONFLICT, f"there are {GUARDIAN_USERS_MAX} users: remove one first")
    return User(name, roles_of(state, body.get("roles")))


def roles_of(state: GuardianState, value: Any) -> tuple[Role, ...]:
    """The roles of a body. Raises Refused."""
    if not isinstance(value, list) or not 0 < len(value) <= GUARDIAN_USER_ROLES_MAX:
        raise Refused(BAD_REQUEST, f"roles must be a list of 1 to {GUARDIAN_USER_ROLES_MAX} roles")
    return tuple(dict.fromkeys(role_of(state, each) for each in value))


def role_of(state: GuardianState, value: Any) -> Role:
    """One role. Raises Refused."""
    if not isinstance(value, dict) or not set(value) <= {"role", "cluster"}:
        raise Refused(BAD_REQUEST, 'roles: each must be an object like {"role": "operator", "cluster": "clicks"}')
    name = text_of(value, "role")
    if name not in ROLES:
        raise Refused(BAD_REQUEST, f"role: {name} must be one of {', '.join(ROLES)}{did_you_mean(name, ROLES)}")
    if value.get("cluster") is None:
        return Role(name)
    if name == AUDITOR:
        raise Refused(BAD_REQUEST, f"role: {AUDITOR} is for all clusters, as the audit is")
    try:
        return Role(name, cluster_named(state, text_of(value, "cluster")).id)
    except Refused as error:
        raise Refused(BAD_REQUEST, f"role: {error}") from None


def shown(state: GuardianState, user: User) -> dict[str, Any]:
    """A user as answers have it."""
    roles = [
        {"role": each.name, "cluster": None if each.cluster_id is None else state.clusters[each.cluster_id].name}
        for each in user.roles
    ]
    tokens = [each.id for each in state.accounts.tokens_of(user.name)]
    return {"name": user.name, "roles": roles, "tokens": tokens}


def told(token: Token, wall_ms: int) -> dict[str, Any]:
    """A token as answers have it, without its secret."""
    return {
        "id": token.id,
        "user": token.user,
        "label": token.label,
        "created_ms": token.created_ms,
        "expires_ms": token.expires_ms,
        "expired": wall_ms >= token.expires_ms,
    }
