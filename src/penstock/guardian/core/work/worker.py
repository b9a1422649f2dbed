"""One cluster's plans at work, in rounds: look, note what has come to pass, write what is to be done, do it.

    look        metadata, reassignments, settings, directories, all just asked for
    note        the stages that moves have come to, written and committed
    begin       the moves that may begin: their throttles first, each journalled, then set; then their intent
    act         what the stages ask for and the look does not show; what was answered is written
    restore     throttles that no move wants any more
    end         plans whose moves have all ended

What is done follows from the log and the look. A round may break off anywhere, with this node's leadership or its life;
the next leader's first round looks, and goes on. An act whose answer was lost is checked by the next look before it is
repeated. Nothing of this waits: a round is a generator, which yields what it needs (`Ask`, `Write`) and is sent what
came of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from penstock.guardian.core.limits import GUARDIAN_CANDIDATES_MAX, GUARDIAN_RECORDS_PER_ROUND
from penstock.guardian.core.reach import ANY, CONTROLLER
from penstock.guardian.core.state import ACT, Cluster, GuardianState
from penstock.guardian.core.work import acts, looks, progress
from penstock.guardian.core.work.admission import beginning, plan_obstacle, state_obstacle
from penstock.guardian.core.work.budget import GIVEN_UP, Budget, signals_of
from penstock.guardian.core.work.endings import HURTS, ended_records, paced_records, started_records
from penstock.guardian.core.work.looks import Look
from penstock.guardian.core.work.plans import (
    BLOCKED,
    CANCELLING,
    CAUGHT_UP,
    CHECKED,
    COPYING,
    LEADER_SET,
    SUBMITTED,
    WAITING_MOVES,
    Move,
    Plan,
    Stage,
)
from penstock.guardian.core.work.replaying import WorkRecord, move_record
from penstock.guardian.core.work.steps import Ask, Host, Round, Write
from penstock.guardian.core.work.throttling import Throttling

ROUND_MS = 1_000
"""Between rounds in which nothing has changed."""
QUICK_MS = 50
"""After one in which something has."""
FAILED_MS = 2_000
"""After one whose look had no answer."""
ASK_TIMEOUT_MS = 5_000
UNSEEN_MS = 100
"""When it is not known which cluster it is: a new leader's first look is on its way, or there is another one there."""
LASTING_MS = 4_000
"""How long something must be found that a broker could tell only because it is behind its controller."""
DEAD_MS = 15_000
"""How long a broker must have been away before moves that need it are cancelled."""
BLOCKED_AGAIN_MS = 30_000
"""When a move that is blocked is tried again."""
LOOK_AGE_MS = 3_000
"""How old a look may be when something is begun by it; after that the round ends, and another one looks."""
SETTINGS_AGE_MS = 10_000
"""How long what min.insync.replicas is of a topic need not be asked for again."""


@dataclass(slots=True)
class Memory:
    """What a worker remembers from round to round; nothing that has to survive it.

    Attributes: `lasting`, since when moves are found so that they would come to another stage; `away`, since when
    brokers are not there; `blocked`, when blocked moves are tried again; `min_isr`, with when it was asked for;
    `cursor`, where among the waiting moves candidates begin.
    """

    lasting: dict[tuple[int, int, str], int] = field(default_factory=dict)
    away: dict[int, int] = field(default_factory=dict)
    blocked: dict[tuple[int, int], int] = field(default_factory=dict)
    min_isr: dict[str, tuple[int, int]] = field(default_factory=dict)
    cursor: int = 0


