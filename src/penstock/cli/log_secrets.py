"""What `penstock log dump` does not show of the metadata log: keys of passwords, and passwords in configs."""

from __future__ import annotations

from penstock.errors import PenstockError


def hidden(value: bytes | None) -> str | None:
    """What is shown instead of a record's value; None for one without a secret.

    As Kafka's RecordRedactor: a SCRAM credential, and a config of a broker that is a password or is not known.
    """
    from penstock.config.dynamic import dynamic_setting
    from penstock.metadata.image import ConfigResource
    from penstock.protocol.record_frames import decode_metadata_record

    try:
        record, _ = decode_metadata_record(bytearray(value or b""))
    except PenstockError:
        return None
    what = None
    if record.NAME == "UserScramCredentialRecord":
        what = f"of {record.name}"  # type: ignore[attr-defined]  # as NAME says
    elif record.NAME == "ConfigRecord" and record.resource_type == ConfigResource.BROKER:  # type: ignore[attr-defined]  # as NAME says
        name: str = record.name  # type: ignore[attr-defined]  # as NAME says
        setting = dynamic_setting(name)
        if setting is None or setting.type.sensitive:
            what = f"of {name}"
    return None if what is None else f"({record.NAME} {what}, hidden)"
