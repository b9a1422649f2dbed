"""No secret is told: a node and its clients are given canaries wherever a password can stand, and then all that they
say is searched: logs at DEBUG, what commands print, answers, metrics, dumps, errors and files.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import traceback
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from interop.secured_kafka import write_properties
from interop.security.commands import Capture
from support.tls import Authority

from penstock.cli.main import main
from penstock.client.connection import BrokerConnection
from penstock.client.property_files import client_properties, provided, read_file
from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.errors import ErrorCode
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.server.logs import JsonFormatter
from penstock.testing.broker import LocalBroker

CANARIES = 31
CANARY = re.compile(rb"canary[- ]?\d\d", re.IGNORECASE)
PROVIDER = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "file,env,dir",
    "config.providers.file.class": f"{PROVIDER}.FileConfigProvider",
    "config.providers.env.class": f"{PROVIDER}.EnvVarConfigProvider",
    "config.providers.dir.class": f"{PROVIDER}.DirectoryConfigProvider",
}
CONTROLLERS = {
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN_MODULE} required username=n password=n user_n="n";',
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
}


def canary(number: int) -> str:
    return f"canary-{number:02}"


class Place:
    """A node's server.properties and what it names, in a directory; and client files. Counts the canaries given."""

    def __init__(self, directory: Path, environment: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.given: set[int] = set()
        self.key_bodies: list[str] = []
        self.hmacs: list[str] = []
        authority = Authority(directory)
        store = authority.store("node")
        key = load_pem_private_key(store.key_pem.encode(), None)
        protected = pkcs12.serialize_key_and_certificates(
            b"node",
            key,  # type: ignore[arg-type]  # one of EC
            store.certificate,
            None,
            BestAvailableEncryption(self.secret(1).encode()),
        )
        (directory / "node.p12").write_bytes(protected)
        trust = pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(authority.certificate, b"ca")], BestAvailableEncryption(self.secret(4).encode())
        )
        (directory / "trust.p12").write_bytes(trust)
        encrypted = key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(self.secret(3).encode())
        ).decode()
        self.key_bodies = [encrypted.splitlines()[1], store.key_pem.splitlines()[1]]
        (directory / "secrets.properties").write_text(f"store={self.secret(1)}\nother={self.secret(2)}\n")
        (directory / "trust-password").write_text(self.secret(4))
        environment.setenv("PENSTOCK_CANARY_KEY", self.secret(3))
        environment.setenv("PENSTOCK_CANARY_OTHER", self.secret(5))
        users = f'user_alice="{self.secret(6)}" user_bob="{self.secret(7)}"'
        named, second = "listener.name.secured.", "listener.name.second."
        self.trust = store.trust
        self.file = write_properties(
            directory / "server.properties",
            {
                **PROVIDERS,
                "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,SECOND://127.0.0.1:0,"
                "CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,SECURED:SASL_SSL,"
                "SECOND:SASL_SSL",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                f"{named}plain.sasl.jaas.config": f"{PLAIN_MODULE} required username=node "
                f'password="{self.secret(8)}" {users};',
                f"{named}scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required username=node "
                f'password="{self.secret(9)}";',
                f"{named}ssl.keystore.type": "PKCS12",
                f"{named}ssl.keystore.location": str(directory / "node.p12"),
                f"{named}ssl.keystore.password": f"${{file:{directory}/secrets.properties:store}}",
                f"{second}plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_eve="{self.secret(10)}";',
                f"{second}ssl.keystore.type": "PEM",
                f"{second}ssl.keystore.key": encrypted.replace("\n", "\\n"),
                f"{second}ssl.keystore.certificate.chain": store.certificate_pem.replace("\n", "\\n"),
                f"{second}ssl.key.password": "${env:PENSTOCK_CANARY_KEY}",
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.location": str(directory / "trust.p12"),
                "ssl.truststore.password": f"${{dir:{directory}:trust-password}}",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "penstock.metrics.listener": "127.0.0.1:0",
                "delegation.token.secret.key": self.secret(31),
                **CONTROLLERS,
            },
        )

        self.whole = directory / "whole.properties"
        self.whole.write_text(
            f"{self.file.read_text()}process.roles=broker,controller\nnode.id=1\nlog.dirs={directory}/data\n"
            "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:19093\n"
        )

    def secret(self, number: int) -> str:
        self.given.add(number)
        return canary(number)

    def client(self, more: dict[str, str], *, user: str = "alice", password: str = "", name: str = "client") -> Path:
        """A file of client properties; `more` wins."""
        mechanism = more.get("sasl.mechanism", "PLAIN")
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        base = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
        }
        return write_properties(self.directory / f"{name}.properties", {**base, **more})


