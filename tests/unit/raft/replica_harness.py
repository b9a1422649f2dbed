"""Replicas without disks and without a network: a log in memory, and a quorum whose messages a test delivers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from penstock.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.raft import messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.effects import (
    Answer,
    AppendControl,
    AppendFetched,
    Call,
    Committed,
    Effect,
    LeaderChanged,
    LoadSnapshot,
    PersistElection,
    Target,
    Truncate,
)
from penstock.raft.election import ElectionState
from penstock.raft.history import QuorumHistory
from penstock.raft.messages import LeaderView, vote_answer
from penstock.raft.replica import RaftReplica
from penstock.raft.replica_log import EpochEnd
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.records.control import control_batch

LISTENER = "CONTROLLER"
CLUSTER = "cluster"
START_MS = 10_000


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=0xD0 + node_id))


def voter_of(node_id: int, *, directory: bool = True) -> Voter:
    key = key_of(node_id) if directory else ReplicaKey(node_id)
    return Voter(key, (VoterEndpoint(LISTENER, f"host-{node_id}", 9093),))


def target_of(node_id: int) -> Target:
    return Target(node_id, f"host-{node_id}", 9093, LISTENER)


class MemoryLog:
    """A log as a list of batches: (base offset, next offset, epoch, bytes)."""

    def __init__(self, epochs: Sequence[int] = ()) -> None:
        """One record for each epoch given."""
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.snapshots: dict[CheckpointId, bytes] = {}
        self._start_offset = 0
        for epoch in epochs:
            builder = BatchBuilder(base_offset=self.end_offset, leader_epoch=epoch)
            builder.append(0, None, b"record %d" % self.end_offset)
            self.append(bytes(builder.build()))

    def append(self, data: bytes) -> None:
        for position, header in headers(memoryview(data)):
            content = data[position : position + header.size_bytes]
            self.batches.append((header.base_offset, header.next_offset, header.leader_epoch, content))

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch[1] <= offset]

    def begin_at(self, snapshot: CheckpointId, content: bytes = b"") -> None:
        """Everything before the snapshot's end goes."""
        self.snapshots[snapshot] = content
        self._start_offset = snapshot.end_offset
        self.batches = [batch for batch in self.batches if batch[0] >= snapshot.end_offset]

    @property
    def epochs(self) -> list[int]:
        return [batch[2] for batch in self.batches]

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self.batches[-1][1] if self.batches else self._start_offset

    @property
    def last_epoch(self) -> int:
        if self.batches:
            return self.batches[-1][2]
        return next((each.epoch for each in self.snapshots if each.end_offset == self._start_offset), 0)

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        if epoch >= self.last_epoch:
            return EpochEnd(self.last_epoch, self.end_offset)
        earlier = [batch for batch in self.batches if batch[2] <= epoch]
        if earlier:
            return EpochEnd(earlier[-1][2], earlier[-1][1])
        if not self._start_offset:
            return EpochEnd(0, 0)
        before = next((each.epoch for each in self.snapshots if each.end_offset == self._start_offset), None)
        return EpochEnd(before, self._start_offset) if before is not None and before <= epoch else None

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for _, next_offset, _, content in self.batches:
            if next_offset > offset and (not found or len(found) + len(content) <= max_bytes):
                found += content
        return found

    @property
    def newest_snapshot(self) -> CheckpointId | None:
        return max(self.snapshots, default=None)

    def snapshot_size(self, snapshot: CheckpointId) -> int | None:
        return len(self.snapshots[snapshot]) if snapshot in self.snapshots else None

    def read_snapshot(self, snapshot: CheckpointId, position: int, max_bytes: int) -> bytes:
        return self.snapshots[snapshot][position : position + max_bytes]


