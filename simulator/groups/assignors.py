"""How the leader of a simulated classic group shares the partitions: eagerly by range, or cooperatively.

The cooperative way is KIP-429's: a partition that shall move is given to nobody as long as its owner has not come back
without it. Two that claim the same partition: the claim of the later generation counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.groups.history import Place

RANGE, COOPERATIVE = "range", "cooperative-sticky"

Shares = dict[str, list[Place]]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a member says when it joins."""

    topics: Sequence[str]
    owned: Sequence[Place]
    generation: int


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
    limit = -(-len(places) // max(1, len(wishes)))
    left = []
    for place in places:
        owner = owners.get(place)
        if owner is not None and place[0] in wishes[owner].topics and len(shares[owner]) < limit:
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


def owners_of(wishes: Mapping[str, Wish]) -> dict[Place, str]:
    """Who has what, by what they claim."""
    owners: dict[Place, str] = {}
    for member, wish in sorted(wishes.items(), key=lambda each: (each[1].generation, each[0])):
        owners.update(dict.fromkeys(wish.owned, member))
    return owners
