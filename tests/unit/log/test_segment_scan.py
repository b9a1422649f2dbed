"""The scan of one segment in plain Python: what it keeps in memory."""

from __future__ import annotations

import pytest
from support.logs import NAME, batch

from penstock.log import segment_scan
from penstock.log.names import LOG, file_name
from penstock.log.segment_scan import SegmentToScan, scan_segment
from simulator.world.disk import SimulatedDisk


@pytest.mark.parametrize("transactional", [False, True])
def test_no_more_batches_of_producers_are_kept_than_the_limit(
    transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing ends what these producers do, and each batch is of another one: nobody has to ask for producer ids."""
    monkeypatch.setattr(segment_scan, "RECOVERY_PRODUCER_BATCHES_MAX", 10)
    pieces = [
        batch(b"v", base_offset=number, producer=(number, 0, 0), transactional=transactional) for number in range(32)
    ]
    disk = SimulatedDisk()
    disk.make_directory(NAME)
    disk.write(f"{NAME}/{file_name(0, LOG)}", 0, pieces)
    handed_on: list[list[int]] = []
    wanted = SegmentToScan(NAME, 0, sum(map(len, pieces)), None, 4096, 0)
    scan_segment(disk, wanted, lambda batches: handed_on.append([each.header.producer_id for each in batches]))
    assert max(map(len, handed_on)) <= 10
    assert [each for batches in handed_on for each in batches] == list(range(32))
