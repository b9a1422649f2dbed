"""Clusters of real broker code that Guardian has plans for, while its leader fails at every step of a move.

Three nodes of Guardian, two clusters of three brokers, and a *governor* of each, who submits plans with rates and caps,
and now and then pauses, bounds or cancels one. Guardian's nodes have the trouble of `simulator.guardian.world`, and
connections between them and brokers break; a broker is away for a while. At all times: a reassignment has an intent
that was committed before, and begins once; all replicas were in sync when it began; the caps hold; at most one node
acts. At the end every plan has ended, every move that is called verified is where its plan wants it, nothing is being
reassigned, and no throttle is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from random import Random
from typing import Any
from uuid import UUID

from penstock.guardian.core.state import GuardianState
from penstock.guardian.core.work.plans import COPYING_MOVES, ENDED_PLANS, VERIFIED, WAITING_MOVES, Plan
from penstock.metadata.format import FormatRequest
from penstock.metadata.image import MetadataImage, PartitionRegistration
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.protocol.messages.own.guardian_call_request import GuardianCallRequest
from simulator.cluster.admins import Admin as ClusterAdmin
from simulator.cluster.admins import create_request
from simulator.cluster.history import PartitionHistory
from simulator.cluster.load import Load
from simulator.cluster.producers import IdempotentProducer
from simulator.guardian.machine import GuardianMachine, settings_of
from simulator.guardian.trouble import Trouble
from simulator.guardian.world import AGAIN, NODES, Caller, GuardianWorld
from simulator.world.checks import check
from simulator.world.disk import SimulatedDisk
from simulator.world.machine import CLUSTER_ID, Machine

CLUSTERS = ("east", "west")
BROKERS = (1, 2, 3)
TOPIC, PARTITIONS, REPLICAS = "clicks", 4, 2
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
BOOT_MS, GOVERNED_MS, END_MS = 30_000, 20_000, 150_000
LOOK_MS = 500
CAPS = {"cluster": 2, "broker_in": 1}
LATE_MS = 5_000
"""What a look has found is asked for within so long, and the request may be on its way for a while."""
QUIET_MS = 900
RETRY_MS = 80
BROKER_TROUBLE_MS = (1_500, 6_000)
AWAY_MS = (500, 12_000)
"""How long a broker that was killed is away."""
ACTS = (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
LEASE_HELD = "who holds the lease acts, and nobody else"
INTENDED_FIRST = "a reassignment has an intent that was committed before"
BEGUN_ONCE = "a move begins once"
ALL_IN_SYNC = "all replicas are in sync when a move begins"
CAPS_HOLD = "no more moves are in flight than may be"
AS_PLANNED = "a verified move is where its plan wants it"
NO_THROTTLE = "no throttle is left in the end"
ALL_ENDED = "every plan ends"
BIGGER = {
    "internal.metadata.log.segment.bytes": "60000",
    "metadata.max.retention.bytes": "150000",
    "penstock.guardian.snapshot.bytes": "20000",
    "penstock.guardian.sample.interval.ms": "700",
}


class GovernedCluster:
    """Some brokers of one cluster, a topic, and those who write to it.

    Attributes: `begun`, by plan and partition, how many reassignments have begun.
    """

    def __init__(self, world: GovernedWorld, name: str) -> None:
        self.world = world
        self.name = name
        simulation = world.simulation
        self.machines = [self._machine(broker) for broker in BROKERS]
        self.partitions = [PartitionHistory(TOPIC, index) for index in range(PARTITIONS)]
        self.load = Load(
            simulation, world.network, [each.address() for each in self.machines], self.partitions, think_ms=400
        )
        self.producers = [
            IdempotentProducer(self.load, self.partitions[number], f"{name}-producer-{number}") for number in range(2)
        ]
        self.admin = ClusterAdmin(self.load, 0, REPLICAS)
        self.made: list[bool] = []
        self.begun: dict[tuple[int, int], int] = {}
        self.reassigned: dict[int, bool] = {}
        self.full_ms: dict[int, int] = {}

    def _machine(self, broker: int) -> Machine:
        world = self.world
        host = f"{self.name}-{broker}"
        disk = SimulatedDisk(0, random=Random(world.random.getrandbits(64)), clock=world.simulation.clock)
        voters = ",".join(f"{each}@{self.name}-{each}:{CONTROLLER_PORT}" for each in BROKERS)
        cluster_id = CLUSTER_ID[:-1] + "AQgw"[CLUSTERS.index(self.name)]
        machine = Machine(
            world.simulation,
            [disk],
            network=world.network,
            host=host,
            format_request=FormatRequest(cluster_id, broker, f"/data/{disk.directory}"),
            node_id=broker,
            process_roles="broker,controller",
            listeners=f"PLAINTEXT://{host}:{CLIENT_PORT},CONTROLLER://{host}:{CONTROLLER_PORT}",
            controller_quorum_voters=voters,
            broker_session_timeout_ms=2_000,
            replica_lag_time_max_ms=1_500,
            auto_create_topics_enable=False,
        )
        machine.observed = lambda: self.look(machine)
        return machine

    @property
    def ready(self) -> bool:
        return all(each.running and each.broker.ready for each in self.machines)

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that a broker has."""
        return max((each.broker.image for each in self.machines if each.running), key=lambda image: image.offset)

    def make_topic(self) -> None:
        self.admin.create(
            create_request([TOPIC], PARTITIONS, REPLICAS, {"min.insync.replicas": "1"}), lambda: self.made.append(True)
        )

    def registrations(self) -> dict[int, PartitionRegistration]:
        """The partitions of the topic."""
        found = {index: self.image.partition(TOPIC, index) for index in range(PARTITIONS)}
        return {index: each for index, each in found.items() if each is not None}

    # Rules

    def look(self, machine: Machine) -> None:
        """After each event of a broker: what has begun?"""
        if not self.world.governing or machine.broker.image is not self.image:
            return
        now_ms = self.world.simulation.now_ms
        partitions = self.registrations()
        flying = [index for index, each in partitions.items() if each.adding_replicas]
        check(len(flying) <= CAPS["cluster"], CAPS_HOLD, f"{self.name}: {flying}")
        for index, each in partitions.items():
            adding = bool(each.adding_replicas)
            if adding and not self.reassigned.get(index, False):
                self._begins(index, each, now_ms - self.full_ms.get(index, now_ms))
            self.reassigned[index] = adding
            before = [broker for broker in each.replicas if broker not in each.adding_replicas]
            if all(broker in each.isr for broker in before):
                self.full_ms[index] = now_ms

    def _begins(self, index: int, each: PartitionRegistration, thin_ms: int) -> None:
        self.world.simulation.trace(f"{self.name}: {TOPIC}-{index} is reassigned to {each.adding_replicas}")
        check(thin_ms <= LATE_MS, ALL_IN_SYNC, f"{self.name}: {TOPIC}-{index} was not for {thin_ms} ms: {each.isr}")
        moves = [
            (plan, move)
            for plan in self.world.plans_of(self.name)
            for move in plan.moves
            if move.partition == index and sorted(move.adding) == sorted(each.adding_replicas)
        ]
        intended = [(plan, move) for plan, move in moves if move.state not in WAITING_MOVES]
        check(bool(intended), INTENDED_FIRST, f"{self.name}: {TOPIC}-{index}: {[move.state for _, move in moves]}")
        plan, _ = intended[-1]
        self.begun[plan.id, index] = self.begun.get((plan.id, index), 0) + 1
        check(self.begun[plan.id, index] == 1, BEGUN_ONCE, f"{self.name}: {TOPIC}-{index} of plan {plan.id}")

    def compare(self) -> None:
        """When all is over."""
        last: dict[int, list[tuple[int, ...]]] = {}
        for plan in self.world.plans_of(self.name):
            for move in plan.moves:
                if move.state == VERIFIED:
                    last[move.partition] = [move.target]
                elif move.partition in last:  # complete when it was cancelled; or undone, which leaves another order
                    last[move.partition] += [move.target, *permutations(move.before)]
        for index, each in self.registrations().items():
            check(not each.adding_replicas, ALL_ENDED, f"{self.name}: {TOPIC}-{index} is being reassigned")
            if index in last:
                check(tuple(each.replicas) in last[index], AS_PLANNED, f"{self.name}: {TOPIC}-{index}: {each.replicas}")
        left = [
            f"{name} {config}"
            for (_, name), configs in self.image.configs.items()
            for config in configs
            if "throttled" in config
        ]
        check(not left, NO_THROTTLE, f"{self.name}: {', '.join(left)}")


