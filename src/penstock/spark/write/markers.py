"""Which batch of a sink was committed last: one record a sink in a compacted topic, written in the same transaction.

The topic is `__penstock_sinks`: one partition, `cleanup.policy=compact`; the key is the sink's id, the value a JSON
object of `version`, `query` and `batch` (null for a write that is no stream). A reader must not be held up by the open
transactions of other sinks, as the last stable offset would: it reads up to the high watermark, and takes each
transaction's own marker for the word on whether it was committed. Its own sink has none open, since the sink has just
become its transactional id's producer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType

from penstock.records.batch import BatchHeader, Buffer, check_crc, entries
from penstock.records.compression import Contexts
from penstock.records.control import ControlType, control_type
from penstock.records.reader import bounded, records
from penstock.spark.write.rows import SinkError

MARKERS = "__penstock_sinks"
MARKER_PARTITION = 0
MARKERS_CONFIGS = MappingProxyType(
    {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}
)
"""Small segments, cleaned soon: each commit reads the topic from its start."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class Marker:
    """The last batch that a sink has committed; `batch` is None for a write."""

    query: str
    batch: int | None

    @property
    def name(self) -> str:
        """The batch in words."""
        return f"write {self.query}" if self.batch is None else f"batch {self.batch} of query {self.query}"

    def encode(self) -> bytes:
        """The value of its record."""
        return json.dumps({"version": VERSION, "query": self.query, "batch": self.batch}).encode()


def decoded(value: bytes, sink_id: str) -> Marker:
    """The marker of a record's value. Raises SinkError if it is none that this version knows."""
    try:
        found = json.loads(value)
        query, batch = found["query"], found["batch"]
        if found["version"] == VERSION and isinstance(query, str) and (batch is None or isinstance(batch, int)):
            return Marker(query, batch)
    except (ValueError, KeyError, TypeError):
        pass
    raise SinkError(
        f"topic {MARKERS} has a record of sink {sink_id} that this version cannot read: {value[:200]!r}. A newer"
        " version may have written it"
    )


class LastMarker:
    """Finds the last committed marker of a sink in the topic's batches, which are given in order.

    Args:
        sink_id: whose.
    """

    def __init__(self, sink_id: str) -> None:
        self._sink_id = sink_id
        self._key = sink_id.encode()
        self._decompress = bounded(Contexts())
        self._committed: bytes | None = None
        self._pending: dict[int, tuple[int, bytes | None]] = {}

    def add(self, view: Buffer, start: int) -> None:
        """Takes the whole batches of a fetch from the offset `start` on."""
        for position, header in entries(view):
            if header.next_offset <= start:
                continue
            check_crc(view, position, header)
            if header.is_control:
                self._ended(view, position, header)
                continue
            for record in records(view, header, position, self._decompress):
                if record.key != self._key:
                    continue
                if header.is_transactional:
                    self._pending[header.producer_id] = (record.offset, record.value)
                else:
                    self._committed = record.value

    def _ended(self, view: Buffer, position: int, header: BatchHeader) -> None:
        first = next(records(view, header, position, self._decompress), None)
        if first is None or first.key is None or header.producer_id not in self._pending:
            return
        _, value = self._pending.pop(header.producer_id)
        if control_type(first.key) is ControlType.COMMIT:
            self._committed = value

    def found(self, last_stable_offset: int, *, others_write: bool = False) -> Marker | None:
        """The marker, or None if the sink has committed nothing.

        A record below the last stable offset whose marker is gone was committed: the cleaner drops what was aborted.
        One above it is of a transaction that is open: where `others_write` it is passed over; otherwise nobody is left
        to end it, and SinkError is raised.
        """
        for offset, value in sorted(self._pending.values(), key=lambda pair: pair[0]):
            if offset >= last_stable_offset:
                if others_write:
                    continue
                raise SinkError(
                    f"a transaction of sink {self._sink_id} hangs in {MARKERS}-{MARKER_PARTITION} at offset {offset};"
                    " `penstock transactions hanging` shows it and how to end it"
                )
            self._committed = value
        return None if self._committed is None else decoded(self._committed, self._sink_id)


def is_new(
    marker: Marker | None, batch: Marker, sink_id: str, replaces: str | None, last: Marker | None = None
) -> bool:
    """Whether a batch is still to be written, given the sink's marker, and for a write `last`, which it was when the
    write began.

    Raises SinkError when the sink belongs to another query, unless `replaces` names that one; when the checkpoint is
    older than what the sink has written; and when another write was committed while this one ran. So what others had
    staged before a commit is of no use after it.
    """
    if marker is None:
        return True
    if marker.query == batch.query and (marker.batch is None) == (batch.batch is None):
        if batch.batch is None or marker.batch is None or batch.batch == marker.batch:
            return False
        if batch.batch > marker.batch:
            return True
        raise SinkError(
            f"sink {sink_id} has written {marker.name}, and the checkpoint begins again at batch {batch.batch}: it is"
            " an older copy. Restore the newer one, or begin with a new checkpoint where this one ended"
        )
    if marker.batch is None and batch.batch is None:
        if marker == last:
            return True
        raise SinkError(
            f"{marker.name} has been committed to sink {sink_id} while this one ran: a sink takes one write at a time."
            " Nothing was committed; write again, or give each of the two a penstock.sink.id of its own"
        )
    if replaces == marker.query:
        return True
    raise SinkError(
        f"sink {sink_id} belongs to another query: {marker.name} was the last to write. Give each query a"
        f" penstock.sink.id of its own; to go on in its place, set penstock.sink.replaces = {marker.query}"
    )
