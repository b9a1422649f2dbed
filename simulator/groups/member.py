"""What members of both protocols have in common: they find the coordinator, begin where the group has committed, read
what is theirs, and commit how far they have come.

A member is one process. What it knows is what a real one knows: answers, or that none came. It may die, and it may
stand still for a while (`pause`): then everything that should have happened happens afterwards, in order, so that it
goes on as if nothing had been. Such a member is a zombie if the group has gone on without it.

Membership is one chain of steps: each ends by setting the next. Reading is another. Commits go out between reads. What
members say of their membership, and what the answers mean, they have from the real client. How they find coordinators
and the offsets to begin at is written here again: a real member waits until it has them all, while this one takes what
it is told partition by partition, and holds each answer against what may never be seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.client.groups import Committed, commit_request
from penstock.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.records.batch import headers
from simulator.cluster.client import ClusterClient
from simulator.cluster.load import AGAIN, RETRY_MS
from simulator.cluster.readers import FETCH_BYTES, FETCH_VERSION, decoded
from simulator.groups.history import STAYS, GroupHistory, Ownership, Place
from simulator.groups.load import Action, GroupLoad
from simulator.world.checks import check
from simulator.world.network import Address

FIND_VERSION, COMMIT_VERSION, FETCH_OFFSETS_VERSION = 4, 9, 9
ANSWERED = "a member is served or refused for a time"
TIMEOUT_MS = 4_000
IDLE_MS = 400
FILL = "-"
"""Makes ids long."""
COMMIT_PROBABILITY = 0.5

MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
WAIT = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS}
    | {ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.KAFKA_STORAGE_ERROR}
)
"""To be asked again, there or elsewhere."""
LOST = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""The member has nothing any more."""
GONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""It is no member, whatever it says of its epoch."""
LATE = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH})
"""The member has to hear of something first."""
UNSURE = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""After these the records of a request may be there nevertheless."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question to the coordinator.

    Attributes:
        response: None when none came. asked_us: when it was asked. real: see `GroupLoad.term`; one and the same all
            the time.
    """

    response: Any
    asked_us: int
    real: bool

    @property
    def code(self) -> ErrorCode:
        """Of the whole response; NETWORK_EXCEPTION when there is none."""
        return ErrorCode.NETWORK_EXCEPTION if self.response is None else ErrorCode(self.response.error_code)


@dataclass(frozen=True, slots=True)
class Commit:
    """One that is under way: offsets, ownerships and metadata by partition."""

    offsets: dict[Place, int]
    ownerships: dict[Place, Ownership]
    texts: dict[Place, str]


