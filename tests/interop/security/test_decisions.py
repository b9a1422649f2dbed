"""Penstock decides who may do what as Apache Kafka 4.3.1 with its StandardAuthorizer does: the table of both.

The record is `decisions.json`; `python -m interop.security.test_decisions` in tests/ makes it anew.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import UUID

import pytest
from interop.client_metrics.taking_peer import TakingPeer
from interop.security.secured_peer import SecuredPeer
from support.broker import Client, Node
from support.decisions.edges import NOT_ASKED, edges
from support.decisions.principals import folded, principals, unfolded
from support.decisions.probe import TOPICS
from support.decisions.table import SUPER, Table, World, ask_all, probes

from penstock.node.handlers import registry
from penstock.protocol.api import ApiKey
from penstock.security.authorizer import Principal, StandardAuthorizer

RECORD = Path(__file__).with_name("decisions.json")
ALONE = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_replication_factor": 1,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
}
ADMIN = Principal("User", "admin")
OF_USERS = "describe the users of SCRAM, version 0"
DIFFERENT = {
    f"controller: {OF_USERS}": "Kafka's schema has it on controllers, which answer UNKNOWN_SERVER_ERROR to everybody; "
    "here it is served to who may see them on a broker",
}
"""Probes that are answered otherwise, and why."""
SWAPPED = {"nothing": SUPER, SUPER: "nothing"}


class Peer(TakingPeer, SecuredPeer):
    """With a plugin for client metrics, too: without it Kafka does not know their APIs."""


def recorded() -> Table:
    found: Table = json.loads(RECORD.read_text())
    return {probe: {what: unfolded(many) for what, many in outcomes.items()} for probe, outcomes in found.items()}


def kafkas_table() -> Table:
    """Asks a new node of Apache Kafka."""
    with Peer() as kafka, ExitStack() as stack:
        listeners = ("PLAINTEXT", "OPEN", "ADMIN", "CONTROLLER")
        return ask_all(
            World(*(stack.enter_context(closing(kafka.connect(each))) for each in listeners), lambda: time.sleep(0.05))
        )


def penstocks_table() -> Table:
    """Asks a node in this process."""
    node = Node(authorizer=StandardAuthorizer(["User:admin"]), **ALONE)

    def connect(listener: str, principal: Principal | None = None) -> Client:
        client = node.connect(listener)
        if principal is not None:
            node.broker.connections[client.number].principal = principal
        return client

    client, controller = connect("PLAINTEXT"), connect("CONTROLLER")
    admins = connect("PLAINTEXT", ADMIN), connect("CONTROLLER", ADMIN)
    return ask_all(World(client, controller, *admins, lambda: node.advance(10)))


def differences(kafka: Table, penstock: Table) -> dict[str, str]:
    """For each probe that is answered otherwise: who gets what of whom."""
    found = {}
    for probe, outcomes in kafka.items():
        ours = {who: what for what, many in penstock.get(probe, {}).items() for who in many}
        theirs = {who: what for what, many in outcomes.items() for who in many}
        other = [
            f"{who}: Kafka {theirs[who]}, Penstock {ours.get(who)}" for who in theirs if theirs[who] != ours.get(who)
        ]
        if other:
            found[probe] = "\n  ".join(other)
    return found


def test_penstock_decides_as_kafka_did() -> None:
    table = penstocks_table()
    found = differences(recorded(), table)
    assert {probe: who for probe, who in found.items() if probe not in DIFFERENT} == {}
    assert found.keys() == DIFFERENT.keys(), "a difference that is none any more"
    assert table[f"controller: {OF_USERS}"] == table[OF_USERS]


@pytest.mark.java
@pytest.mark.long
def test_the_record_is_what_kafka_says() -> None:
    assert differences(recorded(), kafkas_table()) == {}


def test_every_api_that_is_served_is_asked_about() -> None:
    ids = {name: UUID(int=5) for name in TOPICS}
    asked = {(ApiKey(probe.make(ids).KEY), probe.version, probe.controller) for probe in probes()}
    assert {key for key, *_ in asked} == set(registry()) - NOT_ASKED.keys()
    assert set(edges()) <= asked, "at its lowest and highest version, on each listener"


def test_the_record_folds_nothing_away() -> None:
    names = [*principals()]
    for kept in (names, names[::2], names[::3], [each for each in names if "TOPIC" in each]):
        assert sorted(unfolded(folded(kept))) == sorted(kept)
    assert len(folded(names)) < len(names) * 0.7


def test_a_decision_that_differs_is_found() -> None:
    """The check itself: a client that is a super user, or lacks all rights, is answered otherwise."""
    table = recorded()
    swapped = {
        probe: {what: [SWAPPED.get(who, who) for who in many] for what, many in of.items()}
        for probe, of in table.items()
    }
    found = differences(table, swapped)
    assert len(found) > len(table) * 0.9, "nearly every probe is answered otherwise without any right"


if __name__ == "__main__":
    rows = (
        f"{json.dumps(probe)}: {json.dumps({what: folded(many) for what, many in outcomes.items()})}"
        for probe, outcomes in kafkas_table().items()
    )
    RECORD.write_text("{\n" + ",\n".join(rows) + "\n}\n")
