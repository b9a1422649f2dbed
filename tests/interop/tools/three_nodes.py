"""Three nodes of Penstock and three of Apache Kafka, each broker and voter, that tools are run against."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

from interop.kafka_peer import KafkaPeer, random_uuid
from interop.tools.toolbox import Outcome, Toolbox
from support.heard import until_heard
from support.processes import Cluster, free_ports, wait_until
from support.three_nodes import RACKS

NODES = (1, 2, 3)


class KafkaNode(KafkaPeer):
    """One of several nodes of Apache Kafka; its ports are chosen by the cluster."""

    def __init__(self, directory: Path, node_id: int, port: int, voters: dict[int, int], cluster_id: str) -> None:
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{voters[node_id]}"
        properties = {
            "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{voters[each]}" for each in voters),
            "listeners": listeners,
            "broker.rack": RACKS[node_id],
        }
        super().__init__(directory, properties=properties, cluster_id=cluster_id, node_id=node_id)
        self._port, self.controller_port = port, voters[node_id]

    def write_configuration(self) -> None:
        super().write_configuration()
        self.port = self._port


class KafkaCluster:
    """Three nodes of Apache Kafka; the methods are those of Penstock's `Cluster`."""

    def __init__(self, directory: Path) -> None:
        ports = free_ports(2 * len(NODES))
        clients, controllers = ports[: len(NODES)], ports[len(NODES) :]
        voters, cluster_id = dict(zip(NODES, controllers, strict=True)), random_uuid()
        self.nodes = {
            node_id: KafkaNode(directory / str(node_id), node_id, port, voters, cluster_id)
            for node_id, port in zip(NODES, clients, strict=True)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def running(self) -> str:
        """The addresses of those that are not dead."""
        return ",".join(node.bootstrap for node in self.nodes.values() if node.process is not None)

    @property
    def controllers(self) -> str:
        """Where its controllers are."""
        return ",".join(f"127.0.0.1:{node.controller_port}" for node in self.nodes.values())

    def __enter__(self) -> Self:
        def begin(node: KafkaNode) -> None:
            node.write_configuration()
            node.format()
            node.start()

        try:
            with ThreadPoolExecutor(len(NODES)) as pool:
                list(pool.map(begin, self.nodes.values()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.stop(signal.SIGKILL)

    def kill(self, node_id: int) -> None:
        self.nodes[node_id].stop(signal.SIGKILL)

    def start(self, node_id: int) -> None:
        self.nodes[node_id].start()

    def wait_ready(self, *node_ids: int) -> None:
        """They serve when `start` returns."""


class Pair(NamedTuple):
    """The same done to both clusters, and what tools say of them compared."""

    tools: Toolbox
    penstock: Cluster
    kafka: KafkaCluster

    def run(self, tool: str, *arguments: object, controllers: bool = False) -> tuple[Outcome, Outcome]:
        """A tool against the brokers, or the controllers, of both, without what names the machine. The tools ask
        whichever broker they like: all have heard of what was done before."""
        option = "--bootstrap-controller" if controllers else "--bootstrap-server"
        ports = self.penstock.controller_ports
        ours, kafkas = self.penstock.bootstrap, self.kafka.bootstrap
        if controllers:
            ours, kafkas = ",".join(f"127.0.0.1:{port}" for port in ports.values()), self.kafka.controllers
        for cluster in (self.penstock, self.kafka):
            until_heard(cluster.running)
        outcomes = [self.tools.run(tool, each, *arguments, option=option) for each in (ours, kafkas)]
        return masked(outcomes[0]), masked(outcomes[1])

    def agree(self, tool: str, *arguments: object, contains: str = "", controllers: bool = False) -> str:
        """Both say the same, and that it contains something; gives it."""
        ours, kafkas = self.run(tool, *arguments, controllers=controllers)
        said = ours.out + ours.error
        assert ours == kafkas, f"Penstock:\n{said}\nKafka:\n{kafkas.out}{kafkas.error}"
        assert contains in said, said
        return ours.out

    def wait(self, tool: str, *arguments: object, until: Callable[[str], bool]) -> None:
        """Runs a tool against each until it says something."""
        for bootstrap in (self.penstock.bootstrap, self.kafka.bootstrap):
            wait_until(
                lambda bootstrap=bootstrap: until(masked(self.tools.run(tool, bootstrap, *arguments)).out),  # type: ignore[misc]
                f"{tool} {arguments} at {bootstrap}",
            )

    def kill(self, *node_ids: int) -> None:
        """Kills nodes of both."""
        for node_id in node_ids:
            self.penstock.kill(node_id)
            self.kafka.kill(node_id)

    def start(self, *node_ids: int) -> None:
        """Starts nodes of both; they serve when this returns."""
        for node_id in node_ids:
            self.penstock.start(node_id)
            self.kafka.start(node_id)
        self.penstock.wait_ready(*node_ids)


def masked(outcome: Outcome) -> Outcome:
    """Without topic ids, ports, directories, times and traces; in-sync replicas in order of their ids."""

    def mask(text: str) -> str:
        text = re.sub(r"TopicId: \S+", "TopicId: *", text)
        text = re.sub(r"127\.0\.0\.1(:|\s+)\d+", r"127.0.0.1\1*", text)
        text = re.sub(r"(?i)(directory id:? |directoryId=|Cluster ID: )\S{22}", r"\1*", text)
        text = re.sub(r"adminclient-\d+", "adminclient-*", text)
        text = re.sub(r"^\tat .*\n", "", text, flags=re.MULTILINE)
        text = re.sub(r'"log_dirs":\["/[^"]*"(?:,"/[^"]*")*\]', '"log_dirs":["*"]', text)
        text = re.sub(r"\[\d{4}-\d\d-\d\d[^\]]*\]", "", text)
        return re.sub(r"Isr: ([\d,]+)", lambda found: "Isr: " + ",".join(sorted(found[1].split(","))), text)

    return Outcome(outcome.status, mask(outcome.out), mask(outcome.error))
