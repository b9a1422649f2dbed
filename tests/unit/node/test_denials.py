"""What is denied is told: once, with who asked for what, and bounded."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import Node
from support.requests import batch, produce

from penstock.node.limits import DENIALS_LOGGED_PER_S
from penstock.protocol.acls import Acl
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.security.authorizer import StandardAuthorizer

TOPIC, LITERAL, ALL_HOSTS, WRITE, DENY = 2, 3, "*", 4, 2


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.node.denials"]


def denied_total(node: Node) -> Any:
    (sample,) = [each for each in node.broker.metrics() if each.name.endswith("authorization_denied_total")]
    return sample.value


def test_a_denial_names_who_asked_for_what_and_the_rule(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = StandardAuthorizer(["User:admin"])
    node = Node(authorizer=authorizer)
    client = node.connect()
    client.ask(produce("t", batch()), 9)
    authorizer.acls.add(Acl(TOPIC, "t", LITERAL, "User:ANONYMOUS", ALL_HOSTS, WRITE, DENY))
    client.ask(produce("t", batch()), 9)
    said = "denied principal=User:ANONYMOUS operation=WRITE resource=TOPIC:t host=127.0.0.1 api=Produce"
    assert lines(caplog) == [f'{said} rule="no ACL allows it"', f'{said} rule="an ACL denies it"']
    assert denied_total(node) == 2


def test_a_list_that_leaves_something_out_denies_nothing(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(authorizer=StandardAuthorizer(["User:admin"]))
    node.create_topic("t")
    assert node.connect().ask(MetadataRequest(topics=None), 9).topics == []
    assert (lines(caplog), denied_total(node)) == ([], 0)


def test_denials_fill_no_disk(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(authorizer=StandardAuthorizer())
    client = node.connect()
    for _ in range(DENIALS_LOGGED_PER_S + 5):
        client.ask(produce("t" * 200, batch()), 9)
    assert len(lines(caplog)) == DENIALS_LOGGED_PER_S
    node.advance(1_000)
    client.ask(produce("t", batch()), 9)
    assert lines(caplog)[-1].endswith("more_since_the_last=5")
    assert denied_total(node) == DENIALS_LOGGED_PER_S + 6
