"""The log's records: what a newer version has written, or damage, stops a node with a line that says so."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.errors import StorageError
from penstock.guardian.core.records import FEATURE_LEVEL, decode_records, encode_records
from penstock.guardian.core.state import EMPTY, replay
from penstock.protocol.messages.guardian.guardian_level_record import GuardianLevelRecord
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.guardian.guardian_remove_cluster_record import GuardianRemoveClusterRecord


def test_a_higher_feature_level_is_not_followed() -> None:
    assert replay(EMPTY, [GuardianLevelRecord(feature_level=FEATURE_LEVEL)]).feature_level == FEATURE_LEVEL
    with pytest.raises(
        StorageError, match=f"feature level {FEATURE_LEVEL + 1}, this version knows {FEATURE_LEVEL}: upgrade this node"
    ):
        replay(EMPTY, [GuardianLevelRecord(feature_level=FEATURE_LEVEL + 1)])


def test_an_unknown_record_is_not_skipped() -> None:
    (value,) = encode_records([GuardianLevelRecord(feature_level=1)])
    unknown = value[:1] + b"\x63" + value[2:]
    with pytest.raises(StorageError, match="a newer Penstock has written it; upgrade this node"):
        decode_records([unknown])


def test_broken_bytes_are_named_with_their_file() -> None:
    (value,) = encode_records([GuardianLevelRecord(feature_level=1)])
    for broken in (value[:-1], value + b"\0", b""):
        with pytest.raises(StorageError, match=r"^the file: "):
            decode_records([broken], "the file")


@pytest.mark.parametrize("record", [GuardianRemoveClusterRecord, GuardianModeRecord])
def test_a_record_about_no_cluster_is_damage(record: type) -> None:
    with pytest.raises(StorageError, match="about no cluster"):
        replay(EMPTY, [record(cluster_id=UUID(int=7))])
