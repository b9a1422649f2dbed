"""A node with two disks, one of which fails, in every way and at every moment: the other one serves."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from support.broker import Node
from support.requests import batch, fetch, partitions_of, produced, values_of, wanted

from penstock.errors import ConfigError, ErrorCode
from penstock.log.compaction.task import CleanLog
from penstock.log.events import DirectoryFailed
from penstock.log.meta_properties import FILE
from simulator.world.disk import SimulatedDisk

ERRORS = pytest.mark.parametrize(
    "number",
    [
        pytest.param(errno.EIO, id="the medium fails"),
        pytest.param(errno.EROFS, id="it was remounted read-only"),
        pytest.param(errno.ENODEV, id="the device is gone"),
        pytest.param(errno.ENOENT, id="the mount has vanished"),
    ],
)
OFFLINE = "kafka_log_logmanager_logdirectoryoffline"
CHANGES = (
    "write",
    "truncate",
    "fsync",
    "fsync_directory",
    "replace",
    "replace_all",
    "rename",
    "unlink",
    "make_directory",
    "remove_directory",
)


@pytest.fixture
def node() -> Node:
    """A node with a partition of `t` on each disk, each with one record; the metadata log is on the first."""
    made = Node(directories=2, log_cleaner_backoff_ms=1000)
    made.create_topic("t", partitions=2, cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.01")
    client = made.connect()
    for index in range(2):
        assert produced(client, "t", batch(), partition=index).error_code == 0
    return made


def on(node: Node, directory: int) -> int:
    """The partition that lies there."""
    return next(index for index in range(2) if node.broker.logs.directory_of("t", index).index == directory)


def fail(node: Node, number: int, *names: str) -> None:
    """From now on these operations of the second disk fail."""

    def failing(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    for name in names:
        setattr(node.disks[1], name, failing)


def check_the_other_serves(node: Node, lost: int, served: int) -> None:
    """One directory is offline, said once; the partitions of the other take records and give them back."""
    client = node.connect()
    assert [event.path for event in node.events if isinstance(event, DirectoryFailed)] == ["/data/1"]
    assert produced(client, "t", batch(), partition=lost).error_code != ErrorCode.NONE
    end = produced(client, "t", batch(b"more"), partition=served)
    assert end.error_code == ErrorCode.NONE
    read = partitions_of(client.ask(fetch("t", wanted(served, end.base_offset)), 12))[served]
    assert values_of(read) == [b"more"]
    assert node.broker.failure is None


@ERRORS
def test_on_append(node: Node, number: int) -> None:
    lost, served = on(node, 1), on(node, 0)
    fail(node, number, *CHANGES)
    assert produced(node.connect(), "t", batch(), partition=lost).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    check_the_other_serves(node, lost, served)


@ERRORS
def test_on_fsync(node: Node, number: int) -> None:
    lost, served = on(node, 1), on(node, 0)
    fail(node, number, "fsync", "fsync_directory", "replace")
    node.advance(10_000)
    assert produced(node.connect(), "t", batch(timestamp_ms=node.now_ms), partition=lost).error_code in (
        ErrorCode.NONE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
    node.advance(120_000)
    check_the_other_serves(node, lost, served)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENODEV])
def test_at_the_start(node: Node, number: int) -> None:
    lost, served = on(node, 1), on(node, 0)
    node.stop()
    fail(node, number, *CHANGES, "read", "list", "free_bytes")
    node.start()
    check_the_other_serves(node, lost, served)


def test_a_mount_that_is_missing_at_the_start(node: Node) -> None:
    """The others serve, its replicas are made nowhere else, and it serves again when it is there."""
    lost, served = on(node, 1), on(node, 0)
    node.stop()
    missing, node.disks[1] = node.disks[1], SimulatedDisk(1, clock=lambda: node.now_ms)
    node.start()
    check_the_other_serves(node, lost, served)
    (said,) = [str(event) for event in node.events if isinstance(event, DirectoryFailed)]
    assert said == (
        "log directory /data/1 is offline: it has no meta.properties: mount its disk and start again, or, if it is new,"
        " format it with `penstock storage format --ignore-formatted`"
    )
    offline = {
        sample.labels["logDirectory"]: sample.value for sample in node.broker.metrics() if sample.name == OFFLINE
    }
    assert offline == {"/data/0": 0, "/data/1": 1}
    node.advance(600_000)
    assert node.disks[1].paths() == []
    node.create_topic("u", partitions=2)
    assert all(node.broker.logs.directory_of("u", index).index == 0 for index in range(2))
    node.stop()
    node.disks[1] = missing
    node.start()
    read = partitions_of(node.connect().ask(fetch("t", wanted(lost)), 12))[lost]
    assert values_of(read) == [b"value"]


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 90, b"version=1\nnode.id=1\n", b"version=1\ncluster.id=x\nnode.id=no\n"]
)
def test_a_damaged_meta_properties_at_the_start(node: Node, content: bytes) -> None:
    lost, served = on(node, 1), on(node, 0)
    node.stop()
    node.disks[1].unlink(FILE)
    node.disks[1].write(FILE, 0, [content])
    node.start()
    check_the_other_serves(node, lost, served)


def test_of_another_cluster_is_no_fault_of_a_disk(node: Node) -> None:
    node.stop()
    content = node.disks[1].content(FILE)
    node.disks[1].replace(FILE, content.replace(b"cluster.id=4L6", b"cluster.id=5L6"))
    with pytest.raises(ConfigError, match="cluster id mismatch: /data/1"):
        node.start()


def test_without_the_metadata_logs_directory_a_node_does_not_start_and_changes_nothing(node: Node) -> None:
    node.stop()
    before = {path: node.disks[1].content(path) for path in node.disks[1].paths()}
    there, node.disks[0] = node.disks[0], SimulatedDisk(0)
    with pytest.raises(ConfigError, match="metadata log directory /data/0 cannot be used: it has no meta"):
        node.start()
    assert {path: node.disks[1].content(path) for path in node.disks[1].paths()} == before
    node.disks[0] = there
    node.start()
    assert node.broker.logs.previous_broker_epoch >= 0, "the clean stop still counts"


def test_a_disk_that_fails_when_its_mark_of_a_clean_stop_is_removed(node: Node) -> None:
    lost, served = on(node, 1), on(node, 0)
    node.stop()
    fail(node, errno.EROFS, *CHANGES)
    node.start()
    check_the_other_serves(node, lost, served)
    registered = node.broker.lifecycle.registration
    assert registered is not None
    assert registered.log_dirs == (node.broker.logs.table.directories[0].id,)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENODEV])
def test_in_a_pass_of_the_cleaner(node: Node, number: int) -> None:
    lost, served = on(node, 1), on(node, 0)
    client = node.connect()
    for _ in range(3):
        node.advance(2_000)
        for index in range(2):
            assert produced(client, "t", batch(timestamp_ms=node.now_ms), partition=index).error_code == 0
    node.held = lambda operation: isinstance(operation, CleanLog) and operation.directory == 1
    for _ in range(60):
        if node.waiting_operations:
            break
        node.advance(1_000)
    assert node.waiting_operations, "a pass is due"
    fail(node, number, *CHANGES)
    node.let_go()
    check_the_other_serves(node, lost, served)
