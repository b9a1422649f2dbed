"""The same requests over a quota to Apache Kafka and to Penstock: the waits they are told, and what they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from interop.clients.wire import Wire
from interop.kafka_peer import KafkaPeer
from interop.quotas.limited import FETCH_VERSION, PRODUCE_VERSION, WIRE, limited, of_bytes, set_quotas
from support.heard import until_heard
from support.requests import fetch, partitions_of, values_of, wanted

from penstock.errors import ErrorCode
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.testing.broker import LocalBroker

pytestmark = [pytest.mark.java, pytest.mark.slow]

LIKE = 0.15
"""The waits may differ by this share: Kafka counts the request or the answer as Java holds it."""
LIMIT = 1_000
MAX_BYTES = 4_000
"""Of a fetch. Kafka fills an answer up with a part of the next batch, and counts that; so there is no room for one."""


@pytest.fixture(scope="module")
def addresses(kafka_peer: KafkaPeer) -> Iterator[tuple[str, str]]:
    with LocalBroker() as broker:
        yield broker.bootstrap, kafka_peer.bootstrap


class Seen(NamedTuple):
    """One answer: the error, how long to wait, and what was in it."""

    error: str
    wait_ms: int
    content: Any = None


def alike(addresses: tuple[str, str], do: Callable[[str], list[Seen]]) -> list[Seen]:
    """Does the same to both, each request on a connection of its own, since one over its quota is mute. Compares."""
    ours, kafkas = map(do, addresses)
    assert [each._replace(wait_ms=0) for each in ours] == [each._replace(wait_ms=0) for each in kafkas]
    for our, kafka in zip(ours, kafkas, strict=True):
        assert our.wait_ms == pytest.approx(kafka.wait_ms, rel=LIKE), (ours, kafkas)
    return ours


def create(bootstrap: str, name: str, *, partitions: int = 1, version: int = 7) -> Seen:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    with Wire(bootstrap) as wire:
        answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version)
    return Seen(ErrorCode(answer.topics[0].error_code).name, answer.throttle_time_ms)


def produced(bootstrap: str, topic: str, size_bytes: int) -> Seen:
    with Wire(bootstrap) as wire:
        answer = wire.ask(of_bytes(topic, size_bytes), PRODUCE_VERSION)
    (partition,) = answer.responses[0].partition_responses
    return Seen(ErrorCode(partition.error_code).name, answer.throttle_time_ms)


def test_producers_wait_as_long(addresses: tuple[str, str]) -> None:
    def do(bootstrap: str) -> list[Seen]:
        assert create(bootstrap, "quota-waits").error == "NONE"
        until_heard(bootstrap)
        with limited(bootstrap, WIRE, producer_byte_rate=LIMIT):
            return [produced(bootstrap, "quota-waits", size) for size in (5_000, 40_000, 40_000, 40_000, 100)]

    seen = alike(addresses, do)
    assert [each.wait_ms > 0 for each in seen] == [False, True, True, True, True]


def fetched(bootstrap: str, **fields: Any) -> Any:
    with Wire(bootstrap) as wire:
        return wire.ask(
            fetch("quota-fetched", wanted(max_bytes=MAX_BYTES, **fields.pop("at", {})), **fields), FETCH_VERSION
        )


def in_answer(answer: Any) -> Seen:
    found = partitions_of(answer)
    lengths = [len(value or b"") for value in values_of(found[0])] if found else None
    return Seen(ErrorCode(answer.error_code).name, answer.throttle_time_ms, (bool(answer.session_id), lengths))


def test_a_fetch_over_its_quota_is_empty(addresses: tuple[str, str]) -> None:
    def do(bootstrap: str) -> list[Seen]:
        assert create(bootstrap, "quota-fetched").error == "NONE"
        until_heard(bootstrap)
        for size in (4_000, 8_000, 4_000):
            assert produced(bootstrap, "quota-fetched", size).error == "NONE"
        with limited(bootstrap, WIRE, consumer_byte_rate=LIMIT):
            first = fetched(bootstrap, session_epoch=0)
            seen = [in_answer(first)]
            for epoch in (1, 2):
                answer = fetched(bootstrap, at={"offset": 1}, session_id=first.session_id, session_epoch=epoch)
                assert answer.session_id == first.session_id
                seen.append(in_answer(answer))
            seen.append(in_answer(fetched(bootstrap, at={"offset": 1})))  # without a session
            seen.append(in_answer(fetched(bootstrap, at={"offset": 1}, session_epoch=0)))  # wants a new one
            return seen

    assert [each.content for each in alike(addresses, do)] == [
        (True, [4_000]),
        (True, None),
        (True, None),
        (False, None),
        (False, None),
    ]


def test_mutations_wait_as_long(addresses: tuple[str, str]) -> None:
    def do(bootstrap: str) -> list[Seen]:
        set_quotas(bootstrap, WIRE, controller_mutation_rate=1)
        seen = [
            create(bootstrap, "quota-mutated-1", partitions=40),
            create(bootstrap, "quota-mutated-2"),
            create(bootstrap, "quota-mutated-3", version=5),
            create(bootstrap, "quota-mutated-4"),
        ]
        set_quotas(bootstrap, WIRE, controller_mutation_rate=None)
        return seen

    assert [each.error for each in alike(addresses, do)] == [
        "NONE",
        "THROTTLING_QUOTA_EXCEEDED",
        "NONE",
        "THROTTLING_QUOTA_EXCEEDED",
    ]


USER = {"user": "ANONYMOUS"}
BOTH = {**USER, **WIRE}
"""Other groups than that of the client id: Kafka remembers what one has used though its quota is deleted."""


def test_partitions_and_deletions_wait_as_long_in_all_versions(addresses: tuple[str, str]) -> None:
    def extended(bootstrap: str, count: int, version: int) -> Seen:
        topic = CreatePartitionsTopic(name="quota-extended", count=count, assignments=None)
        with Wire(bootstrap) as wire:
            answer = wire.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=30_000), version)
        return Seen(ErrorCode(answer.results[0].error_code).name, answer.throttle_time_ms)

    def deleted(bootstrap: str, name: str, version: int) -> Seen:
        with Wire(bootstrap) as wire:
            answer = wire.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), version)
        return Seen(ErrorCode(answer.responses[0].error_code).name, answer.throttle_time_ms)

    def do(bootstrap: str) -> list[Seen]:
        for name in ("quota-extended", "quota-deleted"):
            assert create(bootstrap, name, partitions=5).error == "NONE"
        until_heard(bootstrap)
        set_quotas(bootstrap, USER, controller_mutation_rate=1)
        seen = [
            extended(bootstrap, 50, 3),
            extended(bootstrap, 52, 3),
            extended(bootstrap, 52, 2),
            deleted(bootstrap, "quota-deleted", 5),
            deleted(bootstrap, "quota-deleted", 4),
        ]
        set_quotas(bootstrap, USER, controller_mutation_rate=None)
        return seen

    refused = "THROTTLING_QUOTA_EXCEEDED"
    assert [each.error for each in alike(addresses, do)] == ["NONE", refused, "NONE", refused, "NONE"]


DEMANDS = 20
"""How often a topic is asked for that is to be made on demand: Kafka's broker makes it some time after its answer."""


def test_topics_made_on_demand_are_not_made_without_tokens(addresses: tuple[str, str]) -> None:
    def demanded(bootstrap: str, *, create: bool) -> str:
        topics = [MetadataRequestTopic(name="quota-demanded")]
        with Wire(bootstrap) as wire:
            answer = wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create), 12)
        return ErrorCode(answer.topics[0].error_code).name

    def do(bootstrap: str) -> list[Seen]:
        set_quotas(bootstrap, BOTH, controller_mutation_rate=1)
        assert create(bootstrap, "quota-before-demand", partitions=200).error == "NONE"
        for _ in range(DEMANDS):
            demanded(bootstrap, create=True)
        until_heard(bootstrap)
        seen = [Seen(demanded(bootstrap, create=False), 0)]
        set_quotas(bootstrap, BOTH, controller_mutation_rate=None)
        while demanded(bootstrap, create=True) != "NONE":
            until_heard(bootstrap)
        return seen

    assert [each.error for each in alike(addresses, do)] == ["UNKNOWN_TOPIC_OR_PARTITION"], "strict, as for who is told"
