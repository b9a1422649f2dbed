"""Users of Guardian: who they are, which roles they have, and the tokens by which they log in over HTTP.

A token is `pgt_ID_SECRET`: an id of 64 bits, which lists show and by which it is revoked, and a secret of 256 random
bits. The log holds the SHA-256 of the whole, unsalted and once: salts and slow hashes are for what people choose, so
that many guesses at one are dear; 256 random bits cannot be guessed at any price, and no two tokens are alike. Who
reads the log, a snapshot or a backup cannot log in by what is there. A user has several tokens, so that a new one can
be in use before the old one is revoked.

A user is also the principal of its name (`User:ann`) that has logged in over Kafka's protocol.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from penstock.errors import StorageError
from penstock.protocol.messages.guardian.guardian_remove_token_record import GuardianRemoveTokenRecord
from penstock.protocol.messages.guardian.guardian_remove_user_record import GuardianRemoveUserRecord
from penstock.protocol.messages.guardian.guardian_token_record import GuardianTokenRecord
from penstock.protocol.messages.guardian.guardian_user_record import GuardianUserRecord, UserRole

VIEWER, OPERATOR, ADMIN, AUDITOR = ROLES = ("viewer", "operator", "admin", "auditor")
"""What a user may do; `guardian.core.roles` has the table."""
PRINCIPAL_TYPE = "User:"
TOKEN = re.compile(r"pgt_([0-9a-f]{16})_[0-9a-f]{64}")
ID_BYTES, SECRET_BYTES = 8, 32
ALL_CLUSTERS = UUID(int=0)
"""In a record: the role is for all clusters."""

AccountRecord = GuardianUserRecord | GuardianRemoveUserRecord | GuardianTokenRecord | GuardianRemoveTokenRecord


class Role(NamedTuple):
    """A role, for one cluster, or for all (None), those that are registered later among them."""

    name: str
    cluster_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class User:
    """A user. The principal of a user over Kafka's protocol is `User:` and the name."""

    name: str
    roles: tuple[Role, ...]

    @property
    def principal(self) -> str:
        return PRINCIPAL_TYPE + self.name


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without its secret. `created_ms`, `expires_ms`: wall time; it counts until then, and not at it."""

    id: str
    user: str
    sha256: bytes
    label: str
    created_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """All users, by name, and all tokens, by id."""

    users: Mapping[str, User] = field(default_factory=lambda: MappingProxyType({}))
    tokens: Mapping[str, Token] = field(default_factory=lambda: MappingProxyType({}))

    def tokens_of(self, user: str) -> list[Token]:
        """The tokens of a user, the oldest first."""
        return [each for each in self.tokens.values() if each.user == user]

    def of_principal(self, principal: str) -> User | None:
        """The user that a principal is, as `User:ann`."""
        return self.users.get(principal.removeprefix(PRINCIPAL_TYPE)) if principal.startswith(PRINCIPAL_TYPE) else None

    def logged_in(self, token: str, wall_ms: int) -> Token | None:
        """The token that this text is, if it counts now. How long that takes does not tell how much of it is right."""
        shape = TOKEN.fullmatch(token)
        known = self.tokens.get(shape[1]) if shape is not None else None
        right = hmac.compare_digest(hash_of(token), bytes(SECRET_BYTES) if known is None else known.sha256)
        return known if known is not None and right and wall_ms < known.expires_ms else None

    def after(self, record: AccountRecord) -> Accounts:
        """The accounts after one record. Raises StorageError for one about nobody."""
        users, tokens = dict(self.users), dict(self.tokens)
        if isinstance(record, GuardianUserRecord):
            users[record.name] = user_of(record)
        elif isinstance(record, GuardianRemoveUserRecord):
            if users.pop(record.name, None) is None:
                raise StorageError(f"Guardian's log is damaged: {record.NAME} is about no user that is there")
            tokens = {token_id: each for token_id, each in tokens.items() if each.user != record.name}
        elif isinstance(record, GuardianTokenRecord):
            if record.user not in users:
                raise StorageError(f"Guardian's log is damaged: {record.NAME} is about no user that is there")
            tokens[record.token_id] = token_of(record)
        elif tokens.pop(record.token_id, None) is None:
            raise StorageError(f"Guardian's log is damaged: {record.NAME} is about no token that is there")
        return Accounts(MappingProxyType(users), MappingProxyType(tokens))

    def without_cluster(self, cluster_id: UUID) -> Accounts:
        """Nobody has a role for a cluster that is gone: its name may come back, its id does not."""
        users = {
            name: replace(user, roles=tuple(each for each in user.roles if each.cluster_id != cluster_id))
            for name, user in self.users.items()
        }
        return replace(self, users=MappingProxyType(users))

    def records(self) -> Iterator[AccountRecord]:
        """The records that make these accounts from nothing."""
        for user in self.users.values():
            yield user_record(user)
        for token in self.tokens.values():
            yield token_record(token)


def new_token(token_id: bytes, secret: bytes) -> str:
    """The text of a token that is made."""
    assert (len(token_id), len(secret)) == (ID_BYTES, SECRET_BYTES)
    return f"pgt_{token_id.hex()}_{secret.hex()}"


def hash_of(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def user_of(record: GuardianUserRecord) -> User:
    """The user that a record makes, or changes."""
    roles = (Role(each.role, None if each.cluster_id == ALL_CLUSTERS else each.cluster_id) for each in record.roles)
    return User(record.name, tuple(roles))


def user_record(user: User) -> GuardianUserRecord:
    """The record that makes a user, or gives it these roles instead of those that it has."""
    roles = [UserRole(role=each.name, cluster_id=each.cluster_id or ALL_CLUSTERS) for each in user.roles]
    return GuardianUserRecord(name=user.name, roles=roles)


def token_of(record: GuardianTokenRecord) -> Token:
    """The token that a record makes."""
    return Token(record.token_id, record.user, bytes(record.sha256), record.label, record.created_ms, record.expires_ms)


def token_record(token: Token) -> GuardianTokenRecord:
    """The record that makes a token."""
    return GuardianTokenRecord(
        token_id=token.id,
        user=token.user,
        sha256=token.sha256,
        label=token.label,
        created_ms=token.created_ms,
        expires_ms=token.expires_ms,
    )
