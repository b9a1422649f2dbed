"""What all clients of a simulated cluster share: partitions, what is known of them, and whether the load goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.errors import ErrorCode
from simulator.cluster.client import ClusterClient, Login
from simulator.cluster.history import PartitionHistory
from simulator.world.driver import Simulation
from simulator.world.network import Address, Network

RETRY_MS = 60
AGAIN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Kafka's retriable errors, as far as a broker may answer them here."""


class Load:
    """One run's clients and what they know together.

    Attributes:
        partitions: that are written and read. clients: all of them, in the order in which they were made.
        going_on: False once producers only finish what they have begun.
        producer_ids: that were given out.
        think_ms: clients wait up to this between two requests.
        really_leads: whether the broker at an address leads a partition as the newest committed metadata has it, which
            no client knows: what one that has been cut off says is not held against the cluster.
    """

    def __init__(
        self,
        simulation: Simulation,
        network: Network,
        brokers: Sequence[Address],
        partitions: Sequence[PartitionHistory],
        *,
        think_ms: int,
    ) -> None:
        self.simulation = simulation
        self.network = network
        self.brokers = brokers
        self.partitions = partitions
        self.think_ms = think_ms
        self.clients: list[ClusterClient] = []
        self.going_on = True
        self.really_leads: Callable[[Address, PartitionHistory], bool] = lambda address, partition: True
        self.producer_ids: set[int] = set()

    def client(self, name: str, *, brokers: Sequence[Address] = (), login: Login | None = None) -> ClusterClient:
        """A new client, of all brokers unless it is given others' addresses."""
        self.clients.append(ClusterClient(self.simulation, self.network, name, brokers or self.brokers, login=login))
        return self.clients[-1]

    def think(self) -> int:
        """How long a client waits now."""
        return self.simulation.random.randrange(self.think_ms)
