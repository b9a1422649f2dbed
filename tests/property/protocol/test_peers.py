"""Our bytes are those of kio and of kafka-python, on random messages of every class and version that each has."""

from __future__ import annotations

from collections import Counter
from random import Random

import codec_peers
import pytest
from random_messages import RandomMessages

from penstock.protocol import codec, schema
from penstock.protocol.message import Message

PAIRS = [(name, version) for name, heading in schema.headings().items() for version in heading.versions]


def compare(message: Message, version: int, counts: Counter[str]) -> None:
    """Encodes with all, decodes with ours."""
    data = codec.encode_bytes(message, version)
    assert codec.decode(type(message), version, data) == (message, len(data))
    counts["ours"] += 1
    for library, encode in (("kio", codec_peers.kio_bytes), ("kafka-python", codec_peers.kafka_python_bytes)):
        theirs = encode(message, version)
        if theirs is not None:
            assert data == theirs, f"{library} writes {message.NAME} version {version} differently: {message}"
            counts[library] += 1


def run(rounds: int, seed: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    messages = RandomMessages(Random(seed), moderate=True)
    for _ in range(rounds):
        for name, version in PAIRS:
            compare(messages.message(name, version), version, counts)
    return counts


def test_random_messages_are_written_as_by_kio_and_kafka_python() -> None:
    rounds = 5
    counts = run(rounds, seed=1)
    assert counts == {"ours": 753 * rounds, "kio": 625 * rounds, "kafka-python": 478 * rounds}


@pytest.mark.long
def test_many_random_messages_are_written_as_by_kio_and_kafka_python() -> None:
    run(200, seed=2)


@pytest.mark.parametrize("seed", range(3))
def test_messages_with_extreme_values_are_read_as_they_were_written(seed: int) -> None:
    messages = RandomMessages(Random(seed))
    for name, version in PAIRS:
        message = messages.message(name, version)
        data = codec.encode_bytes(message, version)
        assert codec.decode(type(message), version, data) == (message, len(data))
        assert codec.encode_bytes(codec.decode(type(message), version, data)[0], version) == data


def test_a_wrong_byte_would_be_noticed() -> None:
    message = RandomMessages(Random(3), moderate=True).message("HeartbeatRequest", 4)
    wrong = type(message)()
    assert codec.encode_bytes(wrong, 4) != codec_peers.kio_bytes(message, 4)
    assert codec.encode_bytes(wrong, 4) != codec_peers.kafka_python_bytes(message, 4)
