"""Where replicas of new partitions go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from uuid import UUID

import pytest

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.image import BrokerRegistration, Endpoint
from penstock.metadata.partitions import Placer

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def cluster(
    racks: Mapping[int, str | None],
    *,
    hosts: Mapping[int, str] | None = None,
    fenced: tuple[int, ...] = (),
    leaving: tuple[int, ...] = (),
    cordoned: tuple[int, ...] = (),
) -> dict[int, BrokerRegistration]:
    return {
        broker_id: BrokerRegistration(
            id=broker_id,
            epoch=broker_id,
            incarnation_id=UUID(int=broker_id),
            endpoints=(Endpoint("PLAINTEXT", (hosts or {}).get(broker_id, f"host-{broker_id}"), 9092),),
            features={},
            rack=rack,
            fenced=broker_id in fenced,
            in_controlled_shutdown=broker_id in leaving,
            log_dirs=(UUID(int=100 + broker_id),),
            cordoned_log_dirs=(UUID(int=100 + broker_id),) if broker_id in cordoned else (),
        )
        for broker_id, rack in racks.items()
    }


@pytest.mark.parametrize("seed", range(20))
def test_replicas_are_spread_over_racks_and_leaders_over_brokers(seed: int) -> None:
    placer = Placer(cluster(RACKS), Random(seed))
    placed = [placer.place(3) for _ in range(60)]
    assert all({RACKS[each] for each in replicas} == {"a", "b", "c"} for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 4
    every = Counter(each for replicas in placed for each in replicas)
    assert max(every.values()) - min(every.values()) <= 6


@pytest.mark.parametrize("seed", range(20))
def test_more_replicas_than_racks_are_all_different_brokers(seed: int) -> None:
    placer = Placer(cluster(RACKS), Random(seed))
    for _ in range(20):
        replicas = placer.place(5)
        assert len(set(replicas)) == 5
        assert max(Counter(RACKS[each] for each in replicas).values()) == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_fenced_broker_is_taken_last_and_never_leads(seed: int) -> None:
    brokers = cluster(dict.fromkeys(range(1, 5)), fenced=(2,))
    placer = Placer(brokers, Random(seed))
    assert all(2 not in placer.place(3) for _ in range(12))
    for _ in range(12):
        replicas = placer.place(4)
        assert replicas[-1] == 2


@pytest.mark.parametrize("seed", range(20))
def test_brokers_of_one_host_share_no_partition_where_there_is_a_choice(seed: int) -> None:
    hosts = {1: "x", 2: "x", 3: "y", 4: "y", 5: "z", 6: "z"}
    placer = Placer(cluster(dict.fromkeys(hosts), hosts=hosts), Random(seed))
    placed = [placer.place(3) for _ in range(60)]
    assert all(len({hosts[each] for each in replicas}) == 3 for replicas in placed)
    assert len(Counter(replicas[0] for replicas in placed)) == 6
    assert all(len(set(placer.place(6))) == 6 for _ in range(6)), "and where there is none they do"


@pytest.mark.parametrize("seed", range(100))
def test_any_cluster_has_room_for_as_many_replicas_as_brokers(seed: int) -> None:
    random = Random(seed)
    racks = {broker_id: random.choice(("a", "b", "c")) for broker_id in range(1, random.randrange(3, 9))}
    hosts = {broker_id: random.choice(("x", "y", "z")) for broker_id in racks}
    fenced = tuple(each for each in racks if each > 1 and random.random() < 0.3)
    placer = Placer(cluster(racks, hosts=hosts, fenced=fenced), random)
    for _ in range(40):
        replicas = placer.place(random.randrange(1, len(racks) + 1))
        assert len(set(replicas)) == len(replicas)
        assert replicas[0] not in fenced


def test_one_broker_a_host_is_the_placement_without_hosts() -> None:
    alone = Placer(cluster(RACKS), Random(5))
    together = Placer(cluster(RACKS, hosts=dict.fromkeys(RACKS, "x")), Random(5))
    assert [alone.place(3) for _ in range(30)] == [together.place(3) for _ in range(30)]


def test_the_same_seed_places_the_same() -> None:
    first, second = (Placer(cluster(RACKS), Random(9)) for _ in range(2))
    assert [first.place(3) for _ in range(30)] == [second.place(3) for _ in range(30)]


def test_a_broker_on_its_way_out_or_cordoned_off_gets_nothing() -> None:
    placer = Placer(cluster(dict.fromkeys(range(1, 5)), leaving=(1,), cordoned=(2,)), Random(1))
    assert {each for _ in range(10) for each in placer.place(2)} == {3, 4}


def test_a_broker_that_has_stopped_counts_like_any_that_is_fenced() -> None:
    placer = Placer(cluster({1: None, 2: None}, leaving=(2,), fenced=(2,)), Random(1))
    assert placer.place(2) == [1, 2], "it is expected back"


@pytest.mark.parametrize(
    ("brokers", "factor", "sentence"),
    [
        (cluster({1: None}), 2, "The target replication factor of 2 cannot be reached because only 1 broker(s) are"),
        (cluster({1: None}), 0, "Invalid replication factor 0: the replication factor must be positive."),
        (cluster({1: None}, fenced=(1,)), 1, "All brokers are currently fenced, or have all their log directories cor"),
        (cluster({1: None}, cordoned=(1,)), 1, "All brokers are currently fenced, or have all their log directories "),
        ({}, 1, "All brokers are currently fenced, or have all their log directories cordoned."),
    ],
)
def test_where_there_is_no_room(brokers: dict[int, BrokerRegistration], factor: int, sentence: str) -> None:
    with pytest.raises(RequestError) as raised:
        Placer(brokers, Random(1)).place(factor)
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert raised.value.message.startswith(sentence)