class Said:
    """All that was ever said, and the commands that say it."""

    def __init__(self, place: Place, capture: Capture) -> None:
        self._place = place
        self._capture = capture
        self.texts: list[tuple[str, bytes]] = []

    def add(self, who: str, text: str | bytes) -> None:
        assert text, f"{who} says nothing"
        self.texts.append((who, text.encode() if isinstance(text, str) else text))

    def unsearched(self, *words: str) -> str:
        """Runs a command that is to tell a secret, and returns what it prints."""
        self._capture.readouterr()
        assert main(list(words)) == 0
        return self._capture.readouterr().out

    def run(self, *words: str, code: int = 0) -> str:
        """Runs a command; what it prints is searched."""
        self._capture.readouterr()
        ended = main(list(words))
        told = self._capture.readouterr()
        assert ended == code, told.out + told.err
        self.add(" ".join(words[:3]), f"{told.out}{told.err}exit code {ended}")
        return told.out + told.err

    def tell_tales(self) -> list[str]:
        """Who has told a secret, and which."""
        found = [f"{who}: {text[max(0, at.start() - 60) : at.end()]!r}"
                 for who, text in self.texts for at in CANARY.finditer(text)]  # fmt: skip
        bodies = [body.encode() for body in self._place.key_bodies]
        found += [f"{who}: a private key" for who, text in self.texts for body in bodies if body in text]
        hmacs = [each.encode() for each in self._place.hmacs]
        return found + [f"{who}: a token's HMAC" for who, text in self.texts for each in hmacs if each in text]


@contextmanager
def log_at_debug() -> Iterator[io.StringIO]:
    """What is logged meanwhile, by everybody, at all levels, as lines of JSON, which have all fields."""
    stream, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    ours = logging.getLogger("penstock")
    levels = root.level, ours.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    ours.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        ours.setLevel(levels[1])


def test_no_canary_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    place = Place(tmp_path, monkeypatch)
    said = Said(place, capsys)
    with log_at_debug() as log:
        with LocalBroker(dict(provided(read_file(str(place.file))))) as broker:
            plain, secured = ("--bootstrap", broker.bootstrap), ("--bootstrap", broker.addresses["SECURED"])
            administer(said, place, plain)
            be_refused(said, place, secured)
            misconfigure_clients(said, place, secured)
            asyncio.run(send_garbage(said, place, broker.addresses["SECURED"]))
            file = str(place.client({}, password=canary(6)))
            said.run("topics", "list", *secured, "--command-config", file)
            use_tokens(said, place, ("--command-config", file, *secured))
            said.run("doctor", "--json", "--config", str(place.whole), "--data", str(tmp_path), *plain)
            assert broker._embedded is not None
            assert broker._embedded.server is not None
            with urllib.request.urlopen(f"http://{broker._embedded.server.http_address}/metrics") as answer:
                said.add("/metrics", answer.read())
            search_files(said, broker.data_dir)
        said.add("the log", log.getvalue())
    assert "login failed" in log.getvalue()
    misconfigure_a_node(said, place)
    assert place.given == set(range(1, CANARIES + 1))
    assert said.tell_tales() == []
    said.add("a planted fault", f"password={canary(6)}")
    assert said.tell_tales() == ["a planted fault: b'password=canary-06'"]


def administer(said: Said, place: Place, plain: tuple[str, str]) -> None:
    """Sets passwords of users and of listeners while the node runs, and looks at configs."""
    password_file = place.directory / "password"
    password_file.write_text(place.secret(11))
    said.run("users", "add", "carol", "--password-file", str(password_file), *plain)
    said.run("users", "list", *plain)
    alter = ("configs", "alter", "--entity", "brokers", "--name", "1", *plain)
    jaas = f'{PLAIN_MODULE} required user_mallory="{place.secret(12)}";'
    said.run(*alter, "--add", f"listener.name.second.plain.sasl.jaas.config={jaas}")
    said.run(*alter, "--add", f"listener.name.secured.ssl.keystore.password={place.secret(13)}", code=1)
    unclosed = f'{PLAIN_MODULE} required user_mallory="{place.secret(14)}'
    said.run(*alter, "--add", f"listener.name.second.plain.sasl.jaas.config={unclosed}", code=1)
    said.run(*alter, "--add", f"strange.password={place.secret(15)}", code=1)
    said.run("topics", "create", "clicks", *plain)
    said.run("configs", "alter", "--name", "clicks", *plain, "--add", f"sasl.jaas.config={place.secret(16)}", code=1)
    described = said.run("configs", "describe", "--entity", "brokers", "--name", "1", "--all", "--json", *plain)
    assert "listener.name.second.plain.sasl.jaas.config" in described
    said.run("configs", "describe", "--entity", "brokers", "--name", "1", *plain)


def be_refused(said: Said, place: Place, secured: tuple[str, str]) -> None:
    """Logs in with passwords that are wrong, and comes without a right."""
    scram = {"sasl.mechanism": "SCRAM-SHA-256"}
    for more, user, number in (({}, "alice", 17), (scram, "carol", 18), ({}, "nobody", 19), (scram, "nobody", 20)):
        file = place.client(more, user=user, password=place.secret(number))
        told = said.run("topics", "list", *secured, "--command-config", str(file), code=1)
        assert "refuses the login" in told
    file = place.client(scram, user="carol", password=canary(11))
    said.run("consume", "clicks", *secured, "--command-config", str(file), code=1)
    security = client_properties(str(file))[1]
    said.add("a client's security", repr(security) + repr(security.login) + repr(security.settings()))


