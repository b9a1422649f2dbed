"""The small files of a partition's directory: leader epochs, topic id, producer snapshots, a quorum's state."""

from __future__ import annotations

import json

from penstock.errors import StorageError
from penstock.log import partition_metadata, producer_snapshot
from penstock.log.leader_epochs import VERSION, LeaderEpochs
from penstock.log.names import LEADER_EPOCHS, PARTITION_METADATA, SNAPSHOT, offset_of
from penstock.log.verification.inspection import Inspection
from penstock.log.verification.leftovers import QUORUM_STATE
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE


def leader_epochs_of(at: Inspection) -> LeaderEpochs | None:
    """The leader epochs by the checkpoint, if there is one that can be believed."""
    if LEADER_EPOCHS not in at.files:
        return None
    data = at.read(LEADER_EPOCHS)
    if data is None:
        return None
    text = data.decode("utf-8", "replace")
    if not text:
        return LeaderEpochs()
    try:
        entries = parse_epochs(text)
    except ValueError as error:
        at.findings.problem(LEADER_EPOCHS, str(error))
        return None
    last = (-1, -1)
    for number, entry in enumerate(entries, start=3):
        if entry[0] <= last[0] or entry[1] <= last[1]:
            message = f"epoch {entry[0]} from offset {entry[1]} comes after epoch {last[0]} from {last[1]}"
            at.findings.problem(LEADER_EPOCHS, message, f"line {number}")
            return None
        last = entry
    return LeaderEpochs(entries)


def parse_epochs(text: str) -> list[tuple[int, int]]:
    """The entries of a leader epoch checkpoint. Raises ValueError that names the line."""
    lines = text.splitlines()
    if lines[0] != str(VERSION):
        raise ValueError(f"line 1: version {lines[0]!r}, it should be {VERSION}")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        parts = line.split()
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
            raise ValueError(f"line {number}: {line!r} is not an epoch and an offset")
        entries.append((int(parts[0]), int(parts[1])))
    if lines[1:2] != [str(len(entries))]:
        raise ValueError(f"line 2: {' '.join(lines[1:2])} entries announced, {len(entries)} found")
    return entries


def check_epochs_end(at: Inspection, epochs: LeaderEpochs | None, log_end_offset: int) -> None:
    """Whether the checkpoint knows epochs that begin after the log's end."""
    if epochs and not at.is_written and epochs.start_offsets and epochs.start_offsets[-1] > log_end_offset:
        begins = epochs.start_offsets[-1]
        message = f"epoch {epochs.latest} begins at {begins}, after the log's end {log_end_offset}"
        at.findings.note(LEADER_EPOCHS, f"{message}; the log was cut since, and the next start drops that")


def check_topic_id(at: Inspection) -> None:
    if PARTITION_METADATA not in at.files:
        at.findings.note(PARTITION_METADATA, "it is missing: nothing says which topic of this name the log belongs to")
        return
    data = at.read(PARTITION_METADATA)
    try:
        if data is not None:
            partition_metadata.decode(data, PARTITION_METADATA)
    except StorageError as error:
        at.findings.problem(PARTITION_METADATA, without_name(str(error), PARTITION_METADATA))


def check_snapshots(at: Inspection, log_end_offset: int) -> None:
    """The producer snapshots: checksum, size, and numbers that can be."""
    for file in at.files:
        offset = offset_of(file, SNAPSHOT)
        if offset is None or (data := at.read(file)) is None:
            continue
        try:
            entries = producer_snapshot.entries(data, file)
        except StorageError as error:
            at.findings.problem(file, f"{without_name(str(error), file)}; a broker passes over it")
            continue
        for number, entry in enumerate(entries):
            if why := impossible(entry, offset):
                at.findings.problem(file, f"producer {entry.producer_id}: {why}", f"entry {number}")
        if offset > log_end_offset and not at.is_written:
            at.findings.note(file, f"it is of offset {offset}, after the log's end {log_end_offset}; it is not used")


def impossible(entry: producer_snapshot.Entry, offset: int) -> str:
    """What cannot be of a producer in a snapshot as of `offset`; "" if all can."""
    if entry.producer_id < 0 or entry.epoch < NO_PRODUCER_EPOCH or entry.last_sequence < NO_SEQUENCE:
        return f"epoch {entry.epoch}, sequence {entry.last_sequence}"
    if entry.last_offset >= offset or entry.transaction_first_offset >= offset:
        where = max(entry.last_offset, entry.transaction_first_offset)
        return f"it is said to be at offset {where}, and the snapshot is as of {offset}"
    return ""


def check_quorum_state(at: Inspection) -> None:
    """`quorum-state` of a metadata log: who it voted for."""
    if QUORUM_STATE in at.files and (data := at.read(QUORUM_STATE)) is not None:
        try:
            state = json.loads(data)
        except (ValueError, RecursionError) as error:
            at.findings.problem(QUORUM_STATE, f"it is no JSON: {error}")
            return
        if not isinstance(state, dict) or not isinstance(state.get("leaderEpoch"), int):
            at.findings.problem(QUORUM_STATE, "it does not say the leader epoch")


def without_name(message: str, file: str) -> str:
    """A message about a file without the file's name, which is said before it anyway."""
    return message.removeprefix(file).lstrip(" :")
