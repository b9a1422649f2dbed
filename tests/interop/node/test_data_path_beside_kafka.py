"""The same requests, good and bad, to Apache Kafka and to Penstock: the same error codes, entry by entry.

What differs on purpose is listed with its reason, and must differ: a line that is no longer true fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from interop.clients.wire import Wire, errors_in
from interop.kafka_peer import KafkaPeer
from interop.node.data_path_corpus import Ids, corpus

from penstock.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

UNNAMED = "Kafka runs into an exception and answers UNKNOWN_SERVER_ERROR; ours names what is wrong"
LENIENT = "Kafka runs into an exception; nothing less than 0 bytes are 0 bytes here"
HEADER_ONLY = "seen only by walking the records, which penstock.produce.validation=deep does"
STRICTER = "the header contradicts itself; Kafka walks the records and writes a right one"

DIFFERENCES = {
    "batch: codec 5": UNNAMED,
    "batch: codec 6": UNNAMED,
    "batch: codec 7": UNNAMED,
    "fetch isolation level 5": UNNAMED,
    "list offsets, isolation level 9": UNNAMED,
    "fetch -1 bytes": LENIENT,
    "fetch -1 bytes in all": LENIENT,
    "batch: gzip that is none": HEADER_ONLY,
    "batch: a record too many": HEADER_ONLY,
    "batch: log append time": STRICTER,
    "batch: max timestamp -1": STRICTER,
    "batch: max timestamp 0": STRICTER,
    "step 9: producer 9000 epoch -1 sequence 0": "a negative epoch is refused before it is compared with the last one",
}

TOPICS = {
    "t": {"message.timestamp.after.max.ms": "86400000"},
    "in-sync": {"min.insync.replicas": "2"},
    "compact": {"cleanup.policy": "compact"},
    "zstd": {"compression.type": "zstd"},
}


def prepared(bootstrap: str) -> Ids:
    """The topics of the corpus, made and led."""
    with Wire(bootstrap) as wire:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=2 if name == "t" else 1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, configs in TOPICS.items()
        ]
        answer = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        assert [topic.error_code for topic in answer.topics] == [0] * len(topics), answer
        wait_until_producer_ids_are_there(wire)
        wait_until_the_topics_are_led(wire)
        return {topic.name: topic.topic_id for topic in answer.topics}


def wait_until_producer_ids_are_there(wire: Wire) -> None:
    """A fresh broker of Kafka has no block of producer ids for a moment."""
    end = time.monotonic() + 30
    while wire.ask(InitProducerIdRequest(transactional_id=None), 4).error_code != ErrorCode.NONE:
        assert time.monotonic() < end, "no producer ids"


def wait_until_the_topics_are_led(wire: Wire) -> None:
    """A broker answers that a topic is made before it leads every partition of it."""
    partitions = [(name, index) for name in TOPICS for index in range(2 if name == "t" else 1)]
    asked = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)])
        for name, index in partitions
    ]
    end = time.monotonic() + 30
    while any(code for _, code in errors_in(wire.ask(ListOffsetsRequest(replica_id=-1, topics=asked), 7))):
        assert time.monotonic() < end, "no leaders"


def outcome(bootstrap: str, message: Message, version: int) -> list[str]:
    """The error codes of an answer, in order of their places; or that the connection was closed."""
    with Wire(bootstrap) as wire:
        try:
            answer = wire.ask(message, version)
        except (ConnectionError, AssertionError, EOFError):
            return ["closed"]
        return [code.name for _, code in errors_in(answer)]


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    """Both of their own, with nothing in them: offsets and sequences are compared."""
    with KafkaPeer() as kafka, LocalBroker() as penstock:
        yield kafka.bootstrap, penstock.bootstrap


def test_error_codes_are_kafkas(brokers: tuple[str, str]) -> None:
    kafka, penstock = brokers
    now_ms = int(time.time() * 1000)
    kafka_ids, our_ids = prepared(kafka), prepared(penstock)
    differing = {}
    for name, make, version in corpus(now_ms):
        theirs = outcome(kafka, make(kafka_ids), version)
        ours = outcome(penstock, make(our_ids), version)
        if theirs != ours:
            differing[name] = f"Kafka {theirs}, ours {ours}"
    unexpected = {name: what for name, what in differing.items() if name not in DIFFERENCES}
    assert not unexpected
    assert sorted(differing) == sorted(DIFFERENCES), "a listed difference is none any more"
