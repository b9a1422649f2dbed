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
- `NAMES` (kind 0): for each field the lengths of the texts, a uint16 for each row, and the texts in UTF-8. Comes before
  the first values of a row, and again when its name changes.
- `VALUES` (1): the size of the items of each column, a uint8 each; then the columns, those of smaller items first: an
  item for each row. Rows with a change only.
- `CHANGES` (4): the same, of how much each value is above the one that the asker knows.
- `REMOVED` (2): nothing more. What partitions and clients have counted went into the row `OTHERS` before. Who asks may
  never have heard of a row that came and went.
- `TOTALS` (3), once and last, with block 0: rows is the number of blocks, and each has the number of its rows now, as
  uint32.

A block may have several sections of a kind. A newer broker may have more columns, fields or blocks at the end; a
reader passes over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Final

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


@dataclass(frozen=True)
class Block:
    """A table of a frame: the fields of its rows' names, and the columns of their values, each with what it is."""

    number: int
    name: str
    what: str
    fields: tuple[str, ...]
    described: Mapping[str, str]
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.described))


OTHERS: Final = ""
"""The first field of the row that has the sums of those without one of their own any more. No topic has this name, and
no principal."""

BROKER: Final = Block(
    0,
    "broker",
    "The process and the machine: one row.",
    ("node_id", "rack", "version"),
    {
        "time_ms": "since 1970",
        "cpu_us": "of the process, all threads",
        "resident_bytes": "memory of the process",
        "cores": "that the process may use",
        "dirty_bytes": "written and not yet on a disk, of the whole machine",
        "metadata_offset": "of the last metadata record that it acts upon",
        "controller": "1: the active one",
        "connections": "of clients, and its own to itself",
        "parked_requests": "that wait for an event",
        "cold_reads": "reads that were not in memory",
        "replicas": "here",
        "replicas_left_out": "of them, without a row",
        "produce_requests": "answered",
        "produce_time_ms": "from their frames to their answers, together",
        "produce_p99_ms": "of the last minutes; -1: there were none",
        "fetch_requests": "answered, those of followers included",
        "fetch_time_ms": "waits for data included",
        "fetch_p99_ms": "the same",
        "replication_bytes_in": "fetched from leaders",
    },
)
DISKS: Final = Block(
    1,
    "disks",
    "Log directories.",
    ("log_dir",),
    {
        "index": "place in log.dirs",
        "online": "0: it has failed",
        "full": "1: it takes no records",
        "total_bytes": "size of its file system",
        "free_bytes": "at the last look; each answer asks for a new one",
        "reserve_bytes": "kept free of records",
        "written_bytes": "of records",
        "replicas": "that lie there",
        "device_reads": "of the block device, as the system counts: whatever else is on it is in here",
        "device_read_bytes": "read from it",
        "device_read_ms": "of all reads together",
        "device_writes": "likewise",
        "device_written_bytes": "written to it",
        "device_write_ms": "of all writes together",
        "device_queue": "requests on their way now",
        "device_busy_ms": "time with at least one: its share of the time is the utilisation",
        "device_queue_ms": "time that all requests have waited and taken",
    },
)
LANES: Final = Block(
    2,
    "lanes",
    "What the broker itself saw of its log directories; `logins`: no directory.",
    ("log_dir",),
    {
        "healthy": "1: appends run on the event loop",
        "queue": "operations that its threads have, or have waiting",
        "inline_operations": "run on the event loop",
        "lane_operations": "run by its threads",
        "appends": "of the page cache, on the loop or a thread",
        "append_us": "that they took",
        "reads": "from the disk",
        "read_bytes": "that were read",
        "read_us": "that they took",
    },
)
PARTITIONS: Final = Block(
    3,
    "partitions",
    "Replicas here.",
    ("topic", "partition"),
    {
        "disk": "index of its log directory",
        "leader": "1: this broker leads it",
        "leader_epoch": "that this broker knows",
        "replicas": "of the partition",
        "in_sync_replicas": "as committed",
        "in_sync_lag": "of the leader: records that the last of the in-sync replicas lacks",
        "lag": "of a follower: records that it lacked at its last fetch",
        "size_bytes": "of its log",
        "log_start_offset": "-1: its log is not open",
        "log_end_offset": "the same",
        "high_watermark": "that this broker knows",
        "bytes_in": "of record batches, from producers",
        "records_in": "in them",
        "bytes_out": "of record batches, to consumers",
        "records_out": "offsets that consumers have got; of a compacted log, those that are gone count too",
        "replication_bytes_in": "from the leader",
        "replication_bytes_out": "to followers",
        "disk_read_bytes": "that were not in the page cache",
    },
)
CLIENTS: Final = Block(
    4,
    "clients",
    "Who is or was connected, by principal, client id and address; the software as the latest connection has said.",
    ("principal", "client_id", "address", "software_name", "software_version"),
    {
        "connections": "open now",
        "requests": "that came",
        "bytes_in": "of requests, with their lengths, before TLS",
        "bytes_out": "of answers, likewise",
    },
)
GROUPS: Final = Block(
    5,
    "groups",
    "Groups that are coordinated here.",
    ("group_id", "type", "protocol_type"),
    {
        "state": "0: another one; 1: Empty; 2: PreparingRebalance; 3: CompletingRebalance; 4: Stable; 5: Dead; "
        "6: Assigning; 7: Reconciling",
        "members": "that it has now",
        "coordinator_partition": "of `__consumer_offsets`",
    },
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
