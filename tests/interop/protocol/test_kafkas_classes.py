"""Apache Kafka's own message classes read what we write, and write the same in every version.

A message is written in one version, read by Kafka's class, and written by it in all versions that there are. Both must
agree on the bytes, so on every default, and on what an older version cannot carry. This covers what no Python library
has: the records of the metadata log, the coordinators and tiered storage.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from interop import kafka_peer
from random_messages import RandomMessages

from penstock.errors import ProtocolError, UnsupportedVersionError
from penstock.protocol import codec, schema
from penstock.protocol.message import Message

pytestmark = pytest.mark.java

JAVA_PACKAGES = {
    "": "org.apache.kafka.common.message",
    "metadata": "org.apache.kafka.common.metadata",
    "group": "org.apache.kafka.coordinator.group.generated",
    "transaction": "org.apache.kafka.coordinator.transaction.generated",
    "share": "org.apache.kafka.coordinator.share.generated",
    "raft": "org.apache.kafka.raft.generated",
    "remote_log": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "log": "org.apache.kafka.server.log.remote.metadata.storage.generated",
}
ROUNDS = 5


def java_class(name: str) -> str:
    """Kafka's class of a message."""
    heading = schema.headings()[name]
    suffix = "Data" if heading.kind in ("request", "response", "header") else ""
    return f"{JAVA_PACKAGES[heading.package]}.{name}{suffix}"


def written(message: Message, version: int) -> str:
    """What we write in a version, as the Java program says it."""
    try:
        return codec.encode_bytes(message, version).hex()
    except UnsupportedVersionError:
        return "unsupported"
    except ProtocolError:
        return "refused"


def test_kafkas_classes_agree_with_ours_in_every_version(kafka_jars: None) -> None:
    messages = RandomMessages(Random(5))
    questions, answers = [], []
    for _ in range(ROUNDS):
        for name, heading in schema.headings().items():
            if heading.package in (schema.OWN_PACKAGE, "guardian"):
                continue  # Kafka has no such messages
            for version in heading.versions:
                message = messages.message(name, version)
                questions.append(f"{java_class(name)} {version} {written(message, version)}")
                answers.append("left=0 " + " ".join(f"{v}={written(message, v)}" for v in heading.versions))
    source = Path(__file__).with_name("Messages.java").read_text()
    done = kafka_peer.run_java_source(source, stdin="\n".join(questions))
    theirs = done.stdout.splitlines()
    assert len(theirs) == len(questions), done.stderr
    different = [each for each in zip(questions, answers, theirs, strict=True) if not same(each[1], each[2])]
    assert not different, f"{len(different)} of {len(questions)} differ, the first: {different[0]}"


def same(ours: str, theirs: str) -> bool:
    """Whether two answers agree. Of two faults we report the field that the version lacks, Kafka the first it meets."""
    pairs = list(zip(ours.split(" "), theirs.split(" "), strict=True))
    return all(a == b or (a.endswith("=unsupported") and b.endswith("=refused")) for a, b in pairs)


def test_a_difference_is_noticed() -> None:
    assert same("left=0 0=unsupported 1=00", "left=0 0=refused 1=00")
    assert not same("left=0 0=00 1=00", "left=0 0=00 1=01")
    assert not same("left=0 0=refused", "left=0 0=unsupported")
    assert not same("left=0 0=00", "left=1 0=00")
