"""A place in a consumer group (KIP-848) as a state machine: answers in, requests out; no connection and no clock.

    membership = Membership("reports", member_id, ["clicks"], rebalance_timeout_ms=60_000)
    request = membership.heartbeat(owned)
    match membership.heard(response): ...

The coordinator decides who reads what, and the member says what it has, when that has changed. After an error, or an
answer that did not come, it is unknown what the coordinator has heard: the next heartbeat says everything, and is told
the whole assignment again. A member that lost its place has nothing any more, and joins again by its next heartbeat.

Whose membership it is sends the requests, waits between them (`interval_ms`, or not at all after it has taken over an
assignment), reads and commits: `client.member` for real, and the simulator's members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from uuid import UUID

from penstock.client.groups import MOVED
from penstock.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
"""Member epochs that say what a member wants."""
LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""Errors of a heartbeat after which the member has nothing any more, and joins again."""

Owned = Mapping[UUID, Sequence[int]]
"""Partitions by topic id."""


class Heard(Enum):
    """What came of a heartbeat."""

    STAYS = "a member, with the assignment that it had"
    GIVEN = "a member, with the assignment in `target`"
    LOST = "no member any more"
    UNSERVED = "no answer, or not from the coordinator; it is to be looked up again"
    REFUSED = "an error that is for its owner to judge"


class Membership:
    """See the module's head.

    Args:
        instance_id: of a static member (KIP-345).

    Attributes:
        epoch: of the member; JOIN before it is one. interval_ms: between heartbeats.
        target: what it is to have, by topic id, as it was told last.
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
        self.target: dict[UUID, list[int]] = {}
        self._group_id = group_id
        self._topics = list(topics)
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._instance_id = instance_id
        self._said: Owned | None = None  # None: everything is to be said
        self._told = False  # an assignment has come since

    def heartbeat(self, owned: Owned) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat of a member that has these partitions."""
        request = self._request(self.epoch)
        if self._said is None:
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.subscribed_topic_names = self._topics
        if owned != self._said or self._told:
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in owned.items()
            ]
        self._said, self._told = owned, False
        return request

    def sign_of_life(self) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat that says nothing new, of a member that is giving up partitions."""
        return self._request(self.epoch)

    def farewell(self) -> ConsumerGroupHeartbeatRequest:
        """What a member says at its end; a static one is to come back."""
        return self._request(LEAVE if self._instance_id is None else LEAVE_FOR_A_WHILE)

    def say_all(self) -> None:
        """The next heartbeat says everything."""
        self._said = None

    def heard(self, answer: ConsumerGroupHeartbeatResponse | None) -> Heard:
        """Takes the answer to a heartbeat, None when none came."""
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
        if answer is not None and code is ErrorCode.NONE:
            self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
            if answer.assignment is None:
                return Heard.STAYS
            self._told = True  # it may be less of what was never taken: the coordinator waits to hear what is had
            self.target = {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}
            return Heard.GIVEN
        self.say_all()
        if code in LOST and (self.epoch != JOIN or code is not ErrorCode.GROUP_ID_NOT_FOUND):
            self.epoch, self.target = JOIN, {}
            return Heard.LOST
        return Heard.UNSERVED if answer is None or code in MOVED else Heard.REFUSED

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self._instance_id
        )
