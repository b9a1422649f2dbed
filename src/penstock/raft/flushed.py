"""How far the metadata log was ever known to be durable: tells damage from writes that a power failure took.

Several batches may be written and not yet fsynced when the power fails, and the disk may keep a later one without an
earlier. That looks like damage in the middle of the log, but nothing of it was acknowledged. So after each fsync its
offset is written to `flushed-offset`. That file itself is not fsynced: it may be late, never early. A hole at or after
the offset in it is cut; a hole before it is damage.

The file has two slots, 512 bytes apart, so that a torn write spoils only one of them: offset 8 | CRC-32C of it 4. It is
there, and durable, before the first append: if a power failure took it, a hole would look like damage. Kafka ignores a
file of this name.
"""

from __future__ import annotations

from struct import Struct

from crc32c import crc32c

from penstock.log.disk import Disk, OperationOwner
from penstock.log.operations import LogOperation, OperatedLog
from penstock.log.space import put_back

FILE = "flushed-offset"
SLOT = Struct(">qI")
OFFSET = Struct(">q")
SLOT_POSITIONS = (0, 512)


def noted(offset: int) -> bytes:
    """The content of a new file: the offset in both slots."""
    slot = SLOT.pack(offset, crc32c(OFFSET.pack(offset)))
    return slot.ljust(SLOT_POSITIONS[1], b"\0") + slot


class NoteFlushed(LogOperation):
    """Writes an offset to the slots in turn."""

    __slots__ = ("offset", "path", "slot")

    def __init__(self, log: OperatedLog, owner: OperationOwner, offset: int, slot: int) -> None:
        super().__init__(log, inline=True)
        self.owner = owner
        self.path = f"{log.files.name}/{FILE}"
        self.offset = offset
        self.slot = slot

    def work(self, disk: Disk) -> None:
        slot = SLOT.pack(self.offset, crc32c(OFFSET.pack(self.offset)))
        write_in_place(disk, self.path, SLOT_POSITIONS[self.slot], slot)


class LowerFlushed(LogOperation):
    """Lowers the offset in both slots, durably, before the log is truncated there and other records follow."""

    __slots__ = ("offset", "path")

    def __init__(self, log: OperatedLog, owner: OperationOwner, offset: int) -> None:
        super().__init__(log)
        self.owner = owner
        self.path = f"{log.files.name}/{FILE}"
        self.offset = offset

    def work(self, disk: Disk) -> None:
        if not disk.exists(self.path):
            return
        offset = min(self.offset, read_noted(disk, self.path))
        slot = SLOT.pack(offset, crc32c(OFFSET.pack(offset)))
        for position in SLOT_POSITIONS:
            write_in_place(disk, self.path, position, slot)
        disk.fsync(self.path)


def write_in_place(disk: Disk, path: str, position: int, slot: bytes) -> None:
    """Writes a slot of the file, for which no room is needed but where the file system copies on write."""
    try:
        disk.write(path, position, [slot])
    except OSError as error:
        put_back(error, disk, ())
        raise


def read_flushed(disk: Disk, name: str) -> int:
    """The greatest offset in the file, or -1 if none is legible: then nothing is known, and any hole is damage."""
    path = f"{name}/{FILE}"
    return read_noted(disk, path) if disk.exists(path) else -1


def read_noted(disk: Disk, path: str) -> int:
    """The greatest offset in the slots of the file, -1 where none is legible."""
    found = -1
    for position in SLOT_POSITIONS:
        data = disk.read(path, position, SLOT.size)
        if len(data) == SLOT.size:
            offset, checksum = SLOT.unpack(data)
            if checksum == crc32c(OFFSET.pack(offset)):
                found = max(found, offset)
    return found
