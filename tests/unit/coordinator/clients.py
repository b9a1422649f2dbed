"""Members of both protocols that behave as real clients do: a step at a time each sends what it would send now.

    for kind in (ClassicClient, ConsumerClient):
        world = client_world()
        members = [kind(world, f"m{number}") for number in range(3)]
        run(world, members, until=lambda: all_shared(members))

They believe what they are told: they give up what they are told to before they take part again, join again when they
are fenced, and look again for a coordinator that has moved. `run` asserts after each step that no partition has two
owners among the members that are still in touch with the coordinator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from unit.coordinator.consumers import Consumer, ConsumerWorld, topic_id, with_topics
from unit.coordinator.world import REBALANCE_MS, Answer

from penstock.errors import ErrorCode
from penstock.protocol import codec
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.join_group_response import JoinGroupResponse

GROUP = "g"
STEP_MS = 500
STEPS_MAX = 400
AGAIN = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
FENCED = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
Place = tuple[str, int]


def client_world(**topics: int) -> ConsumerWorld:
    """A world with topics of so many partitions (t of 6 unless told), in which groups begin at once."""
    return ConsumerWorld(with_topics(**(topics or {"t": 6})), group_initial_rebalance_delay_ms=0)


class Client:
    """A member.

    Attributes:
        owned: what it believes to have. silent: its requests are lost. slow: it does not give up what it is told to.
        pattern: it subscribes to the topics whose whole name matches, instead of `topics`.
        changes: how often what it has has changed.
    """

    def __init__(self, world: ConsumerWorld, name: str, *topics: str, pattern: str | None = None) -> None:
        self.world = world
        self.name = name
        self.topics = list(topics or (() if pattern else ("t",)))
        self.pattern = pattern
        self.owned: set[Place] = set()
        self.silent = False
        self.slow = False
        self.changes = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {sorted(self.owned)})"

    def step(self) -> None:
        """Sends what it would send now."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leaves the group."""
        raise NotImplementedError

    def commit(self, offset: int, place: Place = ("t", 0)) -> ErrorCode | None:
        """Commits an offset as the member it believes to be; None while there is no answer."""
        member_id, epoch = self.identity()
        answer = self.world.commit_offsets({place: offset}, member_id=member_id, generation_id=epoch)
        if not answer.done or answer.code:
            return answer.code if answer.done else None
        return ErrorCode(answer.value.topics[0].partitions[0].error_code)

    def identity(self) -> tuple[str, int]:
        """Its member id, and its generation or epoch."""
        raise NotImplementedError

    def have(self, places: Iterable[Place]) -> None:
        """What it has from now on."""
        places = set(places)
        self.changes += places != self.owned
        self.owned = places


class ClassicClient(Client):
    """A member of a classic group with the range assignor: it gives up everything before it joins again."""

    def __init__(self, world: ConsumerWorld, name: str, *topics: str, pattern: str | None = None) -> None:
        super().__init__(world, name, *topics, pattern=pattern)
        self.member_id = ""
        self.joined: JoinGroupResponse | None = None
        self._waits: Answer[Any] | None = None
        self._seen: dict[str, int] = {}

    def identity(self) -> tuple[str, int]:
        return self.member_id, -1 if self.joined is None else self.joined.generation_id

    def subscribed(self) -> list[str]:
        names = self.world.image.topics_by_name
        if self.pattern is None:
            return self.topics
        return sorted(name for name, _ in names.items() if re.fullmatch(self.pattern, name))

    def counts(self) -> dict[str, int]:
        """How many partitions its topics have, as it sees them now."""
        found = {name: self.world.image.topics_by_name.get(name) for name in self.subscribed()}
        return {name: len(topic.partitions) for name, topic in found.items() if topic is not None}

    def step(self) -> None:
        if self.silent:
            return
        if self._waits is not None:
            if self._waits.done:
                waited, self._waits = self._waits, None
                self._answered(waited)
        elif self.joined is None or (self._sees_other_topics() and not self.slow):
            self._join()
        else:
            self._beat()

    def _sees_other_topics(self) -> bool:
        """A leader watches its topics; others whether they subscribe to other ones."""
        assert self.joined is not None
        counts = self.counts()
        return counts != self._seen if self.joined.leader == self.member_id else counts.keys() != self._seen.keys()

    def _beat(self) -> None:
        assert self.joined is not None
        code = self.world.heartbeat(self.member_id, self.joined.generation_id).code
        if code is ErrorCode.REBALANCE_IN_PROGRESS and not self.slow:
            self._join()
        elif code in FENCED:
            self._begin_anew()
        elif code is ErrorCode.ILLEGAL_GENERATION:
            self._join()

    def _begin_anew(self) -> None:
        self.member_id, self.joined = "", None
        self.have(())

    def _join(self) -> None:
        self.have(())
        self.joined = None
        self._seen = self.counts()
        self._waits = self.world.join(member_id=self.member_id, topics=self.subscribed(), client=self.name)
        if self._waits.done:
            waited, self._waits = self._waits, None
            self._answered(waited)

    def _answered(self, answer: Answer[Any]) -> None:
        if answer.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.value.member_id
            self._join()
        elif answer.code in FENCED:
            self._begin_anew()
        elif answer.code in AGAIN or answer.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.joined = None
        elif answer.code:
            raise AssertionError(f"{self} was told {answer}")
        elif isinstance(answer.value, JoinGroupResponse):
            self._sync(answer.value)
        else:
            found, _ = codec.decode(ConsumerProtocolAssignment, 1, memoryview(bytearray(answer.value.assignment)), 2)
            self.have((topic.topic, each) for topic in found.assigned_partitions for each in topic.partitions)

    def _sync(self, joined: JoinGroupResponse) -> None:
        self.joined, self.member_id = joined, joined.member_id
        assignment = assigned(self.world, joined) if joined.leader == joined.member_id else {}
        self._waits = self.world.sync(joined, assignment)

    def leave(self) -> None:
        self.world.leave(self.member_id)
        self._begin_anew()


