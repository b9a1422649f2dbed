"""What a node keeps for telemetry: the counters of topics, the tables of what callers know, and the shell's figures."""

from __future__ import annotations

from collections.abc import Callable

from penstock.node.metrics import TopicMetrics
from penstock.node.telemetry.machine import UNKNOWN_MACHINE, Machine
from penstock.node.telemetry.table import Sequences, Table
from penstock.protocol.telemetry import BLOCKS
from penstock.records.compression import Contexts


class Telemetry:
    """See the module's head.

    Attributes:
        topics: counters by topic, for `/metrics`.
        machine: looks at what the shell knows; the shell sets it.
        sequences, tables: of the blocks, by their numbers. contexts: for compression.
    """

    __slots__ = ("contexts", "machine", "sequences", "tables", "topics")

    def __init__(self) -> None:
        self.topics = TopicMetrics()
        self.machine: Callable[[], Machine] = lambda: UNKNOWN_MACHINE
        self.sequences = Sequences()
        self.tables = tuple(Table(block, self.sequences) for block in BLOCKS)
        self.contexts = Contexts()
