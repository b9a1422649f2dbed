"""`bootstrap.checkpoint`: the records that an empty metadata log starts with, written by `storage format`."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.log.disk import Disk
from penstock.metadata.activation import default_bootstrap
from penstock.metadata.features import MetadataVersion
from penstock.metadata.records import decode_records, encode_records
from penstock.metadata.result import MetadataMessage
from penstock.raft.checkpoint import checkpoint_batches, read_checkpoint, write_checkpoint

FILE = "bootstrap.checkpoint"


def read_bootstrap(disk: Disk) -> Sequence[MetadataMessage]:
    """The records of the file, or the newest metadata.version if there is none. Raises StorageError if it is
    damaged."""
    if not disk.exists(FILE):
        return default_bootstrap()
    return decode_records(read_checkpoint(disk.read(FILE, 0, disk.size(FILE)), FILE).values, FILE)


def write_bootstrap(disk: Disk, records: Sequence[MetadataMessage], version: MetadataVersion, now_ms: int) -> None:
    """Writes the file, durably."""
    batches = checkpoint_batches(
        encode_records(records, version), epoch=0, last_contained_timestamp_ms=0, wall_ms=now_ms
    )
    write_checkpoint(disk, "", FILE, batches)
