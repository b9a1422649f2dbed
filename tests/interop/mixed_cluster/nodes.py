"""One cluster of Apache Kafka and Penstock: Kafka decides (the controller) and is broker 1, we are brokers 2 and 3.

with MixedCluster(path) as cluster:
    cluster.create_topic("moved", [[1, 2, 3], [2, 3, 1]])
    cluster.reassign("moved", {0: [3, 1, 2]}, through=2)
    cluster.wait_until_in_sync("moved")
assert len({cluster.log_bytes(broker, "moved", 0) for broker in (1, 2, 3)}) == 1
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from interop.kafka_peer import LACKING_FEATURES, KafkaPeer, free_ports, run_tool
from interop.mixed_cluster.comparison import log_bytes

from penstock.client.client import Client
from penstock.errors import ErrorCode, UnreachableError
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

KAFKA = 1
PENSTOCKS = (2, 3)
BROKERS = (KAFKA, *PENSTOCKS)
CONTROLLER = 100
METADATA = "__cluster_metadata"
GROUPS = "__consumer_offsets"
"""On the broker that has coordinators; Kafka would make it anywhere as soon as a client looks for one."""
TIMEOUT_S = 60.0
POLL_S = 0.05
DUMP = "org.apache.kafka.tools.DumpLogSegments"


class PenstockBroker:
    """A process of ours that is a broker and no controller."""

    def __init__(self, directory: Path, node_id: int, settings: Mapping[str, object | None]) -> None:
        self.node_id = node_id
        self.log_dir = directory / "data"
        self.log_file = directory / "server.log"
        self._config_file = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)
        with free_ports(1) as (port,):
            self.address = f"127.0.0.1:{port}"
        entries = {
            "process.roles": "broker",
            "node.id": node_id,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": self.log_dir,
            **settings,
        }
        self._config_file.write_text(
            "".join(f"{name}={value}\n" for name, value in entries.items() if value is not None)
        )

    def format(self, cluster_id: str) -> None:
        """Formats the log directory."""
        assert self._run("storage", "format", "-t", cluster_id, "-c", str(self._config_file)).wait() == 0, self.log()

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

    Parameters: `metadata_version`, the level to format with; `separate`, whether Kafka's controller is a process of
    its own; `dynamic`, whether its quorum is a dynamic one (kraft.version 1); `settings`, of all nodes.
    """

    def __init__(
        self,
        directory: Path,
        *,
        metadata_version: int = 30,
        separate: bool = False,
        dynamic: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._directory = directory
        common = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": 1, **(settings or {})}
        features = {**dict.fromkeys(LACKING_FEATURES, 0), "metadata.version": metadata_version}
        with free_ports(2) as (broker_port, controller_port):
            pass
        voters = f"{CONTROLLER if separate else KAFKA}@127.0.0.1:{controller_port}"
        quorum: dict[str, object | None] = {"controller.quorum.voters": voters, **common}
        if dynamic:
            bootstrap = f"127.0.0.1:{controller_port}"
            quorum |= {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": bootstrap}
        self._format_options = ("--standalone",) if dynamic else ()
        broker, controller = f"PLAINTEXT://127.0.0.1:{broker_port}", f"CONTROLLER://127.0.0.1:{controller_port}"
        self.controller: KafkaPeer | None = None
        roles = {"process.roles": "broker,controller", "listeners": f"{broker},{controller}"}
        if separate:
            roles = {"process.roles": "controller", "listeners": controller}
            self.controller = self._peer(CONTROLLER, features, {**quorum, **roles}, controller_port)
            roles = {"process.roles": "broker", "listeners": broker}
        self.kafka = self._peer(KAFKA, features, {**quorum, **roles}, broker_port)
        self.penstocks = {
            node_id: PenstockBroker(directory / f"penstock-{node_id}", node_id, quorum) for node_id in PENSTOCKS
        }

    def _peer(
        self, node_id: int, features: Mapping[str, int], properties: Mapping[str, object | None], port: int
    ) -> KafkaPeer:
        cluster_id = self.controller.cluster_id if self.controller is not None else None
        directory = self._directory / f"kafka-{node_id}"
        peer = KafkaPeer(directory, properties=properties, features=features, cluster_id=cluster_id, node_id=node_id)
        peer.write_configuration()
        peer.port = port
        return peer

    def __enter__(self) -> Self:
        try:
            for broker in self.penstocks.values():  # they wait for the controller, and Kafka takes its time
                broker.format(self.kafka.cluster_id)
                broker.start()
            for peer in (self.controller, self.kafka):
                if peer is not None:
                    decides = peer is self.kafka if self.controller is None else peer is self.controller
                    peer.format(*(self._format_options if decides else ()))
                    peer.start()
            self.wait_until(self._complete, "all brokers are known to all brokers")
            self.create_topic(GROUPS, [[KAFKA]], cleanup_policy="compact")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops all brokers, and then the controller."""
        for broker in self.penstocks.values():
            broker.stop(how)
        self.kafka.stop(how)
        if self.controller is not None:
            self.controller.stop(how)

    def _node(self, node_id: int) -> KafkaPeer | PenstockBroker:
        if node_id == CONTROLLER:
            assert self.controller is not None
            return self.controller
        return self.kafka if node_id == KAFKA else self.penstocks[node_id]

    def stop_node(self, node_id: int, how: signal.Signals = signal.SIGTERM) -> None:
        """Stops one node."""
        self._node(node_id).stop(how)

    def wipe_node(self, node_id: int) -> None:
        """Formats the directory of a broker of ours, which is stopped, as if its disk had been replaced."""
        broker = self.penstocks[node_id]
        shutil.rmtree(broker.log_dir)
        broker.format(self.kafka.cluster_id)

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

    def observers(self) -> dict[int, UUID]:
        """Who follows the metadata log without a vote, and the directory that each says it has."""
        topic = TopicData(topic_name=METADATA, partitions=[PartitionData(partition_index=0)])
        answer = self.ask(PENSTOCKS[0], DescribeQuorumRequest(topics=[topic]))
        (found,) = answer.topics[0].partitions
        return {each.replica_id: each.replica_directory_id for each in found.observers}

    # Requests

    def ask(self, broker_id: int, message: Any) -> Any:
        """Has a broker answer a request."""

        async def once() -> Any:
            async with Client(self.address(broker_id), timeout_ms=int(TIMEOUT_S * 1000)) as client:
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
        """Has the first replica of each partition lead."""
        wanted = TopicPartitions(topic=topic, partitions=list(partitions))
        answer = self.ask(through, ElectLeadersRequest(topic_partitions=[wanted], timeout_ms=30_000))
        codes = {each.error_code for found in answer.replica_election_results for each in found.partition_result}
        assert codes <= {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}, answer

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
                logs = "\n".join(f"--- {each.node_id}\n{each.log()[-4000:]}" for each in self.penstocks.values())
                raise AssertionError(f"it does not come to pass that {what}\n{logs}\n{self.kafka.log()[-4000:]}")
            kafka = self.kafka.process
            if kafka is not None:
                with suppress(subprocess.TimeoutExpired):  # a pause which ends early when the process does
                    kafka.wait(POLL_S)

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
                if not self.answers(broker_id):
                    return False
                for index, found in self.partitions(topic, through=broker_id).items():
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
        log_dir = self.kafka.log_dirs[0] if broker_id == KAFKA else self.penstocks[broker_id].log_dir
        return log_dir / f"{topic}-{partition}"

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
