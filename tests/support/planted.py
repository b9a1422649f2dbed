"""Logs on simulated disks for checks of files: sound ones, and the same with something changed in a file."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from random import Random

from penstock.log import partition_metadata
from penstock.log.names import PARTITION_METADATA
from penstock.log.verification.partition import Beside, PartitionReport, check_partition
from penstock.log.verification.record_checks import plain_walk
from penstock.records.compression import Codec
from simulator.world.disk import SimulatedDisk
from support.compaction import History
from support.logs import NAME
from support.partition_files import TOPIC_ID

CODECS = list(Codec)


def sound_log(seed: int = 1, batches: int = 60) -> History:
    """A closed log of three segments: every codec, producers, transactions that commit and abort, no gap."""
    random, history = Random(seed), History.empty()
    for number in range(batches):
        pairs = [(b"k%d" % random.randrange(9), random.randbytes(random.randrange(40))) for _ in range(4)]
        if number % 5 == 4:
            history.append(pairs, producer_id=7, transactional=True)
            history.end(7, commit=number % 2 == 0)
        else:
            history.append(pairs, codec=random.choice(CODECS), producer_id=random.choice([-1, 1, 2]))
        if number % 25 == 24:
            history.roll()
    history.one.close()
    history.one.disk.write(f"{NAME}/{PARTITION_METADATA}", 0, [partition_metadata.encode(TOPIC_ID)])
    return history


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: disk.content(path) for path in disk.paths()}


def put(disk: SimulatedDisk, path: str, content: bytes) -> None:
    disk.write(path, 0, [content])
    disk.truncate(path, len(content))


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def mutated(content: bytes, random: Random) -> bytes:
    """Something that a disk, a crash or a hand does to a file."""
    at = random.randrange(len(content) + 1)
    kind = random.randrange(6)
    if kind == 0 and content:
        return flipped(content, random.randrange(len(content) * 8))
    if kind == 1:
        return content[:at]
    if kind == 2:
        return content + random.randbytes(random.randrange(1, 100))
    if kind == 3:
        return content[:at] + bytes(len(content) - at)
    if kind == 4:
        return content[:at] + random.randbytes(8) + content[at + 8 :]
    return content[:at] + content[at + random.randrange(1, 40) :]


def checked(disk: SimulatedDisk, beside: Beside | None = None, name: str = NAME) -> PartitionReport:
    return check_partition(disk, name, beside or Beside(), plain_walk, lambda _: None)


def said(report: PartitionReport) -> str:
    """All findings, a line each."""
    return "\n".join(
        f"{each.severity.value}: {each.file}: {each.place}: {each.message}" for each in report.findings.listed
    )


def write_out(disk: SimulatedDisk, directory: Path) -> Path:
    """The files on a real disk; the partition's directory."""
    for path in disk.paths():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(disk.content(path))
    return directory / NAME


def old_message(offset: int, magic: int, value: bytes) -> bytes:
    """A message of format 0 or 1, as brokers before Apache Kafka 0.11 wrote it (KIP-32)."""
    body = (
        bytes([magic, 0]) + (bytes(8) if magic else b"") + b"\xff\xff\xff\xff" + len(value).to_bytes(4, "big") + value
    )
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
