"""Snapshots between replicas (KIP-630): who is sent one, how it comes in pieces, and what is made of a bad one."""

from __future__ import annotations

from typing import Any

import pytest
from unit.raft.replica_harness import CLUSTER, One, key_of, target_of, voter_of

from penstock.errors import ErrorCode
from penstock.protocol.messages import fetch_snapshot_response
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import PartitionData, SnapshotId
from penstock.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from penstock.raft import messages
from penstock.raft.checkpoint import BOOTSTRAP, CheckpointId
from penstock.raft.effects import Committed, InstallSnapshot, LoadSnapshot, WriteSnapshot
from penstock.raft.messages import LeaderView
from penstock.raft.voters import VoterSet
from penstock.records.builder import BatchBuilder

SNAPSHOT = CheckpointId(20, 3)
CONTENT = bytes(range(200))


def leader_with_snapshot() -> One:
    """Its log begins at 20, after the snapshot, and goes on in epochs 3 and 5."""
    one = One()
    one.log.begin_at(SNAPSHOT, CONTENT)
    for epoch in (3, 5):
        builder = BatchBuilder(base_offset=one.log.end_offset, leader_epoch=epoch)
        builder.append(0, None, b"value")
        one.log.append(bytes(builder.build()))
    one.replica = type(one.replica)(
        one.replica._core.identity, one.history, one.replica._core.role.election(), one.log,
        config=one.replica._core.config, random=one.replica._core.random,
    )  # fmt: skip
    one.elect()
    return one


def fetch(one: One, offset: int, last_epoch: int) -> PartitionData:
    request = messages.fetch(
        CLUSTER, key_of(2), one.replica.epoch, offset=offset, last_epoch=last_epoch, high_watermark=None,
        max_wait_ms=0, max_bytes=1_000_000,
    )  # fmt: skip
    found: PartitionData = one.ask(request).responses[0].partitions[0]
    return found


def piece(one: One, snapshot: CheckpointId, position: int, *, epoch: int | None = None, max_bytes: int = 80) -> Any:
    epoch = one.replica.epoch if epoch is None else epoch
    request = messages.fetch_snapshot(CLUSTER, key_of(2), epoch, snapshot, position=position, max_bytes=max_bytes)
    return one.ask(request).topics[0].partitions[0]


@pytest.mark.parametrize(("offset", "last_epoch"), [(0, 0), (7, 2), (19, 3), (20, 2)])
def test_who_lacks_what_only_the_snapshot_has_is_sent_to_it(offset: int, last_epoch: int) -> None:
    one = leader_with_snapshot()
    assert fetch(one, offset, last_epoch).snapshot_id == SnapshotId(end_offset=20, epoch=3)


@pytest.mark.parametrize(("offset", "last_epoch"), [(20, 3), (21, 3), (22, 5)])
def test_who_has_the_snapshots_end_goes_on_from_the_log(offset: int, last_epoch: int) -> None:
    one = leader_with_snapshot()
    found = fetch(one, offset, last_epoch)
    assert found.snapshot_id.epoch == -1
    assert found.records == one.log.read(offset, 1_000_000)


def test_a_log_that_parts_after_the_snapshot_is_cut_and_no_more() -> None:
    found = fetch(leader_with_snapshot(), 25, 4)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (3, 21)


def test_a_snapshot_comes_in_pieces() -> None:
    one = leader_with_snapshot()
    first, second = piece(one, SNAPSHOT, 0), piece(one, SNAPSHOT, 80)
    assert (first.size, first.position, first.unaligned_records) == (200, 0, CONTENT[:80])
    assert (second.position, second.unaligned_records) == (80, CONTENT[80:160])
    assert piece(one, SNAPSHOT, 190).unaligned_records == CONTENT[190:]


