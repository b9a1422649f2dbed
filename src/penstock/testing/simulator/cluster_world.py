"""A world for a whole cluster: nodes on a network, clients with histories, faults out of the seed.

    ClusterWorld(seed, SCENARIOS["storm"]).run()

First the nodes start and the topics are made. Then, for a while, producers write, readers read what is written,
admins create and delete topics, and faults happen. Then everything is well again: each client finishes what it has
begun, every replica comes back into sync, and all replicas are read and compared, with each other and with what the
clients know.
`penstock.testing.simulator.cluster` has the parts: `checkers` what holds at every step, `history` what holds of the
records, `faults` what happens, `scenarios` how much of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from penstock.errors import StorageError
from penstock.log.replica import NotOpen
from penstock.metadata.features import ELR_VERSION
from penstock.metadata.format import FormatRequest
from penstock.metadata.image import PartitionRegistration
from penstock.node.broker import Broker
from penstock.raft.voters import VoterEndpoint
from penstock.testing.simulator.cluster.admins import Admin, create_request
from penstock.testing.simulator.cluster.checkers import ClusterChecker, replica_bytes
from penstock.testing.simulator.cluster.directory_movers import DirectoryMover
from penstock.testing.simulator.cluster.history import PartitionHistory
from penstock.testing.simulator.cluster.load import Load
from penstock.testing.simulator.cluster.movers import Mover
from penstock.testing.simulator.cluster.producers import IdempotentProducer, PlainProducer
from penstock.testing.simulator.cluster.readers import Reader, decoded
from penstock.testing.simulator.cluster.scenarios import Scenario
from penstock.testing.simulator.cluster.suffering import Faults, Suffering
from penstock.testing.simulator.cluster.voter_admins import CONTROLLER_LISTENER, Key, VoterAdmin
from penstock.testing.simulator.disk import SimulatedDisk
from penstock.testing.simulator.driver import Simulation
from penstock.testing.simulator.machine import CLUSTER_ID, RESTART_DELAY_MS, Machine
from penstock.testing.simulator.network import Address, Network
from penstock.testing.simulator.timeline import Violation, check

START_MS_MAX = 30_000
END_MS_MAX = 120_000
"""A cluster that is well has started, or finished everything, within these."""
STEADY = "no leader changes because of a broken connection"
SETTLE_MS = 1_000
STEP_MS = 250
BOOT_SPREAD_MS = 300
TOPICS = ("clicks", "orders")
PARTITIONS = 2
IDEMPOTENT_PRODUCERS, PLAIN_PRODUCERS, READERS = 6, 2, 6
THINK_MS = (120, 300, 600)
"""Up to one of these clients wait between two requests: a seed costs more than anything else what they ask for."""
HALF_OPEN_PROBABILITY = 0.3
CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
FIRST_CONTROLLER_ID = 11


class ClusterWorld:
    """One run. `run` raises Violation, with the seed and the end of the trace, if the code breaks a rule."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.seed = seed
        self.scenario = scenario
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
        self.replication_factor = min(3, len(broker_ids))
        brokers = [machine.address() for machine in self.machines if machine.settings.is_broker]
        self.partitions = [PartitionHistory(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
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
        machines = [machine for machine in self.machines if machine.settings.is_broker]
        self.directory_movers = [DirectoryMover(self.load, each, machines) for each in range(scenario.directory_moves)]
        controllers = [machine for machine in self.machines if machine.settings.is_controller]
        self.voter_admin = None if scenario.voters is None else VoterAdmin(self.load, controllers)
        names = [client.name for client in self.load.clients]
        self.faults = Faults(
            Suffering(self.simulation, self.network, self.machines, names, self._whole),
            scenario.kinds,
            at_once_max=scenario.at_once_max,
            duration_ms=scenario.duration_ms,
        )
        self._left = 0

    def _really_leads(self, address: Address, partition: PartitionHistory) -> bool:
        registration = self._registration(partition)
        leader = None if registration is None else self.checker.machines.get(registration.leader)
        return leader is not None and leader.host == address[0]

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
        }

    def _machine(self, node_id: int, *, broker: bool, controller: bool) -> Machine:
        host = f"node-{node_id}"
        disk_count = self.random.choice(self.scenario.disks)
        disks = [
            SimulatedDisk(index, random=Random(self.random.getrandbits(64)), clock=self.simulation.clock)
            for index in range(disk_count)
        ]
        roles = {"broker": broker, "controller": controller}
        listeners = {f"PLAINTEXT://{host}:{CLIENT_PORT}": broker, f"CONTROLLER://{host}:{CONTROLLER_PORT}": controller}
        machine = Machine(
            self.simulation,
            disks,
            network=self.network,
            host=host,
            format_request=self._format_request(node_id, host, f"/data/{disks[0].directory}"),
            node_id=node_id,
            process_roles=",".join(role for role, has in roles.items() if has),
            listeners=",".join(listener for listener, has in listeners.items() if has),
            **self.settings,
        )
        machine.before_start = lambda: self._mend(machine)
        machine.stopped = lambda: self.simulation.after_ms(RESTART_DELAY_MS, lambda: self._start(machine))
        machine.observed = lambda: self.checker.check(machine)
        return machine

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

    def _start(self, machine: Machine) -> None:
        if not machine.running:
            machine.start()

    # The run

    def run(self) -> Simulation:
        """The whole run."""
        try:
            self._boot()
            self._suffer()
            self._recover()
            self._compare_metadata()
            self._compare_replicas()
            self._compare_places()
        except Violation as violation:
            raise Violation(f"{violation}\n\n{self.replay}\n{self.simulation.trace_tail}") from violation
        except Exception as bug:
            rule = (
                f"no assertion fails: {describe(bug)}" if isinstance(bug, AssertionError) else f"error: {describe(bug)}"
            )
            raise Violation(f"{rule}\n\n{self.replay}\n{self.simulation.trace_tail}") from bug
        return self.simulation

    @property
    def replay(self) -> str:
        """How to see the same again."""
        return f"replay with: penstock simulate --scenario {self.scenario.name} --seeds {self.seed}"

    def _wait_until(self, holds: Callable[[], bool], within_ms: int, rule: str, detail: Callable[[], str]) -> None:
        """Runs until something holds; it has to within this time."""
        until_ms = self.simulation.now_ms + within_ms
        while not holds():
            check(self.simulation.now_ms < until_ms, rule, detail())
            self.simulation.run(self.simulation.now_ms + STEP_MS)

    def _boot(self) -> None:
        for machine in self.machines:
            self.simulation.after_ms(self.random.randrange(BOOT_SPREAD_MS), machine.start)
        self._wait_until(self._all_ready, START_MS_MAX, "a cluster starts", self._unready)
        configs = {"index.interval.bytes": "200", "min.insync.replicas": str(1 + (self.replication_factor > 1))}
        if self.scenario.durable:
            configs["flush.messages"] = "1"
        made: list[bool] = []
        request = create_request(TOPICS, PARTITIONS, self.replication_factor, configs)
        self.admins[0].create(request, lambda: made.append(True))
        self._wait_until(lambda: bool(made), START_MS_MAX, "topics are made", str)
        if self.voter_admin is not None:
            self._first_voters(self.voter_admin)

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
        """See `Suffering.whole`."""
        for machine in self.machines:
            if not machine.running or not machine.broker.ready:
                return False
            registered = self.checker.image.brokers.get(machine.settings.node_id)
            if machine.settings.is_broker and (
                registered is None or registered.fenced or registered.epoch != machine.broker.lifecycle.broker_epoch
            ):
                return False
        found = [self._registration(partition) for partition in self.partitions]
        return all(each is not None and len(each.isr) == len(each.replicas) for each in found)

    def _all_ready(self) -> bool:
        return all(machine.running and machine.broker.ready for machine in self.machines)

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
        for machine in self.machines:
            if machine.running and any(directory.error is not None for directory in machine.broker.directories):
                machine.kill(power_failed=False)
            elif not machine.running:
                self.simulation.after_ms(RESTART_DELAY_MS, lambda started=machine: self._start(started))  # type: ignore[misc]
        self.simulation.trace("everything is well")
        self._wait_until(self._all_ready, END_MS_MAX, "a cluster that is well starts", self._unready)
        rule = "every client finishes what it has begun"
        self._wait_until(lambda: not self._unfinished(), END_MS_MAX, rule, lambda: ", ".join(self._unfinished()))
        rule = "replicas come back into sync"
        self._wait_until(lambda: not self._unsynced(), END_MS_MAX, rule, lambda: ", ".join(self._unsynced()))
        self.simulation.run(self.simulation.now_ms + SETTLE_MS)
        newest, rule = self.checker.image.offset, "every node follows the metadata"
        self._wait_until(lambda: not self._behind(newest), END_MS_MAX, rule, lambda: ", ".join(self._behind(newest)))
        self._read_everything()

    def _behind(self, offset: int) -> list[str]:
        """Nodes that do not have the metadata up to an offset."""
        return [machine.host for machine in self.machines if machine.broker.image.offset < offset]

    def _unfinished(self) -> list[str]:
        names = [producer.name for producer in self.producers if producer.window]
        return names + [admin.client.name for admin in self._all_admins() if admin.busy]

    def _all_admins(self) -> list[Admin | Mover | DirectoryMover | VoterAdmin]:
        found: list[Admin | Mover | DirectoryMover | VoterAdmin] = [*self.admins, *self.movers, *self.directory_movers]
        return found if self.voter_admin is None else [*found, self.voter_admin]

    def _replicated(self) -> Sequence[PartitionHistory]:
        """The partitions whose replicas have to come back into sync."""
        return self.partitions

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
        return found

    def _end_offset(self, broker_id: int, partition: PartitionHistory) -> int | None:
        """Where a replica's log ends; None while it is not open, which is mended."""
        machine = self.checker.machines[broker_id]
        log = machine.broker.logs.open_log(partition.topic, partition.index)
        if log is None:
            machine.do(lambda broker: open_log(broker, partition))
            return None
        return log.log_end_offset

    def _read_everything(self) -> None:
        """A new reader of each partition reads all of it; admins look for their topics."""
        self._left = len(self.partitions) + len(self.admins)

        def done() -> None:
            self._left -= 1

        for partition in self.partitions:
            reader = Reader(self.load, partition, f"last-reader-of-{partition.name}")
            reader.done = done
            reader.go_on()
        for admin in self.admins:
            admin.check_topics(done)
        rule = "a cluster that is well answers"
        self._wait_until(lambda: self._left == 0, END_MS_MAX, rule, lambda: f"{self._left} are not done")

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
        for partition in self.partitions:
            registration = self._registration(partition)
            assert registration is not None
            contents = {
                broker_id: replica_bytes(self.checker.machines[broker_id], partition.topic, partition.index)
                for broker_id in registration.replicas
            }
            first = contents[registration.leader]
            different = [broker_id for broker_id, content in contents.items() if content != first]
            detail = f"{partition.name}: {different} differ from the leader {registration.leader}"
            check(not different, "replicas are equal", detail)
            values = decoded(memoryview(bytearray(first)), partition.name)
            partition.check_whole(values)
            self.simulation.trace(f"{partition.name} has {len(values)} records")

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


def open_log(broker: Broker, partition: PartitionHistory) -> None:
    """Has a log opened that nobody has used since it was closed."""
    with suppress(NotOpen, StorageError):
        broker.logs.log(partition.topic, partition.index, broker.now_ms)


def describe(bug: Exception) -> str:
    """An assertion, or the error behind it, with where it came from."""
    cause: BaseException = bug
    while cause.__cause__ is not None:
        cause = cause.__cause__
    frame = cause.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = (
        "" if frame is None else f" ({frame.tb_frame.f_code.co_filename.rpartition('penstock/')[2]}:{frame.tb_lineno})"
    )
    return f"{bug}: {type(cause).__name__}: {cause}{where}"
