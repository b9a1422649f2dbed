"""Plans at work on a fake cluster: executors of nodes that lead one after the other, in virtual time, on one log.

Answers take a while, may be lost when what they tell of is done, and come to an executor that leads no more, too.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast
from uuid import UUID

from penstock.guardian.core import answering
from penstock.guardian.core.calls import OK, UNAVAILABLE, Call, Known, Reply
from penstock.guardian.core.quorum import GuardianQuorum
from penstock.guardian.core.reach import Reach
from penstock.guardian.core.records import GuardianRecord, decode_records, encode_records
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import EMPTY, GuardianState, replay, snapshot_records
from penstock.guardian.core.work.executor import Executor
from penstock.guardian.core.work.plans import ENDED_PLANS, Move, Plan
from penstock.node.bugs import Bugs
from penstock.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from penstock.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.records.wall import WallTime
from support.fake_cluster import KAFKA_ID, FakeCluster

NAME = "clicks"
ACTS = (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
STEP_MS = 10


@dataclass
class Node:
    """A node that leads, or has led: its executor, and what of the log it has made and is not committed."""

    executor: Executor
    state: GuardianState
    leads: bool = True
    lease: bool = True
    appended: list[tuple[list[bytes], GuardianState]] = field(default_factory=list)


class AtWork:
    """See the module's head.

    Attributes: `cluster`; `state`, what is committed; `log`, all records that are; `wrongs`, acts that were sent
    without the lease, or for moves whose intent was not committed.
    """

    def __init__(self, cluster: FakeCluster, seed: int = 1, *, mode: str = "advise", lost: float = 0.0) -> None:
        self.cluster = cluster
        self.random = Random(seed)
        self.now_ms = 0
        self.state: GuardianState = EMPTY
        self.log: list[bytes] = []
        self.lost = lost
        self.bugs: list[Exception] = []
        self.wrongs: list[str] = []
        self.sight = Sight()
        self.ids = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.nodes: list[Node] = []
        self.node = self._new_node()
        assert self.ask("POST", "/v1/clusters", {"name": NAME, "bootstrap": ["b1:9092"], "modes": {"all": mode}}).status
        self.see()

    # People

    def see(self) -> None:
        """The sampler looks."""
        (cluster,) = self.state.clusters
        self.sight.clusters[cluster] = self.cluster.sight()

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        """A call, answered by the leader."""
        self.ids += 1
        call = Call(method, path, json.dumps(body).encode(), UUID(int=self.ids), "User:ann")
        known = Known(self.node.state, self.sight, self.now_ms)
        if not call.changes:
            return answering.read(known, call)
        change = answering.decide(known, call, lambda: UUID(int=self.random.getrandbits(128), version=4))
        self.append(self.node, change.records)
        self.commit(self.node)
        return change.reply

    def submit(self, plan: dict[str, Any], **more: Any) -> int:
        """Submits a plan, and approves it; its id."""
        self.see()
        reply = self.ask("POST", "/v1/plans", {"cluster": NAME, "plan": plan, **more})
        assert reply.status == 201, reply.body
        number = int(reply.body["id"])
        assert self.ask("PATCH", f"/v1/plans/{number}", {"state": "approved"}).status == 200
        return number

    def plan(self, number: int = 1) -> Plan:
        return self.state.work.plans[number]

    def moves(self, number: int = 1) -> list[Move]:
        return list(self.plan(number).moves)

    # The log

    def append(self, node: Node, records: Sequence[GuardianRecord]) -> None:
        """Appends to the log of a node, which replays at once."""
        values = encode_records(records)
        node.state = replay(node.state, decode_records(values))
        node.appended.append((values, node.state))

    def commit(self, node: Node) -> bool:
        """Commits what a node has appended, if it still leads."""
        if node.leads:
            for values, state in node.appended:
                self.log += values
                self.state = state
            node.appended.clear()
        return node.leads

    def _new_node(self) -> Node:
        holder: list[Node] = []
        bench = self

        class Leading:
            """The quorum, as the executor uses it."""

            @property
            def leads(self) -> bool:
                return holder[0].leads

            @property
            def leader(self) -> Any:
                return self

            @property
            def state(self) -> GuardianState:
                return holder[0].state

            def write(self, records: Any, answered: Callable[[Reply, int], None], now_ms: int) -> None:
                bench.append(holder[0], records)

                def commit() -> None:
                    done = bench.commit(holder[0])
                    answered(Reply(OK if done else UNAVAILABLE, {}), bench.now_ms)

                bench.after(bench.random.randrange(1, 20), commit)

        class Asking:
            """Reach, to the fake cluster."""

            def ask(self, cluster: Any, broker: int, message: Any, ended: Any, now_ms: int, **_: Any) -> None:
                bench._check(holder[0], message)
                bench._send(broker, message, ended)

            def knows(self, cluster: Any, broker: int) -> bool:
                return broker in bench.cluster.alive

            def kafka_id(self, cluster: Any) -> str:
                return KAFKA_ID

        bugs = Bugs(lambda: self.now_ms, lambda what, error: self.bugs.append(error))
        executor = Executor(
            cast("GuardianQuorum", Leading()),
            cast("Reach", Asking()),
            WallTime(),
            bugs,
            lambda now_ms: holder[0].leads and holder[0].lease,
        )
        holder.append(Node(executor, self.state))
        self.nodes.append(holder[0])
        return holder[0]

    def depose(self) -> None:
        """Another node leads."""
        self.node.leads = False
        self.node = self._new_node()

    # Time

    def after(self, delay_ms: int, what: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (self.now_ms + delay_ms, self.count, what))

    def _check(self, node: Node, message: Any) -> None:
        """Whether a request may be sent."""
        if not isinstance(message, ACTS):
            return
        if not (node.leads and node.lease):
            self.wrongs.append(f"{type(message).__name__} without the lease")
        if isinstance(message, AlterPartitionReassignmentsRequest):
            states = {move.key: move.state for plan in self.state.work.worked_plans() for move in plan.moves}
            for topic in message.topics:
                for each in topic.partitions:
                    state = states.get((topic.name, each.partition_index))
                    if state not in (("cancelling",) if each.replicas is None else ("submitted", "copying")):
                        self.wrongs.append(f"{topic.name}-{each.partition_index} is asked for when it is {state}")

    def _send(self, broker: int, message: Any, ended: Any) -> None:
        there, back = self.random.randrange(1, 30), self.random.randrange(1, 30)
        fate = self.random.random()

        def arrive() -> None:
            self.cluster.at(self.now_ms)
            answer = None if fate < self.lost / 2 else self.cluster.answer(broker, message)
            if fate < self.lost or answer is None:
                self.after(500, lambda: ended(None, "lost", self.now_ms))
            else:
                self.after(back, lambda: ended(answer, None, self.now_ms))

        self.after(there, arrive)

    def run(self, duration_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Goes on in time. Whether the condition came to hold."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms += STEP_MS
            while self.events and self.events[0][0] <= self.now_ms:
                heapq.heappop(self.events)[2]()
            self.cluster.at(self.now_ms)
            for node in self.nodes[-2:]:
                node.executor.tick(self.now_ms)
            if until():
                return True
        return False

    def finish(self, number: int = 1, duration_ms: int = 300_000) -> Plan:
        """Runs until a plan has ended."""
        ended = self.run(duration_ms, lambda: self.plan(number).state in ENDED_PLANS)
        assert not self.bugs, self.bugs
        assert not self.wrongs, self.wrongs
        states = [(each.state, each.reason) for each in self.moves(number)]
        assert ended, (self.plan(number).state, states, self.state.work.limits)
        restored = replay(EMPTY, decode_records(encode_records(snapshot_records(self.state))))
        assert restored.work == self.state.work
        assert replay(EMPTY, decode_records(self.log)).work == self.state.work
        return self.plan(number)


def reassigning(*wanted: tuple[str, int, list[int]], **more: Any) -> dict[str, Any]:
    """A plan as kafka-reassign-partitions has it."""
    partitions = [{"topic": topic, "partition": index, "replicas": replicas} for topic, index, replicas in wanted]
    return {"version": 1, "partitions": partitions, **more}
