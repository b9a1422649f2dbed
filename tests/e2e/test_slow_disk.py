"""A broker of which one disk does not answer for a while: clients of the other disk are served before it does.

What is asserted is the order of answers, not how long they took: a write to the slow disk is under way from before the
first request to the other one until after the last answer. `bench/log_life.py --only slow` measures how long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.processes import wait_until

from penstock.errors import ErrorCode
from penstock.node.coordinator_topic import partition_for
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder
from penstock.server.disk import BlockingDisk
from penstock.server.limits import LANE_SLOW_MS
from penstock.testing.broker import LocalBroker

TOPIC, OFFSETS, PARTITIONS = "clicks", "__consumer_offsets", 4
ROUNDS = 20
CHANGES = ("write", "truncate", "fsync", "_fsync_data", "fsync_directory", "replace", "replace_all")


class SlowDisk:
    """Makes whoever writes to a directory wait: a thread of its lane until `answer` is set, the broker's loop for just
    so long that the lane takes over.

    Attributes: `on`; `waits`, set while a write of records waits.
    """

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = str(path)
        self.on = False
        self.waits, self.answer = threading.Event(), threading.Event()
        for name in CHANGES:
            patch.setattr(BlockingDisk, name, self.slow(getattr(BlockingDisk, name)))

    def slow(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(disk: BlockingDisk, *arguments: Any) -> Any:
            if self.on and disk.path == self.path:
                if not threading.current_thread().name.startswith("penstock-lane-"):
                    time.sleep(3 * LANE_SLOW_MS / 1000)
                else:
                    if real.__name__ == "write" and str(arguments[0]).endswith(".log"):
                        self.waits.set()
                    self.answer.wait()
            return real(disk, *arguments)

        return call


class Clients:
    """Requests to a broker with a directory that is `well` and another one, to partitions and a group on either."""

    def __init__(self, broker: LocalBroker, well: Path) -> None:
        self.broker, self.well = broker, well
        answer = broker.request(ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
        self.topic_id: UUID = answer.topics[0].topic_id

    def on(self, topic: str, *, well: bool) -> int:
        return next(each for each in range(PARTITIONS) if (self.well / f"{topic}-{each}").exists() == well)

    def group(self) -> str:
        """A group whose offsets are in the directory that is well."""
        names = (f"group-{number}" for number in range(100))
        return next(name for name in names if (self.well / f"{OFFSETS}-{partition_for(name, PARTITIONS)}").exists())

    def produce(self, partition: int) -> int:
        """Sends a record with acks=all; its offset."""
        builder = BatchBuilder()
        builder.append(1_700_000_000_000, None, b"v")
        data = [PartitionProduceData(index=partition, records=builder.build())]
        topics = [TopicProduceData(topic_id=self.topic_id, partition_data=data)]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
        answer = self.broker.request(ApiKey.PRODUCE, 13, request).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE
        offset: int = answer.base_offset
        return offset

    def fetch(self, partition: int, offset: int) -> bytes:
        wanted = [FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=10_000)]
        topics = [FetchTopic(topic_id=self.topic_id, partitions=wanted)]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=10_000, topics=topics)
        answer = self.broker.request(ApiKey.FETCH, 13, request).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        return bytes(answer.records)

    def commit(self, group: str, offset: int) -> ErrorCode:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)
        return ErrorCode(self.broker.request(ApiKey.OFFSET_COMMIT, 8, request).topics[0].partitions[0].error_code)


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    well, slow = tmp_path / "well", tmp_path / "slow"
    settings = {
        "log.dirs": f"{well},{slow}",
        "metadata.log.dir": str(well),
        "penstock.log.dir.placement": "count",
        "offsets.topic.num.partitions": str(PARTITIONS),
    }
    with LocalBroker(settings, data_dir=tmp_path / "node") as broker:
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        broker.create_topic(OFFSETS, partitions=PARTITIONS)
        clients = Clients(broker, well)
        group = clients.group()
        wait_until(lambda: clients.commit(group, 0) == ErrorCode.NONE, "the group has a coordinator")
        for well_ in (True, False):
            clients.produce(clients.on(TOPIC, well=well_))
        yield clients


def test_clients_of_another_disk_are_answered_while_a_write_to_a_slow_one_is_under_way(
    clients: Clients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(tmp_path / "slow", monkeypatch)
    fast, slow, group = clients.on(TOPIC, well=True), clients.on(TOPIC, well=False), clients.group()
    answered: list[int] = []

    def send_to_the_slow_one() -> None:
        while not disk.answer.is_set():
            answered.append(clients.produce(slow))

    sender = threading.Thread(target=send_to_the_slow_one)
    disk.on = True
    sender.start()
    try:
        assert disk.waits.wait(30), "the lane has taken the appends over"
        before = list(answered)
        for number in range(ROUNDS):
            offset = clients.produce(fast)
            assert offset == 1 + number
            assert clients.fetch(fast, offset)
            assert clients.commit(group, offset) == ErrorCode.NONE
        assert answered == before, "nobody has heard of the write that was under way"
    finally:
        disk.answer.set()
        sender.join(30)
    assert not sender.is_alive()
    assert answered == list(range(1, 1 + len(answered)))
    assert len(answered) > len(before)
    assert clients.fetch(slow, len(answered))
