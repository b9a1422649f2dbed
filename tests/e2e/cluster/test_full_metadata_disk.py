"""The disk of the metadata log is full, on real file systems: nothing ends, nothing is lost, all goes on by itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from e2e.cluster.history import QUIET, Writer, active_controller, check, create_topic, wait_for_full_isr
from support.file_systems import small_file_system
from support.processes import Cluster, wait_until

DISK_BYTES = 4 << 20
PARTITIONS = 1
NO_ROOM = "the metadata log in {} has no room"
GOES_ON = "the metadata log in {} goes on: there is room again"


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[Path]]:
    """Small file systems for the metadata logs of three nodes."""
    with ExitStack() as stack:
        yield [stack.enter_context(small_file_system(tmp_path / f"disk-{id_}", DISK_BYTES)) for id_ in (1, 2, 3)]


def cluster_on(disks: list[Path], directory: Path, nodes: int) -> Cluster:
    """Nodes that have their metadata logs on these disks."""
    cluster = Cluster(directory, nodes, directories=1, offsets_topic_replication_factor=1)
    for id_ in cluster.roles:
        metadata = cluster.path(id_) / "metadata"
        shutil.copytree(metadata, disks[id_ - 1] / "metadata")
        shutil.rmtree(metadata)
        metadata.symlink_to(disks[id_ - 1] / "metadata")
    return cluster


def fill(disk: Path) -> Path:
    """Takes all that is left."""
    path = disk / "filler"
    with open(path, "wb") as file:
        size_bytes = 1 << 16
        while size_bytes:
            try:
                os.write(file.fileno(), bytes(size_bytes))
            except OSError:
                size_bytes //= 2
    return path


def is_created(bootstrap: str, name: str) -> bool:
    """Asks for a topic whose records do not fit into a page, and says whether there is one."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for future in admin.create_topics([NewTopic(name, 60, 1)], request_timeout=5).values():
        try:
            future.result()
        except KafkaException as error:
            return bool(error.args[0].name() == "TOPIC_ALREADY_EXISTS")
    return True


@pytest.mark.slow
def test_a_controller_whose_disk_is_full_gives_way_and_comes_back(disks: list[Path], tmp_path: Path) -> None:
    with cluster_on(disks, tmp_path / "nodes", 3) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            writer.wait_for_more()
            full = active_controller(cluster.bootstrap)
            place = cluster.path(full) / "metadata"
            rest = ",".join(f"127.0.0.1:{cluster.ports[id_]}" for id_ in cluster.roles if id_ != full)
            filler = fill(disks[full - 1])
            wait_until(lambda: is_created(rest, "during"), "the cluster takes changes")
            assert NO_ROOM.format(place) in cluster.log(full)
            assert active_controller(rest) != full
            writer.wait_for_more()
            filler.unlink()
            wait_until(lambda: GOES_ON.format(place) in cluster.log(full), "its metadata log goes on")
            create_topic(cluster.bootstrap, "after", 1, 3)  # all know it
            wait_for_full_isr(cluster.bootstrap, "t", 3)
            writer.wait_for_more()
        check(writer, cluster.bootstrap, PARTITIONS)


@pytest.mark.slow
def test_a_node_alone_serves_on_and_takes_changes_again(disks: list[Path], tmp_path: Path) -> None:
    with cluster_on(disks, tmp_path / "nodes", 1) as cluster:
        place = cluster.path(1) / "metadata"
        create_topic(cluster.bootstrap, "t", PARTITIONS, 1)
        with Writer(cluster.bootstrap, "t") as writer:
            writer.wait_for_more()
            filler = fill(disks[0])
            assert not is_created(cluster.bootstrap, "during")
            assert NO_ROOM.format(place) in cluster.log(1)
            writer.wait_for_more()
            filler.unlink()
            wait_until(lambda: is_created(cluster.bootstrap, "during"), "it takes changes again")
            writer.wait_for_more()
        check(writer, cluster.bootstrap, PARTITIONS)
        fill(disks[0])
        cluster.stop(1)  # cleanly
