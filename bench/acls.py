"""What ACLs cost: Metadata of 500 topics with 7,000 ACLs, and a decision among 100,000, beside Apache Kafka 4.3.1.

A user who may see all topics asks for the metadata of all: first while no ACL names anything, and everybody may do
everything then (`allow.everyone.if.no.acl.found`), and again when each topic has 14 ACLs, one of them for that user.
Figures are of the broker's processor for one request, and of the time that a client waits; ratios are of the second to
the first, and of Penstock to Kafka (below 1 is better). The decisions are timed in this process, in Penstock alone.

    python bench/acls.py                 # three rounds
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections import defaultdict
from uuid import UUID

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from peers import Peer, free_port, print_table, running

from penstock.protocol.acls import Acl, PatternType, PermissionType
from penstock.protocol.acls import AclOperation as OurOperation
from penstock.protocol.acls import ResourceType as OurType
from penstock.security.authorizer import Principal, StandardAuthorizer

TOPICS, ACLS_OF_TOPIC = 500, 14
REQUESTS = 200
PER_REQUEST = 500
"""ACLs that one request creates."""
DECISIONS, MANY_ACLS = 20_000, 100_000
USERS = {"admin": "admin-secret", "alice": "alice-secret"}
Figures = dict[str, dict[str, list[float]]]


def properties() -> str:
    """What a broker needs besides its usual settings."""
    known = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    module = f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
    return (
        "sasl.enabled.mechanisms=PLAIN\n"
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={module}\n"
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        "allow.everyone.if.no.acl.found=true\n"
        "super.users=User:admin;User:ANONYMOUS\n"
    )


def client(port: int, user: str) -> AdminClient:
    """An admin client of a user."""
    return AdminClient(
        {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": USERS[user],
        }
    )


def create_acls(admin: AdminClient) -> None:
    """One ACL for alice on each topic, and others for people who ask nothing."""
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            f"topic-{number}",
            ResourcePatternType.LITERAL,
            "User:alice" if each == 0 else f"User:other-{each}",
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )
        for number in range(TOPICS)
        for each in range(ACLS_OF_TOPIC)
    ]
    for start in range(0, len(bindings), PER_REQUEST):
        for future in admin.create_acls(bindings[start : start + PER_REQUEST]).values():
            future.result()


def metadata(peer: Peer, asker: AdminClient) -> tuple[float, float]:
    """The broker's CPU ms for one request, and the median ms that its client waits."""
    waited, cpu = [], peer.cpu_seconds()
    for _ in range(REQUESTS):
        began = time.perf_counter()
        found = asker.list_topics(timeout=30).topics
        waited.append(time.perf_counter() - began)
        if len(found) < TOPICS:
            raise RuntimeError(f"{peer.name}: {len(found)} topics are shown")
    return (peer.cpu_seconds() - cpu) / REQUESTS * 1e3, statistics.median(waited) * 1e3


def decision_us(acl_count: int) -> float:
    """How long one decision takes, in a table of so many ACLs of others and one of the asker's."""

    def acl(principal: str, name: str) -> Acl:
        return Acl(OurType.TOPIC, name, PatternType.LITERAL, principal, "*", OurOperation.READ, PermissionType.ALLOW)

    authorizer = StandardAuthorizer()
    found = [acl("User:alice", "topic-7")]
    found += [acl(f"User:other-{number % 1_000}", f"topic-{number // 1_000}") for number in range(acl_count)]
    authorizer.changed({UUID(int=number + 1): (None, each) for number, each in enumerate(found)})
    authorizer.loaded()
    alice = Principal("User", "alice")
    began = time.perf_counter()
    for _ in range(DECISIONS):
        authorizer.authorize(alice, "10.0.0.1", OurOperation.READ, OurType.TOPIC, "topic-7")
    return (time.perf_counter() - began) / DECISIONS * 1e6


def main() -> None:
    """Runs the rounds and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of both brokers (default: 3)")
    options = parser.parse_args()
    figures: Figures = defaultdict(lambda: defaultdict(list))
    with contextlib.ExitStack() as stack:
        peers = []
        for name in ("kafka", "penstock"):
            port = free_port()
            listeners = f",SASL_PLAINTEXT://localhost:{port}"
            peer = stack.enter_context(running(name, extra=properties(), listeners=listeners))
            peer.create_topic("first")
            admin = client(port, "admin")
            for future in admin.create_topics([NewTopic(f"topic-{number}", 1, 1) for number in range(TOPICS)]).values():
                future.result()
            peers.append((peer, admin, client(port, "alice")))
        for when in ("without ACLs", "with 7,000"):
            for peer, admin, asker in peers:
                if when == "with 7,000":
                    create_acls(admin)
                metadata(peer, asker)  # warms up
            for number in range(options.rounds):
                for peer, _, asker in peers if number % 2 == 0 else reversed(peers):
                    cpu_ms, waited_ms = metadata(peer, asker)
                    figures[f"Metadata {when}: CPU ms"][peer.name].append(cpu_ms)
                    figures[f"Metadata {when}: ms"][peer.name].append(waited_ms)
    print_table(figures)
    print(f"a decision: {decision_us(0):.2f} us among one ACL, {decision_us(MANY_ACLS):.2f} among {MANY_ACLS:,}")


if __name__ == "__main__":
    main()
