"""What a broker tells of itself in one answer: blocks, columns and bytes (DescribeTelemetry, and `/telemetry`).

A frame is a header and one zstd frame. All numbers are little-endian. The header (`HEADER`, not compressed):

    magic `PTEL` | format int16: 0 | reserved int16: 0 | node id int32 | incarnation uuid | sequence int64 | since int64

*Incarnation* is the broker's process: everything below holds within one. *Sequence* numbers the frames; who asks again
tells it, and is sent only what has changed since. *Since* is where the frame begins: the sequence that the asker told,
or -1: the frame has everything, and the asker forgets what it knew (its sequence was unknown here, of another
incarnation, or from so long ago that the broker has forgotten what was removed since). What an even sequence stands for
is exactly known to the broker; of an odd one, the asker may know some of what came later, since somebody else asked at
the same time.

A broker has a table for each block, with a row for each thing (a disk, a partition, a client). A row has an id, which
means nothing else in this incarnation, and is never used again; its *name*, a text for each field of the block; and its
*values*, an int64 for each column. Counters count from the start of the process; -1 where nobody knows a gauge. The
compressed part is a sequence of sections, each with a head (`SECTION`): block uint8 | kind uint8 | width uint16 | rows
uint32. After the head come

- the ids of the rows: the size of an item as uint8, and in items of that size how much each id is above the one before;
  the first above 0. Items are signed numbers of 1, 2, 4 or 8 bytes, or of none: then all are 0.
- `NAMES`: for each field the lengths of the texts, a uint16 for each row, and the texts in UTF-8. Comes before the
  first values of a row, and again when its name changes.
- `VALUES`: the size of the items of each column, a uint8 each; then the columns, those of smaller items first: an item
  for each row. Rows with a change only.
- `CHANGES`: the same, of how much each value is above the one that the asker knows.
- `REMOVED`: nothing more. What partitions and clients have counted went into the row `OTHERS` before. Who asks may
  never have heard of a row that came and went.
- `TOTALS`, once and last, with block 0: rows is the number of blocks, and each has the number of its rows now, uint32.

A block may have several sections of a kind. A newer broker may have more columns, fields or blocks at the end; a
reader passes over them.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

MAGIC: Final = b"PTEL"
FORMAT: Final = 0
HEADER: Final = Struct("<4shhi16sqq")
SECTION: Final = Struct("<BBHI")
FULL: Final = -1
"""As a sequence: who asks knows nothing; as `since`: the frame has everything."""


def is_exact(sequence: int) -> bool:
    """Whether the broker knows what who has this sequence knows."""
    return sequence >= 0 and not sequence % 2


ITEM_TYPES: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
"""The code of a signed number of each size, as in `struct`."""
NO_ITEMS: Final = 0
"""The size of items that are all 0 and are left out."""
COUNT: Final = Struct("<I")


class Kind(IntEnum):
    """What a section has."""

    NAMES = 0
    VALUES = 1
    REMOVED = 2
    TOTALS = 3
    CHANGES = 4


class Block(NamedTuple):
    """A table of a frame: the fields of its rows' names, and the columns of their values."""

    number: int
    name: str
    fields: tuple[str, ...]
    columns: tuple[str, ...]


OTHERS: Final = ""
"""The first field of the row that has the sums of those without one of their own any more. No topic has this name, and
no principal."""

BROKER: Final = Block(
    0,
    "broker",
    ("node_id", "rack", "version"),
    (
        "time_ms",  # since 1970
        "cpu_us",  # of the process, all threads
        "resident_bytes",
        "cores",
        "dirty_bytes",  # written and not yet on a disk, of the whole machine
        "metadata_offset",
        "controller",  # 1: the active one
        "connections",
        "parked_requests",
        "cold_reads",
        "replicas",
        "replicas_left_out",  # without a row
        "produce_requests",
        "produce_time_ms",
        "produce_p99_ms",  # of the last minutes
        "fetch_requests",
        "fetch_time_ms",
        "fetch_p99_ms",
        "replication_bytes_in",
    ),
)
DISKS: Final = Block(
    1,
    "disks",
    ("log_dir",),
    (
        "index",
        "online",
        "full",
        "total_bytes",
        "free_bytes",
        "reserve_bytes",
        "written_bytes",  # of records
        "replicas",
        "device_reads",  # the block device's, from the system: a disk has what several log directories and others do
        "device_read_bytes",
        "device_read_ms",  # of all reads together
        "device_writes",
        "device_written_bytes",
        "device_write_ms",
        "device_queue",  # requests on their way now
        "device_busy_ms",  # time with at least one: its share of the time is the utilisation
        "device_queue_ms",  # their sum over the time
    ),
)
LANES: Final = Block(
    2,
    "lanes",
    ("log_dir",),
    (
        "healthy",
        "queue",
        "inline_operations",
        "lane_operations",
        "appends",
        "append_us",
        "reads",  # from the disk
        "read_bytes",
        "read_us",
    ),
)
PARTITIONS: Final = Block(
    3,
    "partitions",
    ("topic", "partition"),
    (
        "disk",  # index of the log directory
        "leader",  # 1: this broker leads it
        "leader_epoch",
        "replicas",
        "in_sync_replicas",
        "in_sync_lag",  # of the leader: records that the last of the in-sync replicas lacks
        "lag",  # of a follower: records that it lacks
        "size_bytes",
        "log_start_offset",
        "log_end_offset",
        "high_watermark",
        "bytes_in",  # from producers
        "records_in",
        "bytes_out",  # to consumers
        "records_out",
        "replication_bytes_in",  # from the leader
        "replication_bytes_out",  # to followers
        "disk_read_bytes",  # were not in the page cache
    ),
)
CLIENTS: Final = Block(
    4,
    "clients",
    ("principal", "client_id", "address", "software_name", "software_version"),
    ("connections", "requests", "bytes_in", "bytes_out"),
)
GROUPS: Final = Block(
    5,
    "groups",
    ("group_id", "type", "protocol_type"),
    ("state", "members", "coordinator_partition"),
)
BLOCKS: Final = (BROKER, DISKS, LANES, PARTITIONS, CLIENTS, GROUPS)
GROUP_STATES: Final = (
    "Unknown",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
)
"""The `state` of a group is an index of this."""
