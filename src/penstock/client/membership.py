"""A membership in a consumer group (KIP-848) as a state machine: answers in, requests out; no connection and no clock.

    membership = Membership("reports", member_id, ["clicks"], rebalance_timeout_ms=60_000)
    request = membership.request(owned)
    match membership.heard(response): ...

The coordinator decides who reads what, and the member reports its partitions when they have changed. After an error, or
without an answer, it is unknown what the coordinator has heard: the next heartbeat reports everything, and gets the
whole assignment again. A member that was fenced has no partitions any more, and joins again with its next heartbeat.

The owner of a membership sends the requests, waits between them (`interval_ms`, or not at all after it has taken over
an assignment), reads and commits: `client.member`, or a member of the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from uuid import UUID

from penstock.client.client import Partition
from penstock.client.coordinators import MOVED
from penstock.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
"""Member epochs that say what a member wants."""
LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""Errors of a heartbeat after which the member has nothing any more, and joins again."""

Owned = Mapping[Partition, UUID]
"""Partitions with the ids of their topics."""


class Heard(Enum):
    """The result of a heartbeat, or in the classic protocol of a join or sync."""

    STAYS = "a member, with the assignment that it had"
    GIVEN = "a member, with the assignment in `target`"
    JOINED = "a member of a new classic generation, which has to sync; its leader has to share first"
    REJOINS = "a classic member that has to join again"
    LOST = "no member any more"
    UNSERVED = "no answer, or not from the coordinator; it is to be looked up again"
    REFUSED = "an error that is for its owner to judge"


class Membership:
    """See the module's head.

    Args:
        instance_id: of a static member (KIP-345).

    Attributes:
        epoch: of the member; JOIN before it is one. interval_ms: between heartbeats.
        target: what it is to have, topic ids and indexes, as it was told last.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        topics: Sequence[str],
        *,
        rebalance_timeout_ms: int,
        instance_id: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.epoch = JOIN
        self.interval_ms = 0
        self.target: list[tuple[UUID, int]] = []
        self._group_id = group_id
        self._topics = list(topics)
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._instance_id = instance_id
        self._said: Owned | None = None  # None: everything is to be said
        self._told = False  # an assignment has come since

    def request(self, owned: Owned) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat of a member that has these partitions."""
        request = self._request(self.epoch)
        if self._said is None:
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.subscribed_topic_names = self._topics
        if owned != self._said or self._told:
            indexes: dict[UUID, list[int]] = {}
            for (_, index), topic_id in sorted(owned.items()):
                indexes.setdefault(topic_id, []).append(index)
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=some) for topic_id, some in indexes.items()
            ]
        self._said, self._told = owned, False
        return request

    def sign_of_life(self) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat with nothing new, of a member that is giving up partitions."""
        return self._request(self.epoch)

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """The last request of a member, None if it is none; a static one says that it will be back."""
        if self.epoch == JOIN:
            return None
        return self._request(LEAVE if self._instance_id is None else LEAVE_FOR_A_WHILE)

    def say_all(self) -> None:
        """Has the next heartbeat report everything."""
        self._said = None

    def heard(self, answer: ConsumerGroupHeartbeatResponse | None) -> Heard:
        """Handles the answer to a heartbeat, None if there was none."""
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
        if answer is not None and code is ErrorCode.NONE:
            self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
            if answer.assignment is None:
                return Heard.STAYS
            self._told = True  # it may be less of what was never taken: the coordinator waits to hear what is had
            self.target = [
                (topic.topic_id, index) for topic in answer.assignment.topic_partitions for index in topic.partitions
            ]
            return Heard.GIVEN
        self.say_all()
        if code in LOST and (self.epoch != JOIN or code is not ErrorCode.GROUP_ID_NOT_FOUND):
            self.epoch, self.target = JOIN, []
            return Heard.LOST
        return Heard.UNSERVED if answer is None or code in MOVED else Heard.REFUSED

    def assigned(self, ids: Mapping[str, UUID]) -> dict[Partition, UUID]:
        """The assigned partitions with the ids of their topics, as far as they are known."""
        names = {topic_id: name for name, topic_id in ids.items()}
        return {(names[topic_id], index): topic_id for topic_id, index in self.target if topic_id in names}

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self._instance_id
        )
