"""One cluster of Apache Kafka and Penstock: Kafka decides (the controller) and is broker 1, we are brokers 2 and 3.

with MixedCluster(path) as cluster:
    cluster.create_topic("moved", [[1, 2, 3], [2, 3, 1]])
    cluster.reassign("moved", {0: [3, 1, 2]}, through=2)
    cluster.wait_until_in_sync("moved")
replicas_are_equal({broker: cluster.partition_dir(broker, "moved", 0) for broker in (1, 2, 3)}, 1)
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from interop.kafka_peer import LACKING_FEATURES, KafkaPeer, random_uuid, run_tool
from interop.mixed_cluster.comparison import log_bytes
from interop.mixed_cluster.security import ADMIN, Security
from support.processes import free_ports

from penstock.client.client import Client
from penstock.client.security import UNSECURED, client_security
from penstock.errors import ErrorCode, PenstockError, UnreachableError
from penstock.log.meta_properties import parse_meta_properties
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from penstock.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.metadata_response import MetadataResponsePartition
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest

KAFKA = 1
PENSTOCKS = (2, 3)
BROKERS = (KAFKA, *PENSTOCKS)
CONTROLLER = 100
"""The first of them, where they are nodes of their own."""
METADATA = "__cluster_metadata"
GROUPS = "__consumer_offsets"
"""On the broker that has coordinators; Kafka would make it anywhere as soon as a client looks for one."""
ASKED_AGAIN = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
TIMEOUT_S = 60.0
POLL_S = 0.05
DUMP = "org.apache.kafka.tools.DumpLogSegments"


class PenstockNode:
    """A process of ours: a broker, or a controller.

    Parameters: `port`, where it listens; `log_directories`, how many it has; `settings`, more of its properties, None
    leaves one out.
    """

    def __init__(
        self,
        directory: Path,
        node_id: int,
        settings: Mapping[str, object | None],
        *,
        port: int,
        role: str = "broker",
        log_directories: int = 1,
    ) -> None:
        self.node_id = node_id
        self.log_dirs = [directory / f"data-{index}" for index in range(log_directories)]
        self.log_file = directory / "server.log"
        self.address = f"127.0.0.1:{port}"
        self._config_file = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)
        entries = {
            "process.roles": role,
            "node.id": node_id,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{'PLAINTEXT' if role == 'broker' else 'CONTROLLER'}://{self.address}",
            "log.dirs": ",".join(map(str, self.log_dirs)),
            **settings,
        }
        self._config_file.write_text(
            "".join(f"{name}={value}\n" for name, value in entries.items() if value is not None)
        )

    def format(self, cluster_id: str, *options: str) -> None:
        """Formats the log directories."""
        command = ("storage", "format", "-t", cluster_id, "-c", str(self._config_file), *options)
        assert self._run(*command).wait() == 0, self.log()

    def start(self) -> None:
        """Starts the process; it is ready later."""
        self._process = self._run("server", "start", str(self._config_file))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops it, cleanly by default."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Everything that it has said."""
        return self.log_file.read_text(errors="replace")

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "penstock", *arguments], stdout=log, stderr=subprocess.STDOUT
            )


