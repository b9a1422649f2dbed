"""A member of a consumer group (KIP-848): it heartbeats, and is told what it has.

What it should not have any more it gives up, perhaps after a commit and a while; then it takes what is new, and says
what it has in its next heartbeat. After an answer that did not come, or an error, it says everything again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.testing.simulator.cluster.load import RETRY_MS
from penstock.testing.simulator.groups.history import EPOCHS, GroupHistory, Place
from penstock.testing.simulator.groups.load import GroupLoad
from penstock.testing.simulator.groups.member import LOST, Answer, Member
from penstock.testing.simulator.timeline import check

HEARTBEAT_VERSION = 1
JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
SLOW_PROBABILITY = 0.15


class ConsumerMember(Member):
    """See the module's head."""

    def __init__(
        self, load: GroupLoad, history: GroupHistory, name: str, topics: Sequence[str], instance_id: str | None = None
    ) -> None:
        super().__init__(load, history, name, topics, instance_id)
        self._member_id = str(UUID(int=self.random.getrandbits(128), version=4))
        self._epoch = JOIN
        self._interval_ms = RETRY_MS
        self._said: list[Place] | None = None
        self._say_all = True

    @property
    def generation(self) -> int:
        return self._epoch or -1

    @property
    def member_id(self) -> str:
        return self._member_id

    def identity(self) -> dict[str, Any]:
        return {"member_id": self._member_id, "member_epoch": self._epoch}

    def step(self) -> None:
        if self.coordinator is None:
            self.find()
        elif self.leaving:
            self.commit(self._leave)
        else:
            self._heartbeat()

    def lose(self) -> None:
        self._epoch = JOIN
        self._say_all = True

    def commit_lost(self, code: ErrorCode) -> None:
        """The next heartbeat will be told the same."""

    # Heartbeats

    def _heartbeat(self) -> None:
        owned = sorted(self.tenures)
        everything = self._say_all or self._epoch == JOIN
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.history.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self.instance_id,
        )
        if everything:
            request.rebalance_timeout_ms = self.load.rebalance_ms
            request.subscribed_topic_names = self.topics
        if everything or owned != self._said:
            request.topic_partitions = self._partitions(owned)
        self._said, self._say_all = owned, False
        self.ask(request, HEARTBEAT_VERSION, self._heard)

    def _partitions(self, owned: Sequence[Place]) -> list[TopicPartitions]:
        indexes: dict[str, list[int]] = {}
        for topic, index in owned:
            indexes.setdefault(topic, []).append(index)
        return [TopicPartitions(topic_id=self.load.topic_id(topic), partitions=some) for topic, some in indexes.items()]

    def _heard(self, answer: Answer) -> None:
        code = answer.code
        if code is ErrorCode.NONE:
            self._go_on(answer)
            return
        self._say_all = True
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.end(code.name)
        elif code in LOST:
            self.lost(code)
            self.lose()
            self.later(RETRY_MS, self.step)
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID:
            self.later(self.random.randrange(1_000), self.step)
        else:
            self.again(code)

    def _go_on(self, answer: Answer) -> None:
        response = answer.response
        self.check_tenures(answer, "a heartbeat")
        where = f"{self.name}: {response.member_epoch} after {self._epoch}"
        check(response.member_epoch >= self._epoch or not answer.real, EPOCHS, where)
        self._epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms
        if response.assignment is None:
            self.later(self._interval_ms, self.step)
            return
        places = []
        for topic in response.assignment.topic_partitions:
            name = self.load.topic_name(topic.topic_id)
            places += [(name, index) for index in topic.partitions if name is not None]
        self._reconcile(places, answer)

    def _reconcile(self, places: list[Place], answer: Answer) -> None:
        """Gives up, perhaps slowly, and takes."""
        gone = [place for place in self.tenures if place not in places]
        if not gone:
            self._take(places, answer)
        elif self.random.random() < SLOW_PROBABILITY and not self.load.patient:
            # A callback of its user that takes long; meanwhile it heartbeats, and still has everything.
            self._busy(places, answer, self.random.randrange(2 * self.load.rebalance_ms))
        elif self.random.random() < 0.5:
            self.commit(lambda: self._take(places, answer))
        else:
            self._take(places, answer)

    def _busy(self, places: list[Place], given: Answer, left_ms: int) -> None:
        """While its user's callback runs, it heartbeats and takes nothing."""
        tenures = dict(self.tenures)

        def heard(answer: Answer) -> None:
            if answer.code is ErrorCode.NONE and answer.response.assignment is None and self.tenures == tenures:
                self.check_tenures(answer, "a heartbeat")
                self._epoch = answer.response.member_epoch
                self._busy(places, given, left_ms - self._interval_ms)
            else:
                self._heard(answer)

        def beat() -> None:
            if self.leaving or self.coordinator is None:
                self._say_all = True
                self.step()
                return
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.history.group_id,
                member_id=self._member_id,
                member_epoch=self._epoch,
                instance_id=self.instance_id,
            )
            self.ask(request, HEARTBEAT_VERSION, heard)

        if left_ms <= 0:
            self._take(places, given)
        else:
            self.later(min(self._interval_ms, left_ms), beat)

    def _take(self, places: list[Place], answer: Answer) -> None:
        changed = sorted(places) != sorted(self.tenures)
        self.take(places, answer)
        self.later(0 if changed else self._interval_ms, self.step)

    def _leave(self) -> None:
        if self.coordinator is None or self._epoch == JOIN:
            self.end("it leaves")
            return
        for_a_while = self.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.history.group_id,
            member_id=self._member_id,
            member_epoch=LEAVE_FOR_A_WHILE if for_a_while else LEAVE,
            instance_id=self.instance_id,
        )
        self.give_up(list(self.tenures))
        self.ask(request, HEARTBEAT_VERSION, lambda answer: self.end("it leaves"))
