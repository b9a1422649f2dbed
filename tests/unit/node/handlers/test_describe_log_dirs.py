"""DescribeLogDirs: sizes of replicas that are open, and of those that are not."""

from __future__ import annotations

import errno

import pytest
from support.broker import Node
from support.requests import batch, produced

from penstock.errors import ErrorCode
from penstock.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest


@pytest.fixture
def node() -> Node:
    made = Node(directories=2)
    made.create_topic("t", partitions=4)
    client = made.connect()
    for index in range(4):
        for _ in range(index + 1):
            assert produced(client, "t", batch(), partition=index).error_code == 0
    return made


def sizes(answer: object) -> dict[int, int]:
    return {
        found.partition_index: found.partition_size
        for result in answer.results  # type: ignore[attr-defined]
        for topic in result.topics
        for found in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_all_replicas_with_their_sizes_before_and_after_a_restart(version: int, node: Node) -> None:
    expected = {index: (index + 1) * len(batch()) for index in range(4)}
    for _ in range(2):
        answer = node.connect().ask(DescribeLogDirsRequest(topics=None), version)
        assert [result.log_dir for result in answer.results] == ["/data/0", "/data/1"]
        assert sizes(answer) == expected
        if version >= 4:
            assert all(result.total_bytes >= result.usable_bytes > 0 for result in answer.results)
        node.restart()


def test_only_what_was_asked_for(node: Node) -> None:
    topics = [DescribableLogDirTopic(topic="t", partitions=[1, 9]), DescribableLogDirTopic(topic="x", partitions=[0])]
    assert list(sizes(node.connect().ask(DescribeLogDirsRequest(topics=topics), 4))) == [1]


def test_an_offline_directory_is_named(node: Node) -> None:
    node.broker.logs.fail_directory(1, OSError(errno.EIO, "broken"), node.now_ms)
    answer = node.connect().ask(DescribeLogDirsRequest(topics=None), 4)
    codes = {result.log_dir: result.error_code for result in answer.results}
    assert codes == {"/data/0": 0, "/data/1": ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_disk_that_is_found_to_be_gone_is_offline_from_then_on(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> int:
        raise OSError(errno.ENODEV, "another directory is there than before")

    first = node.broker.logs.table.directories[0]
    monkeypatch.setattr(first.disk, "free_bytes", gone)
    client = node.connect()
    for _ in range(2):
        answer = client.ask(DescribeLogDirsRequest(topics=None), 4)
        codes = {result.log_dir: result.error_code for result in answer.results}
        assert codes == {"/data/0": ErrorCode.KAFKA_STORAGE_ERROR, "/data/1": 0}
    assert first.error is not None
