"""What Kafka's own tools and a Kafka node make of our metadata directories, and what we make of Kafka's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
from interop.kafka_peer import LACKING_FEATURES, KafkaPeer, random_uuid, run_tool
from support.processes import free_ports
from unit.node.controller_harness import Harness, formatted_disk

from penstock.client.client import Client
from penstock.config.properties import parse
from penstock.config.server import Settings
from penstock.metadata.format import FormatRequest, format_directories
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse
from penstock.raft.topic import METADATA
from penstock.raft.voters import VoterEndpoint
from penstock.server.disk import BlockingDisk
from penstock.server.server import Server
from simulator.world.disk import SimulatedDisk

NAME = METADATA.directory

pytestmark = pytest.mark.java

DUMP = "org.apache.kafka.tools.DumpLogSegments"
STORAGE = "kafka.tools.StorageTool"
NOW_MS = 1_800_000_000_000
VARYING = re.compile(
    r'CreateTime: \d+|crc: \d+|"lastContainedLogTimestamp":[1-9]\d*|(?<="voterDirectoryId":)"[^"]*"|^Dumping .*$', re.M
)


def dump(path: Path) -> str:
    """The records of a log or checkpoint, as Kafka decodes them."""
    return run_tool(DUMP, "--cluster-metadata-decoder", "--files", path).stdout


def configuration(directory: Path, port: int, controller_port: int, *, standalone: bool) -> Path:
    """A server.properties for one node on this directory."""
    quorum = (
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}"
        if standalone
        else f"controller.quorum.voters=1@127.0.0.1:{controller_port}"
    )
    path = directory.with_suffix(".properties")
    path.write_text(
        "\n".join(
            (
                "process.roles=broker,controller",
                "node.id=1",
                quorum,
                f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
                "controller.listener.names=CONTROLLER",
                f"log.dirs={directory}",
            )
        )
    )
    return path


def format_with_penstock(
    directory: Path, controller_port: int, *, standalone: bool, cluster_id: str, **more: str
) -> None:
    directory.mkdir()
    disk = BlockingDisk(0, str(directory))
    controller = VoterEndpoint("CONTROLLER", "127.0.0.1", controller_port)
    request = FormatRequest(
        cluster_id, 1, str(directory), standalone=standalone, controller=controller, release_version=more.get("release")
    )
    format_directories({str(directory): disk}, request, Random(2), NOW_MS)
    disk.close()


@pytest.mark.parametrize("release", ["4.3-IV0", "4.0-IV3"])
@pytest.mark.parametrize("standalone", [False, True], ids=["static", "standalone"])
def test_a_formatted_directory_is_what_the_storage_tool_writes(tmp_path: Path, standalone: bool, release: str) -> None:
    cluster_id = random_uuid()
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    config = configuration(theirs, 19092, 19093, standalone=standalone)
    levels = [part for name in LACKING_FEATURES for part in ("--feature", f"{name}=0")]
    mode = ["--standalone"] if standalone else []
    run_tool(STORAGE, "format", "-t", cluster_id, "-c", config, "--release-version", release, *mode, *levels)
    format_with_penstock(ours, 19093, standalone=standalone, cluster_id=cluster_id, release=release)

    def files(directory: Path) -> list[tuple[str, int]]:
        found = (path for path in directory.rglob("*") if path.is_file() and path.name != "meta.properties")
        return sorted((str(path.relative_to(directory)), path.stat().st_size) for path in found)

    assert files(ours) == files(theirs)
    for name, _ in files(ours):
        assert VARYING.sub("-", dump(ours / name)) == VARYING.sub("-", dump(theirs / name)), name

    def properties(directory: Path) -> dict[str, str]:
        found = dict(parse((directory / "meta.properties").read_bytes(), "meta.properties"))
        assert len(found.pop("directory.id")) == 22
        return found

    assert properties(ours) == properties(theirs)


def export(disk: SimulatedDisk, directory: Path) -> Path:
    """Copies the metadata log of a simulated disk to a real directory."""
    target = directory / NAME
    target.mkdir()
    for path in disk.paths():
        if path.startswith(f"{NAME}/") and path.count("/") == 1:
            (directory / path).write_bytes(disk.content(path))
    return target


def test_kafka_decodes_our_log_and_our_checkpoints(tmp_path: Path) -> None:
    disk = formatted_disk()
    run = Harness(disk, metadata_log_max_record_bytes_between_snapshots=2500).start()
    run.register()
    for number in range(12):
        run.create_topic(f"topic-{number}", 2)
        run.settle()
    run.stop()
    directory = export(disk, tmp_path)
    log = dump(directory / "00000000000000000000.log")
    assert "isvalid: false" not in log
    for expected in (
        'LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}',
        'KRaftVersion {"version":0,"kRaftVersion":1}',
        '"type":"BEGIN_TRANSACTION_RECORD","version":0,"data":{"name":"Bootstrap records"}',
        '"type":"REGISTER_BROKER_RECORD","version":4',
        '"type":"REGISTER_CONTROLLER_RECORD","version":0',
        '"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":3,"data":{"brokerId":1,"brokerEpoch":6,"fenced":-1}',
        '"type":"TOPIC_RECORD","version":0,"data":{"name":"topic-11"',
        '"type":"PARTITION_RECORD","version":2',
        '"type":"PARTITION_CHANGE_RECORD","version":2',
    ):
        assert expected in log
    written = sorted(path for path in directory.glob("*.checkpoint") if not path.name.startswith("0" * 20))
    assert written
    checkpoint = dump(written[-1])
    assert "isvalid: false" not in checkpoint
    for expected in ("SnapshotHeader", "KRaftVoters", "SnapshotFooter", '"name":"topic-0"', '"PARTITION_RECORD"'):
        assert expected in checkpoint


def test_kafka_notices_a_flipped_bit_in_our_log(tmp_path: Path) -> None:
    disk = formatted_disk()
    run = Harness(disk).start()
    run.register()
    run.stop()
    disk.flip_bit(f"{NAME}/00000000000000000000.log", 240)
    shown = run_tool(
        DUMP,
        "--cluster-metadata-decoder",
        "--files",
        export(disk, tmp_path) / "00000000000000000000.log",
        check=False,
    )
    assert "isvalid: false" in shown.stdout or shown.returncode != 0


def serve(config: Path, work: Callable[[Client], Awaitable[None]]) -> None:
    """Runs a Penstock node while `work` talks to it."""

    async def run() -> None:
        server = Server(Settings.from_properties(parse(config.read_bytes(), str(config))))
        await server.start()
        try:
            async with Client(server.addresses["PLAINTEXT"]) as client:
                await work(client)
        finally:
            await server.stop()

    asyncio.run(run())


async def create_clicks(client: Client) -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value="12345")]
    topic = CreatableTopic(name="clicks", num_partitions=3, replication_factor=1, configs=configs)
    await client.send(CreateTopicsRequest(topics=[topic]))


@pytest.mark.slow
@pytest.mark.parametrize("standalone", [False, True], ids=["static", "standalone"])
def test_kafka_and_penstock_take_turns_on_one_directory(tmp_path: Path, standalone: bool) -> None:
    port, controller_port = free_ports(2)
    directory = tmp_path / "data-0"
    format_with_penstock(directory, controller_port, standalone=standalone, cluster_id=random_uuid())
    config = configuration(directory, port, controller_port, standalone=standalone)
    serve(config, create_clicks)

    kafka = KafkaPeer(tmp_path, format=False)
    kafka.config_file, kafka.port = config, port
    try:
        kafka.start()
        described = kafka.run_tool("org.apache.kafka.tools.TopicCommand", "--describe").stdout
        assert re.search(r"Topic: clicks\s.*PartitionCount: 3\s.*retention.ms=12345", described)
        kafka.create_topic("views", 2)
    finally:
        kafka.stop()

    async def both_are_there(client: Client) -> None:
        answer = await client.send(MetadataRequest(topics=None))
        assert isinstance(answer, MetadataResponse)
        found = {topic.name: [partition.leader_id for partition in topic.partitions] for topic in answer.topics}
        assert found == {"clicks": [1, 1, 1], "views": [1, 1]}

    serve(config, both_are_there)
