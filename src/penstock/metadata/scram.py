"""SCRAM credentials: what the metadata log keeps of passwords, and the controller's side of changing them (KIP-554).

The log holds no password: `stored_key` checks the proof of one, `server_key` proves to the client that the server knew
it. Who reads them can impersonate the server, and, having heard a login, the client: the log is for nodes only.

All metadata versions that are supported here have these records (Kafka's since 3.5-IV2).
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import new as new_hash

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.limits import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN
from penstock.metadata.persistent import PersistentMap
from penstock.metadata.result import ApiError, MetadataMessage, Result
from penstock.protocol.messages.metadata.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from penstock.protocol.messages.metadata.user_scram_credential_record import UserScramCredentialRecord

DELETE_MISSING = "Attempt to delete a user credential that does not exist"
KEY_POSITION = 1
KEYS = (bytes([UserScramCredentialRecord.KEY]), bytes([RemoveUserScramCredentialRecord.KEY]))
"""The types of the records, and where a value has them (`protocol.record_frames`)."""
TWICE = "A user credential cannot be altered twice in the same request"


class ScramMechanism(IntEnum):
    """Kafka's ScramMechanism codes, in records and in requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name in a SASL handshake."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The hash as hashlib names it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    @classmethod
    def named(cls, sasl_name: str) -> ScramMechanism | None:
        """The mechanism of this name in a handshake; None if it is no SCRAM mechanism."""
        return next((each for each in cls if each.sasl_name == sasl_name), None)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is kept of one user's password for one mechanism (RFC 5802, section 3)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @staticmethod
    def of(record: UserScramCredentialRecord) -> ScramCredential:
        """What a record keeps."""
        return ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )

    def record(self, user: str, mechanism: int) -> UserScramCredentialRecord:
        """The record that keeps it."""
        return UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=self.salt,
            stored_key=self.stored_key,
            server_key=self.server_key,
            iterations=self.iterations,
        )


Credentials = PersistentMap[tuple[int, str], ScramCredential]
"""All credentials, by (code of the mechanism, user)."""


def keyed(mechanism: ScramMechanism, key: bytes, data: bytes) -> bytes:
    """HMAC with the mechanism's hash."""
    return hmac.digest(key, data, mechanism.hash_name)


def credential_of(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """What is stored of a password whose salted form (`security.sasl.Derivation.derive`) is known."""
    client_key = keyed(mechanism, salted_password, b"Client Key")
    stored_key = new_hash(mechanism.hash_name, client_key).digest()
    return ScramCredential(salt, stored_key, keyed(mechanism, salted_password, b"Server Key"), iterations)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A user's credential for a mechanism (its code, perhaps unknown) is to go."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    """A user's credential for a mechanism is to be this one."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


def alter_credentials(
    credentials: Credentials, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> Result[list[tuple[str, ApiError]]]:
    """Changes credentials; answers user by user. A user may be named once: more often is DUPLICATE_RESOURCE, and none
    of that user's changes is made.
    """
    records: dict[str, MetadataMessage] = {}
    answers: dict[str, ApiError] = {}
    changes: Iterable[Deletion | Upsertion] = (*deletions, *upsertions)
    for change in changes:
        user = change.user
        if user in answers:
            if not answers[user].failed:
                answers[user] = ApiError(ErrorCode.DUPLICATE_RESOURCE, TWICE)
                del records[user]
            continue
        try:
            records[user] = record_of(credentials, change)
            answers[user] = ApiError()
        except RequestError as error:
            answers[user] = ApiError.of(error)
    return Result(list(answers.items()), list(records.values()))


def record_of(credentials: Credentials, change: Deletion | Upsertion) -> MetadataMessage:
    """The record of one change. Raises RequestError, in Kafka's sentences."""
    if not change.user:
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    try:
        mechanism = ScramMechanism(change.mechanism)
    except ValueError:
        raise RequestError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None
    if isinstance(change, Deletion):
        if (change.mechanism, change.user) not in credentials:
            raise RequestError(ErrorCode.RESOURCE_NOT_FOUND, DELETE_MISSING)
        return RemoveUserScramCredentialRecord(name=change.user, mechanism=change.mechanism)
    if change.iterations < SCRAM_ITERATIONS_MIN:
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > SCRAM_ITERATIONS_MAX:
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salt or not change.salted_password:
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt and salted password must not be empty")
    stored = credential_of(mechanism, change.salt, change.salted_password, change.iterations)
    return stored.record(change.user, mechanism)


def described(
    credentials: Credentials, users: Sequence[str] | None
) -> list[tuple[str, ApiError, list[tuple[int, int]]]]:
    """For each of the users, or for all that have credentials if none is named: an error, or (mechanism, iterations)
    of each credential. A user who is named twice is DUPLICATE_RESOURCE.
    """

    if not users:
        users = sorted({user for _, user in credentials})
    answers = []
    for user, times in Counter(users).items():
        found = [(mechanism, credentials.get((mechanism, user))) for mechanism in ScramMechanism]
        infos = [(int(mechanism), each.iterations) for mechanism, each in found if each is not None]
        error = ApiError()
        if times > 1:
            sentence = "Cannot describe SCRAM credentials for the same user twice in a single request: "
            error = ApiError(ErrorCode.DUPLICATE_RESOURCE, sentence + user)
        elif not infos:
            sentence = "Attempt to describe a user credential that does not exist: "
            error = ApiError(ErrorCode.RESOURCE_NOT_FOUND, sentence + user)
        answers.append((user, error, [] if error.failed else infos))
    return answers


def changed_by(credentials: Credentials, records: Iterable[MetadataMessage]) -> Credentials:
    """The credentials after records, of which others than those of credentials change nothing."""
    for record in records:
        if record.NAME == "UserScramCredentialRecord":
            credentials = credentials.set((record.mechanism, record.name), ScramCredential.of(record))
        elif record.NAME == "RemoveUserScramCredentialRecord":
            credentials = credentials.remove((record.mechanism, record.name))
    return credentials


def is_of_credential(value: bytes) -> bool:
    """Whether the value of a metadata record sets or removes a credential; quicker than to decode it."""
    return value[KEY_POSITION : KEY_POSITION + 1] in KEYS
