"""A world for a whole cluster: nodes on a network, clients with histories, faults out of the seed.

    ClusterWorld(seed, SCENARIOS["storm"]).run()

First the nodes start and the topics are made. Then, for a while, producers write, readers read what is written,
admins create and delete topics, and faults happen. Then everything is well again: each client finishes what it has
begun, every replica comes back into sync, and all replicas are read and compared, with each other and with what the
clients know.
`simulator.cluster` has the parts: `checkers` what holds at every step, `history` what holds of the
records, `faults` what happens, `scenarios` how much of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Protocol

from penstock.errors import StorageError
from penstock.log.not_open import NotOpen
from penstock.metadata.features import ELR_VERSION
from penstock.metadata.format import FormatRequest
from penstock.metadata.image import PartitionRegistration
from penstock.node.broker import Broker
from penstock.raft.voters import VoterEndpoint
from penstock.records.batch import headers
from simulator.cluster.admins import Admin, create_request
from simulator.cluster.chaos_admins import WILD, ChaosAdmin
from simulator.cluster.checkers import ClusterChecker
from simulator.cluster.client import ClusterClient
from simulator.cluster.clocks import AHEAD_MS_MAX, Clocks
from simulator.cluster.decisions import DecisionChecker
from simulator.cluster.directory_movers import DirectoryMover
from simulator.cluster.fault_injection import Faults, FaultTarget
from simulator.cluster.history import EVERYTHING_MAY_GO, PartitionHistory
from simulator.cluster.load import Load
from simulator.cluster.movers import Mover
from simulator.cluster.producers import IdempotentProducer, PlainProducer
from simulator.cluster.readers import Reader, decoded
from simulator.cluster.replica_rules import ReplicaRules, replica_bytes
from simulator.cluster.scenarios import Scenario
from simulator.cluster.swarm import drawn, small_limits
from simulator.cluster.voter_admins import CONTROLLER_LISTENER, Key, VoterAdmin
from simulator.world.checks import check, replayable
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation
from simulator.world.machine import CLUSTER_ID, RESTART_DELAY_MS, Machine
from simulator.world.network import Address, Network

START_MS_MAX = 30_000
END_MS_MAX = 120_000
"""A cluster that is well has started, or finished everything, within these."""
LOST_MS_MAX = 15_000
"""So long it may take until a controller has heard of a directory that failed, also while another is elected."""
LOST_DIRECTORY = "nobody leads in a log directory that has failed"
STEADY = "no leader changes because of a broken connection"
SETTLE_MS = 1_000
STEP_MS = 250
LOOK_MS = 700
"""Between two looks at all replicas."""
BOOT_SPREAD_MS = 300
AIMED_SEEDS, AIMED_MS = 4, (2_000, 4_000)
"""Every so manyth seed of a scenario that aims at a moment does nothing else, and each such fault lasts for so long."""
TOPICS = ("clicks", "orders")
PARTITIONS = 2
IDEMPOTENT_PRODUCERS, PLAIN_PRODUCERS, READERS = 6, 2, 6
THINK_MS = (120, 300, 600)
"""Up to one of these clients wait between two requests: a seed costs more than anything else what they ask for."""
HALF_OPEN_PROBABILITY = 0.3
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
FIRST_CONTROLLER_ID = 11


class AnyAdmin(Protocol):
    """Whoever changes something in a cluster, one request after the other. `busy`: it waits for an answer."""

    client: ClusterClient
    busy: bool

    def go_on(self) -> None:
        """Does what is to be done next."""


CLOCKS_APART_MS_MAX = 2 * AHEAD_MS_MAX
"""Producers' clocks are right, and a broker takes their records however wrong its own is."""


