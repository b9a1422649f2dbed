"""A look at the ends of the partitions that one broker leads: which offset comes next in each.

They are asked for in parts, one after the other. With the sizes of the replicas they say what is written to each
partition (`guardian.core.windows`).
"""

from __future__ import annotations

from functools import partial
from itertools import groupby

from penstock.errors import ErrorCode
from penstock.guardian.core.believing import Doubts, error_name
from penstock.guardian.core.limits import GUARDIAN_ENDS_PER_CALL, GUARDIAN_TEXT_MAX
from penstock.guardian.core.looks import Look, Watched
from penstock.guardian.core.sight import OFFSETS, of_broker
from penstock.protocol.message import Message
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.list_offsets_response import ListOffsetsResponse

LATEST = -1
CONSUMER = -1
"""The replica id of who is none."""
MOVED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)
"""What a broker may answer, since the metadata that went before is a moment old."""


class LookAtEnds(Look):
    """See the module's head."""

    def __init__(self, watched: Watched, broker: int, every_ms: int) -> None:
        super().__init__(watched, of_broker(OFFSETS, broker), every_ms)
        self._broker = broker
        self._left: list[tuple[str, int]] = []
        self._doubts = Doubts()

    def begin(self, now_ms: int) -> None:
        broker = self._broker
        self._doubts = Doubts()
        self._left = [
            (each.topic, each.index)
            for topic in self.watched.seen.topics.values()
            for each in topic.partitions
            if each.leader == broker
        ]
        self._go_on(now_ms)

    def _go_on(self, now_ms: int) -> None:
        asked, self._left = self._left[:GUARDIAN_ENDS_PER_CALL], self._left[GUARDIAN_ENDS_PER_CALL:]
        if not asked:
            self.under_way = False
            self.watched.saw(self.part, now_ms, self._doubts.text)
            self.watched.saw_all(OFFSETS)
            return
        topics = [
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST) for _, index in rows],
            )
            for name, rows in groupby(asked, lambda each: each[0])
        ]
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=topics)
        self.watched.ask(self._broker, request, partial(self._came, dict.fromkeys(asked)), now_ms)

    def _came(
        self, asked: dict[tuple[str, int], None], answer: Message | None, reason: str | None, now_ms: int
    ) -> None:
        if self.gone or not isinstance(answer, ListOffsetsResponse):
            self.failed(str(reason))
            return
        for topic in answer.topics:
            for row in topic.partitions:
                place = topic.name, row.partition_index
                if place not in asked:
                    self._doubts.add(f"{topic.name[:GUARDIAN_TEXT_MAX]}-{row.partition_index}: nobody has asked for it")
                elif row.error_code:
                    if row.error_code not in MOVED:
                        self._doubts.add(f"{topic.name}-{row.partition_index}: {error_name(row.error_code)}")
                elif row.offset < 0:
                    self._doubts.add(f"{topic.name}-{row.partition_index}: it ends at {row.offset}")
                else:
                    self.watched.seen.saw_end(place, self._broker, row.offset)
        self._go_on(now_ms)
