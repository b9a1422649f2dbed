"""How the leader of a classic group shares the partitions: by range, evenly, or cooperatively.

The cooperative way is KIP-429's: a partition that shall move is given to nobody as long as its owner has not come back
without it. Two that claim the same partition: the claim of the later generation counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.client import Partition

RANGE, ROUND_ROBIN, COOPERATIVE = "range", "roundrobin", "cooperative-sticky"

Shares = dict[str, list[Partition]]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a member says when it joins."""

    topics: Sequence[str]
    owned: Sequence[Partition]
    generation: int


Assignor = Callable[[Mapping[str, Wish], Mapping[str, int]], Shares]
"""Shares by what the members wish and the number of partitions a topic, of topics that there are."""


def by_range(wishes: Mapping[str, Wish], partition_counts: Mapping[str, int]) -> Shares:
    """Each topic in consecutive pieces."""
    shares: Shares = {member: [] for member in wishes}
    for topic, count in sorted(partition_counts.items()):
        members = sorted(member for member, wish in wishes.items() if topic in wish.topics)
        for index in range(count if members else 0):
            shares[members[index * len(members) // count]].append((topic, index))
    return shares


def cooperatively(wishes: Mapping[str, Wish], partition_counts: Mapping[str, int]) -> Shares:
    """Evenly, with as little movement as may be."""
    owners = owners_of(wishes)
    shares: Shares = {member: [] for member in wishes}
    places = [(topic, index) for topic, count in sorted(partition_counts.items()) for index in range(count)]
    fair, more = divmod(len(places), max(1, len(wishes)))  # so many each, and some have one more
    left = []
    for place in places:
        owner = owners.get(place)
        if owner is not None and place[0] in wishes[owner].topics and len(shares[owner]) < fair + (more > 0):
            more -= len(shares[owner]) == fair
            shares[owner].append(place)
        else:
            left.append(place)
    for place in left:
        members = sorted(member for member, wish in wishes.items() if place[0] in wish.topics)
        if members:
            shares[min(members, key=lambda member: (len(shares[member]), member))].append(place)
    for member, share in shares.items():
        shares[member] = [place for place in share if owners.get(place, member) == member]
    return shares


def owners_of(wishes: Mapping[str, Wish]) -> dict[Partition, str]:
    """Who has what, by what they claim."""
    owners: dict[Partition, str] = {}
    for member, wish in sorted(wishes.items(), key=lambda each: (each[1].generation, each[0])):
        owners.update(dict.fromkeys(wish.owned, member))
    return owners


ASSIGNORS: dict[str, Assignor] = {RANGE: by_range, ROUND_ROBIN: cooperatively, COOPERATIVE: cooperatively}
"""Those by which clients share, by Kafka's names. Of members that claim nothing the last two think alike."""
