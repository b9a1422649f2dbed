"""Guardian over HTTP as people have it: nodes as processes, tokens from the command line, curl."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.guardian_process import Guardian
from support.processes import free_ports, wait_until
from support.tls import Authority

from penstock.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "docs" / "how-to" / "guardian-rest.md"


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Rest:
    """A Guardian with the REST API, and what is asked of it."""

    def __init__(self, directory: Path, nodes: int, more: dict[str, str] | None = None, scheme: str = "http") -> None:
        self.guardian = Guardian(directory, nodes)
        self.ports = dict(zip(self.guardian.ports, free_ports(nodes), strict=True))
        self.scheme = scheme
        self.context: ssl.SSLContext | None = None
        for node_id, port in self.ports.items():
            lines = {"penstock.guardian.rest.listener": f"127.0.0.1:{port}", **(more or {})}
            with self.guardian.file(node_id).open("a") as file:
                file.writelines(f"{name}={text}\n" for name, text in lines.items())

    def start(self) -> None:
        self.guardian.format()
        for node_id in self.ports:
            self.guardian.start(node_id)
        for node_id in self.ports:
            wait_until(lambda at=node_id: self.serves(at), f"node {node_id} serves")  # type: ignore[misc]

    def serves(self, node_id: int) -> bool:
        try:
            return self.ask_once("GET", "/v1/clusters", node_id=node_id).status == 401
        except OSError:
            return False

    def log(self, node_id: int) -> str:
        return (self.guardian.directory / f"node-{node_id}.log").read_text()

    def url(self, node_id: int = 1) -> str:
        return f"{self.scheme}://127.0.0.1:{self.ports[node_id]}"

    def token(self, name: str, *roles: str, days: str = "1") -> str:
        words = [word for role in roles for word in ("--role", role)]
        self.guardian.said("users", "add", name, *words)
        return str(self.guardian.json("users", "token", "create", name, "--days", days)["token"])

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        node_id: int = 1,
        key: uuid.UUID | None = None,
    ) -> Answer:
        """An answer; while there is none, as when a busy node has no lease, it is asked for again with the same key."""
        key = key or uuid.uuid4()
        deadline_s = time.monotonic() + 20
        while (found := self.ask_once(method, path, body, token=token, node_id=node_id, key=key)).status == 503:
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.1)
        return found

    def ask_once(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        node_id: int = 1,
        key: uuid.UUID | None = None,
    ) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url(node_id) + path, data, method=method)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        if key is not None:
            request.add_header("Idempotency-Key", str(key))
        try:
            with urllib.request.urlopen(request, timeout=20, context=self.context) as found:
                return Answer(found.status, json.loads(found.read()), dict(found.headers))
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, json.loads(refused.read()), dict(refused.headers))


def new_rest(directory: Path, nodes: int, more: dict[str, str] | None = None, scheme: str = "http") -> Iterator[Rest]:
    found = Rest(directory, nodes, more, scheme)
    try:
        yield found
    finally:
        for node_id in list(found.guardian.processes):
            found.guardian.kill(node_id)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Rest]:
    for found in new_rest(tmp_path, 1):
        found.start()
        yield found


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Rest]:
    for found in new_rest(tmp_path, 3):
        found.start()
        yield found


CLICKS = {"name": "clicks", "bootstrap": ["10.0.0.7:9092"]}
VIEWS = {"name": "views", "bootstrap": ["10.0.0.8:9092"]}


def test_every_command_of_the_how_to_works(one: Rest, tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    assert len(blocks) == 3
    script = tmp_path / "how-to.sh"
    script.write_text("set -e\n" + "".join(blocks).replace("curl -s ", "echo; curl -sS --fail-with-body "))
    shims = tmp_path / "bin"
    shims.mkdir()
    penstock = shims / "penstock"
    penstock.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
    penstock.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{shims}:{os.environ['PATH']}",
        "PENSTOCK_GUARDIAN": one.guardian.addresses,
        "URL": one.url(),
    }
    done = subprocess.run(
        ["bash", str(script)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert answers[0] == {"clusters": []}
    assert answers[1]["name"] == answers[2]["name"] == "clicks"
    assert answers[2]["modes"]["balance"] == "advise"
    assert answers[3]["roles"][1] == {"role": "auditor", "cluster": None}
    assert answers[4]["token"].startswith("pgt_")
    assert [each["command"] for each in answers[5]["changes"]][:2] == ["POST /v1/tokens", "POST /v1/users"]
    assert answers[6] == answers[7], "the change with a key is made once"
    assert answers[8] == {"removed": "views"}
    assert "not shown again" in done.stderr


def test_roles_hold_over_http_and_tokens_end(one: Rest) -> None:
    admin = one.token("boss", "admin")
    for body in (CLICKS, VIEWS):
        assert one.ask("POST", "/v1/clusters", body, token=admin).status == 201
    operator = one.token("ann", "operator@clicks")
    assert [each["name"] for each in one.ask("GET", "/v1/clusters", token=operator).body["clusters"]] == ["clicks"]
    assert one.ask("PATCH", "/v1/clusters/clicks", {"modes": {"heal": "act"}}, token=operator).status == 200
    assert one.ask("PATCH", "/v1/clusters/views", {"modes": {"heal": "act"}}, token=operator).status == 404
    assert one.ask("GET", "/v1/users", token=operator).status == 403
    audit = one.ask("GET", "/v1/audit", token=one.token("eve", "auditor")).body["changes"]
    assert ("User:ann", "PATCH /v1/clusters/clicks") in [(each["principal"], each["command"]) for each in audit]
    short = one.ask("POST", "/v1/tokens", {"user": "ann", "valid_ms": 300}, token=admin).body["token"]
    assert one.ask("GET", "/v1/clusters", token=short).status == 200
    wait_until(lambda: one.ask("GET", "/v1/clusters", token=short).status == 401, "it expires", 10)
    assert one.ask("DELETE", f"/v1/tokens/{operator.split('_')[1]}", token=admin).status == 200
    assert one.ask("GET", "/v1/clusters", token=operator).status == 401
    secrets = [text.split("_")[2] for text in (admin, operator, short)]
    kept = b"".join(path.read_bytes() for path in one.guardian.data(1).rglob("*") if path.is_file())
    assert b"boss" in kept
    for secret in secrets:
        assert secret.encode() not in kept
        assert bytes.fromhex(secret) not in kept
        assert secret not in one.log(1)
    assert one.guardian.stop() == [0]


HOSTILE = (
    b"",
    b"\0" * 100,
    b"GET /v1/clusters HTTP/1.1\r\n",
    b"GET /v1/%00%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /" + b"a" * 1_000_000,
)


def test_a_node_bears_hostile_clients_and_goes_on(one: Rest) -> None:
    token = one.token("boss", "admin")
    for sent in HOSTILE:
        with socket.create_connection(("127.0.0.1", one.ports[1]), timeout=20) as client:
            try:
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                client.recv(1_000)
            except ConnectionError:
                pass
        assert one.ask("GET", "/v1/clusters", token=token).status == 200
    assert one.ask("POST", "/v1/clusters", "x" * 10_000_000, token=token).status == 413
    slow = [socket.create_connection(("127.0.0.1", one.ports[1]), timeout=20) for _ in range(100)]
    for client in slow:
        client.sendall(b"GET /v1/clusters HTTP/1.1\r\nHost: x\r\na: ")
    began_s = time.monotonic()
    assert one.ask("GET", "/v1/clusters", token=token).status == 200
    assert one.guardian.json("clusters", "list")["clusters"] == []
    assert time.monotonic() - began_s < 5
    began_s = time.monotonic()
    assert one.guardian.stop() == [0], "half requests hold no stop up"
    assert time.monotonic() - began_s < 5
    for client in slow:
        client.close()
    assert "a bug" not in one.log(1)
    assert "uvicorn" not in one.log(1)


@pytest.mark.slow
def test_any_node_takes_a_change_and_a_key_makes_it_once(three: Rest) -> None:
    admin = three.token("boss", "admin")
    for node_id in three.ports:
        wait_until(
            lambda at=node_id: three.ask("GET", "/v1/users", token=admin, node_id=at).status == 200,  # type: ignore[misc]
            "all nodes know the token",
        )
    leader_id = int(three.ask("GET", "/v1/users", token=admin).headers["penstock-leader-id"])
    followers = [each for each in three.ports if each != leader_id]
    key = uuid.uuid4()
    first = three.ask("POST", "/v1/clusters", CLICKS, token=admin, node_id=followers[0], key=key)
    assert first.status in (201, 200), "200, if it was asked for again"
    assert int(first.headers["penstock-node-id"]) != followers[0], "it was handed on"
    for node_id in three.ports:
        again = three.ask("POST", "/v1/clusters", CLICKS, token=admin, node_id=node_id, key=key)
        assert (again.status, again.body) == (200, first.body)
    viewer = three.token("ann", "viewer@clicks")
    wait_until(
        lambda: three.ask("GET", "/v1/clusters", token=viewer, node_id=followers[1]).status == 200, "it is known there"
    )
    assert three.ask("DELETE", "/v1/clusters/clicks", token=viewer, node_id=followers[1]).status == 403
    assert three.ask("DELETE", f"/v1/tokens/{viewer.split('_')[1]}", token=admin, node_id=followers[0]).status == 200
    refused = three.ask("PATCH", "/v1/clusters/clicks", {"modes": {}}, token=viewer, node_id=followers[1])
    assert refused.status == 401
    for node_id in three.ports:
        wait_until(
            lambda at=node_id: three.ask("GET", "/v1/clusters", token=viewer, node_id=at).status == 401,  # type: ignore[misc]
            "it is revoked everywhere",
        )
    three.guardian.kill(leader_id)
    key = uuid.uuid4()

    def made(node_id: int) -> bool:
        return three.ask("POST", "/v1/clusters", VIEWS, token=admin, node_id=node_id, key=key).status in (200, 201)

    wait_until(lambda: made(followers[0]), "the change is made by the next leader", 20)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(made, followers * 8))
    audit = three.ask("GET", "/v1/audit", token=admin, node_id=followers[0]).body["changes"]
    assert [each["subject"] for each in audit].count("views") == 1
    assert {each["principal"] for each in audit if each["subject"] == "views"} == {"User:boss"}


def test_a_node_that_is_alone_lets_nobody_in_by_a_token_for_long(tmp_path: Path) -> None:
    for rest in new_rest(tmp_path, 1):
        assert main(["guardian", "format", str(rest.guardian.file(1))]) == 0
        file = rest.guardian.file(1)
        other = ",".join(f"{each}@127.0.0.1:{port}" for each, port in zip((2, 3), free_ports(2), strict=True))
        text = file.read_text().replace("penstock.guardian.voters=", f"penstock.guardian.voters={other},")
        file.write_text(text.replace(str(rest.guardian.data(1)), str(tmp_path / "alone")))
        assert main(["guardian", "format", str(file), "--guardian-id", "5L6g3nShT-eMCtK--X86sw"]) == 0
        rest.guardian.start(1)
        refused = [0]

        def answers(rest: Rest = rest, refused: list[int] = refused) -> bool:
            try:
                refused[0] = rest.ask_once("GET", "/v1/clusters", token="pgt_").status
            except OSError:
                return False
            return True

        wait_until(answers, "it serves")
        assert refused == [503]


def test_with_tls_nothing_goes_in_clear(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    store = authority.store("guardian")
    more = {"penstock.guardian.security.protocol": "SSL", "penstock.guardian.rest.tls": "true", **store.properties()}
    for rest in new_rest(tmp_path, 1, more, "https"):
        rest.context = ssl.create_default_context(cafile=str(store.trust))
        rest.start()
        config = tmp_path / "client.properties"
        config.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={store.trust}\n")
        secured = ("--command-config", str(config))
        rest.guardian.said("users", "add", "boss", "--role", "admin", *secured)
        token = rest.guardian.json("users", "token", "create", "boss", *secured)["token"]
        assert rest.ask("GET", "/v1/users", token=token).status == 200
        curl = ["curl", "-sS", f"{rest.url()}/v1/clusters", "-H", f"Authorization: Bearer {token}"]
        trusting = [*curl, "--cacert", str(store.trust)]
        done = subprocess.run(trusting, capture_output=True, text=True, timeout=20, check=True)
        assert json.loads(done.stdout) == {"clusters": []}
        assert subprocess.run(curl, capture_output=True, timeout=20, check=False).returncode == 60
        with ThreadPoolExecutor(8) as pool:  # what comes with the end of a handshake is not lost
            statuses = pool.map(lambda _: rest.ask("GET", "/v1/users", token=token).status, range(100))  # noqa: B023
            assert set(statuses) == {200}
        curl[2] = curl[2].replace("https", "http")
        assert subprocess.run(curl, capture_output=True, timeout=20, check=False).returncode in (52, 56)
        assert rest.guardian.stop() == [0]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("penstock.guardian.rest.listener=0.0.0.0:0", "tokens would go in clear"),
        ("penstock.guardian.rest.listener=:9600", "tokens would go in clear"),
        ("penstock.guardian.rest.listener=nowhere", "is not an address"),
        ("penstock.guardian.rest.tls=true", "must be SSL or SASL_SSL"),
        ("penstock.guardian.rest.listner=127.0.0.1:0", "did you mean penstock.guardian.rest.listener?"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(
    tmp_path: Path, lines: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = Rest(tmp_path, 1)
    with rest.guardian.file(1).open("a") as file:
        file.write(f"{lines}\n")
    assert main(["guardian", "format", str(rest.guardian.file(1))]) != 0
    assert why in capsys.readouterr().err.replace("\n", " ")


LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.slow
def test_users_may_do_over_kafkas_protocol_what_their_roles_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With logins and super users; a user of the name of a principal needs no token there."""
    users = {name: f"{name}-secret" for name in ("node", "ann", "eve")}
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    more = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
        "penstock.guardian.security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.guardian.plain.sasl.jaas.config": f'{LOGIN} username="node" password="node-secret" {known};',
    }
    for name, password in users.items():
        lines = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{LOGIN} username="{name}" password="{password}";',
        }
        (tmp_path / f"{name}.properties").write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
    for rest in new_rest(tmp_path, 1, more):
        rest.start()

        def said(user: str, *words: str, rest: Rest = rest) -> tuple[int, str]:
            capsys.readouterr()
            config = ["--command-config", str(tmp_path / f"{user}.properties")]
            code = main(["guardian", *words, "--guardian", rest.guardian.addresses, *config])
            return code, "".join(capsys.readouterr())

        for name in ("clicks", "views"):
            assert said("node", "clusters", "add", name, "--bootstrap", f"{name}:9092")[0] == 0
        assert "not allowed" in said("ann", "clusters", "list")[1]
        assert said("node", "users", "add", "ann", "--role", "operator@clicks")[0] == 0
        assert [each["name"] for each in json.loads(said("ann", "clusters", "list", "--json")[1])["clusters"]] == [
            "clicks"
        ]
        assert said("ann", "clusters", "set-mode", "clicks", "heal=act")[0] == 0
        code, text = said("ann", "clusters", "set-mode", "views", "heal=act")
        assert (code, "no cluster views is registered" in text) == (1, True)
        code, text = said("ann", "users", "add", "eve", "--role", "admin")
        assert (code, "needs the role admin for all clusters" in text) == (1, True)
        assert "not allowed" in said("eve", "clusters", "list")[1]
        token = json.loads(said("node", "users", "token", "create", "ann", "--json")[1])["token"]
        audit = rest.ask("GET", "/v1/audit", token=token)
        assert audit.status == 403
        assert said("node", "users", "set-role", "ann", "--role", "auditor")[0] == 0
        audit = rest.ask("GET", "/v1/audit", token=token)
        assert [(each["principal"], each["command"]) for each in audit.body["changes"]][2] == (
            "User:ann", "PATCH /v1/clusters/clicks",
        )  # fmt: skip
        assert rest.guardian.stop() == [0]
