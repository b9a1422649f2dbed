"""What the clients know of one partition of a compacted topic, and what of it has to be there still.

A record keeps its offset, key, value and timestamp for ever, or it goes, and then

- a later record with its key is there: so the last record of each key always is,
- and it is older than `min.compaction.lag.ms`,
- or it is a delete marker whose horizon has passed: it is older than `delete.retention.ms`,
- or the topic is deleted as well as compacted, and it is older than `retention.ms`.

Brokers go by clocks that are wrong, by as much as the world lets them be.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass

from simulator.cluster.history import EVERYTHING_MAY_GO, SURVIVES, WRITTEN, PartitionHistory
from simulator.compacted.records import Kept, Written
from simulator.world.checks import check

LAST = "the last record of every key is there"
MARKERS = "delete markers stay until their horizon"
YOUNG = "what is younger than min.compaction.lag.ms stays"
DELETED = "who had a delete marker has nothing older with its key"


@dataclass(frozen=True)
class Cleanup:
    """How a topic is cleaned up. `retention_ms` is None for one that is compacted only; `apart_ms` is by how much two
    clocks may differ, or one at two times."""

    min_compaction_lag_ms: int
    delete_retention_ms: int
    retention_ms: int | None
    apart_ms: int

    @property
    def configs(self) -> dict[str, str]:
        """Of the topic."""
        configs = {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": str(self.min_compaction_lag_ms),
            "delete.retention.ms": str(self.delete_retention_ms),
            "min.cleanable.dirty.ratio": "0.01",
        }
        if self.retention_ms is not None:
            configs |= {"cleanup.policy": "compact,delete", "retention.ms": str(self.retention_ms)}
        return configs


class KeyedHistory(PartitionHistory):
    """The model of one partition.

    Attributes:
        written: records that were sent at least once, by their names, which are what `sent` and the others hold.
        producers: by producer id, sequence and offset of its last record that was acknowledged.
    """

    def __init__(self, topic: str, index: int, cleanup: Cleanup) -> None:
        super().__init__(topic, index)
        self.cleanup = cleanup
        self.written: dict[bytes, Written] = {}
        self.producers: dict[int, tuple[int, int]] = {}
        self._known: dict[int, bytes] = {}
        self._offsets: dict[bytes, list[int]] = {}
        self._last_acknowledged: dict[bytes, int] = {}
        if cleanup.retention_ms is not None:
            self.may_start_at = EVERYTHING_MAY_GO

    def send(self, name: bytes, written: Written) -> None:
        """A producer is about to send a record."""
        self.sent.add(name)
        self.written[name] = written

    def acknowledge(self, offset: int, value: bytes, sent_at_end: int) -> None:
        super().acknowledge(offset, value, sent_at_end)
        self._know(offset, value)
        key = self.written[value].key
        self._last_acknowledged[key] = max(offset, self._last_acknowledged.get(key, 0))

    def appended(self, producer_id: int, last_sequence: int, last_offset: int) -> None:
        """A producer's batch that ends so was acknowledged."""
        self.producers[producer_id] = max(self.producers.get(producer_id, (0, 0)), (last_sequence, last_offset))

    def saw(self, offset: int, value: bytes) -> None:
        """A record was seen, by a reader or in a replica. Whoever reads on may come to where something is missing."""
        where = f"{self.name} at {offset}"
        acknowledged = self.acknowledged.get(offset, value)
        check(acknowledged == value, SURVIVES, f"{where} was {acknowledged!r} and is {value!r}")
        self._place(offset, value)
        self.seen[offset] = value
        self._know(offset, value)

    def found(self, record: Kept) -> None:
        """A record is somewhere: it is one that was sent, as it was sent, at its place."""
        if self._known.get(record.offset) == record.name and self.written[record.name] == record.written:
            return
        where = f"{self.name} at {record.offset}"
        check(record.name in self.written, WRITTEN, f"{where}: {record.name!r}")
        written = self.written[record.name]
        check(written == record.written, WRITTEN, f"{where}: {record.name!r} is {record.written}, it was {written}")
        self.saw(record.offset, record.name)

    def _know(self, offset: int, value: bytes) -> None:
        if offset not in self._known:
            self._known[offset] = value
            insort(self._offsets.setdefault(self.written[value].key, []), offset)

    # What has to be there

    def last_acknowledged(self) -> dict[bytes, int]:
        """By key, the offset of its last record that a producer knows of."""
        return dict(self._last_acknowledged)

    def last_below(self, end_offset: int) -> dict[bytes, int]:
        """By key, the offset of its last known record below an offset."""
        places = {key: bisect_left(offsets, end_offset) for key, offsets in self._offsets.items()}
        return {key: self._offsets[key][place - 1] for key, place in places.items() if place}

    def check_last(
        self, found: Mapping[bytes, int], expected: Mapping[bytes, int], now_ms: int, where: str, *, had_ms: int | None
    ) -> None:
        """Holds the last records of the keys that were found against those that have to be there.

        Args:
            found, expected: by key, the offset of its last record.
            had_ms: whoever it was found with has had all that was written since then, each delete marker among it;
                None for one who may have missed some: Kafka asks for nobody to be away for `delete.retention.ms`.
        """
        for key, offset in expected.items():
            at = found.get(key)
            if at is not None and at >= offset:
                continue
            written = self.written[self._known[offset]]
            detail = f"{where}: of {key!r} it has {at}, the last is at {offset}: {written}"
            gone_ms = [each.timestamp_ms for each in self._after(key, offset) if self.may_be_gone(each, now_ms)]
            if not gone_ms:
                check(written.value is None and at is None, LAST, detail)
                check(False, MARKERS, detail)
            check(at is None or had_ms is None or min(gone_ms) <= had_ms, DELETED, detail)

    def _after(self, key: bytes, offset: int) -> list[Written]:
        """The records with a key at this offset and after it, and those that came to nobody's knowledge yet."""
        return [
            written
            for name, written in self.written.items()
            if written.key == key and self._places.get(name, offset) >= offset
        ]

    def may_be_gone(self, written: Written, now_ms: int) -> bool:
        """Whether a record may be gone though it is the last one of its key."""
        cleanup = self.cleanup
        age_ms = now_ms - written.timestamp_ms + cleanup.apart_ms
        by_time = cleanup.retention_ms is not None and age_ms >= cleanup.retention_ms
        return by_time or (written.value is None and age_ms >= cleanup.delete_retention_ms)

    def check_young(self, offsets: set[int], end_offset: int, now_ms: int, where: str) -> None:
        """Acknowledged records below `end_offset` that are too young to go are among these."""
        oldest_ms = now_ms + self.cleanup.apart_ms - self.cleanup.min_compaction_lag_ms
        if oldest_ms >= now_ms:
            return
        for offset, name in self.acknowledged.items():
            if offset < end_offset and offset not in offsets:
                age_ms = now_ms - self.written[name].timestamp_ms
                young = self.written[name].timestamp_ms > oldest_ms and not self.may_be_gone(self.written[name], now_ms)
                check(not young, YOUNG, f"{where}: {offset} is gone, {age_ms} ms old")
