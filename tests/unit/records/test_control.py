"""Control batches, and what read_committed makes of markers."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidRecordError
from penstock.protocol.message import Message
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage, Voter
from penstock.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.records.batch import check_crc, headers, read_header
from penstock.records.builder import BatchBuilder
from penstock.records.control import (
    ControlType,
    EndTransactionMarker,
    control_batch,
    control_records,
    control_type,
    end_transaction_marker,
    plain_marker,
)
from penstock.records.isolation import AbortedTransactions


def test_a_marker_ends_the_transaction_of_its_producer() -> None:
    marker = EndTransactionMarker(ControlType.COMMIT, coordinator_epoch=6)
    data = end_transaction_marker(marker, producer_id=4, producer_epoch=1, wall_ms=99, base_offset=7)
    header = read_header(data)
    check_crc(data, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.base_offset) == (4, 1, -1, 7)
    assert header.is_control
    assert header.is_transactional
    (record,) = control_records(data, header)
    assert record == (7, 99, ControlType.COMMIT, marker)


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
@pytest.mark.parametrize("coordinator_epoch", [0, 1, 127, 2**31 - 1])
def test_a_marker_is_written_and_read_as_any_control_record(kind: ControlType, coordinator_epoch: int) -> None:
    marker = EndTransactionMarker(kind, coordinator_epoch)
    data = end_transaction_marker(
        marker, producer_id=2**40, producer_epoch=32767, wall_ms=1_700_000_000_000, base_offset=9, leader_epoch=4
    )
    builder = BatchBuilder(
        base_offset=9,
        leader_epoch=4,
        producer_id=2**40,
        producer_epoch=32767,
        is_transactional=True,
        is_control=True,
    )
    builder.append(1_700_000_000_000, bytes((0, 0, 0, kind)), b"\0\0" + coordinator_epoch.to_bytes(4, "big"))
    assert data == builder.build()
    assert plain_marker(data, read_header(data)) == marker
    assert plain_marker(b"before" + data, read_header(data), 6) == marker


def test_what_is_not_a_plain_marker_is_looked_at_record_by_record() -> None:
    marker = EndTransactionMarker(ControlType.COMMIT, 6)
    plain = end_transaction_marker(marker, producer_id=4, producer_epoch=1, wall_ms=99)
    header = read_header(plain)
    assert plain_marker(plain[:-1], header) is None
    assert plain_marker(plain, header._replace(record_count=2)) is None
    assert plain_marker(plain, header._replace(attributes=header.attributes | 1)) is None
    found_at = set()
    for position in range(61, len(plain)):
        changed = bytearray(plain)
        changed[position] ^= 0x80
        found = plain_marker(changed, header)
        if found is not None:
            found_at.add(position)
            assert [record.message for record in control_records(changed, header)] == [found]
    assert found_at == {67, 72, *range(73, 77)}, "versions that are not known yet, and the coordinator's epoch"


def test_the_quorums_messages_share_a_batch() -> None:
    messages: list[Message] = [
        SnapshotHeaderRecord(last_contained_log_timestamp=5),
        KRaftVersionRecord(kraft_version=1),
        VotersRecord(voters=[]),
        LeaderChangeMessage(leader_id=2, voters=[Voter(voter_id=2)], granting_voters=[]),
        SnapshotFooterRecord(),
    ]
    data = control_batch(messages, base_offset=0, leader_epoch=3, wall_ms=1)
    found = list(control_records(data, read_header(data)))
    assert [record.message for record in found] == messages
    assert [record.type.name for record in found] == [
        "SNAPSHOT_HEADER",
        "KRAFT_VERSION",
        "KRAFT_VOTERS",
        "LEADER_CHANGE",
        "SNAPSHOT_FOOTER",
    ]
    assert read_header(data).leader_epoch == 3


def test_an_unknown_type_is_passed_over_and_a_broken_key_is_not() -> None:
    assert control_type(b"\x00\x00\x00\x63") is ControlType.UNKNOWN
    assert control_type(b"\x00\x05\x00\x01more") is ControlType.COMMIT
    for key in (None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"):
        with pytest.raises(InvalidRecordError):
            control_type(key)
    builder = BatchBuilder(is_control=True)
    builder.append(0, b"\x00\x00\x00\x01", b"\x00\x00")
    data = builder.build()
    with pytest.raises(InvalidRecordError, match="marker of 2 bytes"):
        list(control_records(data, read_header(data)))


def transactional(producer_id: int, base_offset: int) -> bytearray:
    builder = BatchBuilder(
        base_offset=base_offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    builder.append(0, None, b"v")
    return builder.build()


def marker(kind: ControlType, producer_id: int, base_offset: int) -> bytearray:
    return end_transaction_marker(
        EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, wall_ms=0, base_offset=base_offset
    )


def test_batches_of_an_aborted_transaction_are_hidden_until_its_marker() -> None:
    plain = BatchBuilder(base_offset=8)
    plain.append(0, None, b"v")
    run = b"".join(
        [
            transactional(1, 0),  # committed at 2
            transactional(2, 1),  # aborted at 5
            marker(ControlType.COMMIT, 1, 2),
            transactional(1, 3),  # aborted at 6
            transactional(2, 4),
            marker(ControlType.ABORT, 2, 5),
            marker(ControlType.ABORT, 1, 6),
            transactional(1, 7),
            plain.build(),
        ]
    )
    hides = AbortedTransactions([(1, 3), (2, 1)])
    hidden = [header.base_offset for position, header in headers(run) if hides(run, position, header)]
    assert hidden == [1, 3, 4]
