"""Kafka's kafka-delegation-tokens, which is its AdminClient, makes, describes, renews and ends Penstock's tokens;
Java's clients and ours log in by them; and Kafka reads them in the metadata log.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.kafka_peer import require_kafka, run_tool
from interop.security.commands import Capture, Commands, use
from interop.security.token_cluster import SECRET, TokenBroker, client_file, token_file
from interop.tools.toolbox import CONSUMER, PRODUCER, Outcome, Toolbox

from penstock.metadata.delegation_tokens import hmac_of

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
REFUSED = "SaslAuthenticationException"
LINE = re.compile(
    r"^(?P<id>\S+)\s+(?P<hmac>[\w+/=]{40,})\s+(?P<owner>\S+)\s+(?P<requester>\S+)\s+\[(?P<renewers>.*?)\]", re.MULTILINE
)
"""One token as Kafka's command prints it."""


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    require_kafka()
    with Toolbox() as toolbox:
        yield toolbox


@pytest.fixture(scope="module")
def broker() -> Iterator[TokenBroker]:
    with TokenBroker() as made:
        yield made


class Bearer:
    """Kafka's command as a user."""

    def __init__(self, tools: Toolbox, broker: TokenBroker, file: Path) -> None:
        self._tools = tools
        self._broker = broker
        self._file = file

    def run(self, *words: str) -> Outcome:
        return self._tools.run(TOKENS, self._broker.secured, "--command-config", self._file, *words)

    def tokens(self, *words: str) -> dict[str, dict[str, str]]:
        """The tokens that a run prints, by id."""
        ran = self.run(*words)
        assert ran.status == 0, ran
        return {found["id"]: found.groupdict() for found in LINE.finditer(ran.out)}

    def seen(self) -> dict[str, dict[str, str]]:
        """The tokens that concern alice or bob. (Without an owner Kafka's command asks for those of nobody.)"""
        return self.tokens("--describe", "--owner-principal", "User:alice", "--owner-principal", "User:bob")

    def create(self, *words: str) -> dict[str, str]:
        (token,) = self.tokens("--create", "--max-life-time-period", "-1", *words).values()
        return token


def test_kafkas_command_makes_renews_and_ends_tokens(tools: Toolbox, broker: TokenBroker, tmp_path: Path) -> None:
    alice, bob = (Bearer(tools, broker, client_file(tmp_path, user)) for user in ("alice", "bob"))
    token = alice.create("--renewer-principal", "User:bob")
    assert (token["owner"], token["requester"], token["renewers"]) == ("User:alice", "User:alice", "User:bob")
    assert b64decode(token["hmac"]) == hmac_of(SECRET, token["id"])
    assert bob.seen() == alice.seen() == {token["id"]: token}
    renewed = bob.run("--renew", "--renew-time-period", "60000", "--hmac", token["hmac"])
    assert "Completed renew operation" in renewed.out, renewed
    for_bob = alice.create("--owner-principal", "User:bob")
    assert (for_bob["owner"], for_bob["requester"]) == ("User:bob", "User:alice")
    refused = bob.run("--create", "--max-life-time-period", "-1", "--owner-principal", "User:alice")
    assert "Delegation Token authorization failed" in refused.error + refused.out, refused
    ended = bob.run("--expire", "--expiry-time-period", "-1", "--hmac", token["hmac"])
    assert "Completed expire operation" in ended.out, ended
    assert set(alice.seen()) == {for_bob["id"]}
    again = bob.run("--renew", "--renew-time-period", "-1", "--hmac", token["hmac"])
    assert "Delegation Token is not found" in again.error + again.out, again


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_javas_clients_log_in_by_token(tools: Toolbox, broker: TokenBroker, tmp_path: Path, mechanism: str) -> None:
    alice = Bearer(tools, broker, client_file(tmp_path, "alice"))
    token = alice.create()
    topic = f"java-{mechanism}"
    file = token_file(tmp_path, token["id"], token["hmac"], mechanism)
    produced = tools.run(PRODUCER, broker.secured, "--topic", topic, "--command-config", file, stdin="java\n")
    assert produced.status == 0, produced
    assert REFUSED not in produced.error
    reading = ("--topic", topic, "--from-beginning", "--max-messages", 1, "--timeout-ms", 20_000)
    read = tools.run(CONSUMER, broker.secured, *reading, "--command-config", file)
    assert read.out.strip() == "java", read
    by_token = tools.run(TOKENS, broker.secured, "--command-config", file, "--describe")
    assert "Delegation Token requests are not allowed" in by_token.error + by_token.out, by_token
    alice.run("--expire", "--expiry-time-period", "-1", "--hmac", token["hmac"])
    refused = tools.run(CONSUMER, broker.secured, *reading, "--command-config", file)
    assert REFUSED in refused.error + refused.out, refused


def test_both_commands_show_the_same(tools: Toolbox, broker: TokenBroker, tmp_path: Path, capsys: Capture) -> None:
    file = client_file(tmp_path, "alice")
    kafkas, ours = Bearer(tools, broker, file), Commands(broker.secured, file, capsys)
    made = json.loads(ours("tokens", "create", "--renewer", "User:bob", "--max-lifetime", "2d", "--json"))
    shown = kafkas.seen()[made["id"]]
    assert (shown["hmac"], shown["owner"], shown["renewers"]) == (made["hmac"], made["owner"], "User:bob")
    use(Commands(broker.secured, token_file(tmp_path, made["id"], made["hmac"]), capsys), "by-token")
    ours("tokens", "expire", made["id"])
    assert made["id"] not in kafkas.seen()


def test_kafka_reads_the_tokens_in_the_metadata_log(tmp_path: Path, capsys: Capture) -> None:
    require_kafka()
    with TokenBroker(tmp_path / "data") as broker:
        run = Commands(broker.secured, client_file(tmp_path, "alice"), capsys)
        made = json.loads(run("tokens", "create", "--owner", "User:bob", "--renewer", "User:eve", "--json"))
        run("tokens", "expire", made["id"], code=1)  # its owner is bob
        bobs = Commands(broker.secured, client_file(tmp_path, "bob"), capsys)
        bobs("tokens", "expire", made["id"])
    log = tmp_path / "data" / "__cluster_metadata-0" / f"{0:020}.log"
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", log).stdout
    (fields,) = re.findall(r'\{"type":"DELEGATION_TOKEN_RECORD","version":0,"data":(\{.*?\})\}', dumped)
    assert json.loads(fields) == {
        "owner": "User:bob",
        "requester": "User:alice",
        "renewers": ["User:eve"],
        "issueTimestamp": made["issued_ms"],
        "maxTimestamp": made["max_ms"],
        "expirationTimestamp": made["expires_ms"],
        "tokenId": made["id"],
    }
    assert f'"REMOVE_DELEGATION_TOKEN_RECORD","version":0,"data":{{"tokenId":"{made["id"]}"}}' in dumped
    assert made["hmac"] not in dumped
