"""Which aborted transactions a fetch is told about, and how much of their index it looks at."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from support.logs import OneLog, batch, marker, topic_config
from support.planted import put

from penstock.log.damaged_index import DamagedIndexError
from penstock.log.index import AbortedIndex
from penstock.log.limits import INDEX_BLOCK_ENTRIES
from penstock.log.log import Log
from penstock.log.producer_state import Origin

ENTRY = AbortedIndex.ENTRY
MANY = 8 * INDEX_BLOCK_ENTRIES


def with_many_entries() -> tuple[OneLog, Log]:
    """A log whose only segment has many aborted transactions of two offsets each in its index, all in the file."""
    one = OneLog()
    one.append(batch(b"v", producer=(7, 0, 0), transactional=True))
    one.append(marker(7, 0, commit=False), origin=Origin.COORDINATOR)
    index = one.log.segments.all[-1].aborted_index
    for first in range(2, 2 * MANY, 2):
        index.append(7, first, first + 1, first + 2)
    one.close()
    return one, one.open(recovery_point=one.log.recovery_point)


@pytest.mark.parametrize("offset", [0, 1, MANY, 2 * MANY - 2, 2 * MANY - 1])
def test_a_fetch_looks_at_a_small_part_of_a_long_index(offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, log = with_many_entries()
    looked_at = 0

    def counted(disk: object, path: str, position: int, length: int) -> bytes:
        nonlocal looked_at
        looked_at += length // ENTRY.size
        return read(path, position, length)

    read: Callable[[str, int, int], bytes] = one.disk.read
    monkeypatch.setattr(type(one.disk), "read", counted)
    found = log.segments.aborted_transactions(offset, offset + 4)
    firsts = range(offset // 2 * 2, min(offset + 4, 2 * MANY), 2)
    assert [aborted.first_offset for aborted in found] == list(firsts)
    assert looked_at <= INDEX_BLOCK_ENTRIES + 20


@pytest.mark.parametrize("segment_bytes", [1_000, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_transactions_that_overlap_are_found_wherever_the_fetch_begins(segment_bytes: int, seed: int) -> None:
    random = Random(seed)
    one = OneLog(topic_config(segment_bytes=segment_bytes))
    begun: dict[int, int] = {}
    sequences = [0] * 5
    aborted: list[tuple[int, int, int]] = []
    for _ in range(150):
        producer_id = random.randrange(5)
        at = one.log.reserved_end_offset
        if producer_id in begun and random.random() < 0.5:
            commit = random.random() < 0.5
            one.append(marker(producer_id, 0, commit=commit), origin=Origin.COORDINATOR)
            first = begun.pop(producer_id)
            if not commit:
                aborted.append((producer_id, first, at))
        else:
            one.append(batch(b"v", producer=(producer_id, 0, sequences[producer_id]), transactional=True))
            sequences[producer_id] += 1
            begun.setdefault(producer_id, at)
    one.close()
    end = one.log.log_end_offset
    for offset in range(0, end, 7):
        for upper in range(offset + 1, end + 1, 11):
            found = {each[:3] for each in one.log.segments.aborted_transactions(offset, upper)}
            assert found == {each for each in aborted if each[2] >= offset and each[1] < upper}


@pytest.mark.parametrize("wrong", [0, 3_000, 1 << 40])
@pytest.mark.parametrize("slot", range(0, MANY, MANY // 4 - 1))
def test_a_search_that_meets_a_wrong_entry_finds_what_is_right_or_says_that_it_is_wrong(wrong: int, slot: int) -> None:
    one, log = with_many_entries()
    path = log.segments.all[-1].aborted_index.path
    content = bytearray(one.disk.content(path))
    _, producer_id, first, _, stable = ENTRY.unpack_from(content, slot * ENTRY.size)
    ENTRY.pack_into(content, slot * ENTRY.size, 0, producer_id, first, wrong, stable)
    put(one.disk, path, bytes(content))
    for offset in range(0, 2 * MANY, 499):
        try:
            found = log.segments.aborted_transactions(offset, offset + 4)
        except DamagedIndexError:
            continue
        firsts = list(range(offset // 2 * 2, min(offset + 4, 2 * MANY), 2))
        assert [aborted.first_offset for aborted in found] == firsts
