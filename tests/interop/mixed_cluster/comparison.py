"""What must be the same on every replica, and what must be true of what clients saw: each raises AssertionError.

Replicas are compared byte for byte over all their segments together: where one segment ends and the next begins is
every broker's own affair. `test_comparison.py` shows that each check can fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.records.batch import headers


def log_bytes(replica: Path) -> bytes:
    """All bytes of the log in a partition's directory."""
    return b"".join(segment.read_bytes() for segment in sorted(replica.glob("*.log")))


def replicas_are_equal(replicas: Mapping[int, Path], batches_min: int) -> None:
    """Every replica, by broker, has the same bytes, and they are at least so many whole batches without a gap."""
    logs = {broker: log_bytes(replica) for broker, replica in replicas.items()}
    first, *others = logs
    for other in others:
        if logs[other] != logs[first]:
            raise AssertionError(f"broker {other} differs from broker {first}: {difference(logs[other], logs[first])}")
    next_offset = batches = 0
    for _, header in headers(logs[first]):
        assert header.base_offset == next_offset, f"after offset {next_offset - 1} comes {header.base_offset}"
        next_offset = header.last_offset + 1
        batches += 1
    assert batches >= batches_min, f"{batches} batches are too few to prove anything"


def difference(one: bytes, other: bytes) -> str:
    """Where two logs first differ, in words."""
    position = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    if position is None:
        return f"{len(one)} bytes, not {len(other)}"
    whole = one[:position] + other[position:] if len(one) < len(other) else one
    at = max((at for at, _ in headers(whole) if at <= position), default=0)
    return f"byte {position - at} of the batch at {at} is {one[position]}, not {other[position]}"


def sequences_are_whole(log: bytes, written_twice: int) -> None:
    """The producer's sequences have neither gap nor repetition, from whichever leader to whichever leader.

    Only a producer that began a new epoch may have written something twice.
    """
    next_sequence: dict[tuple[int, int], int] = {}
    for _, header in headers(log):
        producer = (header.producer_id, header.producer_epoch)
        assert header.base_sequence == next_sequence.get(producer, 0), header
        next_sequence[producer] = header.base_sequence + header.record_count
    assert written_twice == 0 or len(next_sequence) > 1, next_sequence


def reads_are_whole(
    read: Sequence[tuple[int, bytes]], sent: Sequence[bytes], acknowledged: Mapping[int, bytes]
) -> None:
    """A consumer saw each offset once and in order, every record that was sent, and what was acknowledged where."""
    assert [offset for offset, _ in read] == list(range(len(read))), "every offset once, in order"
    values = dict(read)
    assert list(dict.fromkeys(values.values())) == list(sent), "each record, in the order of sending"
    for offset, value in acknowledged.items():
        found = values.get(offset)
        assert found == value, f"at offset {offset} was acknowledged {value!r}, and read {found!r}"
