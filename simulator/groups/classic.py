"""A member of a group with the classic protocol, eager or cooperative (KIP-429), dynamic or static (KIP-345).

It joins, syncs, and heartbeats, as Kafka's own consumer does: told to rebalance, an eager member commits, gives up
everything and joins again; a cooperative one joins with what it has, gives up what it is not assigned any more, and
then joins once more, so that another may have it. What it says, and what the answers mean, is the real client's
`client.classic_membership`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import partial

from penstock.client.assignors import COOPERATIVE, RANGE, by_range, cooperatively
from penstock.client.classic_membership import NO_GENERATION, ClassicMembership
from penstock.client.membership import Heard
from penstock.coordinator.group.classic_requests import MEMBER_ID_PREFIX_MAX_BYTES
from penstock.errors import ErrorCode
from simulator.cluster.load import RETRY_MS
from simulator.groups.history import EPOCHS, GroupHistory, Place
from simulator.groups.load import GroupLoad
from simulator.groups.member import Answer, Member
from simulator.world.checks import check

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
JOIN_GRACE_MS = 2_000
OTHER = "other"
"""A strategy that shares by range, too."""


class Strategies(Enum):
    """What a member offers: the strategy of its group, or besides it one that it likes better, or one with which it
    says nothing that could be read."""

    ONE = "one"
    TWO = "two"
    UNREADABLE = "one unreadable"


class ClassicMember(Member):
    """See the module's head.

    Args:
        cooperative: how it rebalances, and what its group's assignor is. strategies: what it offers.
    """

    def __init__(
        self,
        load: GroupLoad,
        history: GroupHistory,
        name: str,
        topics: Sequence[str],
        instance_id: str | None = None,
        *,
        client_id: str | None = None,
        cooperative: bool,
        strategies: Strategies = Strategies.ONE,
    ) -> None:
        super().__init__(load, history, name, topics, instance_id, client_id=client_id)
        self.cooperative = cooperative
        self._strategies = strategies
        self._kept = False  # at its last join
        own = {COOPERATIVE: cooperatively} if cooperative else {RANGE: by_range}
        other = {} if strategies is Strategies.ONE else {OTHER: by_range}
        self._membership = ClassicMembership(
            history.group_id,
            self.topics,
            other | own if strategies is Strategies.TWO else own | other,
            session_timeout_ms=load.session_ms,
            rebalance_timeout_ms=load.rebalance_ms,
            interval_ms=max(100, load.session_ms // 6),
            instance_id=instance_id,
        )

    @property
    def generation(self) -> int:
        return self._membership.epoch

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    @property
    def may_commit(self) -> bool:
        """Not from a join to its sync, as Kafka's consumer."""
        return self.generation != NO_GENERATION and self.generation == self._membership.synced

    def step(self) -> None:
        if self.coordinator is None:
            self.find()
        elif self.leaving:
            self._leave()
        elif self._membership.must_join:
            self._prepare()
        else:
            self.ask(self._membership.heartbeat(), HEARTBEAT_VERSION, self._beaten)

    def commit_lost(self, code: ErrorCode) -> None:
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.end(code.name)
        elif not self._membership.must_join:
            self.lost(code, self.generation)
            self._membership.lost(code)

    # What it is told

    def _beaten(self, answer: Answer) -> None:
        if self._membership.must_join:  # a commit was refused meanwhile
            self.step()
            return
        if answer.code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.check_ownerships(answer, "a heartbeat")
        self._heard(answer)

    def _heard(self, answer: Answer) -> None:
        code, before, was_member = answer.code, self.generation, not self._membership.must_join
        match self._membership.heard(answer.response):
            case Heard.STAYS:
                self.at_ease(answer)
                self.later(self._membership.interval_ms, self.step)
            case Heard.JOINED:
                self._sync(answer)
            case Heard.GIVEN:
                self._given(answer)
            case Heard.REJOINS if code is ErrorCode.MEMBER_ID_REQUIRED and self.coordinator is not None:
                self._join()
            case Heard.REJOINS if code is ErrorCode.MEMBER_ID_REQUIRED:
                self.step()
            case Heard.REJOINS:
                self.later(0 if was_member else RETRY_MS, self.step)
            case Heard.LOST:
                self.check_stays(answer)
                self.lost(code, before)
                self.later(RETRY_MS, self.step)
            case _ if code is ErrorCode.FENCED_INSTANCE_ID:
                self.end(code.name)
            case _ if code is ErrorCode.INVALID_REQUEST and self._is_too_long:
                self.unwelcome = True
                self.end("its id is too long")
            case _:
                self.again(code)

    @property
    def _is_too_long(self) -> bool:
        """Whether no member id can begin with its id."""
        return len((self.instance_id or self.client_id).encode()) > MEMBER_ID_PREFIX_MAX_BYTES

    # Joining

    def _prepare(self) -> None:
        """An eager member gives up what it has; whether it commits first depends on its user."""
        if self.cooperative or not self.ownerships:
            self._join()
        elif self.random.random() < 0.5:
            self._revoke_and_join()
        else:
            self.commit(self._revoke_and_join)

    def _revoke_and_join(self) -> None:
        self.give_up(list(self.ownerships))
        if self.coordinator is None:
            self.later(RETRY_MS, self.step)
        else:
            self._join()

    def _join(self) -> None:
        request = self._membership.join(self.ownerships)
        if self._strategies is Strategies.UNREADABLE:
            request.protocols[-1].metadata = b""
        self.ask(request, JOIN_VERSION, self._heard, timeout_ms=self.load.rebalance_ms + JOIN_GRACE_MS)

    def _sync(self, answer: Answer) -> None:
        """Asks for its share; the leader shares first. Some take their time."""
        if answer.real and self.history.one_protocol:
            where = f"{self.name}: {self.generation} after {self._membership.synced}"
            check(self.generation >= self._membership.synced, EPOCHS, where)
        self._kept = self._was_kept
        if not self._kept:
            self.check_ownerships(answer, "a join")
        topics = self.load.image.topics_by_name
        wanted = [name for name in self._membership.wanted if name in topics]
        self._membership.share({name: len(topics[name].partitions) for name in wanted})
        request = self._membership.sync()
        send = partial(self.ask, request, SYNC_VERSION, self._heard, self.load.rebalance_ms + JOIN_GRACE_MS)
        if self.random.random() < 0.2 and not self.load.patient:
            self.later(self.random.randrange(self.load.rebalance_ms // 2), lambda: self._send_sync(send))
        else:
            self._send_sync(send)

    @property
    def _was_kept(self) -> bool:
        """Whether it joins after a generation that it did not join, and is not told so until it syncs; if it is
        cooperative it still has what was given away. Its commits are refused until then, and then it has what it is
        given.

        A static member is kept in the group (KIP-345), and the leader knew only what it had said before. A dynamic one
        is removed; a consumer group takes it in again under its old member id (Kafka's GroupMetadataManager,
        `classicGroupJoinToConsumerGroup`), where a classic one would say that it is unknown.
        """
        missed = self.generation > self._membership.synced + 1
        may_be_taken_in = self.instance_id is not None or not self.history.one_protocol
        return self.cooperative and may_be_taken_in and missed

    def _send_sync(self, send: partial[None]) -> None:
        """Unless a commit has found meanwhile that the coordinator has moved."""
        if self.coordinator is None:
            self.step()
        else:
            send()

    def _given(self, answer: Answer) -> None:
        places = self._membership.target
        if self._kept:  # if it is given now what another had meanwhile, it is given it anew
            self.give_up([place for place, each in self.ownerships.items() if each.ousted_us is not None])
        if not set(self.ownerships) <= set(places) and self.random.random() < 0.5:
            self.commit(lambda: self._take(places, answer))
        else:
            self._take(places, answer)

    def _take(self, places: Sequence[Place], answer: Answer) -> None:
        if self.generation == NO_GENERATION:  # the commit was refused
            self.step()
            return
        self.take(places, answer)
        self.later(0 if self._membership.must_join else self._membership.interval_ms, self.step)

    def _leave(self) -> None:
        """Static members go without a word."""
        if self._membership.leave_request() is None:
            self.end("it leaves")
        else:
            self.commit(self._leave_group)

    def _leave_group(self) -> None:
        request = self._membership.leave_request()
        if self.coordinator is None or request is None:
            self.end("it leaves")
            return
        self.give_up(list(self.ownerships))
        self.ask(request, LEAVE_VERSION, lambda answer: self.end("it leaves"))
