"""The transaction coordinator of a node: what transactions need in addition to `coordinator`.

Ends that are decided go to `markers`, and are completed when all partitions have theirs. Source: TransactionCoordinator
of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.coordinator.runtime.runtime import Runtime
from penstock.coordinator.runtime.shard import Shard
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.coordinator.transaction.ending import complete
from penstock.coordinator.transaction.machine import TransactionMachine
from penstock.coordinator.transaction.state import Context, Ending, Transactions
from penstock.metadata.features import TRANSACTION_VERSION
from penstock.node.coordinator import Coordinator, KeyType
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.coordinator_topic import TopicSpec
from penstock.node.markers import Markers
from penstock.node.metrics import GAUGE, Sample
from penstock.security.rights import DESCRIBE_TRANSACTIONAL_ID, Right

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.metadata.delta import MetadataDelta

TRANSACTIONS_TOPIC = "__transaction_state"

TransactionCoordinator = Coordinator[TransactionMachine]


def ending_of(coordinator: TransactionCoordinator, transactional_id: str) -> Ending | None:
    """The end whose markers are being written, if this node coordinates the transactional id and there is one."""
    shard = coordinator.runtime.shards.get(coordinator.topic.partition_of(transactional_id))
    return None if shard is None else shard.machine.state.endings.get(transactional_id)


def transactions_topic(settings: Settings) -> TopicSpec:
    """How `__transaction_state` is created."""
    return TopicSpec(
        TRANSACTIONS_TOPIC,
        "transactions",
        settings.transaction_state_log_num_partitions,
        settings.transaction_state_log_replication_factor,
        "transaction.state.log.replication.factor",
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
        },
    )


class TransactionService:
    """See the module's head. `runtime` returns that of the coordinator which this service is of."""

    name = package = "transaction"
    key_type: KeyType | None = KeyType.TRANSACTION
    right: Right | None = DESCRIBE_TRANSACTIONAL_ID
    linger_ms = 0

    def __init__(self, host: CoordinatorHost, runtime: Callable[[], Runtime[TransactionMachine]]) -> None:
        self._host = host
        self._runtime = runtime
        self._heard_of: MetadataDelta | None = None
        settings = host.state.settings
        self.spec = transactions_topic(settings)
        self.write_timeout_ms = settings.request_timeout_ms
        self.markers = Markers(
            host.state,
            host.scheduler,
            host.own_calls,
            coordinator_epoch=self._coordinator_epoch,
            marked=self._complete,
        )

    def machine(self, index: int, timers: ShardTimers) -> TransactionMachine:
        """The transactions of a partition."""
        state = self._host.state

        def ended(ending: Ending, now_ms: int) -> None:
            self.markers.send(index, ending, now_ms)

        context = Context(
            settings=lambda: state.settings,
            transaction_version=lambda: state.image.features.get(TRANSACTION_VERSION, 0),
            new_producer_id=self._host.producer_ids.take,
            ended=ended,
            wall=self._host.scheduler.wall,
        )
        return TransactionMachine(Transactions(timers, context))

    def _coordinator_epoch(self, index: int) -> int | None:
        shard = self._runtime().shards.get(index)
        return None if shard is None else shard.leader_epoch

    def _complete(self, index: int, ending: Ending, now_ms: int) -> None:
        self._runtime().write(index, lambda machine: complete(machine.state, ending, now_ms), None, now_ms)

    def published(
        self,
        coordinator: TransactionCoordinator,
        shard: Shard[TransactionMachine],
        delta: MetadataDelta,
        now_ms: int,
    ) -> None:
        """Tells the sender of markers about leaders that have changed, once for all shards."""
        if delta is not self._heard_of:
            self._heard_of = delta
            self.markers.published(delta, now_ms)

    def loaded(self, coordinator: TransactionCoordinator, shard: Shard[TransactionMachine], now_ms: int) -> None:
        """The machine goes on by itself."""

    def samples(self, coordinator: TransactionCoordinator) -> Iterator[Sample | None]:
        """The metrics of transactions."""
        shards = list(coordinator.runtime.each_active())
        text = "Transactional ids that this broker coordinates."
        yield Sample("penstock_transactional_ids", GAUGE, text, sum(len(shard.machine.state.ids) for shard in shards))
        text = "Transactions that are ended, and whose markers are not all written."
        ending = sum(len(shard.machine.state.endings) for shard in shards)
        yield Sample("penstock_transactions_ending", GAUGE, text, ending)
        text = "Markers that wait for a leader of their partition."
        kafkas = "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
        yield Sample(kafkas, GAUGE, text, self.markers.unplaced)
