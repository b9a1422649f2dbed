"""Members come and go, topics grow: who owns what, which callbacks are called, and each record read exactly once.

The callbacks that are expected here are Apache Kafka's: the same tests run against it among the slow ones.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

import pytest
from interop.groups.journal import Journal
from interop.groups.members import Hosts, Joining
from interop.groups.place import Place

pytestmark = [
    pytest.mark.java,
    # kafka-python may leave a socket to the garbage collector when it is closed
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

PARTITIONS = 6


class Kind(NamedTuple):
    """A kind of client, and how it joins."""

    client: str
    protocol: str
    assignor: str | None = None


EAGER = ("+6 -6 +3 -3 +2 -2", "+3 -3 +2 -2 +3 -3", "+2 -2 +3 -3 +6 -6")
"""Everything is given up at each rebalance."""
EAGER_TO_THE_END = ("+6 -6 +3 -3 +2", "+3 -3 +2 -2 +3", "+2 -2 +3 -3 +6")
"""The same by clients that say nothing of what they give up when they leave."""
COOPERATIVE = ("+6 -3 +0 +0 -1 +0 +0 -2", "+0 +3 -1 +0 +0 +1 -3", "+0 +2 +1 +3 -6")
"""Only what goes elsewhere is given up."""
FRANZ = ("+6 -0 -3 +0 -0 +0 -0 -1 +0 -0 +0 -2", "+0 -0 +3 -0 -1 +0 -0 +0 -0 +1 -3", "+0 -0 +2 -0 +1 -0 +3 -6")
"""The same by a client that calls for nothing, too."""
SERVED = ("+6 -3 -1 -2", "+3 -1 +1 -3", "+6 -6")
"""What changes for members of a consumer group; new partitions may come one by one."""

CALLBACKS: dict[Kind, tuple[str, str, str]] = {
    Kind("librdkafka", "classic", "range"): EAGER,
    Kind("librdkafka", "classic", "roundrobin"): EAGER,
    Kind("librdkafka", "classic", "cooperative-sticky"): COOPERATIVE,
    Kind("librdkafka", "consumer", "uniform"): SERVED,
    Kind("java", "classic", "range"): EAGER,
    Kind("java", "classic", "roundrobin"): EAGER,
    Kind("java", "classic", "sticky"): EAGER,
    Kind("java", "classic", "cooperative-sticky"): COOPERATIVE,
    Kind("java", "consumer", "uniform"): SERVED,
    Kind("kafka-python", "classic", "range"): EAGER,
    Kind("kafka-python", "classic", "roundrobin"): EAGER,
    Kind("kafka-python", "classic", "sticky"): EAGER,
    Kind("aiokafka", "classic", "range"): EAGER_TO_THE_END,
    Kind("aiokafka", "classic", "roundrobin"): EAGER_TO_THE_END,
    Kind("franz-go", "classic", "range"): EAGER,
    Kind("franz-go", "classic", "sticky"): EAGER,
    Kind("franz-go", "classic", "cooperative-sticky"): FRANZ,
    Kind("kafkajs", "classic", "roundrobin"): EAGER_TO_THE_END,
    Kind("penstock", "classic"): EAGER_TO_THE_END,
}
EVERY_DAY = [
    Kind("librdkafka", "classic", "cooperative-sticky"),
    Kind("librdkafka", "consumer", "uniform"),
    Kind("franz-go", "classic", "range"),
]


def some_slow(kinds: Iterable[Kind], every_day: Container[Kind] = EVERY_DAY) -> list[Any]:
    """Parameters, of which all but the everyday ones are marked slow."""
    return [
        pytest.param(kind, id=" ".join(filter(None, kind)), marks=[] if kind in every_day else [pytest.mark.slow])
        for kind in kinds
    ]


def come_and_go(place: Place, hosts: Hosts, number: int, kind: Kind) -> tuple[Journal, list[str]]:
    """Three members come one by one, and leave in the same order; (what they did, their names)."""
    journal, topic = Journal(), f"life-{number}"
    place.create(topic, PARTITIONS)
    joining = Joining(place.bootstrap, f"group-{number}", (topic,), kind.protocol, kind.assignor)
    names = [f"{letter}{number}" for letter in "abc"]
    members = {}
    for name in names:
        members[name] = hosts.open(journal, kind.client, name, joining)
        journal.wait_shared({topic: PARTITIONS}, members)
        journal.wait_read(place.fill(topic, PARTITIONS, 2))
    for name in names:
        members.pop(name).close()
        if members:
            journal.wait_shared({topic: PARTITIONS}, members)
            journal.wait_read(place.fill(topic, PARTITIONS, 2))
    return journal, names


def without_rounds(changes: str) -> str:
    """The changes of one member of a cooperative group, whatever the number of rounds that it took to get them.

    Who comes first decides how many rounds change nothing, and whether what several members give up for one arrives
    at once or one by one.
    """
    gains = re.compile(r"(?:\+\d+ ?)+")
    changes = re.sub(r"[+-]0 ", "", changes)
    return gains.sub(lambda found: f"+{sum(map(int, found[0].split()))} ", changes).strip()


@pytest.mark.parametrize("kind", some_slow(CALLBACKS))
def test_callbacks_as_members_come_and_go(place: Place, hosts: Hosts, number: int, kind: Kind) -> None:
    journal, names = come_and_go(place, hosts, number, kind)
    told = journal.changes if kind.protocol == "consumer" else journal.callbacks
    called = [told(name) for name in names]
    if kind.client in {"kafka-python", "aiokafka"}:  # which join before they know the topic, and give up nothing first
        called = [re.sub(r"^([+-]0 )+", "", each) for each in called]
    if kind.client in {"kafka-python", "kafkajs"}:  # which may join again for reasons of their own, and get the same
        called = [re.sub(r" -(\d) \+\1(?= |$)", "", each) for each in called]
    expected: tuple[str, ...] = CALLBACKS[kind]
    if kind.assignor == "cooperative-sticky":
        called, expected = (tuple(map(without_rounds, several)) for several in (called, expected))
    assert tuple(called) == tuple(expected)
    assert set(journal.reads.values()) == {1}, "each record once: members commit before they give partitions up"


@pytest.mark.parametrize(
    "kind", some_slow([Kind("librdkafka", "consumer", "range"), Kind("java", "consumer", "range")], ())
)
def test_each_record_is_read_once_wherever_partitions_go(place: Place, hosts: Hosts, number: int, kind: Kind) -> None:
    """Who gets which partitions by range is up to the members' ids, which are random."""
    journal, _ = come_and_go(place, hosts, number, kind)
    assert set(journal.reads.values()) == {1}


