"""Plans, moves, limits and decisions: what Guardian's log says of them. Immutable values.

A plan's moves are by partition: Kafka takes one reassignment of a partition at a time. All that a plan wants of a
partition (another broker, another directory, another leader) is one move, whose *parts* are the plan's own.

    plan   draft → checked → approved → running ⇄ paused → done, cancelled, superseded
    move   waiting → submitted → copying → caught up → leader set → verified
           submitted or copying → cancelling → cancelled       waiting ⇄ blocked       superseded
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import UUID

from penstock.guardian.core.limits import (
    GUARDIAN_DECISIONS_MAX,
    GUARDIAN_FINISHED_MOVES_MAX,
    GUARDIAN_FINISHED_PLANS_MAX,
    GUARDIAN_MOVE_HISTORY_MAX,
)

DRAFT, CHECKED, APPROVED, RUNNING, PAUSED = "draft", "checked", "approved", "running", "paused"
CANCELLING, CANCELLED, DONE, SUPERSEDED = "cancelling", "cancelled", "done", "superseded"
WAITING, SUBMITTED, COPYING, CAUGHT_UP = "waiting", "submitted", "copying", "caught up"
LEADER_SET, VERIFIED, BLOCKED = "leader set", "verified", "blocked"

HEAL = "heal"
"""The kind of action of plans that take replicas from where they are dead."""
ENDED_PLANS = (DONE, CANCELLED, SUPERSEDED)
WORKED_PLANS = (APPROVED, RUNNING, PAUSED, CANCELLING)
"""Plans that the executor looks after."""
ENDED_MOVES = (VERIFIED, CANCELLED, SUPERSEDED)
WAITING_MOVES = (WAITING, BLOCKED)
COPYING_MOVES = (SUBMITTED, COPYING, CANCELLING)
"""Moves that may have copies under way, and that count against caps."""

ANY_DIRECTORY = "any"
CAPS: Mapping[str, int] = MappingProxyType({"disk": 1, "broker_in": 2, "broker_out": 4, "cluster": 20, "fleet": 200})
"""Moves that copy at once: to one disk, to and from one broker, in one cluster, and in all."""


@dataclass(frozen=True, slots=True)
class Part:
    """A move as the plan has it; -1 and "" for what its kind does not have."""

    id: int
    kind: str
    from_broker: int = -1
    from_directory: str = ""
    to_broker: int = -1
    to_directory: str = ""
    size_bytes: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """A state that a move has come to, when (wall time, ms), and why, "" where the state says it all."""

    state: str
    wall_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """All that a plan wants of one partition.

    Attributes:
        number: in its plan, from 1. topic_id, partitions: of the topic when the plan was checked.
        before: its replicas then. target: those that it is to have, the preferred one first. directories: of each
            target, or ANY_DIRECTORY; empty for any. leader: who is to lead, -1 for anybody.
        stages: how far it has come, the newest last; the oldest are forgotten where there are many.
    """

    number: int
    topic: str
    topic_id: UUID
    partition: int
    partitions: int
    before: tuple[int, ...]
    target: tuple[int, ...]
    directories: tuple[str, ...] = ()
    leader: int = -1
    parts: tuple[Part, ...] = ()
    stages: tuple[Stage, ...] = (Stage(WAITING, 0),)

    @property
    def state(self) -> str:
        return self.stages[-1].state

    @property
    def reason(self) -> str:
        return self.stages[-1].reason

    @property
    def ended(self) -> bool:
        return self.state in ENDED_MOVES

    @property
    def key(self) -> tuple[str, int]:
        """The partition that it moves."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a replica."""
        return tuple(each for each in self.target if each not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose theirs."""
        return tuple(each for each in self.before if each not in self.target)

    @property
    def wanted_directories(self) -> tuple[tuple[int, str], ...]:
        """Brokers whose replica is to be in a directory, with it."""
        pairs = zip(self.target, self.directories, strict=False)
        return tuple((broker, path) for broker, path in pairs if path != ANY_DIRECTORY)

    @property
    def shifting(self) -> tuple[tuple[int, str], ...]:
        """Brokers that keep their replica, in another directory."""
        return tuple(each for each in self.wanted_directories if each[0] in self.before)

    @property
    def copies(self) -> bool:
        """Whether it copies anything."""
        return bool(self.adding or self.shifting)

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.parts)

    def at(self, stage: Stage) -> Move:
        """The move at its next stage."""
        return replace(self, stages=(*self.stages, stage)[-GUARDIAN_MOVE_HISTORY_MAX:])


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for one cluster.

    Attributes:
        action: the kind of action whose mode decides what becomes of it. principal: who brought it. digest: of what
            it was made from. rate_bytes: bytes a second that the copies of one broker may take, 0 for no bound, -1
            for what does not hurt others. caps: by CAPS. thin: also moves partitions without a replica to spare.
    """

    id: int
    cluster: UUID
    action: str
    principal: str
    wall_ms: int
    digest: str = ""
    rate_bytes: int = 0
    caps: Mapping[str, int] = field(default_factory=lambda: CAPS)
    thin: bool = False
    state: str = DRAFT
    reason: str = ""
    changed_ms: int = 0
    moves: tuple[Move, ...] = ()

    @property
    def ended(self) -> bool:
        return self.state in ENDED_PLANS

    @property
    def worked(self) -> bool:
        """Whether the executor looks after it."""
        return self.state in WORKED_PLANS

    def move(self, number: int) -> Move | None:
        return self.moves[number - 1] if 1 <= number <= len(self.moves) else None

    def gives_up(self, move: Move, broker: int) -> bool:
        """Whether a replica is neither waited for nor copied from: a plan that heals takes it from where it is dead."""
        return self.action == HEAL and broker in move.removing

    def name_of(self, move: Move) -> str:
        """What a move is called in calls."""
        return f"{self.id}-{move.number}"

    def moved(self, move: Move) -> Plan:
        """The plan with one move as it is now."""
        at = move.number - 1
        return replace(self, moves=(*self.moves[:at], move, *self.moves[at + 1 :]))

    def cap(self, name: str) -> int:
        return self.caps.get(name, CAPS[name])


BROKER, TOPIC = "broker", "topic"
INTENDED, IN_PLACE = "intended", "in place"

LimitKey = tuple[UUID, str, str, str]
"""Cluster, BROKER or TOPIC, its name, and the config."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A config that Guardian has set, or is about to: what was there before, None for nothing; what the moves want;
    what of it is Guardian's own, so that it is taken away again: entries of a list; or a rate, and before it those that
    may be in place of it as long as it is INTENDED.
    """

    cluster: UUID
    kind: str
    name: str
    setting: str
    before: str | None
    wanted: str
    value: str
    state: str
    wall_ms: int

    @property
    def key(self) -> LimitKey:
        return self.cluster, self.kind, self.name, self.setting

    @property
    def newest(self) -> str:
        """The rate that is, or is to be, in place."""
        return self.value.rpartition(",")[2]


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was decided: by whom, when, in a sentence; `detail` is JSON, "" for none."""

    id: int
    plan: int
    kind: str
    principal: str
    wall_ms: int
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """Everything of this kind. Plans and decisions by id, the oldest first; ids are never used again, also those of
    what is hidden from whoever asks (`last_plan`, `last_decision`).
    """

    plans: Mapping[int, Plan] = field(default_factory=lambda: MappingProxyType({}))
    limits: Mapping[LimitKey, Limit] = field(default_factory=lambda: MappingProxyType({}))
    decisions: Mapping[int, Decision] = field(default_factory=lambda: MappingProxyType({}))
    last_plan: int = 0
    last_decision: int = 0

    @property
    def next_plan(self) -> int:
        return self.last_plan + 1

    @property
    def next_decision(self) -> int:
        return self.last_decision + 1

    def worked_plans(self, cluster: UUID | None = None) -> Iterator[Plan]:
        """Plans that the executor looks after, of one cluster or of all."""
        for plan in self.plans.values():
            if plan.worked and cluster in (None, plan.cluster):
                yield plan

    def limits_of(self, cluster: UUID) -> list[Limit]:
        return [each for each in self.limits.values() if each.cluster == cluster]

    def with_plan(self, plan: Plan) -> Work:
        """With a plan as it is now. Of plans that have ended the oldest are forgotten; the newest plan never is."""
        kept = {**self.plans, plan.id: plan}
        ended = [each for each in kept.values() if each.ended and each.id != max(kept)]
        moves = sum(len(each.moves) for each in ended)
        for number, each in enumerate(ended):
            if len(ended) - number <= GUARDIAN_FINISHED_PLANS_MAX and moves <= GUARDIAN_FINISHED_MOVES_MAX:
                break
            del kept[each.id]
            moves -= len(each.moves)
        return replace(self, plans=MappingProxyType(kept), last_plan=max(self.last_plan, plan.id))

    def with_limit(self, limit: Limit) -> Work:
        return replace(self, limits=MappingProxyType({**self.limits, limit.key: limit}))

    def without_limit(self, key: LimitKey) -> Work:
        limits = {each: limit for each, limit in self.limits.items() if each != key}
        return replace(self, limits=MappingProxyType(limits))

    def with_decision(self, decision: Decision) -> Work:
        kept = {**self.decisions, decision.id: decision}
        while len(kept) > GUARDIAN_DECISIONS_MAX:
            del kept[next(iter(kept))]
        return replace(self, decisions=MappingProxyType(kept), last_decision=max(self.last_decision, decision.id))

    def without_cluster(self, cluster: UUID) -> Work:
        """Without what is about a cluster that is not registered any more; its plans have ended."""
        limits = {key: each for key, each in self.limits.items() if each.cluster != cluster}
        return replace(self, limits=MappingProxyType(limits))

    def of_clusters(self, clusters: Set[UUID]) -> Work:
        """What is about these clusters, and nothing else."""
        plans = {key: each for key, each in self.plans.items() if each.cluster in clusters}
        limits = {key: each for key, each in self.limits.items() if each.cluster in clusters}
        decisions = {key: each for key, each in self.decisions.items() if each.plan in plans}
        return replace(self, plans=plans, limits=limits, decisions=decisions)


NO_WORK = Work()
