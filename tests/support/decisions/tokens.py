"""The table of decisions about delegation tokens: each of their APIs, asked by clients of all kinds with all sets of
ACLs. The same code asks Apache Kafka and Penstock.

There are tokens of alice, of bob, and of bob with alice as renewer. What is asked changes nothing about them but their
end; those that are made are taken no notice of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.acls import Acl, AclOperation, PatternType, PermissionType, ResourceType
from penstock.protocol.message import Message
from penstock.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from penstock.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from penstock.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from penstock.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from penstock.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from support.decisions.probe import Asker
from support.decisions.table import World
from support.logins import next_token
from support.tokens import HOUR_MS, creation, exchange_of

ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
PASSWORDS = {"admin": "secret", "alice": "alice-secret", "bob": "bob-secret"}
SECRET = "the-key-of-the-tokens"
Table = dict[str, dict[str, list[str]]]
"""By probe and outcome, the names of who gets it."""


def log_in(asker: Asker, user: str) -> None:
    """By PLAIN."""
    assert asker.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = f"\0{user}\0{PASSWORDS[user]}".encode()
    assert asker.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0


def log_in_by(asker: Asker, token_id: str, key: bytes) -> None:
    """By a delegation token."""
    assert asker.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0
    sasl = exchange_of(token_id, key)
    data: bytes | None = sasl.first()
    while data is not None:
        answer = asker.ask(SaslAuthenticateRequest(auth_bytes=data), 2)
        assert answer.error_code == 0, answer.error_message
        data = next_token(sasl, bytes(answer.auth_bytes))


@dataclass(frozen=True)
class Tokens:
    """The tokens that there are: name to id, and name to HMAC."""

    ids: dict[str, str]
    keys: dict[str, bytes]


@dataclass(frozen=True)
class TokenProbe:
    """A request of a version."""

    name: str
    version: int
    make: Callable[[Tokens], Message]


def probes() -> Iterator[TokenProbe]:
    yield from of_creation()
    yield from of_change()
    yield from of_description()


def of_creation() -> Iterator[TokenProbe]:
    def unowned(*renewers: str) -> Message:
        request = creation(*renewers)
        request.owner_principal_type = request.owner_principal_name = ""
        return request

    for version in (1, 3):
        yield TokenProbe("create", version, lambda tokens: unowned())
    yield TokenProbe("create with a renewer", 2, lambda tokens: unowned(BOB))
    yield TokenProbe("create with a group as renewer", 1, lambda tokens: unowned(BOB, "Group:g"))
    yield TokenProbe("create for oneself by name", 3, lambda tokens: creation(owner=ALICE))
    yield TokenProbe("create for bob", 3, lambda tokens: creation(owner=BOB))
    yield TokenProbe("create for bob with a group as renewer", 3, lambda tokens: creation("Group:g", owner=BOB))
    yield TokenProbe("create for a group", 3, lambda tokens: creation(owner="Group:g"))


def of_change() -> Iterator[TokenProbe]:
    for name in ("alice's", "bob's", "bob's for alice", "nobody's"):
        for version in (1, 2):
            yield TokenProbe(
                f"renew {name}",
                version,
                lambda tokens, name=name: RenewDelegationTokenRequest(hmac=tokens.keys[name], renew_period_ms=-1),
            )
            yield TokenProbe(
                f"expire {name}",
                version,
                lambda tokens, name=name: ExpireDelegationTokenRequest(
                    hmac=tokens.keys[name], expiry_time_period_ms=HOUR_MS
                ),
            )


def of_description() -> Iterator[TokenProbe]:
    def describe(*owners: str) -> Message:
        named = [each.split(":") for each in owners]
        wanted = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in named]
        return DescribeDelegationTokenRequest(owners=wanted)

    for version in (1, 3):
        yield TokenProbe("describe all", version, lambda tokens: DescribeDelegationTokenRequest(owners=None))
    yield TokenProbe("describe those of nobody", 1, lambda tokens: describe())
    yield TokenProbe("describe alice's", 2, lambda tokens: describe(ALICE))
    yield TokenProbe("describe bob's", 3, lambda tokens: describe(BOB))
    yield TokenProbe("describe those of alice and carol", 3, lambda tokens: describe(ALICE, CAROL))


def sets_of_acls() -> dict[str, Callable[[Tokens], list[Acl]]]:
    """The sets of alice's ACLs by their names."""
    user, token = ResourceType.USER, ResourceType.DELEGATION_TOKEN
    allow, deny = PermissionType.ALLOW, PermissionType.DENY

    def acl(
        resource: ResourceType, name: str, operation: str, permission: PermissionType = allow, *, prefixed: bool = False
    ) -> Acl:
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        return Acl(resource, name, pattern, ALICE, "*", AclOperation[operation], permission)

    found: dict[str, Callable[[Tokens], list[Acl]]] = {"nothing": lambda tokens: []}
    for operation in ("CREATE_TOKENS", "DESCRIBE_TOKENS", "ALL"):
        for name, prefixed in (("User:bob", False), ("User:", True), ("*", False), ("bob", False)):
            found[f"{operation} USER {name}"] = lambda tokens, o=operation, n=name, p=prefixed: [  # type: ignore[misc]  # defaults
                acl(user, n, o, prefixed=p)
            ]
    for operation in ("DESCRIBE", "ALL"):
        found[f"{operation} DELEGATION_TOKEN bob's"] = lambda tokens, o=operation: [  # type: ignore[misc]  # its default
            acl(token, tokens.ids["bob's"], o)
        ]
        found[f"{operation} DELEGATION_TOKEN *"] = lambda tokens, o=operation: [acl(token, "*", o)]  # type: ignore[misc]  # its default
    found["all of all, but bob's DESCRIBE_TOKENS denied"] = lambda tokens: [
        acl(user, "*", "ALL"),
        acl(user, "User:bob", "DESCRIBE_TOKENS", deny),
    ]
    found["all of all, but bob's ALL denied"] = lambda tokens: [
        acl(user, "*", "ALL"),
        acl(user, "User:bob", "ALL", deny),
        acl(token, "*", "DESCRIBE"),
    ]
    found["all of all, but DESCRIBE of the token denied"] = lambda tokens: [
        acl(user, "*", "CREATE_TOKENS"),
        acl(token, "*", "DESCRIBE"),
        acl(token, tokens.ids["bob's"], "DESCRIBE", deny),
    ]
    return found


