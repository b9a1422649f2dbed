"""A log that brokers of before Kafka 0.11 began and that was gone on with since, and what is in it.

    entries = upgraded(seed=1)
    put_segments(disk, NAME, [entries[:40], entries[40:]])

The old messages are made by the libraries' own encoders, as `support.legacy` says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from penstock.log.names import LOG, file_name
from penstock.records.batch import entries, read_entry
from penstock.records.compression import Codec
from penstock.records.reader import records
from simulator.world.disk import SimulatedDisk
from support.legacy import GZIP, LZ4, NONE, SNAPPY, Kept, message_set
from support.logs import NAME, NOW_MS, batch

LIBRARIES = ("kafka-python", "aiokafka")
"""The second one knows no lz4 in format 0."""
CODECS = (NONE, NONE, GZIP, SNAPPY, LZ4)
OLD_MS = NOW_MS - 1_000_000
EPOCH = 3
"""The leader epoch of the batches that came after the upgrade."""


class Entry(NamedTuple):
    """A message or a batch, and the records that it holds."""

    data: bytes
    records: Sequence[Kept]

    @property
    def last_offset(self) -> int:
        return self.records[-1].offset


def upgraded(
    seed: int = 1, *, messages: int = 40, batches: int = 20, formats: Sequence[int] = (0, 1), first_offset: int = 0
) -> list[Entry]:
    """So many entries of each old format, one after the other, and then batches."""
    random, made, offset = Random(seed), [], first_offset
    for magic in formats:
        for _ in range(messages):
            codec = random.choice(CODECS)
            kept = some_records(random, offset, random.randrange(1, 6) if codec else 1, has_time=bool(magic))
            library = random.choice(LIBRARIES if magic or codec != LZ4 else LIBRARIES[:1])
            made.append(Entry(message_set(library, magic, codec, kept, absolute=not magic), kept))
            offset = kept[-1].offset + 1
    for _ in range(batches):
        values = [random.randbytes(random.randrange(80)) for _ in range(random.randrange(1, 4))]
        at_ms = NOW_MS + random.randrange(1000)
        codec = random.choice(list(Codec))
        data = batch(*values, timestamp_ms=at_ms, codec=codec, base_offset=offset, leader_epoch=EPOCH)
        kept = [Kept(offset + number, at_ms, None, value) for number, value in enumerate(values)]
        made.append(Entry(bytes(data), kept))
        offset += len(values)
    return made


def some_records(random: Random, offset: int, count: int, *, has_time: bool) -> list[Kept]:
    return [
        Kept(
            offset + number,
            OLD_MS + random.randrange(1000) if has_time else -1,
            random.choice([None, b"key %d" % random.randrange(5)]),
            random.choice([None, random.randbytes(random.randrange(80))]),
        )
        for number in range(count)
    ]


def content(some: Iterable[Entry]) -> bytes:
    return b"".join(entry.data for entry in some)


def kept(some: Iterable[Entry]) -> list[Kept]:
    """All records, in order."""
    return [record for entry in some for record in entry.records]


def put_segments(disk: SimulatedDisk, segments: Sequence[Sequence[Entry]], name: str = NAME) -> None:
    """The files of records of a log, each named by its first offset; no index."""
    for segment in segments:
        base_offset = segment[0].records[0].offset
        disk.write(f"{name}/{file_name(base_offset, LOG)}", 0, [content(segment)])


def place(directory: Path, segments: Sequence[Sequence[Entry]]) -> None:
    """Puts these files of records into a partition, as old as they say they are, and takes away all that follows."""
    for path in directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for segment in segments:
        path = directory / f"{segment[0].records[0].offset:020d}.log"
        path.write_bytes(content(segment))
        os.utime(path, (OLD_MS // 1000 - 86_400, OLD_MS // 1000 - 86_400))


def decoded(data: bytes) -> list[Kept]:
    """What a client makes of the bytes of a log."""
    found = []
    for position, header in entries(data):
        found += [Kept(*record[:4]) for record in records(data, header, position)]
    return found


def last_offsets(data: bytes) -> list[int]:
    return [header.last_offset for _, header in entries(data)]


def first_last_offset(data: bytes) -> int:
    """The last offset of the first entry."""
    return read_entry(data).last_offset
