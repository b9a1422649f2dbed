"""The compiled scan of a segment and its plain twin say the same of every file, good, damaged or made to deceive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.legacy import GZIP, message
from support.logs import NAME, NOW_MS, batch, marker, topic_config
from support.upgraded import content as content_of
from support.upgraded import upgraded

pytest.importorskip("numba", reason="needs penstock[kernels]")

from crc32c import crc32c

from penstock.errors import PenstockError
from penstock.log import compiled_segment_scan, segment_scan
from penstock.log.compiled_segment_scan import scan_segment_compiled
from penstock.log.loading import OpenArguments
from penstock.log.names import LOG, file_name
from penstock.log.recovery import recover_log
from penstock.log.segment_scan import ProducerBatch, Scan, SegmentToScan, scan_segment
from penstock.records import batch_kernels
from penstock.records.batch import CRC, CRC_POSITION, HEADER_BYTES, computed_crc, headers
from penstock.records.compression import Codec
from simulator.world.disk import SimulatedDisk

BASES = st.sampled_from([0, 7, 2**32 - 2, 2**62 - 1, 2**62, 2**63 - 4])
SIZES = st.sampled_from([1, 5, 30, 200, 5000])
KINDS = st.sampled_from(["plain", "plain", "idempotent", "idempotent", "transactional", "marker", "old 0", "old 1"])
GAPS = st.sampled_from([0, 0, 0, 0, 0, 1, 3, -1, -2, 2**31 - 5, 2**31])
BATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "kind": KINDS,
            "size_bytes": SIZES,
            "records": st.integers(1, 3),
            "gap": GAPS,
            "producer_id": st.integers(0, 3),
            "epoch": st.integers(0, 2),
            "leader_epoch": st.sampled_from([-1, 0, 1, 1, 2, 5]),
            "late_ms": st.integers(-50, 50),
        }
    ),
    max_size=12,
)
PLACES = [0, 7, 8, 11, 12, 16, 17, 21, 22, 23, 26, 27, 35, 43, 50, 51, 53, 57, HEADER_BYTES, HEADER_BYTES + 2]
"""Positions within a batch that mean something."""
EDITS = st.lists(
    st.tuples(st.integers(0, 11), st.sampled_from(PLACES), st.sampled_from([0, 1, 2, 0x10, 0x20, 0x7F, 0x80, 0xFF])),
    max_size=3,
)
FILES = st.fixed_dictionaries(
    {
        "base_offset": BASES,
        "batches": BATCHES,
        "edits": st.one_of(st.just([]), EDITS),
        "mended": st.booleans(),
        "cut": st.sampled_from([0, 0, 0, 1, 40, 61, 100]),
        "tail": st.sampled_from([b"", b"", bytes(70), b"\x00" * 8 + b"\x7f\xff\xff\xff" + b"\x00" * 60]),
        "following": st.sampled_from([None, None, 0, 1, 3, 10, 2**31, 2**63]),
        "account_from": st.sampled_from([0, 0, 0, 3, 8]),
        "interval_bytes": st.sampled_from([0, 100, 4096]),
        "chunk_bytes": st.sampled_from([61, 200, 6000, 1 << 20]),
    }
)


def content(file: dict[str, Any]) -> bytes:
    """A segment file with what was planted in it. `mended` gives broken batches the right checksum."""
    offset, pieces = file["base_offset"], []
    for wanted in file["batches"]:
        offset += wanted["gap"]
        ids = wanted["producer_id"], wanted["epoch"]
        if wanted["kind"] == "marker":
            data = marker(*ids, commit=wanted["records"] == 1)
            data[12:16] = (wanted["leader_epoch"] & 0xFFFFFFFF).to_bytes(4, "big")
            count = 1
        elif wanted["kind"].startswith("old"):
            count = wanted["records"]
            body = b"v" * wanted["size_bytes"]
            at_ms, magic, codec = NOW_MS + wanted["late_ms"], int(wanted["kind"][-1]), GZIP if count > 1 else 0
            data = bytearray(message(0, None, body, magic=magic, timestamp_ms=at_ms, attributes=codec))
            offset += count - 1  # that of the last one inside
            count = 1
        else:
            count = wanted["records"]
            data = batch(
                *[b"v" * wanted["size_bytes"]] * count,
                timestamp_ms=NOW_MS + wanted["late_ms"],
                codec=Codec.NONE if count < 3 else Codec.GZIP,
                producer=(-1, -1, -1) if wanted["kind"] == "plain" else (*ids, 0),
                transactional=wanted["kind"] == "transactional",
                leader_epoch=wanted["leader_epoch"],
            )
        data[:8] = (offset % 2**64).to_bytes(8, "big")
        pieces.append(data)
        offset += count
    for number, place, byte in file["edits"]:
        if number < len(pieces) and place < len(pieces[number]):
            pieces[number][place] = byte
            if file["mended"] and file["batches"][number]["kind"].startswith("old"):
                pieces[number][12:16] = crc32(pieces[number][16:]).to_bytes(4, "big")
            elif file["mended"]:
                crc = computed_crc(pieces[number], 0, len(pieces[number]))
                CRC.pack_into(pieces[number], CRC_POSITION, crc)
    whole = b"".join(pieces)
    return whole[: max(0, len(whole) - file["cut"])] + file["tail"]


def outcome(scan: Scan, disk: SimulatedDisk, wanted: SegmentToScan) -> object:
    accounted: list[ProducerBatch] = []
    try:
        found = scan(disk, wanted, accounted.extend)
    except (PenstockError, OverflowError, AssertionError) as error:
        return type(error), str(error)
    return found, accounted


def both_say_the_same(file: dict[str, Any]) -> None:
    disk = SimulatedDisk()
    disk.make_directory(NAME)
    base, data = file["base_offset"], content(file)
    disk.write(f"{NAME}/{file_name(base, LOG)}", 0, [data])
    following = None if file["following"] is None else base + file["following"]
    account_from = base + file["account_from"]
    wanted = SegmentToScan(NAME, base, len(data), following, file["interval_bytes"], account_from)
    with pytest.MonkeyPatch.context() as patch:
        for module in (segment_scan, compiled_segment_scan):
            patch.setattr(module, "RECOVERY_CHUNK_BYTES", file["chunk_bytes"])
        assert outcome(scan_segment_compiled, disk, wanted) == outcome(scan_segment, disk, wanted)


@given(FILES)
@settings(max_examples=300, deadline=None)
def test_both_scans_say_the_same(file: dict[str, Any]) -> None:
    both_say_the_same(file)


@pytest.mark.long
@given(FILES)
@settings(max_examples=20_000, deadline=None)
def test_both_scans_say_the_same_of_many_files(file: dict[str, Any]) -> None:
    both_say_the_same(file)


@pytest.mark.parametrize("account_from", range(9))
@pytest.mark.parametrize("records", [1, 2])
def test_a_transaction_that_is_accounted_for_in_part_begins_where_the_account_does(
    account_from: int, records: int
) -> None:
    one = {"kind": "transactional", "size_bytes": 5, "records": records, "gap": 0, "producer_id": 1, "epoch": 0}
    file = sample_of_each()[0] | {"batches": [one | {"leader_epoch": 0, "late_ms": 0}] * 4}
    both_say_the_same(file | {"account_from": account_from})


def busy_log(random: Random, segments: int = 3) -> dict[str, bytes]:
    """The segment files of a log that producers, transactions and new leaders have written to, in small batches."""
    files, offset, epoch = {}, 0, 0
    for _ in range(segments):
        base, data = offset, bytearray()
        for _ in range(400):
            epoch += random.random() < 0.01
            kind, producer_id = random.choice(["plain", "idempotent", "transactional", "end"]), random.randint(0, 20)
            piece = (
                marker(100 + producer_id, 0, commit=random.random() < 0.5)
                if kind == "end"
                else batch(
                    b"v" * random.randint(0, 150),
                    timestamp_ms=NOW_MS + random.randint(-99, 99),
                    producer={"plain": (-1, -1, -1), "idempotent": (producer_id, 0, offset)}.get(
                        kind, (100 + producer_id, 0, offset)
                    ),
                    transactional=kind == "transactional",
                )
            )
            piece[:8] = offset.to_bytes(8, "big")
            piece[12:16] = epoch.to_bytes(4, "big")
            data += piece
            offset += 1
        files[file_name(base, LOG)] = bytes(data)
    return files


def recovered(files: dict[str, bytes], scan: Scan) -> tuple[object, dict[str, bytes]]:
    disk = SimulatedDisk()
    disk.make_directory(NAME)
    for name, data in files.items():
        disk.write(f"{NAME}/{name}", 0, [data])
    try:
        report: object = recover_log(disk, OpenArguments(NAME, topic_config(), 0, 0, NOW_MS), scan=scan)
    except PenstockError as error:
        report = str(error)
    return report, {path: disk.content(path) for path in disk.paths()}


def flipped(random: Random, data: bytes) -> bytes:
    broken = bytearray(data)
    broken[random.randrange(len(broken))] ^= 1 << random.randrange(8)
    return bytes(broken)


@pytest.mark.parametrize("seed", range(6))
def test_a_recovery_leaves_the_same_files_with_either(seed: int) -> None:
    random = Random(seed)
    files = busy_log(random)
    if seed:
        name = random.choice(sorted(files))
        files[name] = flipped(random, files[name])
    plain = recovered(files, scan_segment)
    assert recovered(files, scan_segment_compiled) == plain
    if not seed:
        assert any(path.endswith(".txnindex") and data for path, data in plain[1].items())


@pytest.mark.parametrize("seed", range(6))
def test_a_recovery_of_a_log_that_was_upgraded_leaves_the_same_files_with_either(seed: int) -> None:
    random, some = Random(seed), upgraded(seed, messages=20, batches=10)
    ends = sorted(random.sample(range(1, len(some)), 2))
    segments = [some[start:end] for start, end in pairwise([0, *ends, len(some)])]
    files = {file_name(each[0].records[0].offset, LOG): content_of(each) for each in segments}
    if seed:
        name = random.choice(sorted(files))
        files[name] = flipped(random, files[name])[: random.choice([len(files[name]), random.randint(1, 3_000)])]
    plain = recovered(files, scan_segment)
    assert recovered(files, scan_segment_compiled) == plain
    if not seed:
        assert [data for path, data in plain[1].items() if path.endswith(".log")] == list(files.values())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(500))
def test_a_recovery_of_a_damaged_log_leaves_the_same_files_with_either(seed: int) -> None:
    random = Random(1000 + seed)
    files = busy_log(random)
    for _ in range(random.randint(1, 4)):
        name = random.choice(sorted(files))
        files[name] = flipped(random, files[name])[: random.choice([len(files[name]), random.randint(1, 50_000)])]
    assert recovered(files, scan_segment_compiled) == recovered(files, scan_segment)


@given(st.binary(max_size=100), st.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_the_compiled_checksum_is_that_of_the_library(data: bytes, start: int) -> None:
    import numpy as np

    array = np.frombuffer(data, np.uint8)
    start = min(start, len(data))
    found = batch_kernels.crc32c(array, start, len(data), compiled_segment_scan.TABLES)
    assert found == crc32c(data[start:])


def last_batch_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = compiled_segment_scan.Walking._mark_last
    patch.setattr(
        compiled_segment_scan.Walking,
        "_mark_last",
        lambda self, batches, spans, order, kept: real(self, batches, spans, order[:-1], kept),
    )


def waiting_batch_is_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batch_kernels, "walk_ended", lambda *_: None)


def old_messages_are_torn_tails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compiled_segment_scan, "is_old_at", lambda *_: False)


def large_batches_are_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compiled_segment_scan.Walking, "_is_right", lambda *_: True)


def later_segments_are_believed(patch: pytest.MonkeyPatch) -> None:
    walk = batch_kernels.walk
    patch.setattr(batch_kernels, "walk", lambda *arguments: walk(*arguments[:4], -1, *arguments[5:]))


PLANTED: Sequence[Callable[[pytest.MonkeyPatch], None]] = (
    last_batch_is_forgotten,
    waiting_batch_is_dropped,
    old_messages_are_torn_tails,
    large_batches_are_believed,
    later_segments_are_believed,
)


def sample_of_each() -> list[dict[str, Any]]:
    """A file for each of the planted faults."""
    plain = {
        "kind": "idempotent", "size_bytes": 30, "records": 1, "gap": 0, "producer_id": 1, "epoch": 0,
        "leader_epoch": 0, "late_ms": 0,
    }  # fmt: skip
    file = {
        "base_offset": 7, "batches": [plain, plain, plain], "edits": [], "mended": False, "cut": 0, "tail": b"",
        "following": None, "account_from": 0, "interval_bytes": 100, "chunk_bytes": 1 << 20,
    }  # fmt: skip
    large = plain | {"size_bytes": 5000}
    return [
        file,
        file | {"batches": [plain, plain | {"gap": 3}]},
        file | {"tail": message(10, None, None, magic=0)},
        file | {"batches": [plain, large], "edits": [(1, HEADER_BYTES + 2, 0xFF)]},
        file | {"batches": [plain, plain | {"gap": 3}, plain], "following": 2},
    ]


@pytest.mark.parametrize(("plant", "file"), list(zip(PLANTED, sample_of_each(), strict=True)))
def test_a_planted_difference_is_noticed(plant: Callable[[pytest.MonkeyPatch], None], file: dict[str, Any]) -> None:
    both_say_the_same(file)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError):
            both_say_the_same(file)


def test_the_files_of_a_busy_log_have_what_their_test_is_about() -> None:
    data = b"".join(busy_log(Random(0)).values())
    found = [header for _, header in headers(data)]
    assert len(found) == 1200
    assert {header.is_control for header in found} == {header.is_transactional for header in found} == {True, False}
