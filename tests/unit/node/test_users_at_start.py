"""The users of SCRAM that a node knows after its start, before it knows what is committed: controllers need them to log
in to each other."""

from __future__ import annotations

from support.broker import Node
from support.logins import SALT, add_scram, secured

from penstock.metadata.scram import ScramCredential, ScramMechanism, credential_of
from penstock.protocol.messages.metadata.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from penstock.security.sasl import Derivation

MECHANISM = ScramMechanism.SCRAM_SHA_256


def known(node: Node, user: str) -> ScramCredential | None:
    return node.broker.quorum.metadata.scram_credentials.get((MECHANISM, user))


def credential(password: str) -> ScramCredential:
    key = Derivation(MECHANISM.hash_name, password.encode(), SALT, 4096).derive()
    return credential_of(MECHANISM, SALT, key, 4096)


def test_they_are_those_of_its_log_before_anything_is_known_to_be_committed() -> None:
    node = secured()
    add_scram(node, "added", "secret")
    add_scram(node, "alice", "changed")
    node.change([RemoveUserScramCredentialRecord(name="bob", mechanism=MECHANISM)])
    node.stop()
    node.boot()
    assert not node.broker.image.features, "nothing is published yet"
    assert known(node, "added") == credential("secret")
    assert known(node, "alice") == credential("changed")
    assert known(node, "bob") is None


def test_a_checkpoint_is_read_too() -> None:
    node = secured(metadata__log__max__record__bytes__between__snapshots="1")
    add_scram(node, "early", "secret")
    node.settle()
    node.run()
    assert any(file.name.endswith(".checkpoint") for file in node.disks[0].loop.list("__cluster_metadata-0"))
    add_scram(node, "late", "secret")
    node.stop()
    node.boot()
    assert known(node, "early") == known(node, "late") == credential("secret")


def test_a_user_that_was_removed_since_the_format_is_not_known_any_more() -> None:
    first = credential("leaked").record("first", MECHANISM)
    node = Node(users=[first])
    assert known(node, "first") == credential("leaked")
    node.change([RemoveUserScramCredentialRecord(name="first", mechanism=MECHANISM)])
    node.stop()
    node.boot()
    assert known(node, "first") is None


def test_without_any_metadata_they_are_those_of_the_format() -> None:
    node = Node(users=[credential("secret").record("first", MECHANISM)], start=False)
    node.boot()
    assert known(node, "first") == credential("secret")


def test_once_that_is_committed_they_are_those_of_the_metadata() -> None:
    node = secured()
    node.restart()
    add_scram(node, "alice", "changed")
    assert known(node, "alice") == credential("changed")
    assert node.broker.quorum.metadata.scram_credentials is node.broker.image.scram_credentials
