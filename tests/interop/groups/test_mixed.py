"""Clients of several languages in one group, static members, topics by pattern, and both protocols in one group."""

from __future__ import annotations

from dataclasses import replace

import pytest
from interop.groups.journal import Journal
from interop.groups.members import Hosts, Joining
from interop.groups.place import Place
from support.processes import wait_until

pytestmark = [
    pytest.mark.java,
    # kafka-python may leave a socket to the garbage collector when it is closed
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

LANGUAGES = ("librdkafka", "java", "kafka-python", "aiokafka", "franz-go", "kafkajs")


def test_every_language_in_one_classic_group(place: Place, hosts: Hosts, number: int) -> None:
    journal, topic = Journal(), f"mixed-{number}"
    place.create(topic, 9)
    joining = Joining(place.bootstrap, f"mixed-{number}", (topic,), assignor="range")
    members = {f"{client}-{number}": hosts.open(journal, client, f"{client}-{number}", joining) for client in LANGUAGES}
    journal.wait_shared({topic: 9}, members)
    journal.wait_read(place.fill(topic, 9, 3))
    for name in list(members):
        members.pop(name).close()
        if members:
            journal.wait_shared({topic: 9}, members)
            journal.wait_read(place.fill(topic, 9, 1))


@pytest.mark.parametrize("first", ["penstock", "other"])
@pytest.mark.parametrize(
    "other",
    [
        ("java", "cooperative-sticky"),
        pytest.param(("java", "range"), marks=pytest.mark.slow),
        pytest.param(("java", "roundrobin"), marks=pytest.mark.slow),
        pytest.param(("librdkafka", "cooperative-sticky"), marks=pytest.mark.slow),
        pytest.param(("librdkafka", "roundrobin"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_our_own_classic_member_shares_with_others_whoever_leads(
    place: Place, hosts: Hosts, number: int, other: tuple[str, str], first: str
) -> None:
    """The first to come leads; what the leader shares, the others take."""
    (client, assignor), journal, topic = other, Journal(), f"ours-{number}"
    place.create(topic, 8)
    joining = Joining(place.bootstrap, f"ours-{number}", (topic,), assignor=assignor)
    members = {}
    for kind in ("penstock", client, client) if first == "penstock" else (client, "penstock", client):
        name = f"{kind}-{number}-{len(members)}"
        members[name] = hosts.open(journal, kind, name, joining)
        journal.wait_shared({topic: 8}, members)
        journal.wait_read(place.fill(topic, 8, 1))
    for name in list(members):
        members.pop(name).close()
        if members:
            journal.wait_shared({topic: 8}, members)
            journal.wait_read(place.fill(topic, 8, 1))
    assert place.group(f"ours-{number}") == ("classic", "empty")


def test_our_own_member_joins_a_group_that_has_to_stay_classic_as_a_classic_one(
    place: Place, hosts: Hosts, number: int
) -> None:
    """librdkafka's cooperative-sticky keeps data of its own, see the next test but one."""
    journal, topic, group = Journal(), f"auto-{number}", f"auto-{number}"
    place.create(topic, 6)
    classic = Joining(place.bootstrap, group, (topic,), assignor="cooperative-sticky")
    members = {}
    for name, client, joining in (
        (f"a{number}", "librdkafka", classic),
        (f"b{number}", "librdkafka", classic),
        (f"c{number}", "penstock", replace(classic, protocol=None)),
    ):
        members[name] = hosts.open(journal, client, name, joining)
        journal.wait_shared({topic: 6}, members)
    wait_until(lambda: place.group(group) == ("classic", "stable"), "a round that changes nothing has ended, too")
    journal.wait_read(place.fill(topic, 6, 2))
    for member in members.values():
        member.close()


def test_librdkafka_and_java_in_one_consumer_group(place: Place, hosts: Hosts, number: int) -> None:
    journal, topic = Journal(), f"modern-{number}"
    place.create(topic, 9)
    joining = Joining(place.bootstrap, f"modern-{number}", (topic,), protocol="consumer")
    members = {}
    for client in ("librdkafka", "java", "librdkafka"):
        name = f"{client}-{number}-{len(members)}"
        members[name] = hosts.open(journal, client, name, joining)
        journal.wait_shared({topic: 9}, members)
        journal.wait_read(place.fill(topic, 9, 1))
    for name in list(members):
        members.pop(name).close()
        if members:
            journal.wait_shared({topic: 9}, members)
            journal.wait_read(place.fill(topic, 9, 1))
    assert set(journal.reads.values()) == {1}, "each record once: members commit before they give partitions up"


@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        ("java", "cooperative-sticky"),
        pytest.param("java", "range", marks=pytest.mark.slow),
        pytest.param("librdkafka", "range", marks=pytest.mark.slow),
    ],
)
def test_a_classic_group_becomes_a_consumer_group_and_back_while_it_works(
    place: Place, hosts: Hosts, number: int, client: str, assignor: str
) -> None:
    journal, topic, group = Journal(), f"moving-{number}", f"moving-{number}"
    place.create(topic, 6)
    classic = Joining(place.bootstrap, group, (topic,), assignor=assignor)
    consumer = replace(classic, protocol="consumer", assignor=None)
    members = {}

    def settled(kind: str) -> None:
        journal.wait_shared({topic: 6}, members)
        journal.wait_read(place.fill(topic, 6, 1))
        wait_until(lambda: place.group(group) == (kind, "stable"), f"a {kind} group is stable")

    def come(name: str, joining: Joining) -> None:
        members[f"{name}{number}"] = hosts.open(journal, client, f"{name}{number}", joining)

    def go(name: str) -> None:
        members.pop(f"{name}{number}").close()

    come("a", classic)
    come("b", classic)
    settled("classic")
    come("c", consumer)
    settled("consumer")
    go("a")
    settled("consumer")
    come("d", consumer)
    go("b")
    settled("consumer")
    come("e", classic)
    settled("consumer")
    go("c")
    settled("consumer")
    go("d")
    settled("classic")
    go("e")
    assert place.group(group) == ("classic", "empty")


def test_a_group_whose_assignor_keeps_data_of_its_own_stays_classic(place: Place, hosts: Hosts, number: int) -> None:
    """As librdkafka's cooperative-sticky does from the second rebalance on: the data would be lost."""
    journal, topic = Journal(), f"staying-{number}"
    place.create(topic, 6)
    classic = Joining(place.bootstrap, f"staying-{number}", (topic,), assignor="cooperative-sticky")
    first = hosts.open(journal, "librdkafka", f"a{number}", classic)
    journal.wait_shared({topic: 6}, [f"a{number}"])
    second = hosts.open(journal, "librdkafka", f"b{number}", classic)
    journal.wait_shared({topic: 6}, [f"a{number}", f"b{number}"])
    refused = Journal()
    hosts.open(refused, "librdkafka", f"c{number}", replace(classic, protocol="consumer", assignor=None))
    with pytest.raises(AssertionError, match="group id does not exist"):
        refused.wait_shared({topic: 6}, [f"c{number}"])
    wait_until(lambda: place.group(f"staying-{number}") == ("classic", "stable"), "it stays a classic group")
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("client", "protocol"),
    [
        ("java", "consumer"),
        ("librdkafka", "classic"),
        pytest.param("java", "classic", marks=pytest.mark.slow),
        pytest.param("librdkafka", "consumer", marks=pytest.mark.slow),
    ],
)
def test_a_static_member_comes_back_to_what_it_had_and_nobody_else_notices(
    place: Place, hosts: Hosts, number: int, client: str, protocol: str
) -> None:
    journal, topic = Journal(), f"static-{number}"
    place.create(topic, 6)
    joining = Joining(place.bootstrap, f"static-{number}", (topic,), protocol)
    first = hosts.open(journal, client, f"a{number}", replace(joining, instance="one"))
    second = hosts.open(journal, client, f"b{number}", replace(joining, instance="two"))
    journal.wait_shared({topic: 6}, [f"a{number}", f"b{number}"])
    journal.wait_read(place.fill(topic, 6, 2))
    had, others = set(journal.owned[f"a{number}"]), journal.callbacks(f"b{number}")
    first.abandon()
    first = hosts.open(journal, client, f"c{number}", replace(joining, instance="one"))
    journal.wait_shared({topic: 6}, [f"c{number}", f"b{number}"])
    assert journal.owned[f"c{number}"] == had
    journal.wait_read(place.fill(topic, 6, 2))
    assert journal.callbacks(f"b{number}") == others
    assert set(journal.reads.values()) == {1}
    first.abandon()
    second.abandon()


@pytest.mark.parametrize(
    ("client", "refusal"),
    [pytest.param("java", "FencedInstanceId", marks=pytest.mark.slow), ("librdkafka", "fenced by other consumer")],
)
def test_the_first_of_two_with_one_instance_id_is_fenced_in_a_classic_group(
    place: Place, hosts: Hosts, number: int, client: str, refusal: str
) -> None:
    first, second, topic = Journal(), Journal(), f"fenced-{number}"
    place.create(topic, 2)
    joining = Joining(place.bootstrap, f"fenced-{number}", (topic,), instance="one")
    hosts.open(first, client, f"a{number}", joining)
    first.wait_shared({topic: 2}, [f"a{number}"])
    member = hosts.open(second, client, f"b{number}", joining)
    second.wait_shared({topic: 2}, [f"b{number}"])
    with pytest.raises(AssertionError, match=refusal):
        first.wait(lambda: False, "it to be fenced")
    member.abandon()


@pytest.mark.parametrize(
    ("client", "refusal"),
    [pytest.param("java", "UnreleasedInstanceId", marks=pytest.mark.slow), ("librdkafka", "instance ID is still used")],
)
def test_the_second_of_two_with_one_instance_id_is_refused_in_a_consumer_group(
    place: Place, hosts: Hosts, number: int, client: str, refusal: str
) -> None:
    first, second, topic = Journal(), Journal(), f"unreleased-{number}"
    place.create(topic, 2)
    joining = Joining(place.bootstrap, f"unreleased-{number}", (topic,), "consumer", instance="one")
    member = hosts.open(first, client, f"a{number}", joining)
    first.wait_shared({topic: 2}, [f"a{number}"])
    hosts.open(second, client, f"b{number}", joining)
    with pytest.raises(AssertionError, match=refusal):
        second.wait(lambda: False, "it to be refused")
    first.wait_read(place.fill(topic, 2, 2))
    member.abandon()


@pytest.mark.parametrize(
    ("client", "protocol"),
    [
        ("librdkafka", "classic"),
        pytest.param("java", "classic", marks=pytest.mark.slow),
        pytest.param("java", "consumer", marks=pytest.mark.slow),
        pytest.param("librdkafka", "consumer", marks=pytest.mark.slow),
        pytest.param("kafka-python", "classic", marks=pytest.mark.slow),
        pytest.param("aiokafka", "classic", marks=pytest.mark.slow),
    ],
)
def test_a_topic_that_a_pattern_matches_is_taken_up(
    place: Place, hosts: Hosts, number: int, client: str, protocol: str
) -> None:
    journal = Journal()
    first, second, other = f"seen-{number}-a", f"seen-{number}-b", f"unseen-{number}"
    for topic in (first, other):
        place.create(topic, 2)
        place.fill(topic, 2, 1)
    joining = Joining(place.bootstrap, f"pattern-{number}", (), protocol, pattern=f"seen-{number}-.*")
    members = {name: hosts.open(journal, client, name, joining) for name in (f"a{number}", f"b{number}")}
    journal.wait_shared({first: 2}, members)
    place.create(second, 2)
    journal.wait(lambda: sum(map(len, journal.owned.values())) == 4, "the new topic to be shared")
    journal.wait_read(place.fill(second, 2, 2))
    journal.wait_read(place.fill(first, 2, 2))
    for member in members.values():
        member.close()
    assert {topic for topic, _, _ in journal.reads} == {first, second}