class Worker:
    """See the module's head. Attributes: `changed`, whether the present round has changed anything; `budget`, how fast
    copies may be whose plan leaves that to Guardian.
    """

    def __init__(self, host: Host, cluster: UUID) -> None:
        self.host = host
        self.id = cluster
        self.now_ms = 0
        self.changed = False
        self.budget = Budget()
        self.memory = Memory()
        self._looked_ms = 0
        self.throttling = Throttling(self)

    # What is known

    @property
    def cluster(self) -> Cluster:
        return self.host.state.clusters[self.id]

    @property
    def auto_rate_bytes(self) -> int:
        return self.budget.rate_bytes

    def plans(self) -> list[Plan]:
        """Plans of the cluster that are worked at."""
        return list(self.host.state.work.worked_plans(self.id))

    def moves(self, *states: str) -> list[tuple[Plan, Move]]:
        """Moves at these stages."""
        return [(plan, move) for plan in self.plans() for move in plan.moves if move.state in states]

    def stage(self, state: str, reason: str = "") -> Stage:
        return Stage(state, self.host.wall_ms(self.now_ms), reason)

    # A round

    def round(self) -> Round:
        """One round. Returns after how many ms the next one is due."""
        self.changed = False
        if not self.host.kafka_id(self.cluster):
            return UNSEEN_MS
        yield from self.write(started_records(self.host.state.work, self.cluster, self.host.wall_ms(self.now_ms)))
        candidates = self._candidates()
        look = yield from self._look(candidates)
        if look is None:
            return FAILED_MS
        self._looked_ms = self.now_ms
        self._observe(look)
        pace, wall_ms = self.budget.pace, self.host.wall_ms(self.now_ms)
        yield from self.write(paced_records(self.host.state.work, self.id, pace, wall_ms))
        yield from self._note(look, candidates)
        begun = yield from self._begin(look, candidates)
        if not begun and self._more_wait(candidates):
            self.memory.cursor += len(candidates)
        yield from self._act(look)
        yield from self.throttling.restore(look)
        yield from self._end(look)
        return QUICK_MS if self.changed else ROUND_MS

    def write(self, records: Iterable[WorkRecord]) -> Round:
        """Writes records, if there are any, and waits until they are committed."""
        found = list(records)
        if found:
            self.changed = True
            yield Write(found)

    def _candidates(self) -> list[tuple[Plan, Move]]:
        """Some of the moves that wait and may be tried."""
        waiting = [
            (plan, move)
            for plan in self.plans()
            for move in plan.moves
            if move.state in WAITING_MOVES
            and (move.state != BLOCKED or self._tried_again(plan, move) or plan.state == CANCELLING)
        ]
        if self.memory.cursor >= len(waiting):
            self.memory.cursor = 0
        return waiting[self.memory.cursor : self.memory.cursor + GUARDIAN_CANDIDATES_MAX]

    def _tried_again(self, plan: Plan, move: Move) -> bool:
        again_ms = self.memory.blocked.setdefault((plan.id, move.number), self.now_ms + BLOCKED_AGAIN_MS)
        return self.now_ms >= again_ms

    def _more_wait(self, candidates: list[tuple[Plan, Move]]) -> bool:
        return len(candidates) == GUARDIAN_CANDIDATES_MAX

    # Look

    def _look(self, candidates: list[tuple[Plan, Move]]) -> Round:
        """What the moves in flight, and the candidates, need to be known. None: the cluster does not answer."""
        flying = self.moves(SUBMITTED, COPYING, CANCELLING, CAUGHT_UP, LEADER_SET)
        moves = [move for _, move in (*flying, *candidates)]
        topics = sorted(dict.fromkeys(each.topic for each in moves))
        answers = yield Ask([(CONTROLLER, looks.reassignments()), (ANY, looks.metadata_of(topics))])
        if None in answers or answers[0].error_code or answers[1].cluster_id != self.host.kafka_id(self.cluster):
            return None
        look = Look()
        look.take_reassignments(answers[0])
        look.take_metadata(answers[1])
        beginning = (*candidates, *((plan, move) for plan, move in flying if move.state == SUBMITTED))
        yield from self._look_at_settings(look, [move.topic for _, move in beginning if move.adding or move.removing])
        yield from self._look_at_directories(look, moves)
        return look

    def _look_at_settings(self, look: Look, topics: Iterable[str]) -> Round:
        """min.insync.replicas of topics, which changes seldom."""
        known = self.memory.min_isr
        for topic, (asked_ms, _) in list(known.items()):
            if self.now_ms - asked_ms >= SETTINGS_AGE_MS:
                del known[topic]
        wanted = [each for each in dict.fromkeys(topics) if each in look.topics and each not in known]
        if wanted:
            (answer,) = yield Ask([(ANY, looks.settings_of(looks.TOPIC_RESOURCE, wanted, [looks.MIN_ISR]))])
            if answer is not None:
                look.take_settings(answer)
                known.update({topic: (self.now_ms, least) for topic, least in look.min_isr.items()})
        look.min_isr.update({topic: least for topic, (_, least) in known.items()})

    def _look_at_directories(self, look: Look, moves: Iterable[Move]) -> Round:
        """Where replicas lie that are to be in certain directories."""
        wanted = {
            broker: partitions
            for broker, partitions in looks.by_broker(moves).items()
            if broker in look.alive and self.host.knows(self.cluster, broker)
        }
        if wanted:
            answers = yield Ask([(broker, looks.directories_of(each)) for broker, each in wanted.items()])
            for broker, answer in zip(wanted, answers, strict=True):
                if answer is not None:
                    look.take_directories(broker, answer)

    def _observe(self, look: Look) -> None:
        """Since when brokers are away; how the copies do to others."""
        away = self.memory.away
        needed = {
            broker: self.now_ms
            for _, move in self.moves(SUBMITTED, COPYING, CANCELLING, CAUGHT_UP, LEADER_SET)
            for broker in (*move.target, *move.before)
            if broker not in look.alive
        }
        self.memory.away = {broker: away.get(broker, now_ms) for broker, now_ms in needed.items()}
        moving = {move.key for _, move in self.moves(SUBMITTED, COPYING, CANCELLING)}
        given_up = {
            broker
            for plan in self.plans()
            for move in plan.moves
            for broker in move.removing
            if plan.gives_up(move, broker)
        }
        self.budget.take(signals_of(look, moving, given_up), self.now_ms)

    # Note

    def _note(self, look: Look, candidates: list[tuple[Plan, Move]]) -> Round:
        """Writes what moves have come to."""
        dead = [each for each, since_ms in self.memory.away.items() if self.now_ms - since_ms >= DEAD_MS]
        flying = self.moves(SUBMITTED, COPYING, CANCELLING, CAUGHT_UP, LEADER_SET)
        lasting: dict[tuple[int, int, str], int] = {}
        records: list[WorkRecord] = []
        for plan, move in (*flying, *candidates):
            found = self._given_up(plan, move) or progress.next_of(plan, move, look, dead)
            if found is None or len(records) >= GUARDIAN_RECORDS_PER_ROUND:
                continue
            if found.lasting:
                key = plan.id, move.number, found.state
                lasting[key] = self.memory.lasting.get(key, self.now_ms)
                if self.now_ms - lasting[key] < LASTING_MS:
                    continue
            records.append(move_record(plan, move, self.stage(found.state, found.reason)))
        self.memory.lasting = lasting
        yield from self.write(records)

    def _given_up(self, plan: Plan, move: Move) -> progress.Next | None:
        """What a move comes to whose copies hurt others at the lowest rate, and for too long."""
        pace = self.budget.pace
        if pace.state == GIVEN_UP and plan.rate_bytes < 0 and move.state in (SUBMITTED, COPYING):
            return progress.Next(CANCELLING, f"{HURTS}{pace.why}")
        return None

    # Begin

    def _begin(self, look: Look, candidates: list[tuple[Plan, Move]]) -> Round:
        """Has moves begin that may: throttles, then the intent. Returns how many have."""
        work = self.host.state.work
        yield from self.write(self._blocked(look, candidates))
        passed_over = frozenset(key for key, again_ms in self.memory.blocked.items() if self.now_ms < again_ms)
        found = beginning(work, self.cluster, look, passed_over)[:GUARDIAN_RECORDS_PER_ROUND]
        yield from self.throttling.put_in_place(look, found)
        ready = [(plan, move) for plan, move in found if self._may_begin(plan, move) and not self._is_old]
        yield from self.write(move_record(plan, move, self.stage(SUBMITTED)) for plan, move in ready)
        yield from self.write(self._unthrottled(found))
        return len(ready)

    def _unthrottled(self, found: Iterable[tuple[Plan, Move]]) -> Iterable[WorkRecord]:
        """Records of the moves whose throttles are refused: without them they do not begin."""
        for plan, move in found:
            now = self.host.state.work.plans[plan.id].moves[move.number - 1]
            why = self.throttling.refused(plan, now) if now.state in WAITING_MOVES else ""
            if why:
                self.memory.blocked[plan.id, move.number] = self.now_ms + BLOCKED_AGAIN_MS
                if (now.state, now.reason) != (BLOCKED, why):
                    yield move_record(plan, now, self.stage(BLOCKED, why))

    @property
    def _is_old(self) -> bool:
        return self.now_ms - self._looked_ms > LOOK_AGE_MS

    def _may_begin(self, plan: Plan, move: Move) -> bool:
        """Whether a move may still begin after its throttles were set: somebody may have paused its plan."""
        now = self.host.state.work.plans.get(plan.id)
        if now is None or plan_obstacle(now, self.cluster) is not None:
            return False
        return self.throttling.holds(now, move)

    def _blocked(self, look: Look, candidates: Iterable[tuple[Plan, Move]]) -> list[WorkRecord]:
        """Records of the moves that cannot begin, and will not by waiting alone."""
        found: list[WorkRecord] = []
        for plan, move in candidates:
            now = self.host.state.work.plans[plan.id].moves[move.number - 1]
            if now.state not in WAITING_MOVES or plan_obstacle(plan, self.cluster) is not None:
                continue
            reason = state_obstacle(plan, now, look)
            if reason is not None and reason.blocks:
                self.memory.blocked[plan.id, move.number] = self.now_ms + BLOCKED_AGAIN_MS
                if (now.state, now.reason) != (BLOCKED, reason.sentence):
                    found.append(move_record(plan, now, self.stage(BLOCKED, reason.sentence)))
            else:
                self.memory.blocked.pop((plan.id, move.number), None)
        return found[:GUARDIAN_RECORDS_PER_ROUND]

    # Act

    def _act(self, look: Look) -> Round:
        """Does what the stages of moves ask for, and the look does not show."""
        flying = self.moves(SUBMITTED, COPYING, CANCELLING, CAUGHT_UP)
        refused = yield from self._direct(look, flying)
        yield from self._reassign(look, flying, refused)
        chosen = [move for _, move in flying if acts.to_elect(move, look)]
        if chosen:
            yield Ask([(CONTROLLER, acts.election(chosen))], acts=True)

    def _direct(self, look: Look, flying: list[tuple[Plan, Move]]) -> Round:
        """Tells brokers in which directories replicas are to be. Returns the partitions that must wait for that."""
        wanted: dict[int, list[tuple[Move, str]]] = {}
        for _, move in flying:
            for broker, path in (*acts.to_direct(move, look), *acts.to_turn_back(move, look)):
                wanted.setdefault(broker, []).append((move, path))
        unseen = {
            move.key for _, move in flying for broker, _ in move.wanted_directories if broker not in look.described
        }
        if not wanted:
            return unseen
        answers = yield Ask([(broker, acts.directing(each)) for broker, each in wanted.items()], acts=True)
        refusals: dict[tuple[str, int], acts.Refusal] = {}
        for moves, answer in zip(wanted.values(), answers, strict=True):
            if answer is None:
                unseen |= {move.key for move, _ in moves}
            refusals |= acts.refusals_of_directing(answer)
        yield from self._refuse(flying, refusals, "its broker refuses the directory")
        return unseen | set(refusals)

    def _reassign(self, look: Look, flying: list[tuple[Plan, Move]], waiting: set[tuple[str, int]]) -> Round:
        """Reassigns, and takes reassignments back."""
        asked = [
            (plan, move)
            for plan, move in flying
            if acts.to_reassign(move, look) and move.key not in waiting and state_obstacle(plan, move, look) is None
        ]
        back = [(plan, move) for plan, move in flying if acts.to_cancel(move, look)]
        asked = [(plan, move) for plan, move in asked if look.partitions[move.key].replicas != move.target]
        if self._is_old or not (asked or back):
            return
        wanted = [*((move, move.target) for _, move in asked), *((move, None) for _, move in back)]
        (answer,) = yield Ask([(CONTROLLER, acts.reassignment(wanted))], acts=True)
        if answer is None or answer.error_code:
            return
        refusals = acts.refusals_of_reassignment(answer)
        yield from self._refuse(asked, refusals, "the cluster refuses the reassignment")
        granted = [(plan, move) for plan, move in asked if move.key not in refusals and move.copies]
        yield from self.write(move_record(plan, move, self.stage(COPYING)) for plan, move in granted)

    def _refuse(
        self, moves: Iterable[tuple[Plan, Move]], refusals: dict[tuple[str, int], acts.Refusal], why: str
    ) -> Round:
        """Blocks moves that were refused; what may be granted later is asked for again."""
        records: list[WorkRecord] = []
        for plan, move in moves:
            refusal = refusals.get(move.key)
            if refusal is not None and not refusal.passing and move.state == SUBMITTED:
                self.memory.blocked[plan.id, move.number] = self.now_ms + BLOCKED_AGAIN_MS
                records.append(move_record(plan, move, self.stage(BLOCKED, f"{why}: {refusal.message}")))
        yield from self.write(records)

    # End

    def _end(self, look: Look) -> Round:
        """Ends plans of which every move has ended, when no throttle is left of them."""
        if self.throttling.left_behind(look):
            return
        yield from self.write(ended_records(self.host.state.work, self.id, self.host.wall_ms(self.now_ms)))


def has_work(state: GuardianState, cluster: Cluster) -> bool:
    """Whether there is anything to do for a cluster."""
    work = state.work
    if any(work.worked_plans(cluster.id)) or work.limits_of(cluster.id):
        return True
    return any(
        plan.cluster == cluster.id and plan.state == CHECKED and cluster.mode(plan.action) == ACT
        for plan in work.plans.values()
    )