class Governor:
    """Submits plans for a cluster, one after the other, and changes them while they run."""

    def __init__(self, world: GovernedWorld, cluster: GovernedCluster) -> None:
        self.world = world
        self.cluster = cluster
        self.caller = Caller(world, f"governor-{cluster.name}")
        self.plan = 0
        self.plans = 0
        self.registered = False

    def begin(self) -> None:
        """Registers the cluster."""
        body = {
            "name": self.cluster.name,
            "bootstrap": [f"{each.host}:{CLIENT_PORT}" for each in self.cluster.machines],
            "modes": {"all": "act"},
        }
        self._call("POST", "/v1/clusters", body, self._registered)

    def _registered(self, status: int, answer: Any) -> None:
        check(status in (200, 201), "a cluster is registered", str(answer))
        self.registered = True
        self.go_on()

    def go_on(self) -> None:
        """What is next: a plan, a change of it, or a look at it."""
        random = self.world.random
        if not self.plan:
            if self.world.loading:
                self._submit()
            return
        what = random.random() if self.world.loading else 1.0
        path = f"/v1/plans/{self.plan}"
        if what < 0.05:
            self._call("PATCH", path, {"state": "cancelled"}, self._looked)
        elif what < 0.15:
            state = random.choice(("paused", "running"))
            self._call("PATCH", path, {"state": state}, self._looked)
        elif what < 0.3:
            self._call("PATCH", path, {"rate_bytes": random.choice((50_000, 100_000, 400_000))}, self._looked)
        elif not self.world.loading:
            self._call("PATCH", path, {"state": "running"}, self._looked)
        else:
            self._call("GET", path, None, self._looked)

    def _submit(self) -> None:
        random = self.world.random
        partitions: list[dict[str, Any]] = []
        for index, each in self.cluster.registrations().items():
            outside = next((broker for broker in BROKERS if broker not in each.replicas), None)
            if outside is None or not self.cluster.machines[outside - 1].running:
                continue
            target = list(each.replicas)[:REPLICAS]
            target[random.randrange(REPLICAS)] = outside
            partitions.append({"topic": TOPIC, "partition": index, "replicas": target})
        if not partitions:
            self._later()
            return
        leaders = [
            {"topic": TOPIC, "partition": each["partition"], "broker": each["replicas"][0]}
            for each in partitions
            if random.random() < 0.5
        ]
        body = {
            "cluster": self.cluster.name,
            "plan": {"version": 1, "partitions": partitions, "leaders": leaders},
            "rate_bytes": random.choice((0, 100_000)),
            "caps": CAPS,
        }
        self._call("POST", "/v1/plans", body, self._submitted)

    def _submitted(self, status: int, answer: Any) -> None:
        if status in (200, 201):
            self.plan = answer["id"]
            self.plans += 1
            self.world.simulation.trace(f"{self.cluster.name}: plan {self.plan}")
        else:
            check(status == 409, "a plan is taken, or does not fit by now", str(answer))
        self._later()

    def _looked(self, status: int, answer: Any) -> None:
        ended = status == 200 and answer["state"] in (*ENDED_PLANS, "forgotten")
        if ended or (status == 409 and "has ended" in answer["error"]):
            self.plan = 0
        self._later()

    def _later(self) -> None:
        self.world.simulation.after_ms(self.world.random.randrange(50, QUIET_MS), self.go_on)

    def _call(self, method: str, path: str, body: Any, answered: Callable[[int, Any], None]) -> None:
        request = GuardianCallRequest(
            method=method,
            path=path,
            body=json.dumps(body).encode(),
            request_id=UUID(int=self.world.random.getrandbits(128)),
        )
        self._try(request, answered)

    def _try(self, request: GuardianCallRequest, answered: Callable[[int, Any], None]) -> None:
        def came(response: Any, asked_ms: int) -> None:
            if response is None or response.status in AGAIN:
                self.world.simulation.after_ms(RETRY_MS, lambda: self._try(request, answered))
            else:
                answered(response.status, json.loads(bytes(response.body)))

        self.caller.ask(request, came)