def assigned(world: ConsumerWorld, joined: JoinGroupResponse) -> dict[str, bytes]:
    """The leader's work: each topic in ranges over those who subscribe to it."""
    subscriptions = {each.member_id: subscribed_in(each.metadata) for each in joined.members}
    shares: dict[str, dict[str, list[int]]] = {each: {} for each in subscriptions}
    for name, topic in world.image.topics_by_name.items():
        members = sorted(each for each, topics in subscriptions.items() if name in topics)
        for index in range(len(topic.partitions)):
            if members:
                owner = members[index * len(members) // len(topic.partitions)]
                shares[owner].setdefault(name, []).append(index)
    return {member: encoded(share) for member, share in shares.items()}


def subscribed_in(metadata: bytes) -> Sequence[str]:
    found, _ = codec.decode(ConsumerProtocolSubscription, 1, memoryview(bytearray(metadata)), 2)
    return found.topics


def encoded(share: Mapping[str, Sequence[int]]) -> bytes:
    topics = [TopicPartition(topic=name, partitions=list(partitions)) for name, partitions in share.items()]
    return b"\0\1" + codec.encode_bytes(ConsumerProtocolAssignment(assigned_partitions=topics), 1)


class ConsumerClient(Client):
    """A member of a consumer group (KIP-848)."""

    def __init__(self, world: ConsumerWorld, name: str, *topics: str, pattern: str | None = None) -> None:
        super().__init__(world, name, *topics, pattern=pattern)
        self.member = Consumer(world, name, topics=self.topics or None, regex=pattern, rebalance_ms=REBALANCE_MS)
        self.lose_answer = False

    def identity(self) -> tuple[str, int]:
        return self.member.member_id, self.member.epoch

    def step(self) -> None:
        """With `lose_answer` its heartbeat arrives and the answer does not, once."""
        if self.silent:
            return
        member = self.member
        if self.lose_answer:
            self.lose_answer = False
            self.world.beat(
                member_id=member.member_id, member_epoch=member.epoch, topic_partitions=member.owned_partitions()
            )
            return
        member.lazy = self.slow
        answer = member.beat() if member.epoch else member.join()
        if answer.done and answer.code in FENCED:
            member.epoch = 0
            member.owned, member.told = {}, {}
        names = {topic_id(name): name for name, _ in self.world.image.topics_by_name.items()}
        self.have((names.get(topic, str(topic)), each) for topic, some in member.owned.items() for each in some)

    def leave(self) -> None:
        self.member.leave()
        self.have(())


KINDS: dict[str, type[Client]] = {"classic": ClassicClient, "consumer": ConsumerClient}


def places(**topics: int) -> set[Place]:
    """All partitions of topics."""
    return {(name, index) for name, count in topics.items() for index in range(count)}


def shared(members: Iterable[Client], wanted: Iterable[Place]) -> bool:
    """Whether exactly these partitions are owned, and nobody has much more than others."""
    owned = [place for member in members for place in member.owned]
    return sorted(owned) == sorted(wanted)


def run(
    world: ConsumerWorld,
    members: Sequence[Client],
    until: Callable[[], bool] | None = None,
    *,
    steps: int = STEPS_MAX,
    zombies: Sequence[Client] = (),
) -> None:
    """Lets members take turns, and time pass, until it is so; without `until` for so many steps.

    No partition may have two owners meanwhile; `zombies` do not count.
    """
    for _ in range(steps):
        for member in members:
            member.step()
            world.settle()
            owned = sorted(place for each in members if each not in zombies for place in each.owned)
            assert len(owned) == len(set(owned)), f"two owners: {members}"
        if until is not None and until():
            return
        world.advance(STEP_MS)
    assert until is None, f"not after {steps} steps: {members}"
