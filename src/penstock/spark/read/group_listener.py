"""A streaming query's place as the committed offsets of a consumer group, told by a listener.

    listener = GroupListener("127.0.0.1:9092", "reports", query="reports")
    spark.streams.addListener(listener)
    query = rows.writeStream.queryName("reports")...start()
    query.awaitTermination()
    listener.wait()                      # the last event comes a moment after the query has ended

The source cannot do it: Spark tells a source that a microbatch is done only when it plans the next one, and never of
the last. A listener hears of each when it is committed to the checkpoint, of idle times and of the end. The checkpoint
stays what says where the query goes on; see `group_offsets`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.client.client import Client, Partition
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.spark.group_offsets import GroupOffsets, Send, commit_as_nobody
from penstock.spark.limits import GROUP_COMMIT_TIMEOUT_MS
from penstock.spark.read.stream_offsets import ends_of
from penstock.spark.security import security_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from penstock.errors import ErrorCode

WAIT_S = 10.0


class GroupListener(StreamingQueryListener):
    """See the module's head.

    Args:
        bootstrap: brokers, HOST:PORT separated by commas: those that the query reads from.
        group_id: the group, which no consumer and no other query uses.
        query: the name that the query has (`queryName`).
        options: `kafka.security.protocol`, `kafka.sasl.*` and `kafka.ssl.*` of a secured cluster, as the query has
            them; others are left alone.
    """

    def __init__(self, bootstrap: str, group_id: str, query: str, options: Mapping[str, str] | None = None) -> None:
        self._query = query
        self._run_id = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._group = GroupOffsets(group_id, sender(bootstrap, group_id, security_of(options or {})))

    def wait(self, timeout_s: float = WAIT_S) -> bool:
        """Returns when the query's end has been heard and its last offsets are committed; whether they are."""
        return self._ended.wait(timeout_s)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        if event.name == self._query:
            with self._lock:
                self._run_id = str(event.runId)
                self._ended.clear()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        if event.progress.name == self._query and (ends := ends_of(event.progress)):
            with self._lock:
                self._run_id = str(event.progress.runId)
                self._group.reached(ends)
                self._group.commit()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        if str(event.runId) == self._run_id:
            with self._lock:
                self._group.commit()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        if str(event.runId) == self._run_id:
            with self._lock:
                self._group.commit(last=True)
                self._ended.set()


def sender(bootstrap: str, group_id: str, security: ClientSecurity = UNSECURED) -> Send:
    """Commits over a connection of its own: seldom enough, and it may be called from any thread."""

    async def send(ends: Mapping[Partition, int]) -> dict[Partition, ErrorCode]:
        client = Client(bootstrap, client_id="penstock-spark", timeout_ms=GROUP_COMMIT_TIMEOUT_MS, security=security)
        async with client:
            return await commit_as_nobody(client, group_id, ends)

    return lambda ends: asyncio.run(send(ends))
