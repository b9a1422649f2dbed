"""What producers say that they have sent: counts by topic and bucket, as records of an audit topic.

    counts = ProducerCounts("web-1")
    producer.produce("clicks", value, on_delivery=lambda error, message: error or counts.delivered("clicks", at_ms))
    ...
    for key, value in counts.records():          # now and then, and before the process ends
        producer.produce("audit", value, key=key)

A record has the number of all records of a bucket so far, under the producer's session. So one that is sent twice, or
read twice, counts once; of several the greatest counts; and the topic may be compacted. A record of the audited topic
gets nothing: no header, no id.

The value is a JSON object: {"version": 1, "client": "web-1/3f2a…", "topic": "clicks", "bucket_ms": 1769860800000,
"records": 1234}.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

from penstock.pipelines.limits import AUDIT_BUCKETS_PER_PRODUCER

VERSION = 1
BUCKET_MS = 600_000
"""Of event time. It is here and not in `tally`, which needs pyarrow: a producer need not have that."""
Said = dict[tuple[str, str, int], int]
"""Records by client, topic and bucket."""


class ProducerCounts:
    """The counts of one producer. Not for several threads at once.

    Args:
        client: who it is, for people; each object has a session of its own beside.
    """

    def __init__(self, client: str) -> None:
        self._client = client
        self._session = self._new_session()
        self._counts: Counter[tuple[str, int]] = Counter()
        self._unsaid: dict[tuple[str, str, int], int] = {}

    def _new_session(self) -> str:
        return f"{self._client}/{uuid4().hex}"

    def delivered(self, topic: str, timestamp_ms: int, records: int = 1) -> None:
        """Counts records that the cluster has acknowledged, by the timestamp that they were sent with."""
        key = (topic, timestamp_ms - timestamp_ms % BUCKET_MS)
        if key not in self._counts and len(self._counts) >= AUDIT_BUCKETS_PER_PRODUCER:
            self._counts.clear()
            self._session = self._new_session()
        self._counts[key] += records
        self._unsaid[self._session, *key] = self._counts[key]

    def records(self) -> list[tuple[bytes, bytes]]:
        """Keys and values for the audit topic: of the buckets that have changed since the last call."""
        said = [encoded(*key, records) for key, records in self._unsaid.items()]
        self._unsaid.clear()
        return said


def encoded(client: str, topic: str, bucket_ms: int, records: int) -> tuple[bytes, bytes]:
    """The key and the value of one count."""
    told = {"version": VERSION, "client": client, "topic": topic, "bucket_ms": bucket_ms, "records": records}
    return f"{client} {topic} {bucket_ms}".encode(), json.dumps(told).encode()


def add_said(said: Said, values: Iterable[bytes | None]) -> int:
    """Adds the counts of an audit topic's values; returns how many values are none."""
    bad = 0
    for value in values:
        try:
            told: Any = json.loads(value or b"")
            key, records = _checked(told)
        except (ValueError, KeyError, TypeError, RecursionError):
            bad += 1
            continue
        said[key] = max(records, said.get(key, 0))
    return bad


def _checked(told: Mapping[str, Any]) -> tuple[tuple[str, str, int], int]:
    """Raises KeyError, TypeError or ValueError for what no producer's count is."""
    client, topic, bucket_ms, records = told["client"], told["topic"], told["bucket_ms"], told["records"]
    right = isinstance(client, str) and isinstance(topic, str) and type(bucket_ms) is int and type(records) is int
    if told["version"] != VERSION or not right or bucket_ms % BUCKET_MS or not 0 <= records < 1 << 62:
        raise ValueError("no count of a producer")
    if abs(bucket_ms) > 1 << 52:
        raise ValueError("no time")
    return (client, topic, bucket_ms), records
