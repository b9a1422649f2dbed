"""An answer: a look at all that the node has, of which a caller is sent what is news to it.

Rows are encoded right after they were gathered, some a step. What is gone is found when all rows have been looked at;
counters of replicas that are gone go into the row of others, which therefore comes after that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.log.replica import Replica
from penstock.node.limits import TELEMETRY_PARTITIONS_MAX, TELEMETRY_ZSTD_LEVEL
from penstock.node.steps import Stepped
from penstock.node.telemetry import encoding
from penstock.node.telemetry.blocks import Observed, Rows, other_partitions, rows
from penstock.protocol.telemetry import FULL, PARTITIONS

if TYPE_CHECKING:
    from penstock.node.telemetry.machine import Machine


def pull(node: Observed, incarnation: UUID, sequence: int) -> Stepped[bytes]:
    """A frame (`penstock.protocol.telemetry`) for a caller who knows a sequence of an incarnation; FULL for nothing.

    Everything, if that is not ours or not one that a caller can know.
    """
    telemetry = node.telemetry
    own, latest = node.lifecycle.incarnation_id, telemetry.sequences.latest
    known = incarnation == own and 0 < sequence <= latest + 1
    since = sequence if known and all(sequence >= each.forgotten_at for each in telemetry.tables) else FULL
    frame = Frame(node, since)
    replicas = list(node.logs.table.replicas())[:TELEMETRY_PARTITIONS_MAX]
    machine = telemetry.machine()
    count_disk_reads(node, machine)
    yield None
    for found in rows(node, machine, replicas):
        frame.add(found)
        yield None
    for table in telemetry.tables:
        for gone in table.forget_unseen(frame.look):
            if table.block is PARTITIONS:
                forget_counters(node, gone)
            yield None
    yield from forget_unknown(node)
    frame.add(other_partitions(node))
    if since != FULL and any(since < each.forgotten_at for each in telemetry.tables):
        return (yield from pull(node, own, FULL))  # more has ended at once than is remembered
    return frame.complete()


class Frame:
    """A frame in the making. `look`: its number, which is its sequence."""

    def __init__(self, node: Observed, since: int) -> None:
        self._tables = node.telemetry.tables
        self._since = since
        self._sequences = node.telemetry.sequences
        self.look = self._sequences.next()
        self._compressor = node.telemetry.contexts.zstd_compressor(TELEMETRY_ZSTD_LEVEL).compressobj()
        self._parts: list[bytes] = []
        self._node_id, self._incarnation = node.state.node_id, node.lifecycle.incarnation_id

    def add(self, found: Rows) -> None:
        """Takes in some rows, and tells what is news of them."""
        table = self._tables[found.block.number]
        changes = table.found(found.keys, found.values, found.name_of, self.look, self._since, renamed=found.renamed)
        self._put(encoding.names(found.block, changes.named))
        self._put(encoding.values(found.block, changes.whole))
        self._put(encoding.differences(found.block, changes.differences))

    def complete(self) -> bytes:
        """Tells what is gone, and ends the frame."""
        if self._since != FULL:
            for table in self._tables:
                self._put(encoding.removed(table.block, table.removed_since(self._since)))
        self._put(encoding.totals(self._tables))
        self._parts.append(self._compressor.flush())
        sequence = self._sequences.of_frame(self.look)
        return encoding.header(self._node_id, self._incarnation, sequence, self._since) + b"".join(self._parts)

    def _put(self, section: bytes) -> None:
        if section:
            self._parts.append(self._compressor.compress(section))


def count_disk_reads(node: Observed, machine: Machine) -> None:
    """Adds what was read from disks since the last look to the counters of its partitions."""
    traffic = node.replicas.traffic
    for found, others_bytes in (node.dispatcher.disk_reads.take(), machine.disk_reads):
        for (topic, index), size_bytes in found.items():
            traffic.of(topic, index).disk_read_bytes += size_bytes
        traffic.others.disk_read_bytes += others_bytes


def forget_counters(node: Observed, gone: Sequence[Hashable]) -> None:
    """Ends the counters of replicas that are gone, unless there are new ones in their places."""
    for replica in gone:
        assert isinstance(replica, Replica), "the key of a partition's row"
        if node.logs.table.find(replica.topic, replica.partition) is None:
            node.replicas.traffic.forget(replica.topic, replica.partition)


def forget_unknown(node: Observed) -> Iterator[None]:
    """Ends the counters of replicas that came and went between two looks: there are some if they outnumber replicas."""
    traffic, table = node.replicas.traffic, node.logs.table
    if len(traffic) > sum(each.replicas for each in table.directories):
        traffic.forget_gone(lambda topic, index: table.find(topic, index) is not None)
        yield None
