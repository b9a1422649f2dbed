"""A look at the metadata of a cluster: its brokers, topics and partitions, and the reassignments under way.

One broker after the other is asked until one answers. The reassignments come from the controller. Then the topics are
gone through in steps; a topic, or partition, in which nothing has changed stays the same object.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from penstock.guardian.core.believing import (
    Changing,
    Doubts,
    Unbelievable,
    believed_broker,
    believed_topic,
    error_name,
)
from penstock.guardian.core.limits import (
    GUARDIAN_SEEN_BROKERS_MAX,
    GUARDIAN_SEEN_PARTITIONS_MAX,
    GUARDIAN_SEEN_PER_STEP,
    GUARDIAN_TEXT_MAX,
)
from penstock.guardian.core.looks import TIMEOUT_MS, Look, Watched
from penstock.guardian.core.reach import ANY, CONTROLLER
from penstock.guardian.core.sight import METADATA, REASSIGNMENTS, SeenBroker, SeenTopic
from penstock.protocol.message import Message
from penstock.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from penstock.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse

TRIES = 3
"""Brokers that are asked, one after the other, before the look has failed."""


class Follower(Protocol):
    """Who goes by the metadata."""

    def is_itself(self, kafka_id: str) -> bool:
        """Whether a cluster of this id of Kafka's is the right one."""

    def saw_brokers(self, now_ms: int) -> None:
        """The brokers have been seen."""

    def saw_topics(self, now_ms: int) -> None:
        """The topics have been seen."""


class LookAtMetadata(Look):
    """See the module's head."""

    def __init__(self, watched: Watched, follower: Follower, every_ms: int) -> None:
        super().__init__(watched, METADATA, every_ms)
        self._follower = follower
        self._changing: Changing = {}

    def begin(self, now_ms: int) -> None:
        self._ask(TRIES, now_ms)

    def _ask(self, tries: int, now_ms: int) -> None:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        self.watched.ask(ANY, request, partial(self._came, tries - 1), now_ms)

    def _came(self, tries: int, answer: Message | None, reason: str | None, now_ms: int) -> None:
        if self.gone:
            self.under_way = False
            return
        if not isinstance(answer, MetadataResponse):
            problem = str(reason)
        elif answer.error_code:
            problem = f"a broker answers {error_name(answer.error_code)}"
        else:
            problem = refusal(answer)
        if problem:
            if tries:
                self.watched.tell(self.part, problem)
                self._ask(tries, now_ms)
            else:
                self.failed(problem)
            return
        assert isinstance(answer, MetadataResponse)
        if not self._follower.is_itself(answer.cluster_id or ""):
            self.under_way = False
            return
        doubts = self._take_brokers(answer)
        self._follower.saw_brokers(now_ms)
        request = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None)
        self.watched.ask(CONTROLLER, request, partial(self._reassignments_came, metadata=answer, doubts=doubts), now_ms)

    def _take_brokers(self, answer: MetadataResponse) -> Doubts:
        seen, doubts = self.watched.seen, Doubts()
        brokers: dict[int, SeenBroker] = {}
        for row in answer.brokers:
            try:
                found = believed_broker(row)
            except Unbelievable as why:
                doubts.add(f"broker {row.node_id}: {why}")
            else:
                known = seen.brokers.get(found.id)
                brokers[found.id] = known if known == found else found
        seen.brokers = brokers
        seen.controller = answer.controller_id if answer.controller_id in brokers else -1
        return doubts

    def _reassignments_came(
        self, answer: Message | None, reason: str | None, now_ms: int, *, metadata: MetadataResponse, doubts: Doubts
    ) -> None:
        if self.gone:
            self.under_way = False
            return
        if not isinstance(answer, ListPartitionReassignmentsResponse):
            self.watched.tell(REASSIGNMENTS, str(reason))
        elif answer.error_code:
            self.watched.tell(REASSIGNMENTS, f"a broker answers {error_name(answer.error_code)}")
        else:
            self._changing = {
                (topic.name, each.partition_index): (tuple(each.adding_replicas), tuple(each.removing_replicas))
                for topic in answer.topics
                for each in topic.partitions
            }
            self.watched.saw(REASSIGNMENTS, now_ms)
        self.watched.do(self.done(self._take_topics(metadata, doubts, now_ms)))

    def _take_topics(self, answer: MetadataResponse, doubts: Doubts, now_ms: int) -> Iterator[None]:
        """Goes through the topics, in steps, and then has them be what is seen."""
        seen, looked_through = self.watched.seen, 0
        topics: dict[str, SeenTopic] = {}
        for row in answer.topics:
            name = row.name or ""
            try:
                if name in topics:
                    raise Unbelievable("it is there twice")
                topics[name] = believed_topic(row, seen.topics.get(name), self._changing)
            except Unbelievable as why:
                doubts.add(f"topic {name[:GUARDIAN_TEXT_MAX]}: {why}")
            looked_through += 1 + len(row.partitions)
            if looked_through >= GUARDIAN_SEEN_PER_STEP:
                looked_through = 0
                yield
        seen.topics = topics
        self.watched.saw(METADATA, now_ms, doubts.text)
        self._follower.saw_topics(now_ms)


def refusal(answer: MetadataResponse) -> str:
    """Why nothing is taken from an answer; empty where something is."""
    if not answer.brokers:
        return "a broker names no broker"
    if len(answer.brokers) > GUARDIAN_SEEN_BROKERS_MAX:
        return f"a broker names {len(answer.brokers)} brokers: at most {GUARDIAN_SEEN_BROKERS_MAX} are looked at"
    if len({each.node_id for each in answer.brokers}) < len(answer.brokers):
        return "a broker names another one twice"
    partitions = sum(len(each.partitions) for each in answer.topics)
    if partitions > GUARDIAN_SEEN_PARTITIONS_MAX:
        return f"a broker names {partitions} partitions: at most {GUARDIAN_SEEN_PARTITIONS_MAX} are kept in sight"
    return ""
