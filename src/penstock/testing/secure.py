"""A broker for tests whose clients come over TLS, log in, and may do what ACLs allow them.

    with SecureBroker() as broker:
        broker.create_topic("clicks")
        alice = broker.add_user("alice")
        broker.allow("alice", "read", "write", topic="clicks")
        producer = confluent_kafka.Producer(alice.librdkafka)

It is what `penstock dev --secure` starts: an authority and a certificate are made for it, the administrator logs in by
PLAIN and may do all, users log in by SCRAM and may do nothing at first. Needs the extra `security`.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.cli.dev_secure import ADMIN, LISTENER, PASSWORD_BYTES, secure, write_secret
from penstock.client.acls import acl_words, creation_of
from penstock.client.property_files import client_properties
from penstock.client.security import module_of
from penstock.config.properties import escape
from penstock.config.sasl import PLAIN
from penstock.config.server import Settings
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.scram import ScramMechanism
from penstock.protocol.acls import CLUSTER_NAME, WILDCARD, Acl, AclOperation, PatternType, PermissionType, ResourceType
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.create_acls_request import CreateAclsRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.security.plain import PlainClient
from penstock.security.sasl import Derivation
from penstock.security.scram import SALT_BITS, salt_of
from penstock.testing.broker import LocalBroker, exchange, local_settings

SCRAM = ScramMechanism.SCRAM_SHA_512
ITERATIONS = 4096
SASL_HANDSHAKE_VERSION, SASL_AUTHENTICATE_VERSION = 1, 2
ALTER_USERS_VERSION, CREATE_ACLS_VERSION = 0, 3


@dataclass(frozen=True, slots=True)
class User:
    """Who logs in at a broker, and how: `broker.admin`, or what `broker.add_user` returns.

    Attributes:
        name, password: of the login. mechanism: of SASL.
        bootstrap: the broker's address. trust: the certificate of its authority, as PEM.
        client_file: a file of client properties, for Kafka's tools and `--command-config`.
    """

    name: str
    password: str = field(repr=False)
    mechanism: str
    bootstrap: str
    trust: Path
    client_file: Path

    @property
    def properties(self) -> dict[str, str]:
        """Kafka's client properties: for Java, and with `kafka.` before each for Spark."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f"{module_of(self.mechanism)} required username={quoted(self.name)} "
            f"password={quoted(self.password)};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
        }

    @property
    def librdkafka(self) -> dict[str, Any]:
        """Settings of confluent-kafka, and whatever else has librdkafka inside."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.name,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.trust),
        }

    @property
    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python."""
        return {**self._arguments(), "ssl_cafile": str(self.trust)}

    @property
    def aiokafka(self) -> dict[str, Any]:
        """Keyword arguments of aiokafka."""
        return {**self._arguments(), "ssl_context": ssl.create_default_context(cafile=str(self.trust))}

    def _arguments(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.name,
            "sasl_plain_password": self.password,
        }


