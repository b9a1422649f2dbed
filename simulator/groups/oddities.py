"""What is rare among groups: at most one of these in a seed, and in most seeds none.

- Ids that are as long as a string may be, or as the beginning of a member id may be. Who is told that its id is too
  long begins anew with another.
- A strategy of a classic member whose metadata cannot be read, while the others of its group like that strategy best.
  At first there is one member with the newer protocol, so that the group cannot become classic when that goes.
- Visitors: they come once, each to a new group, of which some have records that do not fit into a batch.

They are drawn by chance of their own: a seed without any is the same run as if there were none.
"""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import Any

from penstock.coordinator.group.classic_requests import MEMBER_ID_PREFIX_MAX_BYTES
from penstock.node.coordinator_topic import partition_for
from penstock.node.groups import OFFSETS_TOPIC
from penstock.protocol.limits import STRING_MAX_BYTES
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from simulator.cluster.client import ClusterClient
from simulator.groups.load import GroupLoad
from simulator.groups.member import FILL
from simulator.world.network import Address

SEED = 0xA3
SEEDS_WITHOUT = 3
"""For each that has an oddity."""
LONG_BYTES = (STRING_MAX_BYTES, MEMBER_ID_PREFIX_MAX_BYTES + 1, MEMBER_ID_PREFIX_MAX_BYTES)
SMALL_BATCH_BYTES = 30_000
"""Less than a record with the longest id of a group."""
MAJORITY_SIZE = 4
VISITS_MS = (300, 1_500)
JOIN_VERSION = 3
"""The last in which one request makes a group with a member."""


class Oddity(Enum):
    """See the module's head."""

    LONG_CLIENT_ID = "long client id"
    LONG_INSTANCE_ID = "long instance id"
    UNREADABLE = "unreadable metadata"
    VISITORS = "visitors"


class Oddities:
    """What a seed has.

    Attributes:
        kind: None in most seeds. random: its own chance.
    """

    def __init__(self, seed: int, *, mixed: bool) -> None:
        self.random = Random(f"{SEED} {seed}")
        kinds = [*Oddity, Oddity.UNREADABLE] if mixed else [each for each in Oddity if each is not Oddity.UNREADABLE]
        self.kind = None if self.random.randrange(1 + SEEDS_WITHOUT) else self.random.choice(kinds)

    def settings(self) -> dict[str, Any]:
        """Of the brokers, in the place of others."""
        return {"message_max_bytes": SMALL_BATCH_BYTES} if self.kind is Oddity.VISITORS else {}

    def size(self, drawn: int) -> int:
        """How many members a group has: enough for a majority that likes the same strategy."""
        return max(drawn, MAJORITY_SIZE) if self.kind is Oddity.UNREADABLE else drawn

    def long(self, name: str) -> str:
        """The name, filled up to a long id."""
        return name.ljust(self.random.choice(LONG_BYTES), FILL)


class Visitors:
    """They come one after the other, from `begin` until members are patient."""

    def __init__(self, load: GroupLoad, random: Random) -> None:
        self.load = load
        self.random = random
        self._came = 0
        self._simulation = load.clients.simulation

    def begin(self) -> None:
        """The first one comes after a while."""
        self._simulation.after_ms(self.random.randint(*VISITS_MS), self._next)

    def _next(self) -> None:
        if self.load.patient:
            return
        self._came += 1
        name = f"visit-{self._came}"
        group_id = name.ljust(self.random.choice((len(name), STRING_MAX_BYTES)), FILL)
        topic = self.load.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is not None:
            registration = topic.partitions[partition_for(group_id, len(topic.partitions))]
            machine = self.load.checker.machines.get(registration.leader)
            if machine is not None:
                self._join(name, group_id, machine.address())
        self.begin()

    def _join(self, name: str, group_id: str, address: Address) -> None:
        clients = self.load.clients
        client = ClusterClient(clients.simulation, clients.network, name, clients.brokers)
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=self.load.session_ms,
            rebalance_timeout_ms=self.load.rebalance_ms,
            protocol_type="visit",
            protocols=[JoinGroupRequestProtocol(name="any", metadata=b"")],
        )
        client.ask(address, request, JOIN_VERSION, lambda response: client.hang_up(address))