class Member(ABC):
    """See the module's head.

    Args:
        instance_id: of a static member (KIP-345). client_id: None: the name.

    Attributes:
        alive: the process lives. ended: it has left, or was told that another has its place. replaced: another has.
        unwelcome: it was told that its id is too long.
        ownerships: of the partitions that it has. positions: the next offset of those of which it knows where to begin.
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
    ) -> None:
        self.load = load
        self.history = history
        self.name = name
        self.topics = sorted(topics)
        self.instance_id = instance_id
        self.simulation = load.clients.simulation
        self.random = self.simulation.random
        self.alive = True
        self.ended = False
        self.leaving = False
        self.replaced = False
        self.unwelcome = False
        self.coordinator: Address | None = None
        self.ownerships: dict[Place, Ownership] = {}
        self.positions: dict[Place, int] = {}
        self.committed: dict[Place, int] = {}
        self.client_id = name if client_id is None else client_id
        clients = load.clients
        self._client = ClusterClient(self.simulation, clients.network, name, clients.brokers, client_id=self.client_id)
        self._reader = ClusterClient(self.simulation, clients.network, name, clients.brokers, client_id=self.client_id)
        self._at_ease_us: int | None = None  # when it last asked a coordinator that then expected nothing of it
        self._paused_until_us = 0
        self._held: list[Action] = []
        self._committing = False
        self._fetching_offsets = False
        self._turn = 0
        self._epochs: dict[Place, int] = {}  # the leader epoch of what was read last, by this member or the one before

    def __repr__(self) -> str:
        return f"{self.name} {sorted(self.ownerships)} at {self.generation}"

    @property
    @abstractmethod
    def generation(self) -> int:
        """The generation, or the member epoch."""

    @property
    @abstractmethod
    def member_id(self) -> str: ...

    @property
    def may_commit(self) -> bool:
        """Whether it is a member as far as it knows."""
        return self.generation >= 0

    @property
    def owner(self) -> str:
        """Who has the partitions, as the coordinator sees it."""
        return self.name if self.instance_id is None else self.instance_id.rstrip(FILL)

    # Life

    def start(self) -> None:
        """The process starts."""
        self.step()
        self._poll()

    @abstractmethod
    def step(self) -> None:
        """Does what membership asks for next."""

    def pause(self, duration_ms: int) -> None:
        """The process stands still for a while."""
        self._paused_until_us = max(self._paused_until_us, self.simulation.now_us + duration_ms * 1000)
        self.simulation.after_ms(duration_ms, self._resume)

    def _resume(self) -> None:
        while self._held and self.alive and self.simulation.now_us >= self._paused_until_us:
            self._held.pop(0)()

    def die(self) -> None:
        """kill -9, or the end of a process that has left."""
        if self.alive:
            self.alive = False
            self.give_up(list(self.ownerships))
            for address in self.load.clients.brokers:
                self._client.hang_up(address)
                self._reader.hang_up(address)

    def end(self, why: str) -> None:
        """The process has nothing more to do."""
        self.simulation.trace(f"{self.name}: ends, {why}")
        self.ended = True
        self.die()

    def act(self, action: Action) -> None:
        """Does something, if it can, or when it can."""
        if self.alive and (self._held or self.simulation.now_us < self._paused_until_us):
            self._held.append(action)
        elif self.alive:
            action()

    def later(self, delay_ms: int, action: Action) -> None:
        """Does something after a while."""
        self.simulation.after_ms(delay_ms, lambda: self.act(action))

    # The coordinator

    def ask(
        self, message: Message, version: int, answered: Callable[[Answer], None], timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """Asks the coordinator, which must be known."""
        address, asked_us = self.coordinator, self.simulation.now_us
        assert address is not None
        term = self.load.term(address, self.history.group_id)

        def on_answer(response: Any) -> None:
            real = term is not None and term == self.load.term(address, self.history.group_id)
            self.act(lambda: answered(Answer(response, asked_us, real)))

        self._client.ask(address, message, version, on_answer, timeout_ms=timeout_ms)

    def find(self) -> None:
        """Asks any broker for the coordinator, then goes on."""
        request = FindCoordinatorRequest(coordinator_keys=[self.history.group_id])
        self._client.ask_any(request, FIND_VERSION, lambda response: self.act(lambda: self._found(response)))

    def _found(self, response: Any) -> None:
        self.coordinator = None
        if response is not None:
            (found,) = response.coordinators
            code = ErrorCode(found.error_code)
            check(code in AGAIN or not code, "a coordinator is found", f"{self.name}: {code.name}")
            if not code:
                self.coordinator = (found.host, found.port)
        if self.coordinator is None:
            self.later(RETRY_MS, self.step)
        else:
            self.step()

    def again(self, code: ErrorCode) -> None:
        """Goes on after an error that passes, when that is what it is."""
        expected = code in MOVED or code in WAIT or code is ErrorCode.NETWORK_EXCEPTION
        check(expected, ANSWERED, f"{self.name}: {code.name}")
        if code not in WAIT:
            self.coordinator = None
        self.later(RETRY_MS, self.step)

    def check_ownerships(self, answer: Answer, what: str) -> None:
        """The coordinator has taken this process for a member."""
        if answer.real:
            for ownership in self.ownerships.values():
                self.history.check_member(ownership, answer.asked_us, what)

    def at_ease(self, answer: Answer) -> None:
        """The coordinator has taken this process for a member that has done all that it was to do."""
        if answer.real:
            self._at_ease_us = answer.asked_us

    def check_stays(self, answer: Answer) -> None:
        """It is told that it is no member. Then it was silent for a session, or did not rebalance in time."""
        was_us, self._at_ease_us = self._at_ease_us, None
        if was_us is None or self.replaced or not answer.real or answer.code not in GONE:
            return
        took_ms = (self.simulation.now_us - was_us) // 1000
        allowed_ms = min(self.load.session_ms, self.load.rebalance_ms)
        detail = f"{self.name} was one {took_ms} ms ago, {allowed_ms} are allowed"
        check(took_ms >= allowed_ms - 1, STAYS, detail)  # the coordinator's clock shows whole milliseconds

    # Partitions

    def take(self, places: Iterable[Place], answer: Answer) -> None:
        """These are all that it has from now on, as the coordinator says."""
        wanted = sorted(places)
        self.give_up([place for place in self.ownerships if place not in wanted])
        for place in wanted:
            self.history.share(place, self.owner, self.generation)
            if place not in self.ownerships:
                self.ownerships[place] = self.history.acquire(
                    place,
                    self.name,
                    self.generation,
                    self.simulation.now_us,
                    stale=not answer.real,
                    asked_us=answer.asked_us,
                )
        self._find_offsets()

    def give_up(self, places: Iterable[Place]) -> None:
        """It does not use these any more."""
        for place in places:
            self.history.end(self.ownerships.pop(place))
            self.positions.pop(place, None)
            self.committed.pop(place, None)

    def lost(self, code: ErrorCode, generation: int) -> None:
        """All of them are gone, without a chance to commit."""
        self.history.fenced += 1
        self.simulation.trace(f"{self.name}: {code.name} in {generation}, loses {sorted(self.ownerships)}")
        self.give_up(list(self.ownerships))

    # Offsets

    def _find_offsets(self) -> None:
        """Asks where to begin with what it has got."""
        missing = [place for place in self.ownerships if place not in self.positions]
        if not missing or self._fetching_offsets:
            return
        self._fetching_offsets = True
        if self.coordinator is None:
            self._offsets_later()
            return
        ownerships = {place: self.ownerships[place] for place in missing}
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[index for name, index in missing if name == topic])
            for topic in sorted({topic for topic, _ in missing})
        ]
        group = OffsetFetchRequestGroup(group_id=self.history.group_id, topics=topics, **self.identity())
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        self.ask(request, FETCH_OFFSETS_VERSION, partial(self._got_offsets, ownerships))

    def identity(self) -> dict[str, Any]:
        """What an OffsetFetch says of the member, if anything."""
        return {}

    def _offsets_later(self) -> None:
        def try_again() -> None:
            self._fetching_offsets = False
            self._find_offsets()

        self.later(RETRY_MS, try_again)

    def _got_offsets(self, ownerships: dict[Place, Ownership], answer: Answer) -> None:
        if answer.response is None or not answer.real or answer.response.groups[0].error_code:
            self._offsets_later()
            return
        self._fetching_offsets = False
        for topic in answer.response.groups[0].topics:
            for found in topic.partitions:
                place = (topic.name, found.partition_index)
                ownership = ownerships[place]
                if self.ownerships.get(place) is ownership and not found.error_code:
                    self.history.start(ownership, found.committed_offset)
                    self.positions[place] = max(0, found.committed_offset)
                    self.committed[place] = found.committed_offset
                    self._epochs[place] = max(self._epochs.get(place, -1), found.committed_leader_epoch)
        if any(place not in self.positions for place in self.ownerships):
            self._fetching_offsets = True
            self._offsets_later()

    @property
    def dirty(self) -> dict[Place, int]:
        """What is to be committed."""
        return {place: at for place, at in sorted(self.positions.items()) if at > max(0, self.committed[place])}

    def commit(self, then: Action) -> None:
        """Commits how far it has come, and goes on whatever comes of it."""
        offsets = self.dirty
        if not offsets or self._committing or self.coordinator is None or not self.may_commit:
            then()
            return
        self._committing = True
        ownerships = {place: self.ownerships[place] for place in offsets}
        texts = {place: self.history.attempt(ownerships[place], offset) for place, offset in offsets.items()}
        request = commit_request(
            self.history.group_id,
            {place: Committed(at, self._epochs.get(place, -1), texts[place]) for place, at in offsets.items()},
            member_id=self.member_id,
            epoch=self.generation,
            instance_id=self.instance_id,
        )

        def answered(answer: Answer) -> None:
            self._committing = False
            self._committed(Commit(offsets, ownerships, texts), answer)
            then()

        self.ask(request, COMMIT_VERSION, answered)

    def _committed(self, commit: Commit, answer: Answer) -> None:
        if answer.response is None:
            self.coordinator = None
            return
        for topic in answer.response.topics:
            for each in topic.partitions:
                place, code = (topic.name, each.partition_index), ErrorCode(each.error_code)
                ownership, offset = commit.ownerships[place], commit.offsets[place]
                if code is ErrorCode.NONE:
                    self.history.acknowledge(ownership, offset, commit.texts[place], answer.asked_us)
                    if self.ownerships.get(place) is ownership:
                        self.committed[place] = offset
                elif code not in UNSURE:
                    self.history.refused(ownership, offset)
        self._commit_failed(ErrorCode(answer.response.topics[0].partitions[0].error_code))

    def _commit_failed(self, code: ErrorCode) -> None:
        expected = code in MOVED | WAIT | LOST | LATE or code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        check(expected, "a commit is taken or refused for a reason", f"{self.name}: {code.name}")
        if code in MOVED:
            self.coordinator = None
        elif code in LOST:
            self.commit_lost(code)

    @abstractmethod
    def commit_lost(self, code: ErrorCode) -> None:
        """A commit was refused, since the process is no member any more, or of an earlier generation."""

    # Records

    def think(self) -> int:
        return self.load.clients.think()

    def _poll(self) -> None:
        places = sorted(self.positions)
        if not places:
            self.later(self.think(), self._poll)
            return
        self._turn += 1
        place = places[self._turn % len(places)]
        if self._reader.leader_epochs.get(place, -1) < self._epochs.get(place, -1):
            self._reader.leaders.pop(place, None)  # from what we know it may not have all that the group has read
        if place not in self._reader.leaders:
            self._reader.find_leaders(place[0], lambda: self.later(RETRY_MS, self._poll))
            return
        wanted = FetchPartition(
            partition=place[1],
            fetch_offset=self.positions[place],
            partition_max_bytes=FETCH_BYTES,
            current_leader_epoch=self._reader.leader_epochs[place],
        )
        topics = [FetchTopic(topic=place[0], partitions=[wanted])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=FETCH_BYTES, topics=topics)
        ownership = self.ownerships[place]

        def on_answer(response: Any) -> None:
            self.act(lambda: self._fetched(ownership, response))

        self._reader.ask(self._reader.leaders[place], request, FETCH_VERSION, on_answer)

    def _fetched(self, ownership: Ownership, response: Any) -> None:
        place = ownership.place
        if response is None or response.error_code or not response.responses:
            self._reader.leaders.pop(place, None)
            self.later(RETRY_MS, self._poll)
            return
        data = response.responses[0].partitions[0]
        code = ErrorCode(data.error_code)
        if code:
            where = f"{self.name}: {place} at {self.positions.get(place)} is answered {code.name}"
            check(code in AGAIN, "the group's position is in the log", where)
            self._reader.leaders.pop(place, None)
            self.later(RETRY_MS, self._poll)
            return
        found = 0
        if self.ownerships.get(place) is ownership and place in self.positions:
            found = self._process(place, data)
        wait_ms = self.think() if found else self.random.randrange(IDLE_MS)
        if self.dirty and self.random.random() < (1.0 if self.load.patient else COMMIT_PROBABILITY):
            self.commit(lambda: self.later(wait_ms, self._poll))
        else:
            self.later(wait_ms, self._poll)

    def _process(self, place: Place, data: Any) -> int:
        """Takes what was fetched; how much of it there was."""
        position = self.positions[place]
        values = decoded(memoryview(data.records or b""), f"{place} at {position}")
        new = sorted(offset for offset in values if offset >= position)
        if not new:
            return 0
        whole = new == list(range(position, position + len(new)))
        check(whole, "offsets have no gap", f"{self.name}: {new} from {position}")
        partition = self.load.history(*place)
        if partition is not None:
            for offset in new:
                partition.saw(offset, values[offset])
        for _, header in headers(memoryview(data.records)):
            self._epochs[place] = max(self._epochs.get(place, -1), header.leader_epoch)
        self.history.deliver(place, new[0], new[-1])
        self.positions[place] = new[-1] + 1
        return len(new)
