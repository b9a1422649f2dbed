"""What the clients know of one partition, and what may therefore never be seen.

A value is written once and has one place for ever: the offset at which it was acknowledged with acks=all, or at which
a reader saw it, whichever came first. A producer without idempotence that does not repeat itself writes each value at
most once too. Readers go on one record after the other from the beginning, so what was acknowledged and then lost is
found when a reader passes, not only at the end.

Where a leader was elected uncleanly, and until the next such election too, records may be lost, and be given again at
other offsets: there only what nobody sent is wrong, and a gap.
"""

from __future__ import annotations

from simulator.world.checks import check

KEEPS = "an offset keeps its value"
SURVIVES = "what was acknowledged survives"
ONCE = "nothing is there twice"
WRITTEN = "nothing is served that was not written"
EVERYTHING_MAY_GO = 1 << 60
"""Where a partition may start whose records retention deletes."""


class PartitionHistory:
    """The model of one partition.

    Attributes:
        sent: values that were sent at least once.
        acknowledged: offset to value, with acks=all.
        seen: offset to value, of what readers were served.
        read_to: every offset below was served to a reader.
        may_start_at: what is below may have been deleted.
        unclean: a leader was elected uncleanly.
    """

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.sent: set[bytes] = set()
        self.acknowledged: dict[int, bytes] = {}
        self.seen: dict[int, bytes] = {}
        self.read_to = 0
        self.may_start_at = 0
        self.unclean = False
        self._places: dict[bytes, int] = {}
        self._end = 0

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def end(self) -> int:
        """The offset after the last one that was acknowledged with acks=all: what is sent now comes after."""
        return self._end

    def acknowledge(self, offset: int, value: bytes, sent_at_end: int) -> None:
        """A broker said, for acks=all, that a value has this offset.

        Args:
            sent_at_end: `end` when the value was first sent.
        """
        where = f"{self.name} at {offset}"
        check(value in self.sent, "only what was sent is acknowledged", where)
        if self.unclean:
            return
        check(offset >= sent_at_end, "later writes come later", f"{where}, sent when the end was {sent_at_end}")
        self._place(offset, value)
        if offset < self.read_to:
            check(self.seen.get(offset) == value, SURVIVES, f"{where}: readers have passed it and saw something else")
        self.acknowledged[offset] = value
        self._end = max(self._end, offset + 1)

    def saw(self, offset: int, value: bytes) -> None:
        """A reader was served a value."""
        where = f"{self.name} at {offset}"
        check(value in self.sent, WRITTEN, f"{where}: {value[:60]!r}")
        if self.unclean:
            return
        acknowledged = self.acknowledged.get(offset, value)
        check(acknowledged == value, SURVIVES, f"{where} was {acknowledged[:60]!r} and is {value[:60]!r}")
        self._place(offset, value)
        self.seen[offset] = value
        if offset == self.read_to:
            self.read_to += 1

    def _place(self, offset: int, value: bytes) -> None:
        place = self._places.setdefault(value, offset)
        check(place == offset, ONCE, f"{self.name}: {value[:60]!r} at {place} and at {offset}")
        seen = self.seen.get(offset, value)
        check(seen == value, KEEPS, f"{self.name} at {offset}: {seen[:60]!r}, then {value[:60]!r}")

    def check_whole(self, values: dict[int, bytes]) -> None:
        """Holds everything that is there at the end, in any replica, against what is known."""
        for offset, value in values.items():
            self.saw(offset, value)
        lost = sorted(offset for offset in self.acknowledged.keys() - values if offset >= self.may_start_at)
        check(not lost, SURVIVES, f"{self.name}: offsets {lost[:5]} of {len(values)}")
        vanished = sorted(offset for offset in self.seen.keys() - values if offset >= self.may_start_at)
        check(not vanished, "what a reader saw stays", f"{self.name}: offsets {vanished[:5]} of {len(values)}")
        start = min(values, default=0)
        whole = sorted(values) == list(range(start, start + len(values)))
        check(whole and start <= self.may_start_at, "offsets have no gap", f"{self.name}: {sorted(values)[:9]}")

    def elected_uncleanly(self) -> None:
        """Somebody leads who may lack what was committed."""
        self.unclean = True
        self.acknowledged.clear()
        self.seen.clear()
        self._places.clear()
        self.read_to = self._end = 0
