"""`.kafka_cleanshutdown`: the file that marks a log directory as cleanly stopped.

It is the last thing written at a clean stop, after all logs and checkpoints are on disk, and removed, durably, before
anything is written at the next start. It contains the broker's epoch at the time, which registration sends back so that
the controller knows that nothing was lost (KIP-966). Without the file every log of the directory is recovered.
"""

from __future__ import annotations

import json

from penstock.log.disk import Disk

FILE = ".kafka_cleanshutdown"
VERSION = 0
UNKNOWN_BROKER_EPOCH = -1


def write_clean_shutdown(disk: Disk, broker_epoch: int) -> None:
    """Marks the directory as cleanly stopped; blocking, durable."""
    disk.replace(FILE, json.dumps({"version": VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode())


def read_clean_shutdown(disk: Disk) -> int | None:
    """The broker epoch of a clean stop, -1 if the file does not say (older ones are empty); None without the file."""
    if not disk.exists(FILE):
        return None
    try:
        epoch = json.loads(disk.read(FILE, 0, disk.size(FILE)))["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH
    return epoch if isinstance(epoch, int) else UNKNOWN_BROKER_EPOCH


def remove_clean_shutdown(disk: Disk) -> None:
    """Removes the mark so that a crash from here on counts as one; blocking, durable.

    Without the mark, too, the directory itself is fsynced: a process that died may have made replicas' directories
    whose names are not on disk yet, and what is fsynced in them from here on would be lost with their names.
    """
    disk.unlink(FILE)
    disk.fsync_directory("")
