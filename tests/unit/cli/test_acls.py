"""`penstock acls`: what its options mean, and what it says to those that cannot be meant."""

from __future__ import annotations

import argparse

import pytest

from penstock.cli import acls
from penstock.cli.main import main
from penstock.cli.parser import Parser
from penstock.errors import UsageError
from penstock.protocol.acls import Acl, AclFilter, AclOperation, PatternType, PermissionType, ResourceType

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    *(ResourceType.TOPIC, ResourceType.GROUP),
    *(ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID),
)
READ, WRITE, CREATE, DESCRIBE = (
    *(AclOperation.READ, AclOperation.WRITE),
    *(AclOperation.CREATE, AclOperation.DESCRIBE),
)


def parsed(*words: str) -> argparse.Namespace:
    parser = Parser(prog="penstock acls")
    acls.register(parser)
    return parser.parse_args(words)


def rights(*words: str) -> set[tuple[int, str, int]]:
    return {(acl.resource_type, acl.name, acl.operation) for acl in acls.new_acls(parsed("add", *words))}


def test_a_producer_needs_to_write_describe_and_create() -> None:
    assert rights("--allow", "User:a", "--producer", "--topic", "t") == {
        (TOPIC, "t", operation) for operation in (WRITE, DESCRIBE, CREATE)
    }
    more = rights("--allow", "User:a", "--producer", "--topic", "t", "--transactional-id", "x", "--idempotent")
    assert {each for each in more if each[0] != TOPIC} == {
        (TRANSACTIONAL_ID, "x", WRITE),
        (TRANSACTIONAL_ID, "x", DESCRIBE),
        (CLUSTER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE),
    }


def test_a_consumer_needs_to_read_topic_and_group() -> None:
    found = rights("--allow", "User:a", "--consumer", "--topic", "t", "--group", "g")
    assert found == {(TOPIC, "t", READ), (TOPIC, "t", DESCRIBE), (GROUP, "g", READ)}


def test_each_principal_host_and_operation_gets_its_acl() -> None:
    words = ("--allow", "User:a", "--deny", "User:b", "--host", "h1", "--host", "h2", "--operation", "read")
    made = acls.new_acls(parsed("add", *words, "--operation", "ALTER_CONFIGS", "--topic", "t", "--cluster"))
    assert len(made) == 2 * 2 * 2 * 2
    assert Acl(TOPIC, "t", PatternType.LITERAL, "User:b", "h2", READ, PermissionType.DENY) in made


def test_the_cluster_has_no_prefix() -> None:
    made = acls.new_acls(parsed("add", "--allow", "User:a", "--cluster", "--topic", "t", "--pattern", "prefixed"))
    assert {(acl.resource_type, acl.pattern_type) for acl in made} == {(CLUSTER, 3), (TOPIC, 4)}


@pytest.mark.parametrize("text", ["alter-configs", "AlterConfigs", "ALTER_CONFIGS", "alterconfigs"])
def test_an_operation_is_known_in_all_its_forms(text: str) -> None:
    assert acls.operation_of(text) is AclOperation.ALTER_CONFIGS


def test_filters_of_a_list() -> None:
    assert acls.filters_of(parsed("list")) == [AclFilter()]
    words = ("--topic", "t", "--pattern", "match", "--principal", "User:a", "--host", "h", "--denying")
    (found,) = acls.filters_of(parsed("list", *words, "--operation", "read"))
    assert found == AclFilter(TOPIC, "t", PatternType.MATCH, "User:a", "h", READ, PermissionType.DENY)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add", "--topic", "t"), "whom"),
        (("add", "--allow", "User:a"), "on what"),
        (("add", "--allow", "alice", "--topic", "t"), "no principal"),
        (("add", "--allow", "User:", "--topic", "t"), "no principal"),
        (("add", "--allow", "User:a", "--topic", "t", "--operation", "raed"), "did you mean read"),
        (("add", "--allow", "User:a", "--producer"), "need --topic"),
        (("add", "--allow", "User:a", "--consumer", "--topic", "t"), "needs --group"),
        (("add", "--allow", "User:a", "--producer", "--topic", "t", "--group", "g"), "goes with --consumer"),
        (("add", "--allow", "User:a", "--consumer", "--topic", "t", "--group", "g", "--idempotent"), "go with --prod"),
        (("add", "--deny", "User:a", "--producer", "--topic", "t"), "leave out"),
        (("add", "--allow", "User:a", "--producer", "--topic", "t", "--operation", "read"), "leave out"),
    ],
)
def test_what_cannot_be_meant_is_said(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        acls.new_acls(parsed(*words))


def test_both_kinds_at_once_is_neither() -> None:
    with pytest.raises(UsageError, match="one of them"):
        acls.filters_of(parsed("list", "--allowing", "--denying"))


def test_a_removal_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acls", "remove", "--operation", "read"]) == 2
    assert "which?" in capsys.readouterr().err
