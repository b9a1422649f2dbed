"""From the files of a log to the log."""

from __future__ import annotations

from penstock.log.disk import Disk
from penstock.log.loading import OpenArguments, load
from penstock.log.log import Log
from penstock.log.results import LogOwner, Randomness
from penstock.records.wall import WallTime


def open_log(
    disk: Disk,
    arguments: OpenArguments,
    owner: LogOwner[Log],
    *,
    random: Randomness,
    loop_disk: Disk | None = None,
    wall: WallTime | None = None,
) -> Log:
    """Opens a log whose directory exists and whose files are good: new and empty, closed cleanly or recovered.

    Reads the directory's listing, the small checkpoint files, the producer snapshot, the tail of the active
    segment's indexes and of the segment itself. Writes nothing, so it may run in a lane or on the loop, and again
    after NotResident (raised only if `disk` raises it). A directory without segments is a new log: the first
    append makes the files.

    Args:
        disk: what to read with now.
        owner: told what happens.
        random: for segment.jitter.ms.
        loop_disk: the disk that look-ups on the loop use; `disk` unless given.
        wall: gives the wall time for the `now_ms` of what follows; the same unless given.

    Raises RecoveryNeeded when a file is missing or contradicts another: run `recovery.recover_log` and open again.
    """
    loaded = load(disk, arguments.name, log_start_offset=arguments.log_start_offset, wall_ms=arguments.wall_ms)
    return Log(loop_disk or disk, arguments, loaded, owner, random=random, wall=wall or WallTime())
