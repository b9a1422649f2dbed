"""How `penstock log dump` shows records of quorums: those of the metadata log without secrets, Guardian's in words."""

from __future__ import annotations

from penstock.errors import PenstockError


def hidden(value: bytes | None) -> str | None:
    """What is shown instead of a record's value; None for one without a secret.

    As Kafka's RecordRedactor: a SCRAM credential, and a config of a broker that is a password or is not known.
    """
    from penstock.config.dynamic import dynamic_setting
    from penstock.metadata.image import ConfigResource
    from penstock.protocol.messages.metadata.config_record import ConfigRecord
    from penstock.protocol.messages.metadata.user_scram_credential_record import UserScramCredentialRecord
    from penstock.protocol.record_frames import decode_metadata_record

    try:
        record, _ = decode_metadata_record(bytearray(value or b""))
    except PenstockError:
        return None
    what = None
    if isinstance(record, UserScramCredentialRecord):
        what = f"of {record.name}"
    elif isinstance(record, ConfigRecord) and record.resource_type == ConfigResource.BROKER:
        setting = dynamic_setting(record.name)
        if setting is None or setting.type.sensitive:
            what = f"of {record.name}"
    return None if what is None else f"({record.NAME} {what}, hidden)"


def guardians(value: bytes | None) -> str | None:
    """A record of Guardian's log in words: its name and fields, none of which is secret; None for what is none."""
    from penstock.protocol.record_frames import decode_metadata_record

    try:
        record, _ = decode_metadata_record(bytearray(value or b""), "guardian")
    except PenstockError:
        return None
    return str(record)
