"""The swap of the log cleaner, group by group: what a crash at any of its steps leaves, and faults planted in it."""

from __future__ import annotations

import re

import pytest
from support.compacted import MINUTE_MS, SECOND_MS, Compacted
from support.swaps import keyed

from penstock.log.compaction import swap
from penstock.log.compaction.swap import SwapSegments
from penstock.log.disk import Disk
from penstock.log.events import LogCleaned
from penstock.log.names import CLEANED, DELETED, SWAP
from simulator.world.disk import SimulatedDisk

FILLER = b"v" * 1150
"""Two of these do not fit into a segment together with anything else."""
ROWS = {b"first": b"1", b"second": FILLER, b"third": FILLER, b"last": b"1", b"active": b"1"}
"""The table that the log is, before a pass and after."""


class Deleting(Compacted):
    """A follower's log of three groups of segments, with delete markers that its leader's cleaner has seen long ago.

    The last two of the three segments of the first group become empty. A key in them is deleted in the same group,
    another one in the third group, and both delete markers go.
    """

    def __init__(self, crash_at: int | None = None, *, power_fails: bool = True, seed: int = 0) -> None:
        super().__init__(seed, power_fails=power_fails)
        self.put((b"first", b"1"))
        self.roll()
        self.put((b"gone", b"1"), (b"lost", b"1"))
        self.roll()
        self.put((b"lost", None))
        self.roll()
        self.put((b"second", FILLER))
        self.put((b"third", FILLER))
        self.roll()
        self.put((b"gone", None))
        self.put((b"last", b"1"))
        self.roll()
        self.put((b"active", b"1"))
        self.use(lambda log: log.flush(self.simulation.now_ms))
        self.wait(27 * SECOND_MS)
        assert self.segments() == [0, 1, 3, 4, 6, 8]
        self.disk.crash_at = crash_at

    def put(self, *pairs: tuple[bytes, bytes | None]) -> None:
        passed = any(value is None for _, value in pairs)
        batch = keyed(self.written, *pairs, now_ms=self.simulation.now_ms, horizon_passed=passed)
        self.use(lambda log: log.append_as_follower(batch, self.simulation.now_ms))
        self.written += len(pairs)
        self.wait(100)

    def roll(self) -> None:
        self.use(lambda log: log.roll(self.simulation.now_ms))
        self.wait(100)

    def rows(self) -> dict[bytes, bytes]:
        """The table that the log is for who reads all of it."""
        found: dict[bytes, bytes] = {}
        for record in self.records():
            assert record.key is not None
            found.pop(record.key, None)
            if record.value is not None:
                found[record.key] = record.value
        return found

    def cleaned(self) -> range:
        """Lets the first pass run to its end; the numbers of the changes of the disk meanwhile."""
        began = self.disk.changes
        while not self.events(LogCleaned):
            self.wait(1)
        return range(began, self.disk.changes + 1)


def test_the_delete_markers_go_with_what_they_deleted() -> None:
    topic = Deleting()
    assert topic.rows() == ROWS
    topic.cleaned()
    assert topic.rows() == ROWS
    assert topic.segments() == [0, 4, 6, 8]
    assert [topic.disk.size(f"users-0/{name}") > 0 for name in topic.files(".log")] == [True] * 4
    assert not topic.files(CLEANED) + topic.files(SWAP)


@pytest.mark.parametrize("power_fails", [True, False], ids=["power failure", "kill"])
def test_a_crash_at_any_step_brings_no_deleted_record_back(power_fails: bool) -> None:
    steps = Deleting().cleaned()
    segments = set()
    for step in steps:
        topic = Deleting(step, power_fails=power_fails, seed=step)
        topic.wait(10 * SECOND_MS)
        assert topic.node.incarnation == 2
        assert topic.rows() == ROWS, step
        segments.add(tuple(topic.segments()))
        assert not topic.files(CLEANED) + topic.files(SWAP)
        topic.wait(MINUTE_MS)
        assert topic.rows() == ROWS, step
    assert segments >= {(0, 1, 3, 4, 6, 8), (0, 4, 6, 8)}
    if not power_fails:
        assert (0, 3, 4, 6, 8) in segments, (
            "one of the segments that became empty is back, and no group after it is new"
        )


# The order


def steps_of_a_swap(topic: Compacted, monkeypatch: pytest.MonkeyPatch, *, synced: bool = True) -> str:
    """What the first swap does to names: `s` for one that becomes `.swap`, `d` for `.deleted`, `n` for a name of the
    log, and `|` where all of them become durable."""
    steps: list[str] = []
    rename, run = SimulatedDisk.rename, SwapSegments.run
    letters = {SWAP: "s", DELETED: "d"}

    def renamed(disk: SimulatedDisk, old: str, new: str) -> None:
        steps.append(next((letters[suffix] for suffix in letters if new.endswith(suffix)), "n"))
        rename(disk, old, new)

    def noted(operation: SwapSegments, disk: Disk) -> object:
        fsync_directory = SimulatedDisk.fsync_directory

        def synchronised(disk: SimulatedDisk, path: str) -> None:
            if synced:
                steps.append("|")
                fsync_directory(disk, path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SimulatedDisk, "rename", renamed)
            patch.setattr(SimulatedDisk, "fsync_directory", synchronised)
            return run(operation, disk)

    monkeypatch.setattr(SwapSegments, "run", noted)
    while not topic.events(LogCleaned):
        topic.wait(1)
    return "".join(steps)


def several_groups(left_alone: int | None = None) -> Compacted:
    """A log of five segments, none of which fits into one with another. No pass can read the one `left_alone`."""
    topic = Compacted()
    topic.append(11)
    if left_alone is not None:
        topic.log()
        path = f"users-0/{left_alone:020d}.log"
        topic.disk.write(path, topic.disk.size(path) // 2 + 8, [bytes(4)])  # the length of its second batch
    return topic


def check_order(steps: str) -> None:
    """A power failure may keep any of the names that are not durable yet, in whatever order."""
    assert re.fullmatch(r"\|s+\|d+\|n+\|", steps), steps


def test_each_step_of_a_swap_is_durable_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    check_order(steps_of_a_swap(several_groups(), monkeypatch))


def test_names_that_are_not_fsynced_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        check_order(steps_of_a_swap(several_groups(), monkeypatch, synced=False))


def test_a_group_that_has_lost_a_delete_marker_waits_until_those_before_it_are_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = steps_of_a_swap(Deleting(), monkeypatch)
    assert re.fullmatch(r"\|s+\|d+\|n+s+\|d+\|n+\|", steps), steps


def test_a_group_behind_a_segment_that_was_left_alone_waits_until_the_one_before_has_its_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Apache Kafka would delete that segment if it found both as `.swap`."""
    steps = steps_of_a_swap(several_groups(left_alone=4), monkeypatch)
    assert re.fullmatch(r"\|s+\|d+\|n+\|s+\|d+\|n+\|", steps), steps


# Planted faults


def test_groups_that_have_lost_delete_markers_and_do_not_wait_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swap, "has_lost_markers", lambda report: False)
    with pytest.raises(AssertionError):
        test_a_crash_at_any_step_brings_no_deleted_record_back(power_fails=False)


def test_old_segments_that_go_from_the_last_to_the_first_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    old_files = swap.old_files
    monkeypatch.setattr(swap, "old_files", lambda groups: old_files(groups)[::-1])
    with pytest.raises(AssertionError):
        test_a_crash_at_any_step_brings_no_deleted_record_back(power_fails=False)