class TokenWorld:
    """A cluster under test: `clients`, who has logged in, are alice, bob, admin and nobody; `connect` makes another
    connection to the listener with SASL."""

    def __init__(self, world: World, clients: dict[str, Asker], connect: Callable[[], Asker]) -> None:
        self.world = world
        self.clients = clients
        self.tokens = self._made()
        job = connect()
        log_in_by(job, self.tokens.ids["alice's"], self.tokens.keys["alice's"])
        self.clients["alice by a token"] = job

    def _made(self) -> Tokens:
        made: dict[str, CreateDelegationTokenResponse] = {}
        for name, who, renewers in (
            ("alice's", "alice", (CAROL,)),
            ("bob's", "bob", ()),
            ("bob's for alice", "bob", (ALICE,)),
        ):
            made[name] = self.clients[who].ask(creation(*renewers), 3)
            assert made[name].error_code == 0, ErrorCode(made[name].error_code)
        ids = {name: each.token_id for name, each in made.items()}

        def known() -> bool:
            found = self.clients["admin"].ask(DescribeDelegationTokenRequest(owners=None), 3)
            return set(ids.values()) <= {each.token_id for each in found.tokens}

        self.world.until(known)
        return Tokens(ids, {**{name: bytes(each.hmac) for name, each in made.items()}, "nobody's": b"nobody's"})

    def outcome(self, answer: Any) -> Any:
        """What of an answer tells who may do what."""
        found: dict[str, Any] = {"error_code": ErrorCode(answer.error_code).name}
        if isinstance(answer, DescribeDelegationTokenResponse):
            names = {token_id: name for name, token_id in self.tokens.ids.items()}
            seen = [each for each in answer.tokens if each.token_id in names]
            assert all(bytes(each.hmac) == self.tokens.keys[names[each.token_id]] for each in seen)
            return {**found, "tokens": sorted(names[each.token_id] for each in seen)}
        found["expires"] = answer.expiry_timestamp_ms if answer.expiry_timestamp_ms <= 0 else "later"
        if isinstance(answer, CreateDelegationTokenResponse):
            found["owner"] = f"{answer.principal_type}:{answer.principal_name}"
            found["requester"] = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
            found["hmac"] = len(answer.hmac)
        return found


def ask_all(world: TokenWorld) -> Table:
    """The whole table of a cluster."""
    table: Table = {}
    for name, acls in sets_of_acls().items():
        world.world.set_acls(acls(world.tokens))
        others = world.clients if name == "nothing" else ()
        for who in ("alice", *(each for each in others if each != "alice")):
            for probe in probes():
                answer = world.clients[who].ask(probe.make(world.tokens), probe.version)
                of_probe = table.setdefault(f"{probe.name}, version {probe.version}", {})
                outcome = json.dumps(world.outcome(answer), sort_keys=True)
                of_probe.setdefault(outcome, []).append(f"{who}, with {name}" if who == "alice" else who)
    return table
