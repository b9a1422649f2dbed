"""What only the shell knows: the process, the machine, its disks and the lanes. Without a shell nobody knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """A lane, in the order of the columns: see `penstock.protocol.telemetry.LANES`."""

    directory: str
    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Machine:
    """Attributes are named as the columns of the broker's block.

    `devices`: by index of the log directory the figures of its block device, in the order of the columns of DISKS from
    `device_reads` on; none where the system does not tell. `disk_reads`: bytes that were read for senders since the
    last look, by topic and partition, and those of others.
    """

    cpu_us: int = UNKNOWN
    resident_bytes: int = UNKNOWN
    cores: int = UNKNOWN
    dirty_bytes: int = UNKNOWN
    devices: Mapping[int, Sequence[int]] = field(default_factory=dict)
    lanes: Sequence[LaneFigures] = ()
    disk_reads: tuple[Mapping[tuple[str, int], int], int] = field(default_factory=lambda: ({}, 0))


UNKNOWN_MACHINE = Machine()