def test_a_piece_that_is_not_there_is_refused() -> None:
    one = leader_with_snapshot()
    assert piece(one, SNAPSHOT, 200).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert piece(one, SNAPSHOT, -1).error_code == ErrorCode.POSITION_OUT_OF_RANGE
    assert piece(one, CheckpointId(10, 1), 0).error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert piece(one, BOOTSTRAP, 0).error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert piece(one, SNAPSHOT, 0, epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH


# The follower


def follower() -> One:
    """Follows node 2 in epoch 9, with an empty log, and has been sent to the snapshot."""
    one = One()
    one.start()
    one.ask(messages.begin_quorum_epoch(CLUSTER, 2, 9, key_of(1), ()))
    found = PartitionData(snapshot_id=SnapshotId(end_offset=20, epoch=3), high_watermark=30)
    one.reply(one.calls(FetchRequest)[-1], messages.fetch_answer(view(), found))
    return one


def view() -> LeaderView:
    return LeaderView(2, 9, target_of(2))


def send(one: One, position: int, length: int, changes: dict[str, Any] | None = None) -> list[Any]:
    """The leader sends the piece that was asked for."""
    module = fetch_snapshot_response
    found = module.PartitionSnapshot(
        snapshot_id=module.SnapshotId(end_offset=20, epoch=3),
        size=len(CONTENT),
        position=position,
        unaligned_records=CONTENT[position : position + length],
    )
    for name, value in (changes or {}).items():
        setattr(found, name, value)
    return one.reply(one.calls(FetchSnapshotRequest)[-1], messages.fetch_snapshot_answer(view(), found))


def asked_position(one: One) -> int:
    position: int = one.calls(FetchSnapshotRequest)[-1].request.topics[0].partitions[0].position  # type: ignore[attr-defined]
    return position


def test_a_follower_asks_for_the_next_piece_when_the_last_is_written() -> None:
    one = follower()
    assert asked_position(one) == 0
    assert send(one, 0, 120) == [WriteSnapshot(SNAPSHOT, 0, CONTENT[:120])]
    assert one.calls(FetchSnapshotRequest) == []
    one.do(one.replica.snapshot_written(SNAPSHOT, 120, one.now_ms))
    assert asked_position(one) == 120


def test_a_whole_snapshot_is_installed_and_then_loaded() -> None:
    one = follower()
    send(one, 0, 200)
    assert one.do(one.replica.snapshot_written(SNAPSHOT, 200, one.now_ms)) == [InstallSnapshot(SNAPSHOT)]
    assert one.replica.high_watermark is None
    one.log.begin_at(SNAPSHOT, CONTENT)
    voters = VoterSet([voter_of(1), voter_of(2)])
    effects = one.do(one.replica.snapshot_installed(SNAPSHOT, voters, 1, one.now_ms))
    assert effects[:2] == [LoadSnapshot(SNAPSHOT), Committed(20, first=False)]
    assert one.replica.voters == voters
    fetch_request: Any = one.calls(FetchRequest)[-1].request
    assert fetch_request.topics[0].partitions[0].fetch_offset == 20
    assert fetch_request.topics[0].partitions[0].last_fetched_epoch == 3


def test_a_damaged_snapshot_is_fetched_anew() -> None:
    one = follower()
    send(one, 0, 200)
    one.do(one.replica.snapshot_written(SNAPSHOT, 200, one.now_ms))
    one.do(one.replica.snapshot_refused(SNAPSHOT, one.now_ms))
    one.pass_ms(100)
    assert len(one.calls(FetchRequest)) == 1
    assert one.log.end_offset == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"position": 7},
        {"unaligned_records": b""},
        {"size": 100},
        {"snapshot_id": fetch_snapshot_response.SnapshotId(end_offset=21, epoch=3)},
        {"error_code": ErrorCode.SNAPSHOT_NOT_FOUND},
    ],
)
def test_a_piece_that_was_not_asked_for_begins_it_all_anew(changes: dict[str, Any]) -> None:
    one = follower()
    effects = send(one, 0, 120, changes)
    assert not [each for each in effects if isinstance(each, WriteSnapshot)]
    one.pass_ms(100)
    assert len(one.calls(FetchRequest)) == 1


def test_a_snapshot_of_what_is_here_is_not_taken() -> None:
    one = One(epochs=[1, 1, 1])
    one.start()
    one.ask(messages.begin_quorum_epoch(CLUSTER, 2, 9, key_of(1), ()))
    one.reply(one.calls(FetchRequest)[-1], messages.fetch_answer(view(), PartitionData(high_watermark=3)))
    found = PartitionData(snapshot_id=SnapshotId(end_offset=2, epoch=1), high_watermark=3)
    one.reply(one.calls(FetchRequest)[-1], messages.fetch_answer(view(), found))
    one.pass_ms(100)
    assert one.calls(FetchSnapshotRequest) == []