GROWING = [
    Kind("librdkafka", "classic"),
    Kind("librdkafka", "consumer"),
    Kind("java", "classic"),
    Kind("java", "consumer"),
    Kind("kafka-python", "classic"),
    Kind("aiokafka", "classic"),
    Kind("franz-go", "classic"),
    Kind("kafkajs", "classic"),
]


@pytest.mark.parametrize("kind", some_slow(GROWING, (Kind("java", "consumer"),)))
def test_partitions_that_are_added_are_shared(place: Place, hosts: Hosts, number: int, kind: Kind) -> None:
    journal, topics = Journal(), (f"one-{number}", f"two-{number}")
    for topic in topics:
        place.create(topic, 2)
    joining = Joining(place.bootstrap, f"group-{number}", topics, kind.protocol)
    members = {name: hosts.open(journal, kind.client, name, joining) for name in (f"a{number}", f"b{number}")}
    journal.wait_shared(dict.fromkeys(topics, 2), members)
    place.grow(topics[1], 6)
    journal.wait(lambda: sum(map(len, journal.owned.values())) == 8, "the new partitions to be shared")
    for topic, partitions in zip(topics, (2, 6), strict=True):
        journal.wait_read(place.fill(topic, partitions, 2))
    for member in members.values():
        member.close()
