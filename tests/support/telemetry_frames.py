"""Frames of telemetry without a broker, and frames that are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import zstandard

from penstock.errors import ProtocolError
from penstock.guardian.telemetry.decode import decode, unpacked
from penstock.guardian.telemetry.view import View
from penstock.node.telemetry.blocks import Rows
from penstock.node.telemetry.pull import Frame
from penstock.node.telemetry.telemetry import Telemetry
from penstock.protocol.telemetry import BLOCKS, FULL, HEADER, PARTITIONS, Block

INCARNATION = UUID(int=7)
State = Mapping[str, Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]]]
"""Of each block, name and values of its rows by their keys."""
INTERESTING = (0, 1, 2, 3, 4, 5, 7, 8, 127, 128, 254, 255)
COMPRESSOR = zstandard.ZstdCompressor(level=1)


class Source:
    """A broker that has what it is given."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        node = SimpleNamespace(node_id=3)
        lifecycle = SimpleNamespace(incarnation_id=INCARNATION)
        self.node: Any = SimpleNamespace(telemetry=self.telemetry, state=node, lifecycle=lifecycle)

    def frame(self, state: State, since: int) -> bytes:
        """A frame with the state, for who knows a sequence."""
        frame = Frame(self.node, since)
        for block in BLOCKS:
            rows = state.get(block.name, {})
            names = [name for name, _ in rows.values()]
            values = [found for _, found in rows.values()]
            frame.add(Rows(block, list(rows), names.__getitem__, values, renamed=True))
        for table in self.telemetry.tables:
            for _ in table.forget_unseen(frame.look):
                pass
        return frame.complete()


def row(block: Block, random: Random, key: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """A row with numbers of all sizes."""
    name = (key, *(f"{field} {random.randrange(9)}" for field in block.fields[1:]))
    return name, tuple(random.randrange(-2, 1 << random.choice((1, 7, 8, 15, 31, 62))) for _ in block.columns)


def frames(random: Random, rows: int = 6) -> list[bytes]:
    """What a reader gets one after the other: everything, changes, new rows and the end of some."""
    source, view, found = Source(), View(), []
    state: dict[str, dict[str, tuple[tuple[str, ...], tuple[int, ...]]]] = {
        block.name: {f"{block.name} {number}": row(block, random, f"{block.name} {number}") for number in range(rows)}
        for block in BLOCKS
    }
    for number in range(4):
        found.append(source.frame(state, view.sequence if number else FULL))
        view.take(decode(found[-1]))
        for block in BLOCKS:
            of_block = state[block.name]
            of_block.pop(random.choice(list(of_block)), None)
            of_block[f"new {number}"] = row(block, random, f"new {number}")
            for key in list(of_block)[::2]:
                name, values = of_block[key]
                of_block[key] = name, tuple(value + random.randrange(300) for value in values)
    return found


def mutated(frame: bytes, random: Random) -> bytes:
    """A frame with a few bytes changed, cut, repeated or put in: of what is compressed, or as it is sent."""
    head, packed = frame[: HEADER.size], frame[HEADER.size :]
    if random.random() < 0.9:
        data = bytearray(unpacked(packed))
        spoil(data, random)
        return head + COMPRESSOR.compress(bytes(data))
    data = bytearray(frame)
    spoil(data, random)
    return bytes(data)


def spoil(data: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        if not data:
            return
        place, length = random.randrange(len(data)), random.choice((1, 2, 4, 8))
        match random.randrange(6):
            case 0:
                data[place] = random.choice(INTERESTING)
            case 1:
                data[place] ^= 1 << random.randrange(8)
            case 2:
                del data[place:]
            case 3:
                del data[place : place + length]
            case 4:
                data[place:place] = random.randbytes(length)
            case _:
                data[place:place] = data[place : place + random.randrange(64)]


def fed(count: int, seed: int) -> Counter[str]:
    """Feeds so many mutated frames to a reader. How many were refused, as no frames or as none that fit, and how many
    were taken; any other exception comes through.
    """
    random, told = Random(seed), Counter[str]()
    for frame, before in endless(random):
        if told.total() >= count:
            return told
        try:
            found = decode(frame)
        except ProtocolError:
            told["no frame"] += 1
            continue
        view = View()
        if before is not None:
            view.take(decode(before))
        try:
            view.take(found)
            told["taken"] += 1
        except ProtocolError:
            told["does not fit"] += 1
            assert (view.sequence, len(view["partitions"])) == (FULL, 0), "it has forgotten everything"
    raise AssertionError("it never ends")


def endless(random: Random) -> Iterator[tuple[bytes, bytes | None]]:
    """Mutated frames, and the whole one that each comes after, if any."""
    while True:
        whole, *changes = frames(random, rows=random.choice((1, 2, 6)))
        for _ in range(500):
            yield mutated(whole, random), None
            yield mutated(changes[0], random), whole


EMPTY_STATE: State = {}
PARTITION_COLUMNS = len(PARTITIONS.columns)