class ClusterWorld:
    """One run. `run` raises Violation, with the seed and the end of the trace, if the code breaks a rule."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.scenario = scenario = drawn(scenario, seed) if scenario.drawn else scenario
        self.simulation = Simulation(seed)
        self.random = self.simulation.random
        self.network = Network(self.simulation, half_open_probability=self.random.choice((0.0, HALF_OPEN_PROBABILITY)))
        broker_ids = range(1, self.random.choice(scenario.nodes) + 1)
        own = range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + scenario.controllers)
        controller_ids = own or broker_ids
        self.settings = self._settings(controller_ids)
        self.eligible = self.random.choice(scenario.eligible)
        self.machines = [
            self._machine(node_id, broker=node_id in broker_ids, controller=node_id in controller_ids)
            for node_id in (*broker_ids, *own)
        ]
        self.checker = ClusterChecker(self.machines)
        self.checker.elected_uncleanly = self._elected_uncleanly
        self.replica_rules = ReplicaRules(self.checker.machines)
        self.decisions = DecisionChecker(self.machines, lambda: self.simulation.now_ms)
        self.replication_factor = min(3, len(broker_ids))
        brokers = [machine.address() for machine in self.machines if machine.settings.is_broker]
        self.partitions = [PartitionHistory(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
        if scenario.chaos_admins:
            self.partitions.append(PartitionHistory(WILD, 0))
        if "retention.bytes" in scenario.topic_configs:
            for partition in self.partitions:
                partition.may_start_at = EVERYTHING_MAY_GO
        self.load = Load(self.simulation, self.network, brokers, self.partitions, think_ms=self.random.choice(THINK_MS))
        self.load.really_leads = self._really_leads
        self.producers = [
            IdempotentProducer(self.load, self._partition(number), f"producer-{number}")
            for number in range(IDEMPOTENT_PRODUCERS)
        ]
        self.plain = [
            PlainProducer(self.load, self._partition(number), f"plain-{number}") for number in range(PLAIN_PRODUCERS)
        ]
        self.readers = [Reader(self.load, self._partition(number), f"reader-{number}") for number in range(READERS)]
        self.admins = [Admin(self.load, number, self.replication_factor) for number in range(scenario.admins)]
        self.movers = [Mover(self.load, number, list(broker_ids)) for number in range(scenario.moves)]
        self.chaos_admins = [
            ChaosAdmin(self.load, number, list(broker_ids), self.replication_factor, scenario.disruptions)
            for number in range(scenario.chaos_admins)
        ]
        machines = [machine for machine in self.machines if machine.settings.is_broker]
        self.directory_movers = [DirectoryMover(self.load, each, machines) for each in range(scenario.directory_moves)]
        controllers = [machine for machine in self.machines if machine.settings.is_controller]
        self.voter_admin = None if scenario.voters is None else VoterAdmin(self.load, controllers)
        names = [client.name for client in self.load.clients]
        aims = bool(scenario.aimed) and seed % AIMED_SEEDS == AIMED_SEEDS - 1
        self.faults = Faults(
            FaultTarget(self.simulation, self.network, self.machines, names, self._whole),
            scenario.aimed if aims else scenario.kinds,
            at_once_max=1 if aims else scenario.at_once_max,
            duration_ms=AIMED_MS if aims else scenario.duration_ms,
        )
        self.clocks = Clocks(self.simulation, self.machines)
        self._left = 0

    def _really_leads(self, address: Address, partition: PartitionHistory) -> bool:
        registration = self._registration(partition)
        leader = None if registration is None else self.checker.machines.get(registration.leader)
        return leader is not None and leader.host == address[0]

    def _elected_uncleanly(self, topic: str, index: int) -> None:
        for partition in self.partitions:
            if (partition.topic, partition.index) == (topic, index):
                partition.elected_uncleanly()

    def _partition(self, number: int) -> PartitionHistory:
        return self.partitions[number % len(self.partitions)]

    # The machines

    def _settings(self, controller_ids: Sequence[int]) -> dict[str, Any]:
        """What all nodes have; times are short, so that a run sees many of them pass."""
        if self.scenario.voters is None:
            voters = [f"{node_id}@node-{node_id}:{CONTROLLER_PORT}" for node_id in controller_ids]
            quorum = {"controller_quorum_voters": ",".join(voters)}
        else:
            servers = [f"node-{node_id}:{CONTROLLER_PORT}" for node_id in controller_ids]
            quorum = {"controller_quorum_bootstrap_servers": ",".join(servers)}
        return {
            **quorum,
            "log_flush_offset_checkpoint_interval_ms": 1_000,
            "replica_high_watermark_checkpoint_interval_ms": 500,
            "log_initial_task_delay_ms": 500,
            "broker_session_timeout_ms": self.random.choice(self.scenario.session_ms),
            "replica_lag_time_max_ms": self.random.choice((1_500, 5_000)),
            "auto_create_topics_enable": False,
            "log_message_timestamp_after_max_ms": CLOCKS_APART_MS_MAX,
            **self.scenario.settings,
        }

    def _machine(self, node_id: int, *, broker: bool, controller: bool) -> Machine:
        host = f"node-{node_id}"
        disk_count = self.random.choice(self.scenario.disks)
        disks = [
            SimulatedDisk(index, random=Random(self.random.getrandbits(64)), clock=self.simulation.clock)
            for index in range(disk_count)
        ]
        roles = {"broker": broker, "controller": controller}
        machine = Machine(
            self.simulation,
            disks,
            network=self.network,
            host=host,
            format_request=self._format_request(node_id, host, f"/data/{disks[0].directory}"),
            node_id=node_id,
            process_roles=",".join(role for role, has in roles.items() if has),
            **self._listeners(host, broker=broker, controller=controller),
            **self.settings,
        )
        machine.reboots = self.scenario.reboots
        machine.before_start = lambda: self._mend(machine)
        machine.stopped = lambda: self._stopped(machine)
        machine.observed = lambda: self._observe(machine)
        machine.died = lambda: self.decisions.ended(machine)
        return machine

    def _listeners(self, host: str, *, broker: bool, controller: bool) -> dict[str, str]:
        """The settings of a machine's listeners."""
        listeners = {f"PLAINTEXT://{host}:{CLIENT_PORT}": broker, f"CONTROLLER://{host}:{CONTROLLER_PORT}": controller}
        return {"listeners": ",".join(listener for listener, has in listeners.items() if has)}

    def _stopped(self, machine: Machine) -> None:
        """A clean stop is over."""
        self.decisions.ended(machine)
        self.simulation.after_ms(RESTART_DELAY_MS, lambda: self._start(machine))

    def _format_request(self, node_id: int, host: str, path: str) -> FormatRequest:
        standalone = self.scenario.voters is not None and node_id == FIRST_CONTROLLER_ID
        return FormatRequest(
            CLUSTER_ID,
            node_id,
            path,
            feature_levels={ELR_VERSION: self.eligible},
            standalone=standalone,
            controller=VoterEndpoint(CONTROLLER_LISTENER, host, CONTROLLER_PORT) if standalone else None,
        )

    def _mend(self, machine: Machine) -> None:
        """Whoever starts a machine sees to its disks first."""
        for disk in machine.disks:
            disk.mend()
        machine.restart_delay_ms = RESTART_DELAY_MS
        if machine.loses_disk and self._others_have_what(machine.settings.node_id):
            machine.take_out_last_disk()
        machine.loses_disk = False

    def _others_have_what(self, broker_id: int) -> bool:
        """Whether every partition has somebody in sync, or eligible, besides a broker.

        It goes on having him where two have to be in sync, also while a controller takes the broker for alive, which
        stops after a while even if none answers: whoever leaves below the minimum stays eligible. With a minimum of one
        the others just leave, and nobody is elected once the last has lost its disk; Kafka elects it, empty.
        """
        topics = self.checker.image.topics_by_id.values()
        with_it = [each for topic in topics for each in topic.partitions if broker_id in each.replicas]
        return all({*each.isr, *each.elr} - {broker_id} for each in with_it)

    def _observe(self, machine: Machine) -> None:
        self.checker.check(machine)
        self.decisions.check(machine)

    def _start(self, machine: Machine) -> None:
        if not machine.running:
            machine.start()

    # The run

    def run(self) -> Simulation:
        """The whole run."""
        with small_limits(self.scenario.limits), replayable(self.simulation, self.scenario.name):
            self._boot()
            for machine in self.machines:
                machine.stall(self.scenario.stall_probability)
            self._suffer()
            self._recover()
            self._compare_metadata()
            self._compare_replicas()
            self._compare_places()
        return self.simulation

    def _wait_until(self, holds: Callable[[], bool], within_ms: int, rule: str, detail: Callable[[], str]) -> None:
        """Runs until something holds; it has to within this time."""
        until_ms = self.simulation.now_ms + within_ms
        while not holds():
            check(self.simulation.now_ms < until_ms, rule, detail())
            self.simulation.run(self.simulation.now_ms + STEP_MS)

    def _boot(self) -> None:
        self.clocks.begin()
        self._look()
        for machine in self.machines:
            self.simulation.after_ms(self.random.randrange(BOOT_SPREAD_MS), machine.start)
        self._wait_until(self._all_ready, START_MS_MAX, "a cluster starts", self._unready)
        configs = self._topic_configs()
        self._make_topics(TOPICS, PARTITIONS, configs)
        if self.scenario.chaos_admins:
            self._make_topics([WILD], 1, configs)
        if self.voter_admin is not None:
            self._first_voters(self.voter_admin)

    def _topic_configs(self) -> dict[str, str]:
        """Of the topics of the load."""
        configs = {"index.interval.bytes": "200", "min.insync.replicas": str(1 + (self.replication_factor > 1))}
        if self.scenario.durable:
            configs["flush.messages"] = "1"
        return {**configs, **self.scenario.topic_configs}

    def _look(self) -> None:
        """Looks at the replicas every now and then; it changes nothing of the run."""
        for partition in self._alike():
            self.replica_rules.look(self.checker.image, partition.topic, partition.index, unclean=partition.unclean)
        self.replica_rules.look_at_waiting()
        self.checker.quorum_rules.look()
        self.simulation.after_ms(LOOK_MS, self._look)

    def _make_topics(self, names: Sequence[str], partition_count: int, configs: dict[str, str]) -> None:
        made: list[bool] = []
        request = create_request(names, partition_count, self.replication_factor, configs)
        self.admins[0].create(request, lambda: made.append(True))
        self._wait_until(lambda: bool(made), START_MS_MAX, "topics are made", str)

    def _first_voters(self, admin: VoterAdmin) -> None:
        """The first controller was formatted as the only voter; others join it."""
        assert self.scenario.voters is not None
        for node_id in range(FIRST_CONTROLLER_ID + 1, FIRST_CONTROLLER_ID + self.scenario.voters):
            admin.add(node_id)
            key = admin.key(node_id)
            self._wait_until(lambda: key in self._voters(), START_MS_MAX, "a voter is added", str)  # noqa: B023

    def _voters(self) -> set[Key]:
        """The voters as the newest leader of the quorum has them."""
        leader = self.faults.cluster.controller()
        voters = () if leader is None else leader.broker.quorum.describe().voters
        return {(voter.key.id, voter.key.directory_id) for voter in voters}

    def _whole(self) -> bool:
        """See `FaultTarget.whole`."""
        for machine in self.machines:
            if not machine.running or not machine.broker.ready:
                return False
            registered = self.checker.image.brokers.get(machine.settings.node_id)
            if machine.settings.is_broker and (
                registered is None or registered.fenced or registered.epoch != machine.broker.state.broker_epoch
            ):
                return False
        found = [self._registration(partition) for partition in self.partitions]
        return all(each is not None and len(each.isr) == len(each.replicas) for each in found)

    def _nothing_is_missing(self) -> bool:
        """Whether all replicas are in sync and end where their leader's does."""
        if not self._whole():
            return False
        for partition in self._replicated():
            registration = self._registration(partition)
            if registration is None or len(registration.isr) < len(registration.replicas):
                return False
            contents = self._contents(partition, registration).values()
            if len({end_offset(content) for content in contents}) > 1:
                return False
        return True

    def _all_ready(self) -> bool:
        return all(machine.running and machine.broker.ready for machine in self.machines)

    def _all_stay(self) -> bool:
        """Whether all are ready, and none of them still on its way to a clean stop."""
        return self._all_ready() and not any(machine.broker.state.stopping for machine in self.machines)

    def _unready(self) -> str:
        return ", ".join(machine.host for machine in self.machines if not (machine.running and machine.broker.ready))

    def _suffer(self) -> None:
        """Load and faults."""
        before = self._leader_epochs()
        writers = [each.go_on for each in (*self.producers, *self.plain)]
        others = [each.go_on for each in self.readers] + [each.go_on for each in self._all_admins()]
        for go_on in (*writers, *others):
            go_on()
        self.faults.begin()
        self.simulation.run(self.simulation.now_ms + self.scenario.load_ms)
        self.load.going_on = False
        self.faults.end()
        self.network.heal()
        if self.scenario.steady:
            after = self._leader_epochs()
            changed = sorted(name for name, epoch in before.items() if after[name] != epoch)
            check(not changed, STEADY, ", ".join(changed))

    def _leader_epochs(self) -> dict[str, int]:
        """Leader epochs of the partitions of the load, and of the metadata quorum."""
        epochs = {"the controller": self.machines[0].broker.quorum.epoch}
        for partition in self.partitions:
            registration = self._registration(partition)
            assert registration is not None
            epochs[partition.name] = registration.leader_epoch
        return epochs

    def _registration(self, partition: PartitionHistory) -> PartitionRegistration | None:
        return self.checker.image.partition(partition.topic, partition.index)

    def _recover(self) -> None:
        """Everything is well: whoever is down starts, everybody finishes."""
        self._wait_until(
            lambda: not self._led_in_lost(), LOST_MS_MAX, LOST_DIRECTORY, lambda: ", ".join(self._led_in_lost())
        )
        for machine in self.machines:
            machine.stall(0.0)
            if machine.running and any(directory.error is not None for directory in machine.log_directories):
                machine.kill(power_failed=False)
            elif not machine.running:
                self.simulation.after_ms(RESTART_DELAY_MS, partial(self._start, machine))
        self.simulation.trace("everything is well")
        self._wait_until(self._all_stay, END_MS_MAX, "a cluster that is well starts", self._unready)
        rule = "every client finishes what it has begun"
        self._wait_until(lambda: not self._unfinished(), END_MS_MAX, rule, lambda: ", ".join(self._unfinished()))
        rule = "replicas come back into sync"
        self._wait_until(lambda: not self._unsynced(), END_MS_MAX, rule, lambda: ", ".join(self._unsynced()))
        self.simulation.run(self.simulation.now_ms + SETTLE_MS)
        newest, rule = self.checker.image.offset, "every node follows the metadata"
        self._wait_until(lambda: not self._behind(newest), END_MS_MAX, rule, lambda: ", ".join(self._behind(newest)))
        self._read_everything()

    def _led_in_lost(self) -> list[str]:
        """Partitions whose leader keeps them in a directory that has failed, though the leader runs."""
        found = []
        for machine in self.machines:
            lost = [each.id for each in machine.log_directories if each.error is not None] if machine.running else []
            for partition in self.partitions if lost else ():
                registration = self._registration(partition)
                own = machine.settings.node_id
                if registration is not None and registration.leader == own and registration.directory(own) in lost:
                    found.append(f"{partition.name} on {machine.host}")
        return found

    def _behind(self, offset: int) -> list[str]:
        """Nodes that do not have the metadata up to an offset."""
        return [machine.host for machine in self.machines if machine.broker.image.offset < offset]

    def _unfinished(self) -> list[str]:
        names = [producer.name for producer in self.producers if producer.window]
        return names + [admin.client.name for admin in self._all_admins() if admin.busy]

    def _all_admins(self) -> list[AnyAdmin]:
        found: list[AnyAdmin] = [*self.admins, *self.movers, *self.directory_movers, *self.chaos_admins]
        return found if self.voter_admin is None else [*found, self.voter_admin]

    def _replicated(self) -> Sequence[PartitionHistory]:
        """The partitions whose replicas have to come back into sync."""
        return self.partitions

    def _alike(self) -> Sequence[PartitionHistory]:
        """Those of them whose replicas have the same bytes at any time."""
        return self._replicated()

    def _unsynced(self) -> list[str]:
        """Partitions whose replicas are not all in sync and at the same end, with the reason."""
        found = []
        for partition in self._replicated():
            registration = self._registration(partition)
            if registration is None or registration.leader < 0 or len(registration.isr) < len(registration.replicas):
                state = registration and f"led by {registration.leader}, in sync {registration.isr}"
                found.append(f"{partition.name}: {state}")
                continue
            if registration.adding_replicas or registration.removing_replicas:
                found.append(f"{partition.name}: {registration.replicas} are being reassigned")
                continue
            ends = [self._end_offset(broker_id, partition) for broker_id in registration.replicas]
            if ends[0] is None or len(set(ends)) > 1:
                found.append(f"{partition.name}: {registration.replicas} end at {ends}")
        known = {partition.name for partition in self._replicated()}
        for topic in self.checker.image.topics_by_id.values():
            for index, each in enumerate(topic.partitions):
                if len(each.isr) < len(each.replicas) and f"{topic.name}-{index}" not in known:
                    found.append(f"{topic.name}-{index}: led by {each.leader}, in sync {each.isr}")
        return found

    def _end_offset(self, broker_id: int, partition: PartitionHistory) -> int | None:
        """Where a replica's log ends, with what is still being written; None while it is not open, which is mended."""
        machine = self.checker.machines[broker_id]
        log = machine.broker.logs.open_log(partition.topic, partition.index)
        if log is None:
            machine.do(lambda broker: open_log(broker, partition))
            return None
        return log.reserved_end_offset

    def _read_everything(self) -> None:
        """A new reader of each partition reads all of it; admins look for their topics."""
        self._left = len(self.partitions) + len(self.admins)

        def done() -> None:
            self._left -= 1

        for partition in self.partitions:
            reader = self._last_reader(partition, f"last-reader-of-{partition.name}")
            reader.done = done
            reader.go_on()
        for admin in self.admins:
            admin.check_topics(done)
        rule = "a cluster that is well answers"
        self._wait_until(lambda: self._left == 0, END_MS_MAX, rule, lambda: f"{self._left} are not done")

    def _last_reader(self, partition: PartitionHistory, name: str) -> Reader:
        return Reader(self.load, partition, name)

    def _compare_metadata(self) -> None:
        """Nodes that are as far in the metadata log have the same metadata."""
        topics: dict[int, list[object]] = {}
        for machine in self.machines:
            image = machine.broker.image
            own: list[object] = [(topic.name, topic.id, topic.partitions) for topic in image.topics_by_id.values()]
            same = topics.setdefault(image.offset, own) == own
            check(same, "nodes have the same metadata", f"{machine.host} at {image.offset}")

    def _compare_replicas(self) -> None:
        """Every replica holds the same bytes, and they are what the clients know."""
        for partition in self._alike_in_the_end():
            registration = self._registration(partition)
            assert registration is not None
            contents = self._contents(partition, registration)
            if partition.may_start_at:
                start = max(self._start_offset(broker_id, partition) for broker_id in registration.replicas)
                contents = {broker_id: kept(content, start) for broker_id, content in contents.items()}
            first = contents[registration.leader]
            different = [broker_id for broker_id, content in contents.items() if content != first]
            detail = f"{partition.name}: {different} differ from the leader {registration.leader}"
            check(not different, "replicas are equal", detail)
            values = decoded(memoryview(bytearray(first)), partition.name)
            partition.check_whole(values)
            self.simulation.trace(f"{partition.name} has {len(values)} records")

    def _alike_in_the_end(self) -> Sequence[PartitionHistory]:
        """Those whose replicas are compared byte for byte when all is over."""
        return self.partitions

    def _contents(self, partition: PartitionHistory, registration: PartitionRegistration) -> dict[int, bytes]:
        """What each replica has."""
        return {
            broker_id: replica_bytes(self.checker.machines[broker_id], partition.topic, partition.index)
            for broker_id in registration.replicas
        }

    def _start_offset(self, broker_id: int, partition: PartitionHistory) -> int:
        def opened() -> bool:
            return self._end_offset(broker_id, partition) is not None

        self._wait_until(opened, END_MS_MAX, "a log is opened", lambda: f"{partition.name} of {broker_id}")
        log = self.checker.machines[broker_id].broker.logs.open_log(partition.topic, partition.index)
        assert log is not None
        return log.log_start_offset

    def _compare_places(self) -> None:
        """Nobody keeps a replica that is not his, and the voters are who they should be."""
        for partition in self.partitions:
            registration = self._registration(partition)
            assert registration is not None
            keep = [
                machine.settings.node_id
                for machine in self.machines
                for disk in machine.disks
                if disk.exists(f"{partition.topic}-{partition.index}")
            ]
            detail = f"{partition.name}: {keep} keep one, its replicas are {registration.replicas}"
            check(
                sorted(keep) == sorted(registration.replicas),
                "a replica lies in one place, with those who are to have one",
                detail,
            )
        if self.voter_admin is not None:
            self.voter_admin.check_voters(self._voters())


def kept(content: bytes, start_offset: int) -> bytes:
    """Without what was deleted: each replica hears of it, and deletes the files that hold it, in its own time."""
    batches = [position for position, each in headers(memoryview(content)) if each.last_offset >= start_offset]
    return content[batches[0] :] if batches else b""


def end_offset(content: bytes) -> int:
    """Behind the last whole batch of a replica."""
    return max((each.next_offset for _, each in headers(memoryview(content))), default=0)


def open_log(broker: Broker, partition: PartitionHistory) -> None:
    """Has a log opened that nobody has used since it was closed."""
    with suppress(NotOpen, StorageError):
        broker.logs.log(partition.topic, partition.index, broker.now_ms)