def use_tokens(said: Said, place: Place, secured: tuple[str, ...]) -> None:
    """Makes a token, renews it, logs in by it and ends it. Its HMAC is told once: to who has it made."""
    made = json.loads(said.unsearched("tokens", "create", "--renewer", "User:bob", "--json", *secured))
    place.hmacs += [made["hmac"], b64decode(made["hmac"]).hex()]
    login = f'{SCRAM_MODULE} required username="{made["id"]}" password="{made["hmac"]}" tokenauth="true";'
    by_token = place.client({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}, name="token")
    said.run("tokens", "describe", *secured)
    said.run("tokens", "describe", "--json", *secured)
    said.run("tokens", "renew", made["id"], *secured)
    said.run("topics", "list", *secured[2:], "--command-config", str(by_token))
    said.run("tokens", "expire", made["id"], "--period", "1h", *secured)
    said.run("tokens", "expire", made["id"], *secured)
    said.run("topics", "list", *secured[2:], "--command-config", str(by_token), code=1)


def misconfigure_clients(said: Said, place: Place, secured: tuple[str, str]) -> None:
    """Client files that are wrong in one thing each."""
    module, unlike = f"{PLAIN_MODULE} required username=alice", f"{SCRAM_MODULE} required username=alice"
    store = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(place.directory / "node.p12")}
    key = f"-----BEGIN PRIVATE KEY-----\\n{place.secret(26)}\\n-----END PRIVATE KEY-----"
    for more in (
        {"sasl.jaas.config": f'{module} password="{place.secret(21)}'},
        {"sasl.jaas.config": f'{unlike} password="{place.secret(22)}";'},
        {**store, "ssl.keystore.password": place.secret(23)},
        {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(place.directory / "trust.p12"),
            "ssl.truststore.password": place.secret(24),
        },
        {"sasl.jaas.config": f"\\u{place.secret(25)}"},
        {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": key},
        {**PROVIDERS, "security.protocol": "${env:PENSTOCK_CANARY_OTHER}"},
        {**PROVIDERS, "sasl.mechanism": "${env:PENSTOCK_CANARY_OTHER}"},
        {**PROVIDERS, "ssl.keystore.type": "${env:PENSTOCK_CANARY_OTHER}"},
        {**PROVIDERS, "ssl.enabled.protocols": "${env:PENSTOCK_CANARY_OTHER}"},
        {**PROVIDERS, "sasl.jaas.config": f"${{file:{place.directory}/secrets.properties:otter}}"},
    ):
        file = place.client(more, password=canary(6))
        said.run("topics", "list", *secured, "--command-config", str(file), code=1)
        try:
            client_properties(str(file))[1].context()
        except Exception as error:
            said.add(f"the traceback of {more.keys()}", "".join(traceback.format_exception(error)))


async def send_garbage(said: Said, place: Place, address: str) -> None:
    """Tokens that are none."""
    security = client_properties(str(place.client({"security.protocol": "SSL"})))[1]
    host, _, port = address.rpartition(":")
    for mechanism, token in (("PLAIN", place.secret(27)), ("SCRAM-SHA-256", place.secret(28))):
        connection = BrokerConnection(host, int(port), "test", 30_000, security)
        await connection.open()
        assert (await connection.send(SaslHandshakeRequest(mechanism=mechanism))).error_code == ErrorCode.NONE
        answer = await connection.send(SaslAuthenticateRequest(auth_bytes=token.encode()))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        said.add("an answer", repr(answer))
        connection.close()


def search_files(said: Said, data: Path) -> None:
    """What is on the disk: the metadata log alone has secrets, and its dump hides them."""
    log = data / "__cluster_metadata-0"
    assert canary(12).encode() in b"".join(file.read_bytes() for file in log.glob("*.log"))
    for file in log.glob("*.log"):
        said.run("log", "dump", str(file), "--records")
    for file in data.rglob("*"):
        if file.is_file() and file.parent != log and file.stat().st_size:
            said.add(str(file), file.read_bytes())


def misconfigure_a_node(said: Said, place: Place) -> None:
    """Checks the node's file, and files like it that are wrong."""
    said.run("config", "check", str(place.whole))
    said.run("config", "check", str(place.whole), "--json")
    right = place.whole.read_text()
    for line in (
        f'listener.name.secured.plain.sasl.jaas.config={PLAIN_MODULE} required user_alice="{place.secret(29)}',
        "listener.name.secured.ssl.keystore.password=${env:PENSTOCK_NO_SUCH}",
        "num.partitions=${env:PENSTOCK_CANARY_OTHER}",
        "log.retention.ms=${env:PENSTOCK_CANARY_OTHER}",
        "compression.type=${env:PENSTOCK_CANARY_OTHER}",
        "super.users=${env:PENSTOCK_CANARY_OTHER}",
        f"ssl.keystore.password=\\u{place.secret(30)}",
    ):
        place.whole.write_text(f"{right}{line}\n")
        said.run("config", "check", str(place.whole), code=1)
