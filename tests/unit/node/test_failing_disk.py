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

ERRORS = pytest.mark.parametrize(
    "number",
    [
        pytest.param(errno.EIO, id="the medium fails"),
        pytest.param(errno.EROFS, id="it was remounted read-only"),
        pytest.param(errno.ENODEV, id="the device is gone"),
        pytest.param(errno.ENOENT, id="the mount has vanished"),
    ],
)
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


def test_a_mount_that_is_missing_at_the_start_is_said_to_be_unformatted(node: Node) -> None:
    """The node does not start: it would take the empty place for a new disk."""
    node.stop()
    fail(node, errno.ENOENT, *CHANGES, "read", "list", "free_bytes")
    with pytest.raises(ConfigError, match="/data/1 is not formatted"):
        node.start()


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