class One:
    """One replica. `do` gives it an event, carries out what its disk would, at once, and returns the effects.

    Args:
        epochs: its log, one record each. durable: whether the disk is that fast; else tests report it themselves.
    """

    def __init__(
        self,
        node_id: int = 1,
        voters: Sequence[int] = (1, 2, 3),
        *,
        epochs: Sequence[int] = (),
        election: ElectionState | None = None,
        kraft_version: int = 1,
        stands: bool = True,
        durable: bool = True,
        config: RaftConfig | None = None,
        listeners: Sequence[str] = (LISTENER,),
    ) -> None:
        """`listeners` of its own, at ports from 9093 on; the first is the one by which others are called."""
        self.now_ms = START_MS
        self.durable = durable
        self.log = MemoryLog(epochs)
        self.key = key_of(node_id)
        formatted = VoterSet(voter_of(each, directory=kraft_version > 0) for each in voters)
        self.history = QuorumHistory(VoterSet(()) if kraft_version else formatted)
        if kraft_version:
            self.history.start_at(0, formatted, kraft_version)
        election = election or ElectionState(max(epochs, default=0))
        bootstrap = [target_of(each) for each in voters]
        own = tuple(VoterEndpoint(each, f"host-{node_id}", 9093 + place) for place, each in enumerate(listeners))
        identity = Identity(self.key, CLUSTER, listeners[0], own, bootstrap, stands)
        self.replica = RaftReplica(
            identity, self.history, election, self.log, config=config or RaftConfig(), random=Random(node_id)
        )
        self.effects: list[Effect] = []
        self.persisting: list[ElectionState] = []

    def do(self, effects: list[Effect]) -> list[Effect]:
        """Carries out effects and what follows from them; returns all."""
        done: list[Effect] = []
        queue = list(effects)
        while queue:
            effect = queue.pop(0)
            done.append(effect)
            queue += self._on_disk(effect)
        self.effects += done
        return done

    def _on_disk(self, effect: Effect) -> list[Effect]:
        replica, now_ms = self.replica, self.now_ms
        match effect:
            case PersistElection(state):
                if self.durable:
                    return replica.election_persisted(state, now_ms)
                self.persisting.append(state)
            case AppendControl(epoch, records):
                base = self.log.end_offset
                batch = control_batch(records, base_offset=base, leader_epoch=epoch, wall_ms=now_ms)
                self.log.append(bytes(batch))
                return [*replica.appended(self.log.end_offset, now_ms), *self._settled()]
            case AppendFetched(records, _):
                self.log.append(bytes(records))
                return self._settled()
            case Truncate(offset):
                self.log.truncate(offset)
                return replica.truncated(self.log.end_offset, now_ms)
        return []

    def _settled(self) -> list[Effect]:
        end_offset = self.log.end_offset
        written = self.replica.written(end_offset, self.now_ms)
        return [*written, *(self.replica.flushed(end_offset, self.now_ms) if self.durable else [])]

    def start(self) -> list[Effect]:
        return self.do(self.replica.start(self.now_ms))

    def append(self, count: int = 1) -> list[Effect]:
        """The leader appends so many records."""
        builder = BatchBuilder(base_offset=self.log.end_offset, leader_epoch=self.replica.epoch)
        for _ in range(count):
            builder.append(self.now_ms, None, b"value")
        self.log.append(bytes(builder.build()))
        return self.do([*self.replica.appended(self.log.end_offset, self.now_ms), *self._settled()])

    def pass_ms(self, milliseconds: int) -> list[Effect]:
        """Time goes by, with a tick at every deadline on the way."""
        end_ms = self.now_ms + milliseconds
        found: list[Effect] = []
        while True:
            deadline_ms = self.replica.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            found += self.do(self.replica.tick(self.now_ms))
        self.now_ms = end_ms
        return found

    def ask(
        self, request: Message, version: int | None = None, token: object = "token", listener: str | None = None
    ) -> Any:
        """Hands a request in and returns the response, None if it is parked."""
        version = request.MAX_VERSION if version is None else version
        effects = self.do(self.replica.handle(request, version, self.now_ms, token, listener))
        return next((each.response for each in effects if isinstance(each, Answer) and each.token == token), None)

    def calls(self, kind: type[Message]) -> list[Call]:
        """The requests of a kind that it has sent in its present role, and were not answered by `reply`."""
        core = self.replica._core
        current = [number for number, each in core.calls.items() if each.turn == core.turn]
        sent = [each for each in self.effects if isinstance(each, Call) and isinstance(each.request, kind)]
        return [each for each in sent if each.call in current]

    def reply(self, call: Call, response: Message | None) -> list[Effect]:
        self.effects.remove(call)
        return self.do(self.replica.answered(call.call, response, self.now_ms))

    def elect(self) -> None:
        """Has it elected by everybody."""
        self.start()
        while not self.replica.is_leader:
            if not self.calls(VoteRequest):
                assert self.pass_ms(3_000) or self.replica.is_leader
            for call in self.calls(VoteRequest):
                if self.replica.is_leader:
                    break
                view = LeaderView(-1, self.replica.epoch, None)
                self.reply(call, vote_answer(0, view, granted=True))  # type: ignore[arg-type]
        self.effects.clear()