class MixedCluster:
    """See the module's head.

    Parameters: `metadata_version`, the level to format with; `controllers`, the nodes that decide, each "kafka" or
    "penstock", as processes of their own with ids from 100 on (none: Kafka's broker is the controller too); `dynamic`,
    whether their quorum is a dynamic one (kraft.version 1), of the first alone, the others to be added; `settings`, of
    all nodes;
    `log_directories`, how many a broker of ours has; `java_options`, more for Kafka's nodes; `security`, of all
    listeners.
    """

    def __init__(
        self,
        directory: Path,
        *,
        metadata_version: int = 30,
        controllers: Sequence[str] = (),
        dynamic: bool = False,
        settings: Mapping[str, object] | None = None,
        log_directories: int = 1,
        java_options: Sequence[str] = (),
        security: Security | None = None,
    ) -> None:
        self._directory = directory
        self._security = security
        self._java_options = java_options
        self._features = {**dict.fromkeys(LACKING_FEATURES, 0), "metadata.version": metadata_version}
        self._dynamic = dynamic
        self.cluster_id = random_uuid()
        kinds = {CONTROLLER + place: kind for place, kind in enumerate(controllers)}
        voters = [*kinds] or [KAFKA]
        free = free_ports(len(voters) + len(BROKERS))
        self._controller_ports = dict(zip(voters, free, strict=False))
        ports = dict(zip(BROKERS, free[len(voters) :], strict=True))
        common = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": 1, **(settings or {})}
        if security is not None:
            common |= security.settings
        at = "127.0.0.1:{1}" if dynamic else "{0}@127.0.0.1:{1}"
        self.quorum: dict[str, object | None] = {"controller.quorum.voters": None, **common}
        where = "controller.quorum.bootstrap.servers" if dynamic else "controller.quorum.voters"
        self.quorum[where] = ",".join(at.format(*each) for each in self._controller_ports.items())
        self.controllers = {node_id: self._controller(node_id, kind) for node_id, kind in kinds.items()}
        listeners = f"PLAINTEXT://127.0.0.1:{ports[KAFKA]}"
        roles = {"process.roles": "broker", "listeners": listeners}
        if not kinds:
            own = f"CONTROLLER://127.0.0.1:{self._controller_ports[KAFKA]}"
            roles = {"process.roles": "broker,controller", "listeners": f"{listeners},{own}"}
        self.kafka = self._peer(KAFKA, roles, ports[KAFKA])
        self.penstocks = {
            each: PenstockNode(
                directory / str(each), each, self.quorum, port=ports[each], log_directories=log_directories
            )
            for each in PENSTOCKS
        }

    def _controller(self, node_id: int, kind: str) -> KafkaPeer | PenstockNode:
        port = self._controller_ports[node_id]
        if kind == "penstock":
            directory = self._directory / str(node_id)
            return PenstockNode(directory, node_id, self.quorum, port=port, role="controller")
        roles = {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{port}"}
        return self._peer(node_id, roles, port)

    def _peer(self, node_id: int, roles: Mapping[str, str], port: int) -> KafkaPeer:
        peer = KafkaPeer(
            self._directory / str(node_id),
            properties={**self.quorum, **roles},
            features=self._features,
            cluster_id=self.cluster_id,
            node_id=node_id,
            java_options=self._java_options,
        )
        peer.write_configuration()
        peer.port = port
        peer.tls = self._security and self._security.context()
        return peer

    @property
    def _deciding(self) -> int:
        """The first node with the role of a controller."""
        return next(iter(self.controllers), KAFKA)

    def _begin(self, node_id: int) -> None:
        """Formats and starts a node."""
        node = self._node(node_id)
        options = []
        if self._dynamic and (node_id == KAFKA if not self.controllers else node_id in self.controllers):
            options = ["--standalone" if node_id == self._deciding else "--no-initial-controllers"]
        if self._security is not None and (node_id in self._controller_ports):
            options += self._security.format_options
        if isinstance(node, KafkaPeer):
            node.format(*options)
        else:
            if node_id in self.controllers and "--no-initial-controllers" not in options:
                version = self._features["metadata.version"]
                options += ["--feature", f"metadata.version={version}"]
            node.format(self.cluster_id, *options)
        node.start()

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor() as pool:  # brokers wait for the controller
                list(pool.map(self._begin, (*BROKERS, *self.controllers)))
            self.wait_until(self._complete, "all brokers are known to all brokers")
            self.create_topic(GROUPS, [[KAFKA]], cleanup_policy="compact")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops all brokers, and then the controllers."""
        for node_id in (*PENSTOCKS, KAFKA, *self.controllers):
            self._node(node_id).stop(how)

    def _node(self, node_id: int) -> KafkaPeer | PenstockNode:
        if node_id in self.controllers:
            return self.controllers[node_id]
        return self.kafka if node_id == KAFKA else self.penstocks[node_id]

    def stop_node(self, node_id: int, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops one node."""
        self._node(node_id).stop(how)

    def wipe_node(self, node_id: int) -> None:
        """Formats the directory of a broker of ours, which is stopped, as if its disk had been replaced."""
        broker = self.penstocks[node_id]
        for log_dir in broker.log_dirs:
            shutil.rmtree(log_dir)
        broker.format(self.cluster_id)

    def start_node(self, node_id: int) -> None:
        """Starts it again, on its directory."""
        self._node(node_id).start()

    def address(self, broker_id: int) -> str:
        """Where clients reach a broker."""
        return self.kafka.bootstrap if broker_id == KAFKA else self.penstocks[broker_id].address

    @property
    def bootstrap(self) -> str:
        """All brokers, for clients."""
        return ",".join(map(self.address, BROKERS))

    def leader(self) -> int:
        """The active controller."""
        return int(self._quorum().leader_id)

    def observers(self) -> dict[int, UUID]:
        """Who follows the metadata log without a vote, and the directory that each says it has."""
        return {each.replica_id: each.replica_directory_id for each in self._quorum().observers}

    def voters(self) -> set[int]:
        """Who votes."""
        return {each.replica_id for each in self._quorum().current_voters}

    def add_voter(self, node_id: int, *, through: int) -> None:
        """Makes a controller of a dynamic quorum one that votes, when it has caught up.

        Two voters have no leader while one of them is slow: it is asked for again then.
        """
        self.wait_until(lambda: node_id in self.observers(), f"controller {node_id} follows")
        listener = Listener(name="CONTROLLER", host="127.0.0.1", port=self._controller_ports[node_id])
        request = AddRaftVoterRequest(
            cluster_id=self.cluster_id,
            timeout_ms=int(TIMEOUT_S * 1000),
            voter_id=node_id,
            voter_directory_id=self.directory_id(node_id),
            listeners=[listener],
        )

        def votes() -> bool:
            answer = self.ask(through, request)
            assert answer.error_code in (0, *ASKED_AGAIN, ErrorCode.DUPLICATE_VOTER), answer.error_message
            return answer.error_code not in ASKED_AGAIN

        self.wait_until(votes, f"controller {node_id} votes")

    def remove_voter(self, node_id: int, *, through: int) -> None:
        """Has one vote no more."""
        request = RemoveRaftVoterRequest(
            cluster_id=self.cluster_id, voter_id=node_id, voter_directory_id=self.directory_id(node_id)
        )
        answer = self.ask(through, request)
        assert answer.error_code == 0, answer.error_message

    def directory_id(self, node_id: int) -> UUID:
        """The id of a node's first directory, in its meta.properties."""
        path = self._node(node_id).log_dirs[0] / "meta.properties"
        found = parse_meta_properties(path.read_bytes(), str(path)).directory_id
        assert found is not None
        return found

    def wait_until_there_is_a_leader(self) -> None:
        """Until somebody is the active controller."""

        def holds() -> bool:
            with suppress(AssertionError, PenstockError):
                return self.leader() >= 0
            return False

        self.wait_until(holds, "a controller is elected")

    def wait_until_voters_follow(self) -> None:
        """Until every voter has what the leader has had committed by now."""
        high_watermark = self._quorum().high_watermark

        def holds() -> bool:
            return all(each.log_end_offset >= high_watermark for each in self._quorum().current_voters)

        self.wait_until(holds, f"all voters have everything before offset {high_watermark}")

    def _quorum(self) -> Any:
        topic = TopicData(topic_name=METADATA, partitions=[PartitionData(partition_index=0)])
        (found,) = self.ask(PENSTOCKS[0], DescribeQuorumRequest(topics=[topic])).topics[0].partitions
        assert found.error_code == 0, found
        return found

    def _complete(self) -> bool:
        return all(self.answers(each) and self._brokers_known_to(each) == set(BROKERS) for each in BROKERS)

    def _brokers_known_to(self, broker_id: int) -> set[int]:
        return {broker.node_id for broker in self.ask(broker_id, MetadataRequest(topics=[])).brokers}

    def answers(self, broker_id: int) -> bool:
        """Whether a broker takes connections and answers."""
        if broker_id == KAFKA:
            return bool(self.kafka.answers())
        broker = self.penstocks[broker_id]
        assert broker.running, broker.log()[-4000:]
        with suppress(UnreachableError):
            return self._brokers_known_to(broker_id) != set()
        return False

    def finalized_level(self, broker_id: int, feature: str) -> int | None:
        """A feature's finalized level, as a broker tells it."""
        answer = self.ask(broker_id, ApiVersionsRequest(client_software_name="test", client_software_version="1"))
        return next((each.max_version_level for each in answer.finalized_features if each.name == feature), None)

    # Requests

    def ask(self, node_id: int, message: Any, *, user: str = ADMIN) -> Any:
        """Has a broker, or a controller that is a node of its own, answer a request (a user's, if it is secured)."""
        security = UNSECURED if self._security is None else client_security(self._security.properties(user))
        ports = self._controller_ports
        address = f"127.0.0.1:{ports[node_id]}" if node_id in self.controllers else self.address(node_id)

        async def once() -> Any:
            async with Client(address, timeout_ms=int(TIMEOUT_S * 1000), security=security) as client:
                return await client.send(message)

        return asyncio.run(once())

    def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        *,
        through: int = KAFKA,
        **configs: object,
    ) -> None:
        """Creates a topic with these replicas, the first of each partition its leader."""
        replicas = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(assignment)
        ]
        entries = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()]
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=replicas, configs=entries
        )
        (answer,) = self.ask(through, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        assert answer.error_code == 0, (ErrorCode(answer.error_code), answer.error_message)

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]], *, through: int = KAFKA) -> None:
        """Begins to move partitions to other replicas."""
        partitions = [ReassignablePartition(partition_index=index, replicas=list(to)) for index, to in replicas.items()]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)])
        answer = self.ask(through, request)
        codes = [answer.error_code, *(each.error_code for found in answer.responses for each in found.partitions)]
        assert set(codes) == {0}, answer

    def elect_preferred(self, topic: str, partitions: Sequence[int], *, through: int = KAFKA) -> None:
        """Has the first replica of each partition lead. A controller of ours that is new elects nobody whom it has not
        heard of yet, and a broker of Kafka's says every 2 s that it lives."""
        wanted = TopicPartitions(topic=topic, partitions=list(partitions))

        def elected() -> bool:
            answer = self.ask(through, ElectLeadersRequest(topic_partitions=[wanted], timeout_ms=30_000))
            codes = {each.error_code for found in answer.replica_election_results for each in found.partition_result}
            unheard = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            assert codes <= {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED, unheard}, answer
            return unheard not in codes

        self.wait_until(elected, "the first replicas lead")

    def partitions(self, topic: str, *, through: int) -> dict[int, MetadataResponsePartition]:
        """What a broker tells clients of a topic's partitions."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = self.ask(through, request).topics
        return {partition.partition_index: partition for partition in found.partitions}

    # Waiting

    def wait_until(self, holds: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Looks again and again. Fails with the ends of all logs."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                nodes = map(self._node, (*BROKERS, *self.controllers))
                logs = "\n".join(f"--- {each.node_id}\n{each.log()[-4000:]}" for each in nodes)
                raise AssertionError(f"it does not come to pass that {what}\n{logs}")
            time.sleep(POLL_S)

    def leads_nothing(self, topic: str, broker_id: int) -> bool:
        """Whether the others lead all partitions, and say so."""
        return all(
            found.leader_id not in (-1, broker_id)
            for other in BROKERS
            if other != broker_id
            for found in self.partitions(topic, through=other).values()
        )

    def wait_until_in_sync(
        self, topic: str, replicas: Mapping[int, Sequence[int]] | None = None, leaders: Mapping[int, int] | None = None
    ) -> None:
        """Until every broker says that all replicas are in sync (and are these, and lead so, where it is given)."""

        def holds() -> bool:
            for broker_id in BROKERS:
                if not self.answers(broker_id) or not (told := self.partitions(topic, through=broker_id)):
                    return False  # it is not up, or has not heard of the topic
                for index, found in told.items():
                    if found.leader_id < 0 or set(found.isr_nodes) != set(found.replica_nodes):
                        return False
                    if replicas is not None and list(replicas.get(index, found.replica_nodes)) != found.replica_nodes:
                        return False
                    if leaders is not None and leaders.get(index, found.leader_id) != found.leader_id:
                        return False
            return True

        try:
            self.wait_until(holds, f"{topic} is in sync, by replicas {replicas} and leaders {leaders}")
        except AssertionError as error:
            error.add_note(str({each: self.partitions(topic, through=each) for each in BROKERS}))
            raise

    # What is on the disks

    def partition_dir(self, broker_id: int, topic: str, partition: int) -> Path:
        """The directory of a replica."""
        name = f"{topic}-{partition}"
        first, *others = self._node(broker_id).log_dirs
        return next((found for each in others if (found := each / name).exists()), first / name)

    def log_bytes(self, broker_id: int, topic: str, partition: int) -> bytes:
        """All bytes of a replica's log."""
        return log_bytes(self.partition_dir(broker_id, topic, partition))

    def segments(self, broker_id: int, topic: str, partition: int) -> list[Path]:
        """The files of a replica's log."""
        return sorted(self.partition_dir(broker_id, topic, partition).glob("*.log"))

    def dump(self, broker_id: int, topic: str, partition: int) -> list[str]:
        """What DumpLogSegments says of the batches and records of a replica."""
        files = ",".join(map(str, self.segments(broker_id, topic, partition)))
        output = run_tool(DUMP, "--deep-iteration", "--print-data-log", "--files", files).stdout
        return [line for line in output.splitlines() if not line.startswith("Dumping ")]
