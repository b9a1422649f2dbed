"""A membership in a group of the classic protocol as a state machine: answers in, requests out; no connection, no
clock.

    membership = ClassicMembership("reports", ["clicks"], ASSIGNORS, session_timeout_ms=45_000, ...)
    request = membership.request(owned)
    match membership.heard(response): ...

A member joins, syncs, and heartbeats until it is told to join again. In each generation one of the members, the leader,
assigns the partitions, by the first assignor that all of them offer; for that it needs their number (`share`). An eager
member gives up everything before it joins. A cooperative one (KIP-429) joins with what it has, gives up what it is no
longer assigned, and then joins once more, so that another may have it; for that the leader waits as long as a rebalance
may take. `request` is what an eager member has to send next; a cooperative one calls `join`, `sync` and `heartbeat` by
itself.

The owner of a membership sends the requests, waits between them, reads and commits: `client.member`, or a member of the
simulator. `client.membership` is the same for consumer groups (KIP-848).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from penstock.client.assignors import Assignor, Shares, Wish
from penstock.client.client import Partition, by_topic
from penstock.client.coordinators import MOVED
from penstock.client.membership import LOST, Heard
from penstock.errors import ErrorCode, ProtocolError
from penstock.protocol.consumer_protocol import decode_assignment, decode_subscription, encode
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from penstock.protocol.messages.consumer_protocol_assignment import TopicPartition as Assigned
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.consumer_protocol_subscription import TopicPartition as Owned
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

Answer = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse
NO_GENERATION = -1
PROTOCOL_TYPE = "consumer"
SUBSCRIPTION_VERSION, ASSIGNMENT_VERSION = 3, 1


class ClassicMembership:
    """See the module's head.

    Args:
        assignors: those that it offers, by name, the one that it likes best first.
        instance_id: of a static member (KIP-345).

    Attributes:
        member_id: empty before the coordinator has given one. epoch: the generation, or NO_GENERATION.
        synced: the last generation whose assignment it has got. interval_ms: between heartbeats.
        must_join: it is no member of the present generation. target: what it is to have, as it was told last.
        wishes: what the members of the generation have said, if this one leads it.
    """

    def __init__(
        self,
        group_id: str,
        topics: Sequence[str],
        assignors: Mapping[str, Assignor],
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        interval_ms: int,
        instance_id: str | None = None,
    ) -> None:
        self.member_id = ""
        self.epoch = NO_GENERATION
        self.synced = NO_GENERATION
        self.interval_ms = interval_ms
        self.must_join = True
        self.target: list[Partition] = []
        self.wishes: dict[str, Wish] = {}
        self._group_id = group_id
        self._topics = list(topics)
        self._assignors = assignors
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._instance_id = instance_id
        self._owned: list[Partition] = []  # when it joined
        self._protocol_name: str | None = None  # how the generation shares; None: there is nothing to sync
        self._counts: Mapping[str, int] | None = None  # None: it has not shared, or need not
        self._withholds = False  # it leads, and has assigned partitions to nobody until their owners give them up
        self._beats = 0  # heartbeats in its generation

    # What it says

    def request(self, owned: Collection[Partition]) -> JoinGroupRequest | SyncGroupRequest | HeartbeatRequest:
        """The next request of an eager member with these partitions; it joins when it has none any more."""
        if not self.must_join or owned:
            return self.heartbeat()
        return self.join(owned) if self._protocol_name is None else self.sync()

    def join(self, owned: Iterable[Partition]) -> JoinGroupRequest:
        """Asks to be a member of the next generation."""
        self._owned = sorted(owned)
        subscription = ConsumerProtocolSubscription(
            topics=self._topics,
            owned_partitions=[Owned(topic=topic, partitions=some) for topic, some in by_topic(self._owned).items()],
            generation_id=self.epoch,
        )
        metadata = encode(subscription, SUBSCRIPTION_VERSION)
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self._assignors],
        )

    @property
    def wanted(self) -> list[str]:
        """The topics that the members subscribe to; the leader needs their partition counts."""
        return sorted({topic for wish in self.wishes.values() for topic in wish.topics})

    @property
    def is_to_share(self) -> bool:
        """Whether it leads a generation that has no assignment yet."""
        return self._protocol_name is not None and bool(self.wishes) and self._counts is None

    def share(self, counts: Mapping[str, int]) -> None:
        """Gives the leader the partition counts, when it has joined and whenever it has looked again.

        If they differ from those it assigned by, there has to be another generation.
        """
        if self._counts is not None and counts != self._counts:
            self.rejoin()
        self._counts = counts

    def rejoin(self) -> None:
        """Has it join again, so that there is another generation."""
        self.must_join = True

    def sync(self) -> SyncGroupRequest:
        """Asks for the assignment; the leader sends it, by the counts of `share`."""
        shares: Shares = {}
        if self.wishes and self._protocol_name is not None:
            shares = self._assignors[self._protocol_name](self.wishes, self._counts or {})
            self._withholds = withholds(self.wishes, self._counts or {}, shares)
        return SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=encode_share(share))
                for member_id, share in sorted(shares.items())
            ],
        )

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
        )

    def leave_request(self) -> LeaveGroupRequest | None:
        """The last request of a member; None for a static one, which leaves silently, to come back."""
        if not self.member_id or self._instance_id is not None:
            return None
        return LeaveGroupRequest(group_id=self._group_id, members=[MemberIdentity(member_id=self.member_id)])

    # What it hears

    def heard(self, answer: Answer | None) -> Heard:
        """Handles the answer to its last request, None if there was none."""
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
        self._protocol_name = None
        match answer:
            case JoinGroupResponse(error_code=ErrorCode.NONE):
                return self._joined(answer)
            case SyncGroupResponse(error_code=ErrorCode.NONE):
                return self._synced(answer)
            case HeartbeatResponse(error_code=ErrorCode.NONE):
                self._wait_for_owners()
                return Heard.REJOINS if self.must_join else Heard.STAYS
            case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = answer.member_id
                return Heard.REJOINS
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.must_join = True
            return Heard.REJOINS
        known = self.epoch != NO_GENERATION or code is not ErrorCode.GROUP_ID_NOT_FOUND
        if known and (code in LOST or code is ErrorCode.ILLEGAL_GENERATION):
            self.lost(code)
            return Heard.LOST
        return Heard.UNSERVED if answer is None or code in MOVED else Heard.REFUSED

    def _wait_for_owners(self) -> None:
        """Has a leader that withholds partitions join again once their owners had their time to.

        One may not even know of them: a static member that died and came back is given its standing assignment without
        a rebalance (KIP-345), and owns nothing that it would have to give up.
        """
        self._beats += 1
        if self._withholds and self._beats * self.interval_ms > self._rebalance_timeout_ms:
            self.rejoin()

    def lost(self, code: ErrorCode) -> None:
        """The coordinator does not know it, or not in this generation; it keeps its id if only that has changed."""
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
        self.epoch, self.target, self.must_join = NO_GENERATION, [], True

    def _joined(self, answer: JoinGroupResponse) -> Heard:
        self.member_id, self.epoch = answer.member_id, answer.generation_id
        self._protocol_name, self._counts, self.wishes = answer.protocol_name, None, {}
        self._withholds, self._beats = False, 0
        if answer.leader == self.member_id and not answer.skip_assignment:
            if answer.protocol_name not in self._assignors:
                raise ProtocolError(f"group {self._group_id} shares by {answer.protocol_name}, which was not offered")
            self.wishes = {member.member_id: wish_of(member.metadata) for member in answer.members}
        return Heard.JOINED

    def _synced(self, answer: SyncGroupResponse) -> Heard:
        self.synced = self.epoch
        given = decode_assignment(answer.assignment).assigned_partitions if answer.assignment else []
        self.target = [(each.topic, index) for each in given for index in each.partitions]
        self.must_join = not set(self._owned) <= set(self.target)
        return Heard.GIVEN

    def assigned(self, ids: Mapping[str, UUID]) -> dict[Partition, UUID]:
        """The assigned partitions with the ids of their topics, as far as they are known."""
        return {place: ids[place[0]] for place in self.target if place[0] in ids}


def withholds(wishes: Mapping[str, Wish], counts: Mapping[str, int], shares: Shares) -> bool:
    """Whether partitions that somebody subscribes to are nobody's."""
    given = sum(map(len, shares.values()))
    wanted = {topic for wish in wishes.values() for topic in wish.topics}
    return given < sum(count for topic, count in counts.items() if topic in wanted)


def wish_of(metadata: bytes) -> Wish:
    """A member's metadata; an empty wish if it cannot be read."""
    try:
        said = decode_subscription(metadata)
    except ProtocolError:
        return Wish([], [], NO_GENERATION)
    owned = [(each.topic, index) for each in said.owned_partitions for index in each.partitions]
    return Wish(said.topics, owned, said.generation_id)


def encode_share(places: Iterable[Partition]) -> bytes:
    """An assignment in the form that the leader sends."""
    named = [Assigned(topic=topic, partitions=some) for topic, some in by_topic(sorted(places)).items()]
    return encode(ConsumerProtocolAssignment(assigned_partitions=named), ASSIGNMENT_VERSION)
