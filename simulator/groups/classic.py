"""A member of a group with the classic protocol, eager or cooperative (KIP-429), dynamic or static (KIP-345).

It joins, syncs, and heartbeats, as Kafka's own consumer does: told to rebalance, an eager member commits, gives up
everything and joins again; a cooperative one joins with what it has, gives up what it is not assigned any more, and
then joins once more, so that another may have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import partial

from penstock.coordinator.group.classic_requests import MEMBER_ID_PREFIX_MAX_BYTES
from penstock.coordinator.group.consumer.embedded import VERSION, decode_assignment, decode_subscription
from penstock.errors import ErrorCode, ProtocolError
from penstock.protocol import codec
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from penstock.protocol.messages.consumer_protocol_assignment import TopicPartition as Assigned
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.consumer_protocol_subscription import TopicPartition as OwnedPartition
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from simulator.cluster.load import RETRY_MS
from simulator.groups.assignors import COOPERATIVE, RANGE, Wish, by_range, cooperatively
from simulator.groups.history import EPOCHS, GroupHistory, Place
from simulator.groups.load import GroupLoad
from simulator.groups.member import LATE, LOST, Answer, Member
from simulator.world.checks import check

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
SUBSCRIPTION_VERSION, ASSIGNMENT_VERSION = 3, 1
JOIN_GRACE_MS = 2_000
NONE = -1
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
        self._member_id = ""
        self._generation = NONE
        self._synced_generation = NONE  # one that nobody has synced is not stored, and may be given again
        self._must_join = True

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def member_id(self) -> str:
        return self._member_id

    @property
    def may_commit(self) -> bool:
        """Not from a join to its sync, as Kafka's consumer."""
        return self._generation != NONE and self._generation == self._synced_generation

    @property
    def protocol(self) -> str:
        return COOPERATIVE if self.cooperative else RANGE

    def step(self) -> None:
        if self.coordinator is None:
            self.find()
        elif self.leaving:
            self._leave()
        elif self._must_join:
            self._prepare()
        else:
            self._heartbeat()

    def commit_lost(self, code: ErrorCode) -> None:
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.end(code.name)
        elif not self._must_join:
            self._refused(code)

    def _refused(self, code: ErrorCode) -> None:
        """The coordinator does not know it, or not in this generation: it joins anew; with its id, if that is known."""
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self._member_id = ""
        self.lost(code, self._generation)
        self._generation = NONE
        self._must_join = True

    # Joining

    def _prepare(self) -> None:
        """An eager member gives up what it has; whether it commits first depends on its user."""
        if self.cooperative or not self.tenures:
            self._join()
        elif self.random.random() < 0.5:
            self._revoke_and_join()
        else:
            self.commit(self._revoke_and_join)

    def _revoke_and_join(self) -> None:
        self.give_up(list(self.tenures))
        if self.coordinator is None:
            self.later(RETRY_MS, self.step)
        else:
            self._join()

    def _join(self) -> None:
        owned: dict[str, list[int]] = {}
        for topic, index in sorted(self.tenures):
            owned.setdefault(topic, []).append(index)
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=[OwnedPartition(topic=topic, partitions=indexes) for topic, indexes in owned.items()],
            generation_id=self._generation,
        )
        metadata = VERSION.pack(SUBSCRIPTION_VERSION) + codec.encode_bytes(subscription, SUBSCRIPTION_VERSION)
        request = JoinGroupRequest(
            group_id=self.history.group_id,
            session_timeout_ms=self.load.session_ms,
            rebalance_timeout_ms=self.load.rebalance_ms,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=self._offers(metadata),
        )
        self.ask(request, JOIN_VERSION, self._joined, timeout_ms=self.load.rebalance_ms + JOIN_GRACE_MS)

    def _offers(self, metadata: bytes) -> list[JoinGroupRequestProtocol]:
        own = JoinGroupRequestProtocol(name=self.protocol, metadata=metadata)
        if self._strategies is Strategies.ONE:
            return [own]
        if self._strategies is Strategies.TWO:
            return [JoinGroupRequestProtocol(name=OTHER, metadata=metadata), own]
        return [own, JoinGroupRequestProtocol(name=OTHER, metadata=b"")]

    def _joined(self, answer: Answer) -> None:
        code = answer.code
        if code is ErrorCode.NONE:
            self._welcome(answer)
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.response.member_id
            if self.coordinator is None:
                self.step()
            else:
                self._join()
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.end(code.name)
        elif code in LOST:
            self.check_stays(answer)
            self._refused(code)
            self.later(RETRY_MS, self.step)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.later(RETRY_MS, self.step)
        elif code is ErrorCode.INVALID_REQUEST and self._is_too_long:
            self.unwelcome = True
            self.end("its id is too long")
        else:
            self.again(code)

    @property
    def _is_too_long(self) -> bool:
        """Whether no member id can begin with its id."""
        return len((self.instance_id or self.client_id).encode()) > MEMBER_ID_PREFIX_MAX_BYTES

    def _welcome(self, answer: Answer) -> None:
        response: JoinGroupResponse = answer.response
        self._member_id = response.member_id
        if answer.real and self.history.one_protocol:
            where = f"{self.name}: {response.generation_id} after {self._synced_generation}"
            check(response.generation_id >= self._synced_generation, EPOCHS, where)
        self.check_tenures(answer, "a join")
        self._generation = response.generation_id
        shares = []
        if response.leader == self._member_id and not response.skip_assignment:
            shares = self._assign(response)
        request = SyncGroupRequest(
            group_id=self.history.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=response.protocol_name,
            assignments=shares,
        )
        send = partial(self.ask, request, SYNC_VERSION, self._synced, self.load.rebalance_ms + JOIN_GRACE_MS)
        if self.random.random() < 0.2 and not self.load.patient:
            self.later(self.random.randrange(self.load.rebalance_ms // 2), lambda: self._send_sync(send))
        else:
            self._send_sync(send)

    def _send_sync(self, send: partial[None]) -> None:
        """Unless a commit has found meanwhile that the coordinator has moved."""
        if self.coordinator is None:
            self.step()
        else:
            send()

    def _assign(self, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The leader shares the partitions."""
        wishes = {}
        for member in response.members:
            wishes[member.member_id] = wish_of(member.metadata)
        topics = self.load.image.topics_by_name
        names = sorted({topic for wish in wishes.values() for topic in wish.topics if topic in topics})
        counts = {name: len(topics[name].partitions) for name in names}
        shares = (cooperatively if self.cooperative else by_range)(wishes, counts)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode(places))
            for member_id, places in sorted(shares.items())
        ]

    def _synced(self, answer: Answer) -> None:
        code = answer.code
        if code is ErrorCode.NONE:
            self._assigned(answer)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.end(code.name)
        elif code in LOST:
            self.check_stays(answer)
            self._refused(code)
            self.later(RETRY_MS, self.step)
        elif code in LATE:
            self._must_join = True
            self.later(RETRY_MS, self.step)
        else:
            self._must_join = True
            self.again(code)

    def _assigned(self, answer: Answer) -> None:
        self._synced_generation = self._generation
        assigned = (
            decode_assignment(answer.response.assignment).assigned_partitions if answer.response.assignment else []
        )
        places = [(each.topic, index) for each in assigned for index in each.partitions]
        gone = [place for place in self.tenures if place not in places]
        self._must_join = bool(gone)
        if gone and self.random.random() < 0.5:
            self.commit(lambda: self._take(places, answer))
        else:
            self._take(places, answer)

    def _take(self, places: Sequence[Place], answer: Answer) -> None:
        if self._generation == NONE:  # the commit was refused
            self.step()
            return
        self.take(places, answer)
        self.later(self._interval_ms(), self.step)

    def _interval_ms(self) -> int:
        return 0 if self._must_join else max(100, self.load.session_ms // 6)

    # Being a member

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.history.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self.instance_id,
        )
        self.ask(request, HEARTBEAT_VERSION, self._heard)

    def _heard(self, answer: Answer) -> None:
        code = answer.code
        if self._must_join:  # a commit was refused meanwhile
            self.step()
        elif code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.check_tenures(answer, "a heartbeat")
            self._must_join = code is not ErrorCode.NONE
            if not self._must_join:
                self.at_ease(answer)
            self.later(self._interval_ms(), self.step)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.end(code.name)
        elif code in LOST:
            self.check_stays(answer)
            self._refused(code)
            self.later(RETRY_MS, self.step)
        else:
            self.again(code)

    def _leave(self) -> None:
        """Static members go without a word."""
        if self.instance_id is not None or not self._member_id:
            self.end("it leaves")
            return
        self.commit(self._say_farewell)

    def _say_farewell(self) -> None:
        if self.coordinator is None:
            self.end("it leaves")
            return
        identity = MemberIdentity(member_id=self._member_id)
        request = LeaveGroupRequest(group_id=self.history.group_id, members=[identity])
        self.give_up(list(self.tenures))
        self.ask(request, LEAVE_VERSION, lambda answer: self.end("it leaves"))


def wish_of(metadata: bytes) -> Wish:
    """What a member says; nothing, if it cannot be read."""
    try:
        said = decode_subscription(metadata)
    except ProtocolError:
        return Wish([], [], NONE)
    owned = [(each.topic, index) for each in said.owned_partitions for index in each.partitions]
    return Wish(said.topics, owned, said.generation_id)


def encode(places: Sequence[Place]) -> bytes:
    """An assignment as the leader sends it."""
    indexes: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        indexes.setdefault(topic, []).append(index)
    named = [Assigned(topic=topic, partitions=some) for topic, some in indexes.items()]
    message = ConsumerProtocolAssignment(assigned_partitions=named)
    return VERSION.pack(ASSIGNMENT_VERSION) + codec.encode_bytes(message, ASSIGNMENT_VERSION)
