"""Which batch of a sink was committed last: one record a sink in a compacted topic, written in the same transaction.

The topic is `__penstock_sinks`: one partition, `cleanup.policy=compact`; the key is the sink's id, the value a JSON
object of `version`, `query` and `batch` (null for a write that is no stream). A reader is not held up by the open
transactions of other sinks (`committed_values`); its own has none open, since the sink has just become its
transactional id's producer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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


def last_of(values: Mapping[bytes, bytes], hanging: int | None, sink_id: str, *, others_write: bool) -> Marker | None:
    """The marker of a sink among the committed values, None if it has committed nothing.

    `hanging` is the offset of a record of it whose transaction is open: where `others_write` it is passed over;
    otherwise nobody is left to end it, and SinkError is raised.
    """
    if hanging is not None and not others_write:
        raise SinkError(
            f"a transaction of sink {sink_id} hangs in {MARKERS}-{MARKER_PARTITION} at offset {hanging};"
            " `penstock transactions hanging` shows it and how to end it"
        )
    value = values.get(sink_id.encode())
    return None if value is None else decoded(value, sink_id)


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