class GovernedMachine(GuardianMachine):
    """A Guardian node whose requests to clusters are looked at."""

    def __init__(self, world: GovernedWorld, node_id: int) -> None:
        super().__init__(world.simulation, settings_of(node_id, NODES, **BIGGER), world.network)
        self.observed = world._observed

    def _boot(self) -> None:
        super()._boot()
        executor = self.node.executor
        real = executor.ask

        def ask(cluster: Any, broker: int, message: Message, *more: Any, **settings: Any) -> None:
            if isinstance(message, ACTS):
                self._check(cluster.id, message)
            real(cluster, broker, message, *more, **settings)

        executor.ask = ask  # type: ignore[method-assign]  # it is watched

    def _check(self, cluster: UUID, message: Message) -> None:
        """Whether something may be asked for."""
        check(self.node.may_act(self.now_ms), LEASE_HELD, f"{self.host}: {type(message).__name__}")
        if isinstance(message, AlterPartitionReassignmentsRequest):
            plans = list(self.node.quorum.state.work.worked_plans(cluster))
            intended = {move.key for plan in plans for move in plan.moves if move.state in COPYING_MOVES}
            asked = [(topic.name, each.partition_index) for topic in message.topics for each in topic.partitions]
            early = [key for key in asked if key not in intended]
            check(not early, INTENDED_FIRST, f"{self.host} asks for {early}")


