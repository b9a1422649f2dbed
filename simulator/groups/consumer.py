"""A member of a consumer group (KIP-848): it heartbeats, and is told what it has.

What it should not have any more it gives up, perhaps after a commit and a while; then it takes what is new, and says
what it has in its next heartbeat. What it says, and what the answers mean, is the real client's `client.membership`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from penstock.client.membership import Heard, Membership
from penstock.errors import ErrorCode
from simulator.cluster.load import RETRY_MS
from simulator.groups.history import EPOCHS, GroupHistory, Place
from simulator.groups.load import GroupLoad
from simulator.groups.member import Answer, Member
from simulator.world.checks import check

HEARTBEAT_VERSION = 1
SLOW_PROBABILITY = 0.15


class ConsumerMember(Member):
    """See the module's head."""

    def __init__(
        self,
        load: GroupLoad,
        history: GroupHistory,
        name: str,
        topics: Sequence[str],
        instance_id: str | None = None,
        *,
        client_id: str | None = None,
    ) -> None:
        super().__init__(load, history, name, topics, instance_id, client_id=client_id)
        self._membership = Membership(
            history.group_id,
            str(UUID(int=self.random.getrandbits(128), version=4)),
            self.topics,
            rebalance_timeout_ms=load.rebalance_ms,
            instance_id=instance_id,
        )

    @property
    def generation(self) -> int:
        return self._membership.epoch or -1

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    def identity(self) -> dict[str, Any]:
        return {"member_id": self.member_id, "member_epoch": self._membership.epoch}

    def step(self) -> None:
        if self.coordinator is None:
            self.find()
        elif self.leaving:
            self.commit(self._leave)
        else:
            self._heartbeat()

    def commit_lost(self, code: ErrorCode) -> None:
        """The next heartbeat will be told the same."""

    # Heartbeats

    def _heartbeat(self) -> None:
        owned = {place: self.load.topic_id(place[0]) for place in self.ownerships}
        self.ask(self._membership.request(owned), HEARTBEAT_VERSION, self._heard)

    def _heard(self, answer: Answer) -> None:
        code, before = answer.code, self.generation
        match self._membership.heard(answer.response):
            case Heard.STAYS:
                self._check_goes_on(answer, before)
                self.at_ease(answer)
                self.later(self._membership.interval_ms, self.step)
            case Heard.GIVEN:
                self._check_goes_on(answer, before)
                ids = {name: topic.id for name, topic in self.load.image.topics_by_name.items()}
                self._reconcile(list(self._membership.assigned(ids)), answer)
            case Heard.LOST:
                self.check_stays(answer)
                self.lost(code, before)
                self.later(RETRY_MS, self.step)
            case _ if code is ErrorCode.FENCED_INSTANCE_ID:
                self.end(code.name)
            case _ if code is ErrorCode.UNRELEASED_INSTANCE_ID:
                self.later(self.random.randrange(1_000), self.step)
            case _ if code is ErrorCode.GROUP_ID_NOT_FOUND and not self.history.one_protocol:
                # A classic group one of whose members cannot be read stays what it is, until that member is gone.
                self.later(RETRY_MS, self.step)
            case _:
                self.again(code)

    def _check_goes_on(self, answer: Answer, before: int) -> None:
        """It is the same member, in the epoch that it was in or a later one."""
        self.check_ownerships(answer, "a heartbeat")
        where = f"{self.name}: {self._membership.epoch} after {before}"
        check(self._membership.epoch >= before or not answer.real, EPOCHS, where)

    def _reconcile(self, places: list[Place], answer: Answer) -> None:
        """Gives up, perhaps slowly, and takes."""
        gone = [place for place in self.ownerships if place not in places]
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
        ownerships = dict(self.ownerships)

        def heard(answer: Answer) -> None:
            if answer.code is ErrorCode.NONE and answer.response.assignment is None and self.ownerships == ownerships:
                self.check_ownerships(answer, "a heartbeat")
                self._membership.heard(answer.response)
                self._busy(places, given, left_ms - self._membership.interval_ms)
            else:
                self._heard(answer)

        def beat() -> None:
            if self.leaving or self.coordinator is None:
                self._membership.say_all()
                self.step()
                return
            self.ask(self._membership.sign_of_life(), HEARTBEAT_VERSION, heard)

        if left_ms <= 0:
            self._take(places, given)
        else:
            self.later(min(self._membership.interval_ms, left_ms), beat)

    def _take(self, places: list[Place], answer: Answer) -> None:
        changed = sorted(places) != sorted(self.ownerships)
        self.take(places, answer)
        self.later(0 if changed else self._membership.interval_ms, self.step)

    def _leave(self) -> None:
        request = self._membership.leave_request()
        if self.coordinator is None or request is None:
            self.end("it leaves")
            return
        self.give_up(list(self.ownerships))
        self.ask(request, HEARTBEAT_VERSION, self._left)

    def _left(self, answer: Answer) -> None:
        self.check_stays(answer)
        self.end("it leaves")
