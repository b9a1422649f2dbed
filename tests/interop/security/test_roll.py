"""The steps of docs/how-to/secure-a-running-cluster.md, taken from the page itself, under load: no client has an error.

Three nodes begin with plain listeners. Producers and groups of two kinds of clients are at work all along, on the plain
listeners until the second round is done, and then on the secured ones as a user with just the rights that the page
gives.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from interop.kafka_peer import require_kafka
from interop.security.number_clients import GROUPS, TOPIC, Access, Journal, reading, writing
from support.processes import Cluster, free_ports, wait_until
from support.tls import PASSWORD, Authority

from penstock.cli.main import main
from penstock.client.client import Client
from penstock.client.security import UNSECURED, ClientSecurity, client_security
from penstock.config.jaas import SCRAM_MODULE
from penstock.config.properties import parse
from penstock.errors import ErrorCode, PenstockError
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData

pytestmark = [pytest.mark.java, pytest.mark.long]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "secure-a-running-cluster.md"
NODES = (1, 2, 3)
PLAIN, PLAIN_CONTROLLER, SECURED, SECURED_CONTROLLER = 9092, 9093, 9192, 9193
"""Ports as the page has them."""
PARTITIONS = 3
METADATA = "__cluster_metadata"


def blocks(language: str) -> list[str]:
    """What stands in the page in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


