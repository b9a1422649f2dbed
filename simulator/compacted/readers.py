"""Readers of compacted topics: each reads its partition from the beginning to the end, and then again.

Whoever comes to the end has seen the last record of every key that was acknowledged before he began. He is at the end
when he is where the high watermark of any leader has been: what the cleaner takes away, it does because of something
below that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.records.batch import headers
from simulator.cluster.load import Load
from simulator.cluster.readers import Reader
from simulator.compacted.history import KeyedHistory
from simulator.compacted.records import Contents
from simulator.world.checks import check


class KeyedReader(Reader):
    """One reader of one partition.

    Args:
        highest: gives the highest that the partition's high watermark has been.

    Attributes:
        laps: how often it has come to the end.
    """

    def __init__(
        self, load: Load, history: KeyedHistory, name: str, contents: Contents, highest: Callable[[KeyedHistory], int]
    ) -> None:
        super().__init__(load, history, name)
        self.history = history
        self.laps = 0
        self._contents = contents
        self._highest = highest
        self._begin()

    def _begin(self) -> None:
        self.position = 0
        self._expected = self.history.last_acknowledged()
        self._last: dict[bytes, int] = {}

    def _take(self, data: Any) -> bool:
        """Takes what was served; whether it has to read on."""
        content = bytes(data.records or b"")
        before = self.position - 1
        for record in self._contents.records(content, f"{self.partition.name} at {self.position}"):
            if record.offset < self.position:
                continue
            where = f"{self.name}: {record.offset} after {before}"
            check(record.offset > before, "offsets rise", where)
            check(record.offset < data.high_watermark, "nothing above the high watermark is served", where)
            self.history.found(record)
            self._last[record.written.key] = before = record.offset
        self._check_epochs(memoryview(content))
        for _, header in headers(content):
            self.position = max(self.position, header.next_offset)
        if content or self.position < self._highest(self.history):
            return True
        self.laps += 1
        now_ms = self.load.simulation.now_ms
        self.history.check_last(self._last, self._expected, now_ms, self.name, had_ms=None)
        if self.load.going_on:
            self._begin()
        return False