class SecureBroker(LocalBroker):
    """See the module's head; arguments and attributes are those of LocalBroker. With a `data_dir` that is kept, keys
    and passwords are kept beside it, in `data_dir` with `.secure` at the end.

    Attributes:
        admin: the administrator, who may do all. Nobody else is a user at first.
    """

    admin: User

    def start(self) -> None:
        """Starts the broker; returns when it serves. Raises ConfigError without the extra `security`."""
        super().start()
        login = client_properties(str(self._secrets / "client.properties"))[1].login
        assert login is not None, "the administrator's file has a login"
        self.admin = self._user(ADMIN, login.password, PLAIN)

    def add_user(self, name: str, password: str | None = None) -> User:
        """Adds a user, who may do nothing yet, or sets the password of one; by default one that nobody knows.

        Raises RequestError as the broker refuses it.
        """
        password = secrets.token_urlsafe(PASSWORD_BYTES) if password is None else password
        salt = salt_of(secrets.randbits(SALT_BITS))
        upsertion = ScramCredentialUpsertion(
            name=name,
            mechanism=SCRAM,
            iterations=ITERATIONS,
            salt=salt,
            salted_password=Derivation(SCRAM.hash_name, password.encode(), salt, ITERATIONS).derive(),
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        (result,) = self.request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ALTER_USERS_VERSION, request).results
        refuse(result.error_code, result.error_message, f"user {name}")
        return self._user(name, password, SCRAM.sasl_name)

    def allow(self, user: str, *operations: str, prefixed: bool = False, **resource: str) -> None:
        """Lets a user do something: `allow("alice", "read", topic="clicks")`.

        Args:
            user: a name; `*` for everybody.
            operations: Kafka's, as kafka-acls has them: read, write, create, describe, alter_configs, all, ...
            prefixed: all resources whose names begin so.
            resource: one of topic, group, transactional_id, user; or cluster, whatever its name.

        Raises RequestError as the broker refuses it, ValueError for an operation or a resource that does not exist.
        """
        self._add_acls(PermissionType.ALLOW, user, operations, prefixed=prefixed, resource=resource)

    def deny(self, user: str, *operations: str, prefixed: bool = False, **resource: str) -> None:
        """Forbids a user something, whatever else allows it; arguments and errors are those of `allow`."""
        self._add_acls(PermissionType.DENY, user, operations, prefixed=prefixed, resource=resource)

    def _add_acls(
        self, permission: int, user: str, operations: tuple[str, ...], *, prefixed: bool, resource: Mapping[str, str]
    ) -> None:
        kind, name = resource_of(resource)
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        acls = [
            Acl(kind, name, pattern, f"User:{user}", WILDCARD, operation_of(each), permission) for each in operations
        ]
        request = CreateAclsRequest(creations=[creation_of(each) for each in acls])
        answer = self.request(ApiKey.CREATE_ACLS, CREATE_ACLS_VERSION, request)
        for acl, result in zip(acls, answer.results, strict=True):
            refuse(result.error_code, result.error_message, acl_words(acl))

    # What is other than at a broker without security

    @property
    def _secrets(self) -> Path:
        return Path(f"{self.data_dir}.secure")

    def _settings(self) -> Settings:
        secured, _ = secure(str(self.data_dir), "a secure broker")
        listeners = {"listeners": f"{LISTENER}://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
        return local_settings(self.data_dir, {**secured, **listeners, **self._given})

    def _connect(self) -> socket.socket:
        connection = super()._connect()
        try:
            self._log_in(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _log_in(self, connection: socket.socket) -> None:
        handshake = SaslHandshakeRequest(mechanism=self.admin.mechanism)
        exchange(connection, ApiKey.SASL_HANDSHAKE, SASL_HANDSHAKE_VERSION, handshake)
        token = PlainClient(self.admin.name, self.admin.password).first()
        message = SaslAuthenticateRequest(auth_bytes=token)
        answer = exchange(connection, ApiKey.SASL_AUTHENTICATE, SASL_AUTHENTICATE_VERSION, message)
        refuse(answer.error_code, answer.error_message, "the administrator's login")

    def _user(self, name: str, password: str, mechanism: str) -> User:
        path = self._secrets / f"{quote(name, safe='')}.user.properties"
        user = User(name, password, mechanism, self.bootstrap, self._secrets / "ca.pem", path)
        lines = [f"{key}={escape(text)}" for key, text in user.properties.items()]
        write_secret(str(path), "\n".join([*lines, ""]).encode("latin-1"))
        return user

    def _remove(self) -> None:
        super()._remove()
        if self._temporary:
            shutil.rmtree(self._secrets, ignore_errors=True)


def quoted(text: str) -> str:
    """A value as JAAS configurations have it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def resource_of(named: Mapping[str, str]) -> tuple[ResourceType, str]:
    """Type and name of a resource. Raises ValueError."""
    if len(named) != 1:
        raise ValueError(f"one resource must be named, such as topic='clicks', not {len(named)}")
    ((word, name),) = named.items()
    kinds = {each.name.lower(): each for each in ResourceType if each > ResourceType.ANY}
    if word not in kinds:
        raise ValueError(f"there is no resource {word!r}: it must be one of {', '.join(kinds)}")
    return kinds[word], CLUSTER_NAME if kinds[word] is ResourceType.CLUSTER else name


def operation_of(word: str) -> AclOperation:
    """An operation by its name, in any case, with `_` or `-`. Raises ValueError."""
    operations = {each.name.lower(): each for each in AclOperation if each > AclOperation.ANY}
    found = operations.get(word.lower().replace("-", "_"))
    if found is None:
        raise ValueError(f"there is no operation {word!r}: it must be one of {', '.join(operations)}")
    return found


def refuse(code: int, message: str | None, what: str) -> None:
    """Raises RequestError if there is an error."""
    if code:
        raise RequestError(ErrorCode(code), f"{what}: {message or ErrorCode(code).name}")
