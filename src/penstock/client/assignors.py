"""How the leader of a classic group divides the partitions among its members: by range, evenly, or cooperatively.

The cooperative way is KIP-429's: a partition that is to move is assigned to nobody until its owner has joined without
it. If two members claim the same partition, the claim of the later generation counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.client import Partition

RANGE, ROUND_ROBIN, COOPERATIVE = "range", "roundrobin", "cooperative-sticky"

Shares = dict[str, list[Partition]]


@dataclass(frozen=True, slots=True)
class Wish:
    """The metadata that a member sends when it joins."""

    topics: Sequence[str]
    owned: Sequence[Partition]
    generation: int


Assignor = Callable[[Mapping[str, Wish], Mapping[str, int]], Shares]
"""Shares by what the members wish and the number of partitions a topic, of topics that there are."""


def by_range(wishes: Mapping[str, Wish], partition_counts: Mapping[str, int]) -> Shares:
    """Each topic in consecutive pieces, of which the first ones are larger by one if need be."""
    shares: Shares = {member: [] for member in wishes}
    for topic, count in sorted(partition_counts.items()):
        members = sorted(member for member, wish in wishes.items() if topic in wish.topics)
        begin = 0
        for rank, member in enumerate(members):
            end = begin + count // len(members) + (rank < count % len(members))
            shares[member] += [(topic, index) for index in range(begin, end)]
            begin = end
    return shares


def cooperatively(wishes: Mapping[str, Wish], partition_counts: Mapping[str, int]) -> Shares:
    """Evenly, with few moves: whoever has most gives to whoever has least, until nobody would gain by it."""
    owners = owners_of(wishes)
    shares: dict[str, dict[str, list[Partition]]] = {member: {} for member in wishes}
    sizes = dict.fromkeys(wishes, 0)
    takers = {topic: sorted(each for each in wishes if topic in wishes[each].topics) for topic in partition_counts}
    left: list[Partition] = []

    def give(place: Partition, member: str) -> None:
        shares[member].setdefault(place[0], []).append(place)
        sizes[member] += 1

    for topic, count in sorted(partition_counts.items()):
        for place in ((topic, index) for index in range(count if takers[topic] else 0)):
            owner = owners.get(place)
            if owner is not None and owner in takers[topic]:
                give(place, owner)
            else:
                left.append(place)
    for place in left:
        give(place, min(takers[place[0]], key=sizes.__getitem__))
    while (move := next_move(takers, shares, sizes)) is not None:
        giver, topic, taker = move
        give(shares[giver][topic].pop(), taker)
        sizes[giver] -= 1
        if not shares[giver][topic]:
            del shares[giver][topic]
    return {
        member: sorted(place for places in share.values() for place in places if owners.get(place, member) == member)
        for member, share in shares.items()
    }


def next_move(
    takers: Mapping[str, Sequence[str]], shares: Mapping[str, Mapping[str, object]], sizes: Mapping[str, int]
) -> tuple[str, str, str] | None:
    """Giver, topic and taker; None once the shares are as equal as the subscriptions allow."""
    for giver in sorted(sizes, key=lambda member: -sizes[member]):
        for topic in shares[giver]:
            taker = min(takers[topic], key=sizes.__getitem__)
            if sizes[taker] + 1 < sizes[giver]:
                return giver, topic, taker
    return None


def owners_of(wishes: Mapping[str, Wish]) -> dict[Partition, str]:
    """The owner of each partition, as the members claim."""
    owners: dict[Partition, str] = {}
    for member, wish in sorted(wishes.items(), key=lambda each: (each[1].generation, each[0])):
        owners.update(dict.fromkeys(wish.owned, member))
    return owners


ASSIGNORS: dict[str, Assignor] = {RANGE: by_range, ROUND_ROBIN: cooperatively, COOPERATIVE: cooperatively}
"""Those by which clients share, by Kafka's names. Of members that claim nothing the last two think alike."""