class GovernedWorld(GuardianWorld):
    """See the module's head. Attributes: `newest`, the newest state that a node knows to be committed."""

    name = "governed"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.trouble = Trouble(self, aimed=False)
        self.machines = [GovernedMachine(self, each) for each in range(1, NODES + 1)]
        self.admins.clear()
        self.readers.clear()
        self.governing = False
        self.newest = GuardianState()
        self._newest_offset = 0
        self.clusters = [GovernedCluster(self, name) for name in CLUSTERS]
        self.governors = [Governor(self, each) for each in self.clusters]

    def plans_of(self, name: str) -> list[Plan]:
        """The plans of a cluster, as the newest committed state has them."""
        cluster = self.newest.named(name)
        plans = self.newest.work.plans.values()
        return [] if cluster is None else [each for each in plans if each.cluster == cluster.id]

    def _observed(self) -> None:
        super()._observed()
        for machine in self.machines:
            if machine.running:
                committed = machine.node.quorum.committed_part
                if committed.applied_offset > self._newest_offset:
                    self._newest_offset, self.newest = committed.applied_offset, committed.state

    def _run(self) -> None:
        simulation = self.simulation
        brokers = [machine for cluster in self.clusters for machine in cluster.machines]
        for machine in (*self.machines, *brokers):
            simulation.after_ms(self.random.randrange(200), machine.start)
        self._until(lambda: all(each.ready for each in self.clusters), BOOT_MS, "the clusters start")
        for cluster in self.clusters:
            cluster.make_topic()
        self._until(lambda: all(each.made for each in self.clusters), BOOT_MS, "topics are made")
        self.governing = True
        for cluster in self.clusters:
            for producer in cluster.producers:
                producer.go_on()
        for governor in self.governors:
            governor.begin()
        simulation.after_ms(self.random.randrange(2_000), self.trouble.go_on)
        simulation.after_ms(self.random.randrange(*BROKER_TROUBLE_MS), self._broker_trouble)
        simulation.run(simulation.now_ms + GOVERNED_MS)
        self.troubled = self.loading = False
        for cluster in self.clusters:
            cluster.load.going_on = False
        self.trouble.heal()
        self._until(lambda: not any(each.plan for each in self.governors) and self._all_ended, END_MS, ALL_ENDED)
        simulation.run(simulation.now_ms + 2_000)
        for cluster in self.clusters:
            cluster.compare()
        self._compare_states()

    @property
    def _all_ended(self) -> bool:
        work = self.newest.work
        return all(plan.ended for plan in work.plans.values()) and not work.limits

    def _until(self, holds: Callable[[], bool], within_ms: int, rule: str) -> None:
        until_ms = self.simulation.now_ms + within_ms
        while not holds():
            work = self.newest.work
            told = [(plan.id, plan.state, [(m.state, m.reason) for m in plan.moves]) for plan in work.worked_plans()]
            check(self.simulation.now_ms < until_ms, rule, f"{told} {list(work.limits)}"[:900])
            self.simulation.run(self.simulation.now_ms + LOOK_MS)

    def _broker_trouble(self) -> None:
        """A broker dies and comes back, or is cut off from Guardian."""
        if not self.troubled:
            return
        cluster = self.random.choice(self.clusters)
        machine = self.random.choice(cluster.machines)
        what = self.random.choice(("kill", "cut off", "break", "pause"))
        if machine.running and cluster.ready:
            self.simulation.trace(f"trouble for {machine.host}: {what}")
            match what:
                case "kill":
                    machine.restart_delay_ms = self.random.randrange(*AWAY_MS)
                    machine.kill(power_failed=False)
                case "pause":
                    machine.pause(self.random.randrange(200, 3_000))
                case "cut off":
                    for each in self.machines:
                        self.network.partition(each.host, machine.host)
                case "break":
                    self.network.break_connections(machine.host)
        self.simulation.after_ms(self.random.randrange(*BROKER_TROUBLE_MS), self._broker_trouble)

    def _compare_states(self) -> None:
        states = [each.node.quorum.state for each in self.machines]
        check(all(each == states[0] for each in states), "all nodes come to the same state", "")
        check(sum(each.plans for each in self.governors) > 0, "something was done", "no plan was taken")
