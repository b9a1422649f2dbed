"""What all transactional clients of a simulated cluster share, beyond what its clients share anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.metadata.image import MetadataImage
from penstock.node.coordinator_topic import partition_for
from penstock.node.groups import OFFSETS_TOPIC
from simulator.cluster.checkers import ClusterChecker
from simulator.cluster.load import Load
from simulator.transactions.history import LedgerHistory, Place, TransactionHistory
from simulator.world.network import Address

TRANSACTION_TOPIC = "__transaction_state"
TRANSACTION_VERSION = "transaction.version"
BY_EPOCHS = 2
"""From this transaction.version on each transaction has an epoch of its own (KIP-890)."""
INBOX, LEDGER = "clicks", "orders"
"""Producers write the first; chains read that and write the second."""

SPARE_MS = 200
"""For what comes late to arrive, and to be served."""

Term = tuple[int, int, int]
"""A coordinator's time in office: who, of which leader epoch, in which life of its process."""


@dataclass
class TransactionLoad:
    """See the module's head.

    Attributes:
        clients: everything that is not about transactions. checker: sees all nodes.
        ledgers: the partitions that transactions write, by place.
        timeouts_ms: transaction.timeout.ms of a producer, one of these.
        old_probability: how likely a process is a client of before KIP-890.
        repeat_probability: how likely a request is sent once more, and how late at most.
        hasty_probability: how likely a producer ends a transaction while its first write is on its way.
        patient: the cluster is well, and nobody gives up any more.
        over: nobody begins anything any more.
        hasty: transactional ids whose producers end a transaction while its first write is on its way.
    """

    clients: Load
    checker: ClusterChecker
    ledgers: dict[Place, LedgerHistory]
    history: TransactionHistory
    timeouts_ms: tuple[int, ...]
    old_probability: float
    repeat_probability: float
    repeated_after_ms: int
    hasty_probability: float
    calm: bool
    patient: bool = False
    over: bool = False
    hasty: set[str] = field(default_factory=set)
    happened: dict[str, int] = field(default_factory=dict)
    _late_ms: int = 0

    @property
    def image(self) -> MetadataImage:
        """The metadata as any client would be told."""
        return self.checker.image

    @property
    def now_ms(self) -> int:
        return self.clients.simulation.now_ms

    @property
    def quiet(self) -> bool:
        """Nothing that was sent once more is still to come."""
        return self.now_ms > self._late_ms + SPARE_MS

    def later(self, event: Callable[[], None]) -> None:
        """Has something sent once more, by now at the earliest, and `repeated_after_ms` later at most."""
        delay_ms = self.clients.simulation.random.randrange(self.repeated_after_ms)
        self._late_ms = max(self._late_ms, self.now_ms + delay_ms)
        self.clients.simulation.after_ms(delay_ms, event)

    def count(self, what: str) -> None:
        """Something has happened."""
        self.happened[what] = self.happened.get(what, 0) + 1

    def group_term(self, address: Address, group_id: str) -> Term | None:
        """The term of the broker at an address, if it really is the group's coordinator and knows it.

        No client sees this. One that has been deposed and does not know gives offsets that were so once; Kafka's
        protocol does not prevent that.
        """
        topic = self.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        index = partition_for(group_id, len(topic.partitions))
        registration = topic.partitions[index]
        machine = self.checker.machines.get(registration.leader)
        if machine is None or not machine.running or machine.host != address[0]:
            return None
        shard = machine.broker.coordinators.groups.runtime.shards.get(index)
        if shard is None or shard.leader_epoch != registration.leader_epoch:
            return None
        return registration.leader, registration.leader_epoch, machine.incarnation
