"""Records of client quotas for tests."""

from __future__ import annotations

from penstock.protocol.messages.metadata.client_quota_record import ClientQuotaRecord, EntityData


def quota(key: str, value: float | None, **entity: str | None) -> ClientQuotaRecord:
    """A record; without a value it removes the quota. `client_id` and `user`: None for the default."""
    parts = [EntityData(entity_type=name.replace("_", "-"), entity_name=each) for name, each in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=0.0 if value is None else value, remove=value is None)
