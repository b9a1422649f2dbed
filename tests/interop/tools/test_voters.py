"""kafka-metadata-quorum adds and removes a controller of Penstock's as it does one of Apache Kafka's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.kafka_peer import KafkaPeer, require_kafka
from interop.tools.three_nodes import masked
from interop.tools.toolbox import QUORUM, Outcome, Toolbox
from support.processes import Cluster, free_ports, wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow]

OBSERVER = "\tObserver"


class Voters:
    """Node 1 is broker and the first voter, node 2 a controller that is none yet: ours, and Kafka's."""

    def __init__(self, tools: Toolbox, penstock: Cluster, kafkas: list[KafkaPeer]) -> None:
        self._tools = tools
        self._sides = [(penstock.bootstrap, penstock.file(2)), (kafkas[0].bootstrap, kafkas[1].config_file)]
        directories = (penstock.path(2) / "data", kafkas[1].log_dirs[0])
        self.directory_ids = [directory_id(each / "meta.properties") for each in directories]

    def run(self, *arguments: object) -> list[Outcome]:
        """The tool on both sides; `{id}` is the directory id of node 2."""
        found = []
        for (bootstrap, config), directory in zip(self._sides, self.directory_ids, strict=True):
            words = [str(each).replace("{id}", directory) for each in arguments]
            got = masked(self._tools.run(QUORUM, bootstrap, "--command-config", config, *words))
            found.append(Outcome(got.status, voters_sorted(got.out), voters_sorted(got.error)))
        return found

    def agree(self, *arguments: object, contains: str) -> None:
        ours, kafkas = self.run(*arguments)
        said = ours.out + ours.error
        assert ours == kafkas, f"Penstock:\n{said}\nKafka:\n{kafkas.out}{kafkas.error}"
        assert contains in said, said

    def wait(self, what: str, count: int) -> None:
        """Until both say a word so many times in `describe --replication`."""
        wait_until(
            lambda: all(len(re.findall(what, each.out)) == count for each in self.run("describe", "--replication")),
            f"there are {count} of {what}",
        )


def voters_sorted(text: str) -> str:
    """With sets of voters in the order of their ids: Kafka's has none."""

    def in_order(found: re.Match[str]) -> str:
        return f"[{', '.join(sorted(re.findall(r'ReplicaKey[(].*?[)]', found[0])))}]"

    return re.sub(r"\[ReplicaKey[^]]*\]", in_order, text)


def directory_id(path: Path) -> str:
    (found,) = re.findall(r"directory\.id=(\S+)", path.read_text())
    return str(found)


@pytest.fixture
def voters(tmp_path: Path) -> Iterator[Voters]:
    require_kafka()
    broker, first, second = free_ports(3)
    quorum = {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": f"127.0.0.1:{first}"}
    listeners = f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{first}"
    one = KafkaPeer(tmp_path / "k1", properties={**quorum, "listeners": listeners})
    roles = {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{second}"}
    two = KafkaPeer(tmp_path / "k2", properties={**quorum, **roles}, node_id=2, cluster_id=one.cluster_id)
    try:
        for peer, port, option in ((one, broker, "--standalone"), (two, second, "--no-initial-controllers")):
            peer.write_configuration()
            peer.port = port
            peer.format(option)
            peer.start()
        with Cluster(tmp_path / "ours", 1, controllers=1, dynamic=True) as penstock, Toolbox() as tools:
            yield Voters(tools, penstock, [one, two])
    finally:
        two.stop()
        one.stop()


def test_a_controller_is_added_and_removed(voters: Voters) -> None:
    voters.wait("Observer", 1)
    voters.agree("add-controller", "--dry-run", contains="DRY RUN of adding controller 2")
    voters.agree("add-controller", contains="Added controller 2 with directory id")
    voters.wait("Follower", 1)
    voters.agree("add-controller", contains="DuplicateVoterException")
    remove = ("remove-controller", "--controller-id", 2, "--controller-directory-id")
    voters.agree(*remove, "AAAAAAAAAAAAAAAAAAAABQ", contains="VoterNotFoundException")
    voters.agree(*remove, "{id}", "--dry-run", contains="DRY RUN of removing")
    voters.agree(*remove, "{id}", contains="KRaft controller 2 with directory id")
    voters.wait("Observer", 1)
