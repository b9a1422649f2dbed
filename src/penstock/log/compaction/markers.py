"""The markers that end transactions behind what a pass has read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log.compaction.passes import Pass
from penstock.log.disk import Disk
from penstock.log.loading import marker_of
from penstock.log.lookup import batch_headers
from penstock.log.names import LOG, file_name
from penstock.records.batch import BatchHeader, check_crc
from penstock.records.control import ControlType


def first_markers(
    disk: Disk, work: Pass, from_offset: int, producer_ids: Iterable[int]
) -> Iterator[tuple[BatchHeader, ControlType]]:
    """The first marker of each of the producers, in the segments of the log that begin at `from_offset` or later.

    Only headers are read, until there are all. A pass goes no further than the last stable offset, so there are, unless
    something damaged is before one: it ends the search, and so does the end of what is written.
    """
    missing = set(producer_ids)
    for base in work.bases:
        if not missing:
            return
        if base < from_offset:
            continue
        path = f"{work.name}/{file_name(base, LOG)}"
        try:
            for position, header in batch_headers(disk, path, 0, disk.size(path)):
                if header.is_control and header.producer_id in missing:
                    data = disk.read(path, position, header.size_bytes)
                    check_crc(data, 0, header)
                    marker = marker_of(data, header)
                    if marker is not None:
                        missing.discard(header.producer_id)
                        yield header, ControlType.COMMIT if marker.commit else ControlType.ABORT
                        if not missing:
                            return
        except (CorruptRecordError, InvalidRecordError):
            return
