"""Records of Guardian's log: framed as Kafka frames metadata records (KIP-631), with keys of their own.

Every change is one batch: a GuardianCommandRecord, which says who asked for what, and the records of the change. The
first batch of a log sets the feature level, at which all records are written. A node that finds a higher level, or a
record that it does not know, was not upgraded before the others went on: it stops and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from penstock.errors import ProtocolError, StorageError, UnsupportedVersionError
from penstock.guardian.core.accounts import AccountRecord
from penstock.guardian.core.alarms.alarm import AlarmRecord
from penstock.guardian.core.work.replaying import WorkRecord
from penstock.protocol.messages.guardian.guardian_cluster_record import GuardianClusterRecord
from penstock.protocol.messages.guardian.guardian_command_record import GuardianCommandRecord
from penstock.protocol.messages.guardian.guardian_level_record import GuardianLevelRecord
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.guardian.guardian_remove_cluster_record import GuardianRemoveClusterRecord
from penstock.protocol.record_frames import decode_metadata_record, encode_metadata_record
from penstock.raft.topic import GUARDIAN

PACKAGE = "guardian"
FEATURE_LEVEL = 1
"""The highest feature level that this version knows, and the one that a new log gets."""
VERSION = 0

GuardianRecord = (
    GuardianLevelRecord
    | GuardianCommandRecord
    | GuardianClusterRecord
    | GuardianRemoveClusterRecord
    | GuardianModeRecord
    | AlarmRecord
    | WorkRecord
    | AccountRecord
)


def encode_records(records: Iterable[GuardianRecord]) -> list[bytes]:
    """The values of records."""
    return [encode_metadata_record(record, VERSION) for record in records]


def decode_records(values: Iterable[bytes], path: str = GUARDIAN.directory) -> Sequence[GuardianRecord]:
    """Records from their values. Raises StorageError, which names the file, for one that we cannot read."""
    try:
        return [cast("GuardianRecord", decode_metadata_record(value, PACKAGE)[0]) for value in values]
    except UnsupportedVersionError as error:
        raise StorageError(
            f"{path}: {error}: a newer Penstock has written it; upgrade this node before it goes on"
        ) from None
    except ProtocolError as error:
        raise StorageError(f"{path}: {error}") from None