class Quorum:
    """Several replicas whose messages are delivered in the order of their making, or not at all while `cut`."""

    def __init__(self, ids: Sequence[int] = (1, 2, 3), observers: Sequence[int] = (), **named: Any) -> None:
        self.ones = {each: One(each, ids, **named) for each in ids}
        self.ones |= {each: One(each, ids, stands=False, **named) for each in observers}
        self.cut: set[int] = set()
        self.lines: list[str] = []
        self._routes: dict[object, tuple[int, Call]] = {}
        self._tokens = 0

    def start(self) -> None:
        for node_id, effects in [(node_id, one.start()) for node_id, one in self.ones.items()]:
            self._take(node_id, effects)

    def _take(self, node_id: int, effects: list[Effect]) -> None:
        """Writes down what happens, and carries messages until none is left."""
        queue = [(node_id, effect) for effect in effects]
        while queue:
            source, effect = queue.pop(0)
            line = shown(source, effect, self)
            if line:
                self.lines.append(line)
            if isinstance(effect, Call):
                queue += self._deliver(source, effect)
            elif isinstance(effect, Answer) and effect.token in self._routes:
                caller, call = self._routes.pop(effect.token)
                if caller not in self.cut and source not in self.cut:
                    one = self.ones[caller]
                    queue += [
                        (caller, each) for each in one.do(one.replica.answered(call.call, effect.response, one.now_ms))
                    ]

    def _deliver(self, source: int, call: Call) -> list[tuple[int, Effect]]:
        target = call.target.node_id
        if source in self.cut or target in self.cut or target not in self.ones:
            return []
        self._tokens += 1
        self._routes[self._tokens] = (source, call)
        one = self.ones[target]
        request = call.request
        if isinstance(request, ApiVersionsRequest):  # its node answers that, not its replica
            kraft = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            versions = ApiVersionsResponse(supported_features=[kraft])
            caller = self.ones[source]
            effects = caller.do(caller.replica.answered(call.call, versions, caller.now_ms))
            return [(source, each) for each in effects]
        return [
            (target, each)
            for each in one.do(one.replica.handle(request, request.MAX_VERSION, one.now_ms, self._tokens))
        ]

    def pass_ms(self, milliseconds: int, step_ms: int = 5) -> None:
        """Time goes by for all; calls into nowhere end after their time."""
        for _ in range(0, milliseconds, step_ms):
            for node_id, one in self.ones.items():
                one.now_ms += step_ms
                deadline_ms = one.replica.next_deadline_ms()
                if deadline_ms is not None and deadline_ms <= one.now_ms and node_id not in self.cut:
                    self._take(node_id, one.do(one.replica.tick(one.now_ms)))
            self._expire()

    def _expire(self) -> None:
        for node_id, one in self.ones.items():
            for number, outstanding in list(one.replica._core.calls.items()):
                lost = outstanding.target.node_id in self.cut or node_id in self.cut
                if lost:
                    self._take(node_id, one.do(one.replica.answered(number, None, one.now_ms)))

    def act(self, node_id: int, effects: list[Effect]) -> None:
        """What a test has done to one of them."""
        self._take(node_id, effects)

    @property
    def leader(self) -> One:
        """The one that leads, of those that are not cut off."""
        found = [one for node_id, one in self.ones.items() if one.replica.is_leader and node_id not in self.cut]
        assert len(found) == 1, f"{len(found)} leaders"
        return found[0]

    def append(self, count: int = 1) -> None:
        leader = self.leader
        self._take(leader.key.id, leader.append(count))


