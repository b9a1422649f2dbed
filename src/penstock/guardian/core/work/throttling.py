"""The part of a round that is about throttles: put in place before copies begin, taken away when none wants them.

What a broker tells of a config may be older than what its controller has. So a config is not taken for clean before it
has been found clean for a while; until then its limit stays in the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.guardian.core.reach import ANY
from penstock.guardian.core.work import looks, throttles
from penstock.guardian.core.work.acts import Refusal, refusal
from penstock.guardian.core.work.looks import Look
from penstock.guardian.core.work.plans import BROKER, IN_PLACE, INTENDED, TOPIC, Limit, Move, Plan
from penstock.guardian.core.work.replaying import WorkRecord, limit_record, removal_record
from penstock.guardian.core.work.steps import Ask, Round, Working
from penstock.guardian.core.work.throttles import Change, Place, Present
from penstock.protocol.message import Message

CLEAN_MS = 3_000
"""How long a config must be found without Guardian's part before that is believed."""


class Throttling:
    """See the module's head."""

    def __init__(self, worker: Working) -> None:
        self._worker = worker
        self._set_ms: dict[Place, int] = {}
        self._clean_ms: dict[Place, int] = {}
        self._refused: dict[Place, Refusal] = {}

    def _limits(self) -> dict[Place, Limit]:
        return {each.key[1:]: each for each in self._worker.host.state.work.limits_of(self._worker.id)}

    def _wanted(self, more: Iterable[tuple[Plan, Move]] = ()) -> dict[Place, str]:
        moves = [*throttles.copying(self._worker.plans()), *more]
        return throttles.wanted_limits(moves, self._worker.auto_rate_bytes)

    def holds(self, plan: Plan, move: Move) -> bool:
        """Whether all throttles that a move wants are in place."""
        limits = self._limits()
        for place, wanted in throttles.wanted_limits([(plan, move)], self._worker.auto_rate_bytes).items():
            limit = limits.get(place)
            if limit is None or limit.state != IN_PLACE:
                return False
            entries = throttles.entries_of(wanted)
            if place[2] in throttles.LISTS and not all(each in throttles.entries_of(limit.wanted) for each in entries):
                return False
        return True

    def refused(self, plan: Plan, move: Move) -> str:
        """Which of the throttles that a move wants its cluster has refused for good, in a sentence; "" for none."""
        for place in throttles.wanted_limits([(plan, move)], self._worker.auto_rate_bytes):
            found = self._refused.get(place)
            if found is not None and not found.passing:
                kind, name, setting = place
                return f"its cluster refuses {setting} of {kind} {name}: {found.message}"
        return ""

    # In place

    def put_in_place(self, look: Look, beginning: list[tuple[Plan, Move]]) -> Round:
        """Sets the throttles of moves that copy, and of those that are about to begin."""
        worker = self._worker
        todo = {place: wanted for place, wanted in self._wanted(beginning).items() if self._is_due(place, wanted)}
        present, gone = yield from self._describe(look, todo)
        limits = self._limits()
        intents = []
        for place, wanted in todo.items():
            if place in present and place[1] not in gone:
                before, own = throttles.limit_for(place, wanted, present[place], limits.get(place))
                wall_ms = worker.host.wall_ms(worker.now_ms)
                intents.append(Limit(worker.id, *place, before, wanted, own, INTENDED, wall_ms))
        yield from worker.write(map(limit_record, intents))
        for each in intents:  # how it was found before says nothing any more, even if the change is not answered
            self._clean_ms.pop(each.key[1:], None)
        changes = {each.key[1:]: throttles.to_set(each, present[each.key[1:]]) for each in intents}
        failed = yield from self._alter([each for some in changes.values() for each in some])
        done: list[WorkRecord] = []
        for each in intents:
            place = each.key[1:]
            if place not in failed:
                settled = worker.now_ms - self._set_ms.get(place, worker.now_ms) >= CLEAN_MS
                self._set_ms[place] = worker.now_ms
                own = throttles.own_after(each, present[place], settled=settled)
                state = Limit(each.cluster, *place, each.before, each.wanted, own, IN_PLACE, each.wall_ms)
                done.append(limit_record(state))
        yield from worker.write(done)

    def _is_due(self, place: Place, wanted: str) -> bool:
        """Whether a config is to be set, or set anew."""
        limit = self._limits().get(place)
        if limit is None or limit.state != IN_PLACE:
            return True
        if limit.wanted == wanted:
            return False
        if place[2] in throttles.LISTS:
            return True
        since_ms = self._worker.now_ms - self._set_ms.setdefault(place, self._worker.now_ms)
        return throttles.far_enough(limit.wanted, wanted) and since_ms >= throttles.CHANGED_AGAIN_MS

    # Taken away

    def restore(self, look: Look) -> Round:
        """Takes away the throttles that no move wants any more."""
        worker = self._worker
        wanted = self._wanted()
        todo = {place: limit for place, limit in self._limits().items() if place not in wanted}
        present, gone = yield from self._describe(look, todo)
        changes: list[Change] = []
        removed: list[WorkRecord] = []
        for place, limit in todo.items():
            is_gone = place[0] == TOPIC and place[1] in gone
            if is_gone or place in present:
                needed = throttles.to_restore(limit, present[place]) if not is_gone else []
                changes += needed
                if needed:
                    self._clean_ms.pop(place, None)
                elif worker.now_ms - self._clean_ms.setdefault(place, worker.now_ms) >= CLEAN_MS:
                    removed.append(removal_record(limit.key))
        yield from self._alter(changes)
        yield from worker.write(removed)

    def left_behind(self, look: Look) -> bool:
        """Whether a throttle that no move wants is still there, at a broker that could take it away."""
        wanted = self._wanted()
        return any(
            place not in wanted and (place[0] == TOPIC or int(place[1]) in look.alive) for place in self._limits()
        )

    # At the cluster

    def _describe(self, look: Look, places: Iterable[Place]) -> Round:
        """How configs are now, and what is not there any more. A broker is asked for its own."""
        present: dict[Place, Present] = {}
        gone: set[str] = set()
        kinds: list[str] = []
        calls: list[tuple[int, Message]] = []
        by_resource = throttles.by_resource(places)
        topics = [name for kind, name in by_resource if kind == TOPIC]
        if topics:
            kinds.append(TOPIC)
            calls.append((ANY, looks.settings_of(looks.TOPIC_RESOURCE, topics, throttles.LISTS)))
        for kind, name in by_resource:
            if kind == BROKER and int(name) in look.alive and self._knows(int(name)):
                kinds.append(BROKER)
                calls.append((int(name), looks.settings_of(looks.BROKER_RESOURCE, [name], throttles.RATES)))
        if calls:
            answers = yield Ask(calls)
            for kind, answer in zip(kinds, answers, strict=True):
                if answer is not None:
                    found, missing = throttles.present_of(answer, kind)
                    present |= found
                    gone |= missing
        return present, gone

    def _knows(self, broker: int) -> bool:
        return self._worker.host.knows(self._worker.cluster, broker)

    def _alter(self, changes: list[Change]) -> Round:
        """Alters configs. Returns those of which it is not known that they were."""
        by_broker: dict[int, list[Change]] = {}
        for each in changes:
            kind, name, _ = each.place
            by_broker.setdefault(int(name) if kind == BROKER else ANY, []).append(each)
        if not by_broker:
            return set()
        failed: set[Place] = set()
        answers = yield Ask([(broker, throttles.alteration(each)) for broker, each in by_broker.items()], acts=True)
        for some, answer in zip(by_broker.values(), answers, strict=True):
            told = {each.resource_name: each for each in answer.responses} if answer is not None else {}
            for each in some:
                result = told.get(each.place[1])
                self._refused.pop(each.place, None)
                if result is None or result.error_code:
                    failed.add(each.place)
                if result is not None and result.error_code:
                    self._refused[each.place] = refusal(result.error_code, result.error_message)
        self._worker.changed = True
        return failed
