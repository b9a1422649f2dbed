"""A full disk, together with what else may be under way in it: group fsync, moves of whole segments, a clean stop."""

from __future__ import annotations

from random import Random

import pytest
from support.broker import Node
from support.requests import batch, produced

from penstock.errors import ErrorCode
from penstock.log.events import DirectoryFailed

from .test_moves import values

GROUP = {"penstock_log_fsync": "group"}


def fill(node: Node, free_bytes: int, directory: int = 0) -> None:
    """Leaves so much room in a directory."""
    disk = node.disks[directory]
    disk.capacity_bytes = sum(disk.size(path) for path in disk.paths()) + free_bytes


def failed(node: Node) -> list[object]:
    return [event for event in node.events if isinstance(event, DirectoryFailed)]


def idempotent(sequence: int, value: bytes = b"v") -> bytearray:
    return batch(value, producer_id=7, producer_epoch=0, base_sequence=sequence)


@pytest.mark.parametrize("seed", range(8))
def test_a_new_segment_has_its_name_on_disk_before_its_records_count_although_the_first_found_no_room(
    seed: int,
) -> None:
    node = Node(penstock_log_dir_reserve_bytes=0)
    node.disks[0].random = Random(seed)
    node.create_topic("t", segment_bytes="1048576", **GROUP)
    client = node.connect()
    values_ = [bytes([65 + number]) * 300_000 for number in range(4)]
    for sequence in range(3):
        assert produced(client, "t", idempotent(sequence, values_[sequence])).error_code == 0
    fill(node, 200_000)
    assert produced(client, "t", idempotent(3, values_[3])).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    log = node.broker.logs.open_log("t", 0)
    assert log is not None
    assert log.segments.bases == [0, 3]
    node.disks[0].capacity_bytes = None
    node.advance(5_000)
    assert produced(client, "t", idempotent(3, values_[3])).base_offset == 3
    node.crash()
    assert produced(node.connect(), "t", idempotent(4)).base_offset == 4
    assert values(node) == [*values_, b"v"]
