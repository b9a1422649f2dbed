"""Files and directories that are no part of a log and what they mean: what unfinished work has left, or keeps."""

from __future__ import annotations

from penstock.log.names import (
    ABORTED_INDEX,
    CLEANED,
    CORRUPT,
    DELETED,
    FUTURE_SUFFIX,
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    UNFLUSHED_ROLLS,
    offset_of,
)

OF_A_LOG = (LOG, OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX, SNAPSHOT)
QUORUM_STATE = "quorum-state"
FLUSHED_OFFSET = "flushed-offset"
"""Ours, in the directory of a metadata log."""
WHOLE_NAMES = (LEADER_EPOCHS, PARTITION_METADATA, QUORUM_STATE, FLUSHED_OFFSET)
CHECKPOINT = ".checkpoint"
"""A snapshot of the metadata log."""

ENDINGS = {
    CLEANED: "written by a pass of the cleaner that has not ended; it is no part of the log, and the next pass or the "
    "first use of the log after a start removes it",
    SWAP: "a cleaned segment that is taking the place of older ones; the next start ends that",
    DELETED: "of a deleted segment; a running broker removes it after file.delete.delay.ms, any other at its start",
    CORRUPT: "bytes that a recovery took out of the log and kept for you; no broker reads it",
    ".tmp": "a small file that was being replaced; it is not used",
    ".part": "a snapshot of the metadata that was being fetched or written; it is not used",
}
DIRECTORY_ENDINGS = {
    "-delete": "a deleted partition; a running broker removes it after file.delete.delay.ms, any other at its start",
    "-stray": "a replica that the metadata does not have on this node; no broker reads it, and none removes it",
    FUTURE_SUFFIX: "a replica on its way here from another log directory; the move goes on when the broker runs",
}
LEFT_ALONE = "nothing that a broker makes; it is left alone"


def meaning_of(file: str, *, has_segment: bool) -> str:
    """What a file in a partition's directory means; "" for those that belong there. `has_segment`: there is a segment
    with the offset that is in its name."""
    if file == UNFLUSHED_ROLLS:
        return "segments begun while those before them were not known to be on disk; a clean stop removes it"
    if file in WHOLE_NAMES or file.endswith(CHECKPOINT):
        return ""
    for ending, meaning in ENDINGS.items():
        if file.endswith(ending):
            return meaning
    suffix = next((suffix for suffix in OF_A_LOG if offset_of(file, suffix) is not None), None)
    if suffix is None:
        return LEFT_ALONE
    if suffix in (OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX) and not has_segment:
        return "of a segment that is not there; a recovery removes it"
    return ""


def meaning_of_directory(name: str) -> str:
    """What a directory in a log directory means that is no partition's; "" if it is one."""
    return next((meaning for ending, meaning in DIRECTORY_ENDINGS.items() if name.endswith(ending)), "")
