"""A partition led with three replicas, on a node's log, and the broker around it: for the rules of its ISR."""

from __future__ import annotations

from penstock.errors import ErrorCode
from penstock.log.log import Log
from penstock.protocol.messages.alter_partition_response import PartitionData as Altered
from penstock.records.batch import read_header
from penstock.replication.appends import Deferred, Prepared, Rejected
from penstock.replication.fetch_session import Session
from penstock.replication.in_sync_replicas import Proposal
from penstock.replication.partition import Partition
from support.broker import Node
from support.requests import batch, produced

LAG_MS = 30_000


class Waiter:
    """Notes what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ErrorCode]] = []

    def appended(self, slot: object, code: ErrorCode, now_ms: int) -> None:
        self.told.append((slot, code))

    def broke(self, error: Exception, now_ms: int) -> None:
        raise error


class Brokers:
    """The broker around a partition: who is registered, and what was proposed."""

    lag_time_max_ms = LAG_MS
    broker_epoch = 101

    def __init__(self) -> None:
        self.epochs = {1: 101, 2: 102, 3: 103}
        self.unfit: set[int] = set()
        self.proposals: list[Proposal] = []
        self.kept: list[int] = []

    def broker_epoch_of(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)

    def may_join(self, broker_id: int, broker_epoch: int | None) -> bool:
        return broker_id not in self.unfit and broker_epoch in (-1, self.epochs.get(broker_id))

    def high_watermark_moved(self, partition: Partition) -> None:
        self.kept.append(partition.high_watermark)

    def low_watermark_moved(self, partition: Partition, now_ms: int) -> None:
        """Nobody waits for it."""

    def lags(self, partition: Partition, now_ms: int) -> None:
        """Nobody looks after it here but the test."""

    def look(self, now_ms: int) -> None:
        """Likewise."""

    def forget(self, partition: Partition) -> None:
        """It never was known."""

    def propose(self, partition: Partition, now_ms: int) -> None:
        assert partition.isr.proposal is not None
        self.proposals.append(partition.isr.proposal)

    def accepted(self, proposal: Proposal) -> None:
        """Nobody counts."""


class Leader:
    """Partition t-0 of a node, led with three replicas in sync."""

    def __init__(self, *, in_sync: tuple[int, ...] = (1, 2, 3), **configs: str) -> None:
        self.node = Node()
        topic_id = self.node.create_topic("t", **configs)
        produced(self.node.connect(), "t", batch())
        log = self.node.broker.logs.open_log("t", 0)
        assert isinstance(log, Log)
        self.brokers = Brokers()
        self.partition = Partition(
            "t",
            0,
            topic_id,
            log,
            owner=self.brokers,
            isr_driver=self.brokers,
            node_id=1,
            leader_epoch=log.leader_epochs.latest,
            replicas=(1, 2, 3),
            in_sync_replicas=in_sync,
            high_watermark=1,
            now_ms=self.node.now_ms,
        )
        replicas = self.node.broker.replicas
        replicas._partitions[("t", 0)] = replicas._by_log[log.name] = self.partition  # the node's own has one replica
        self.waiter = Waiter()

    def append(self, data: bytearray, acks: int) -> Rejected | Deferred | Prepared:
        return self.partition.append_as_leader(data, read_header(data), acks, self.node.now_ms)

    def wait(self, outcome: Rejected | Deferred | Prepared, acks: int, slot: str) -> None:
        assert isinstance(outcome, Prepared)
        self.partition.wait(outcome, acks, self.waiter, slot, self.node.now_ms)

    def write(self) -> None:
        self.node.run()

    def appended(self, count: int = 1) -> None:
        """So many records, written."""
        self.append(batch(*[b"x"] * count), 1)
        self.write()

    def followers_have(self, **offsets: int) -> None:
        for name, offset in offsets.items():
            assert self.fetched(int(name[1:]), offset) is ErrorCode.NONE

    def fetched(
        self, broker_id: int, offset: int, *, broker_epoch: int | None = None, session: Session | None = None
    ) -> ErrorCode:
        epoch = self.brokers.epochs[broker_id] if broker_epoch is None else broker_epoch
        return self.partition.follower_fetched(
            broker_id, offset, 0, broker_epoch=epoch, session=session, now_ms=self.node.now_ms
        )

    def metadata(
        self, *, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3), new_epochs: int = 0, changes: int = 1
    ) -> None:
        """A new state of the partition out of the metadata log."""
        partition = self.partition
        partition.become_leader(
            partition.leader_epoch + new_epochs,
            replicas,
            isr,
            self.node.now_ms,
            partition_epoch=partition.isr.partition_epoch + changes,
        )

    def accept(self, proposal: Proposal) -> None:
        """The controller alters the partition as proposed."""
        isr = [broker_id for broker_id, _ in proposal.isr]
        altered = Altered(
            leader_id=1, leader_epoch=proposal.leader_epoch, isr=isr, partition_epoch=proposal.partition_epoch + 1
        )
        assert not self.partition.alter_answered(proposal, altered, self.node.now_ms)

    def refuse(self, proposal: Proposal, code: ErrorCode) -> bool:
        return self.partition.alter_answered(proposal, code, self.node.now_ms)