def shown(source: int, effect: Effect, quorum: Quorum) -> str:
    """What a golden script says of an effect; nothing of fetches, of which there are too many."""
    if isinstance(effect, Call):
        return shown_call(source, effect)
    if isinstance(effect, Answer):
        return shown_answer(source, effect, quorum)
    what = shown_deed(effect)
    return f"{source}: {what}" if what else ""


def shown_call(source: int, call: Call) -> str:
    request: Any = call.request
    if "Fetch" in request.NAME or not hasattr(request, "topics"):
        return ""
    partition = request.topics[0].partitions[0]
    epoch = getattr(partition, "replica_epoch", None) or getattr(partition, "leader_epoch", 0)
    pre = " pre-vote" if getattr(partition, "pre_vote", False) else ""
    return f"{source} -> {call.target.node_id} {request.NAME.removesuffix('Request')} epoch={epoch}{pre}"


def shown_answer(source: int, answer: Answer, quorum: Quorum) -> str:
    response: Any = answer.response
    if answer.token not in quorum._routes or not hasattr(response, "topics"):
        return ""
    answered = response.topics[0].partitions[0]
    granted = getattr(answered, "vote_granted", None)
    what = {True: "granted", False: "rejected", None: "ok"}[granted]
    what = what if not answered.error_code else f"error {answered.error_code.name}"
    return f"{source} -> {quorum._routes[answer.token][0]} {what}"


def shown_deed(effect: Effect) -> str:
    match effect:
        case PersistElection(state):
            voted = "-" if state.voted is None else state.voted.id
            return f"persist epoch={state.epoch} leader={state.leader_id or '-'} voted={voted}"
        case AppendControl(epoch, records):
            return f"append in {epoch}: {', '.join(each.NAME for each in records)}"
        case AppendFetched(_, end_offset):
            return f"append to {end_offset}"
        case Truncate(offset):
            return f"truncate to {offset}"
        case Committed(high_watermark, first):
            return f"committed {high_watermark}{' (first of the epoch)' if first else ''}"
        case LeaderChanged(leader_id, epoch):
            return f"leader of {epoch} is {leader_id or 'unknown'}"
        case LoadSnapshot(snapshot):
            return f"load snapshot {snapshot.end_offset}-{snapshot.epoch}"
    return ""


# Requests and answers of elections


def vote(
    candidate: int, epoch: int, *, last: tuple[int, int] = (0, 0), pre: bool = False, voter: int = 1
) -> VoteRequest:
    last_epoch, offset = last
    return messages.vote(
        CLUSTER, key_of(candidate), key_of(voter), epoch, last_epoch=last_epoch, end_offset=offset, pre_vote=pre
    )


def granted(response: Any) -> bool:
    return bool(response.topics[0].partitions[0].vote_granted)


def error(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


def view(one: One, leader_id: int = -1, epoch: int | None = None) -> LeaderView:
    target = target_of(leader_id) if leader_id >= 0 else None
    return LeaderView(leader_id, one.replica.epoch if epoch is None else epoch, target)


def begin(leader: int, epoch: int) -> BeginQuorumEpochRequest:
    return messages.begin_quorum_epoch(CLUSTER, leader, epoch, key_of(1), ())
