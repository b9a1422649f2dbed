"""What a node keeps for telemetry: the counters of topics, the tables of what callers know, and the shell's figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.node.metrics import TopicMetrics
from penstock.node.telemetry.machine import UNKNOWN_MACHINE, Machine
from penstock.node.telemetry.table import Sequences, Table
from penstock.protocol.telemetry import BLOCKS
from penstock.records.compression import Contexts

if TYPE_CHECKING:
    from penstock.metadata.image import TopicImage
    from penstock.node.telemetry.partitions import PartitionTraffic


class Telemetry:
    """See the module's head. `traffic`: the counters of partitions.

    Attributes:
        topics: counters by topic, for `/metrics`.
        machine: looks at what the shell knows; the shell sets it.
        sequences, tables: of the blocks, by their numbers. contexts: for compression.
    """

    __slots__ = ("contexts", "machine", "sequences", "tables", "topics", "traffic")

    def __init__(self, traffic: PartitionTraffic) -> None:
        self.traffic = traffic
        self.topics = TopicMetrics()
        self.machine: Callable[[], Machine] = lambda: UNKNOWN_MACHINE
        self.sequences = Sequences()
        self.tables = tuple(Table(block, self.sequences) for block in BLOCKS)
        self.contexts = Contexts()

    def topic_deleted(self, topic: TopicImage) -> None:
        """One of the same name begins at 0."""
        self.topics.forget(topic.name)
        self.traffic.forget_topic(topic.name, len(topic.partitions))
