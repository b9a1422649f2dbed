"""Every client's transactions: committed, aborted, of a zombie, timed out, and with the offsets of what was consumed.

What is read is read by the client itself, read_committed, and by librdkafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from interop.clients import builds as other_builds
from interop.groups.place import Place
from interop.kafka_peer import java_source
from interop.transactions.builds import HERE, OLD_JAVA, java_program
from interop.transactions.clients import PYTHON_CLIENTS, Copy, Process, RefusedError, TransactionalClient
from support.processes import wait_until

pytestmark = [
    pytest.mark.java,
    # kafka-python may leave a socket to the garbage collector when it is closed
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

JAVA_SOURCE = HERE / "TransactionalClient.java"
CLIENTS: Mapping[str, Callable[[str], TransactionalClient]] = {
    **PYTHON_CLIENTS,
    "java": lambda bootstrap: Process(java_source(JAVA_SOURCE.read_text()), bootstrap),
    "java-3.7": lambda bootstrap: Process(java_program(OLD_JAVA, JAVA_SOURCE), bootstrap),
    "franz-go": lambda bootstrap: Process([*other_builds.go_clients(), "transactions", "franz-go"], bootstrap),
    "sarama": lambda bootstrap: Process([*other_builds.go_clients(), "transactions", "sarama"], bootstrap),
}
PROTOCOLS = [(name, "classic") for name in CLIENTS] + [
    (name, "consumer") for name in ("librdkafka", "java", "franz-go")
]
FENCED = re.compile(r"(?i)fenced|invalid.?producer.?epoch|old epoch|newer producer|Error code = 90")
"""sarama has no name for PRODUCER_FENCED."""
LONG_MS, SHORT_MS = 60_000, 1_000
RECORDS, BATCH = 60, 10


EVERY_DAY = ("librdkafka", "java", "franz-go")


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in EVERY_DAY else [pytest.mark.slow]


@pytest.fixture(scope="module", params=[pytest.param(name, marks=marks(name)) for name in CLIENTS])
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def client(place: Place, name: str) -> Iterator[TransactionalClient]:
    with CLIENTS[name](place.bootstrap) as client:
        yield client


def read_by_both(place: Place, client: TransactionalClient, topic: str, partition: int, last: str) -> list[str]:
    """What is committed, by the client itself and by another."""
    values = client.read(topic, partition, last)
    with PYTHON_CLIENTS["librdkafka"](place.bootstrap) as other:
        assert other.read(topic, partition, last) == values
    return values


def write(place: Place, client: TransactionalClient, topic: str, partition: int, *values: str) -> None:
    """One transaction of a producer of its own."""
    client.open("other", f"other-{topic}-{partition}-{values[-1]}", LONG_MS)
    client.begin("other")
    client.send("other", topic, partition, *values)
    client.commit("other")
    client.close("other")


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    place: Place, client: TransactionalClient, number: int
) -> None:
    topic = f"ended-{number}"
    place.create(topic, 2)
    client.open("writer", f"writer-{number}", LONG_MS)
    for turn in range(3):
        client.begin("writer")
        for partition in range(2):
            client.send("writer", topic, partition, f"{turn}-{partition}-a", f"{turn}-{partition}-b")
        (client.abort if turn == 1 else client.commit)("writer")
    client.close("writer")
    for partition in range(2):
        found = read_by_both(place, client, topic, partition, f"2-{partition}-b")
        assert found == [f"{turn}-{partition}-{each}" for turn in (0, 2) for each in "ab"]


def test_an_empty_transaction_ends_either_way(place: Place, client: TransactionalClient, number: int) -> None:
    client.open("idle", f"idle-{number}", LONG_MS)
    for end in (client.commit, client.abort, client.commit):
        client.begin("idle")
        end("idle")
    client.close("idle")


def test_a_zombie_is_fenced(place: Place, client: TransactionalClient, number: int) -> None:
    topic = f"zombie-{number}"
    place.create(topic, 1)
    client.open("zombie", f"zombie-{number}", LONG_MS)
    client.begin("zombie")
    client.send("zombie", topic, 0, "of-the-zombie")
    client.open("successor", f"zombie-{number}", LONG_MS)
    client.begin("successor")
    client.send("successor", topic, 0, "of-the-successor")
    with pytest.raises(RefusedError, match=FENCED):
        client.commit("zombie")
    client.commit("successor")
    client.close("zombie")
    client.close("successor")
    assert read_by_both(place, client, topic, 0, "of-the-successor") == ["of-the-successor"]


def test_a_transaction_that_takes_too_long_is_aborted(place: Place, client: TransactionalClient, number: int) -> None:
    topic = f"slow-{number}"
    place.create(topic, 1)
    client.open("slow", f"slow-{number}", SHORT_MS)
    client.begin("slow")
    client.send("slow", topic, 0, "too-late")
    write(place, client, topic, 0, "in-time")
    assert read_by_both(place, client, topic, 0, "in-time") == ["in-time"], "the last stable offset has moved on"
    with pytest.raises(RefusedError):
        client.commit("slow")
    client.close("slow")
    write(place, client, topic, 0, "last")
    assert read_by_both(place, client, topic, 0, "last") == ["in-time", "last"]


@pytest.mark.parametrize(
    ("name", "protocol"), [pytest.param(*each, marks=marks(each[0])) for each in PROTOCOLS], scope="module"
)
def test_records_are_copied_once_with_the_offsets_of_their_group(
    place: Place, client: TransactionalClient, protocol: str, number: int
) -> None:
    source, target, group = f"from-{number}", f"to-{number}", f"copying-{number}"
    place.create(source, 2)
    place.create(target, 2)
    for partition in range(2):
        write(place, client, source, partition, *(f"{partition}-{each}" for each in range(RECORDS // 2)))
    client.copy(Copy(f"copier-{number}", group, protocol, source, target, RECORDS, BATCH))
    for partition in range(2):
        write(place, client, target, partition, "end")
        copied = [f"copied:{partition}-{each}" for each in range(RECORDS // 2)]
        assert read_by_both(place, client, target, partition, "end") == [*copied, "end"]
    offsets = committed(place, group, source)
    assert all(offset >= RECORDS // 2 for offset in offsets.values()), offsets
    assert len(offsets) == 2


def committed(place: Place, group: str, topic: str) -> dict[int, int]:
    """The group's offsets, once none is pending."""
    admin, found = AdminClient({"bootstrap.servers": place.bootstrap}), {}

    def stable() -> bool:
        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, each) for each in range(2)])]
        (answer,) = admin.list_consumer_group_offsets(asked, require_stable=True).values()
        partitions = answer.result(30).topic_partitions
        found.update({each.partition: each.offset for each in partitions if each.offset >= 0})
        return len(found) == 2

    wait_until(stable, "the offsets are committed")
    return found
