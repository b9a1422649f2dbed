"""What a dump of the metadata log does not show."""

from __future__ import annotations

import pytest

from penstock.cli.log_secrets import hidden
from penstock.metadata.scram import ScramCredential
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.no_op_record import NoOpRecord
from penstock.protocol.record_frames import encode_metadata_record

TOPIC, BROKER = 2, 4


def config(kind: int, name: str) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name="1", name=name, value="canary")


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (
            ScramCredential(b"salt", b"canary", b"canary", 4096).record("alice", 1),
            "(UserScramCredentialRecord of alice, hidden)",
        ),
        (
            config(BROKER, "listener.name.clients.plain.sasl.jaas.config"),
            "(ConfigRecord of listener.name.clients.plain.sasl.jaas.config, hidden)",
        ),
        (config(BROKER, "something.of.another.version"), "(ConfigRecord of something.of.another.version, hidden)"),
        (config(BROKER, "log.retention.ms"), None),
        (config(TOPIC, "retention.ms"), None),
        (NoOpRecord(), None),
    ],
)
def test_secrets_are_hidden_and_nothing_else(record: Message, shown: str | None) -> None:
    assert hidden(encode_metadata_record(record, 0)) == shown


@pytest.mark.parametrize("value", [None, b"", b"\x01", b"\x01\x0b\x00\xff\xff", b"no record"])
def test_what_is_no_record_is_shown_as_it_is(value: bytes | None) -> None:
    assert hidden(value) is None
