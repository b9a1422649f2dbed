"""The workers of all clusters that have plans, while this node leads and holds the lease; a duty of the node.

A worker's round (`work.worker`) asks for one thing after the other, and is sent what came of it. Nothing is sent to a
cluster without the lease: a round that has lost it, or the leadership, ends where it is, and whoever leads begins anew
with a look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from penstock.guardian.core.calls import OK, Reply
from penstock.guardian.core.quorum import GuardianQuorum
from penstock.guardian.core.reach import Ended, Reach
from penstock.guardian.core.state import Cluster, GuardianState
from penstock.guardian.core.work.replaying import WorkRecord
from penstock.guardian.core.work.steps import Ask, Round, Write
from penstock.guardian.core.work.worker import ASK_TIMEOUT_MS, Worker, has_work
from penstock.node.bugs import Bugs
from penstock.node.limits import DUTY_PAUSE_MS
from penstock.protocol.message import Message
from penstock.records.wall import WallTime

CHANNEL = "plans"
"""The executor's requests to a broker leave in the order in which they were made."""
LOOKED_AFTER_MS = 200
"""How often it is looked whether a cluster has come to have something to do."""
LEASE_RETRY_MS = 100
"""When a leader without the lease finds out again whether it holds it."""


class Running:
    """A worker, its round, and when the next one begins."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.round: Round | None = None
        self.next_ms = 0
        self.turn = 0


class Executor:
    """See the module's head. Attributes: `running`, by cluster; `acts`, how many requests that change something were
    sent.
    """

    def __init__(
        self, quorum: GuardianQuorum, reach: Reach, wall: WallTime, bugs: Bugs, may_act: Callable[[int], bool]
    ) -> None:
        self.running: dict[UUID, Running] = {}
        self.acts = 0
        self._quorum = quorum
        self._reach = reach
        self._wall = wall
        self._bugs = bugs
        self._may_act = may_act
        self._looked_ms: int | None = None

    # The duty

    def tick(self, now_ms: int) -> None:
        """Begins the rounds that are due."""
        if not self._quorum.leads:
            self._stop()
            return
        if self._looked_ms is None or now_ms - self._looked_ms >= LOOKED_AFTER_MS:
            self._looked_ms = now_ms
            self._look_after(now_ms)
        due = [each for each in self.running.values() if each.round is None and now_ms >= each.next_ms]
        if self.may_act(now_ms):
            for each in due:
                self._begin(each, now_ms)
        else:
            for each in due:
                each.next_ms = now_ms + LEASE_RETRY_MS

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called."""
        if not self._quorum.leads:
            return None if self._looked_ms is None else 0
        if self._looked_ms is None:
            return 0
        due = [each.next_ms for each in self.running.values() if each.round is None]
        return min(self._looked_ms + LOOKED_AFTER_MS, *due) if due else self._looked_ms + LOOKED_AFTER_MS

    def _stop(self) -> None:
        for each in self.running.values():
            self._end(each)
        self.running.clear()
        self._looked_ms = None

    def _look_after(self, now_ms: int) -> None:
        """Has a worker for each cluster with something to do, and no others."""
        state = self.state
        wanted = [cluster for cluster in state.clusters.values() if has_work(state, cluster)]
        for cluster in wanted:
            if cluster.id not in self.running:
                found = self.running[cluster.id] = Running(Worker(self, cluster.id))
                found.next_ms = now_ms
        ids = {cluster.id for cluster in wanted}
        for cluster_id in [each for each in self.running if each not in ids]:
            if self.running[cluster_id].round is None or cluster_id not in state.clusters:
                self._end(self.running.pop(cluster_id))

    # Rounds

    def _begin(self, running: Running, now_ms: int) -> None:
        running.round = running.worker.round()
        self._go_on(running, running.turn, None, now_ms)

    def _go_on(self, running: Running, turn: int, outcome: Any, now_ms: int) -> None:
        """Sends a round what came of its last step, and does the next. `turn` tells a step from those before it."""
        if running.round is None or running.turn != turn:
            return
        if running.worker.id not in self.state.clusters:  # it was removed by force
            self._end(running)
            running.next_ms = now_ms + LOOKED_AFTER_MS
            return
        running.turn += 1
        running.worker.now_ms = now_ms
        try:
            step = running.round.send(outcome)
            self._do(running, step, now_ms)
        except StopIteration as ended:
            self._end(running)
            running.next_ms = now_ms + int(ended.value)
        except Exception as error:
            self._end(running)
            running.next_ms = now_ms + DUTY_PAUSE_MS
            self._bugs.caught("duty", f"the plans of cluster {running.worker.id}", error)

    def _do(self, running: Running, step: Ask | Write, now_ms: int) -> None:
        if isinstance(step, Write):
            self.write(step.records, partial(self._written, running, running.turn), now_ms)
        elif step.acts and not self.may_act(now_ms):
            self._end(running)
            running.next_ms = now_ms
        else:
            self._ask(running, step, now_ms)

    def _written(self, running: Running, turn: int, committed: bool, now_ms: int) -> None:
        if not committed and running.turn == turn:
            self._end(running)
            running.next_ms = now_ms + LOOKED_AFTER_MS
        else:
            self._go_on(running, turn, None, now_ms)

    def _ask(self, running: Running, step: Ask, now_ms: int) -> None:
        answers: list[Message | None] = [None] * len(step.calls)
        left = len(step.calls)
        turn = running.turn

        def ended(number: int, answer: Message | None, reason: str | None, at_ms: int) -> None:
            nonlocal left
            left -= 1
            answers[number] = usable(answer)
            if not left:
                self._go_on(running, turn, answers, at_ms)

        self.acts += step.acts * len(step.calls)
        cluster = running.worker.cluster
        for number, (broker, message) in enumerate(step.calls):
            self.ask(cluster, broker, message, partial(ended, number), now_ms, timeout_ms=ASK_TIMEOUT_MS)

    def _end(self, running: Running) -> None:
        running.turn += 1
        if running.round is not None:
            running.round.close()
            running.round = None

    # What workers use

    @property
    def state(self) -> GuardianState:
        return self._quorum.leader.state

    def may_act(self, now_ms: int) -> bool:
        return self._may_act(now_ms)

    def wall_ms(self, now_ms: int) -> int:
        return self._wall.at(now_ms)

    def write(self, records: Sequence[WorkRecord], ended: Callable[[bool, int], None], now_ms: int) -> None:
        def done(reply: Reply, at_ms: int) -> None:
            ended(reply.status == OK, at_ms)

        self._quorum.leader.write(records, done, now_ms)

    def ask(
        self, cluster: Cluster, broker: int, message: Message, ended: Ended, now_ms: int, *, timeout_ms: int
    ) -> None:
        self._reach.ask(cluster, broker, message, ended, now_ms, timeout_ms=timeout_ms, channel=CHANNEL)

    def knows(self, cluster: Cluster, broker: int) -> bool:
        return self._reach.knows(cluster, broker)

    def kafka_id(self, cluster: Cluster) -> str:
        return self._reach.kafka_id(cluster)


def usable(answer: Message | None) -> Message | None:
    """An answer that says something: one that says as a whole that it cannot be given is none."""
    error_code: int = 0 if answer is None else getattr(answer, "error_code", 0)
    return None if error_code else answer
