"""The checks of the mixed cluster find whatever is planted: a single byte of one replica, a record too few or twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from interop.mixed_cluster.comparison import reads_are_whole, replicas_are_equal, sequences_are_whole
from support.logs import batch

BATCHES = [
    bytes(batch(b"%d" % each, b"more", base_offset=2 * each, leader_epoch=each // 3, producer=(7, 0, 2 * each)))
    for each in range(6)
]
LOG = b"".join(BATCHES)
LEADER_EPOCH_AT = 12
"""The leader epoch's place in a batch: no checksum covers it."""


def changed(log: bytes, at: int) -> bytes:
    """With one bit of one byte flipped."""
    return log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :]


def replicas(directory: Path, logs: dict[int, bytes]) -> dict[int, Path]:
    """Directories of replicas with these logs, each rolled at another place."""
    found = {}
    for broker, log in logs.items():
        found[broker] = directory / str(broker) / "moved-0"
        found[broker].mkdir(parents=True)
        cut = len(BATCHES[0]) * broker
        (found[broker] / f"{0:020}.log").write_bytes(log[:cut])
        (found[broker] / f"{2 * broker:020}.log").write_bytes(log[cut:])
    return found


def test_replicas_with_the_same_bytes_in_other_segments_are_equal(tmp_path: Path) -> None:
    replicas_are_equal(replicas(tmp_path, dict.fromkeys((1, 2, 3), LOG)), len(BATCHES))


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "the first byte": lambda log: changed(log, 0),
    "the last byte": lambda log: changed(log, len(log) - 1),
    "a leader epoch": lambda log: changed(log, 2 * len(BATCHES[0]) + LEADER_EPOCH_AT + 3),
    "a record": lambda log: log.replace(b"more", b"less", 1),
    "a torn tail": lambda log: log[:-1],
    "the last batch missing": lambda log: log[: -len(BATCHES[-1])],
    "a batch missing": lambda log: log[: len(BATCHES[0])] + log[2 * len(BATCHES[0]) :],
    "a batch twice": lambda log: log + BATCHES[-1],
    "two batches exchanged": lambda log: BATCHES[1] + BATCHES[0] + log[2 * len(BATCHES[0]) :],
    "nothing": lambda log: b"",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_replica_that_differs_is_named(tmp_path: Path, fault: str, broker: int) -> None:
    logs = {**dict.fromkeys((1, 2, 3), LOG), broker: FAULTS[fault](LOG)}
    with pytest.raises(AssertionError, match=f"broker {broker} differs" if broker > 1 else "broker 2 differs"):
        replicas_are_equal(replicas(tmp_path, logs), len(BATCHES))


@pytest.mark.parametrize("fault", ["a batch missing", "a batch twice", "two batches exchanged", "nothing"])
def test_replicas_that_are_wrong_in_the_same_way_are_not_equal_either(tmp_path: Path, fault: str) -> None:
    with pytest.raises(AssertionError, match=r"after offset|too few"):
        replicas_are_equal(replicas(tmp_path, dict.fromkeys((1, 2, 3), FAULTS[fault](LOG))), len(BATCHES))


def test_a_sequence_that_is_missing_or_there_twice_is_found() -> None:
    sequences_are_whole(LOG, 0)
    for fault in ("a batch missing", "a batch twice", "two batches exchanged"):
        with pytest.raises(AssertionError):
            sequences_are_whole(FAULTS[fault](LOG), 0)
    with pytest.raises(AssertionError):
        sequences_are_whole(LOG, 1)


def test_reads_that_lack_repeat_or_change_something_are_found() -> None:
    sent = [b"a", b"b", b"c"]
    read = list(enumerate(sent))
    acknowledged = dict(read)
    reads_are_whole(read, sent, acknowledged)
    reads_are_whole([*read[:2], (2, b"b"), (3, b"c")], sent, {0: b"a", 1: b"b", 3: b"c"})  # appended twice, once a time
    for faulty in (read[:2], read[1:], [read[0], read[2]], [*read, read[2]], [read[1], read[0], read[2]]):
        with pytest.raises(AssertionError):
            reads_are_whole(faulty, sent, {})
    with pytest.raises(AssertionError, match="offset 1"):
        reads_are_whole(read, sent, {1: b"a"})
    with pytest.raises(AssertionError):
        reads_are_whole([(0, b"a"), (1, b"x"), (2, b"c")], sent, {})