class Roll:
    """A cluster that is secured by the page, step by step. `dynamic`: its voters are in the metadata log."""

    def __init__(self, directory: Path, *, dynamic: bool) -> None:
        self.directory = directory
        self.dynamic = dynamic
        authority = Authority(directory)
        self.stores = {each: authority.store(f"n{each}") for each in NODES}
        self.nodes = Cluster(
            directory / "cluster",
            dynamic=dynamic,
            controller_quorum_auto_join_enable=str(dynamic).lower(),
            default_replication_factor=3,
            min_insync_replicas=2,
            offsets_topic_num_partitions=3,
            group_initial_rebalance_delay_ms=0,
        )
        new = free_ports(2 * len(NODES))
        self.ports = {
            **{(each, PLAIN): self.nodes.ports[each] for each in NODES},
            **{(each, PLAIN_CONTROLLER): self.nodes.controller_ports[each] for each in NODES},
            **{(each, SECURED): new[each - 1] for each in NODES},
            **{(each, SECURED_CONTROLLER): new[len(NODES) + each - 1] for each in NODES},
        }
        self.trust = authority.trust
        self.begin, *self.rounds = blocks("properties")
        self.users, self.rights, _ = blocks("sh")

    def bootstrap(self, port: int) -> str:
        return ",".join(f"127.0.0.1:{self.ports[each, port]}" for each in NODES)

    def properties(self, node_id: int, text: str) -> dict[str, str]:
        """The lines of a block as they are on a node; the page shows those of n1."""
        found = {}
        for name, shown in parse(text.encode(), str(PAGE)).items():
            own = shown if name == "controller.quorum.voters" else shown.replace("n1:", f"n{node_id}:")
            at = re.sub(r"n(\d):(\d+)", lambda at: f"127.0.0.1:{self.ports[int(at[1]), int(at[2])]}", own)
            at = at.replace("/etc/penstock/n1.p12", str(self.stores[node_id].path))
            found[name] = at.replace("/etc/penstock/ca.pem", str(self.trust)).replace("changeit", PASSWORD)
        if self.dynamic and (voters := found.pop("controller.quorum.voters", None)) is not None:
            found["controller.quorum.bootstrap.servers"] = re.sub(r"\d@", "", voters)
        return found

    def change(self, node_id: int, text: str) -> None:
        """Writes a block into the node's settings."""
        file = self.nodes.file(node_id)
        before = {name: value for name, value in parse(file.read_bytes()).items() if name != "advertised.listeners"}
        entries = {**before, **self.properties(node_id, text)}
        file.write_text("".join(f"{name}={value}\n" for name, value in entries.items()))

    def begins_as_the_page_says(self) -> None:
        for each in NODES:
            written = parse(self.nodes.file(each).read_bytes())
            assert {name: written[name] for name in self.properties(each, self.begin)} == self.properties(
                each, self.begin
            )

    def round(self, number: int, port: int, security: ClientSecurity = UNSECURED) -> None:
        """Restarts all nodes with the lines of a round, the active controller last; they are looked at by a port."""
        leader = self.leader(port, security)
        for node_id in sorted(NODES, key=lambda each: each == leader):
            self.nodes.stop(node_id)
            self.change(node_id, self.rounds[number])
            self.nodes.start(node_id)
            self.nodes.wait_ready(node_id)
            wait_until(lambda: self.is_whole(port, security), f"all is in sync after node {node_id} in round {number}")

    def leader(self, port: int, security: ClientSecurity) -> int:
        topic = TopicData(topic_name=METADATA, partitions=[PartitionData(partition_index=0)])

        async def ask() -> int:
            async with Client(self.bootstrap(port), security=security) as client:
                answer = await client.send(DescribeQuorumRequest(topics=[topic]))
            return int(answer.topics[0].partitions[0].leader_id)

        return asyncio.run(ask())

    def is_whole(self, port: int, security: ClientSecurity) -> bool:
        """Whether every replica is in sync, and every voter has what is committed."""
        topic = TopicData(topic_name=METADATA, partitions=[PartitionData(partition_index=0)])

        async def ask() -> bool:
            async with Client(self.bootstrap(port), security=security) as client:
                metadata = await client.refresh(None)
                quorum = await client.send(DescribeQuorumRequest(topics=[topic]))
            partitions = [partition for each in metadata.topics for partition in each.partitions]
            in_sync = all(len(each.isr_nodes) == len(NODES) for each in partitions)
            (found,) = quorum.topics[0].partitions
            follow = all(each.log_end_offset >= found.high_watermark for each in found.current_voters)
            return in_sync and follow and len(metadata.brokers) == len(found.current_voters) == len(NODES)

        try:
            return asyncio.run(ask())
        except PenstockError:
            return False

    def type(self, text: str) -> None:
        """The commands of a block, as a person would type them."""
        for line in text.splitlines():
            if not line.startswith("penstock "):
                continue
            words = shlex.split(line)[1:]
            if "--password-file" in words:
                at = words.index("--password-file") + 1
                path = self.directory / words[at]
                path.write_text(f"{words[at].removesuffix('.password')}-secret\n")
                words[at] = str(path)
            assert main([*words, "--bootstrap", self.bootstrap(PLAIN)]) == 0, line

    def login(self, user: str) -> dict[str, str]:
        """Client properties of a user."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM_MODULE} required username="{user}" password="{user}-secret";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
        }

    def plain(self) -> Access:
        bootstrap = {"bootstrap.servers": self.bootstrap(PLAIN)}
        return Access(bootstrap, bootstrap, self.directory, "plain")

    def secured(self) -> Access:
        bootstrap = {"bootstrap.servers": self.bootstrap(SECURED)}
        librdkafka = {
            **bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "web",
            "sasl.password": "web-secret",
            "ssl.ca.location": str(self.trust),
        }
        return Access(librdkafka, {**bootstrap, **self.login("web")}, self.directory, "secured")


def create_topic(bootstrap: str) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=3)

    async def ask() -> None:
        async with Client(bootstrap) as client:
            answer = await client.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
            assert answer.topics[0].error_code == 0, answer

    asyncio.run(ask())


def is_secured(roll: Roll) -> None:
    """The plain listeners are closed, a user may do what ACLs say, and no log tells a secret or a bug."""
    for each in NODES:
        for port in (PLAIN, PLAIN_CONTROLLER):
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", roll.ports[each, port])) != 0
    security = client_security(roll.login("web"))

    async def ask() -> None:
        async with Client(roll.bootstrap(SECURED), security=security) as client:
            topic = CreatableTopic(name="other", num_partitions=1, replication_factor=3)
            answer = await client.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
            assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    asyncio.run(ask())
    for each in NODES:
        log = roll.nodes.log(each)
        assert "-secret" not in log
        assert "Traceback" not in log


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_three_nodes_are_secured_under_load(tmp_path: Path, dynamic: bool) -> None:
    require_kafka()
    roll = Roll(tmp_path, dynamic=dynamic)
    roll.begins_as_the_page_says()
    journal = Journal()
    with roll.nodes:
        wait_until(lambda: roll.is_whole(PLAIN, UNSECURED), "all nodes vote")
        create_topic(roll.bootstrap(PLAIN))
        with ExitStack() as before:
            before.enter_context(reading(journal, roll.plain()))
            plain = before.enter_context(writing(journal, roll.plain()))
            journal.wait_for_more(*plain)
            roll.type(roll.users)
            roll.round(0, PLAIN)
            journal.wait_for_more(*plain)
            roll.round(1, PLAIN)
            journal.wait_for_more(*plain)
            roll.type(roll.rights)
            roll.type(f"penstock acls add --allow User:web --consumer --topic {TOPIC} --group {GROUPS[1]}")
            with ExitStack() as after:
                after.enter_context(reading(journal, roll.secured()))
                with writing(journal, roll.secured()) as secured:
                    journal.wait_for_more(*plain, *secured)
                    before.close()
                    journal.wait_for_more(*secured)
                    roll.round(2, SECURED, client_security(roll.login("admin")))
                    journal.wait_for_more(*secured)
                    is_secured(roll)
                journal.wait_until_all_is_read()
    journal.check()
