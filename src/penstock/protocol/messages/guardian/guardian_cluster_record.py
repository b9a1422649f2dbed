"""GuardianClusterRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class GuardianClusterRecord(Message, key=2, versions=(0, 0), flexible_from=0):
    """GuardianClusterRecord, versions 0 to 0."""

    cluster_id: UUID = ZERO_UUID
    name: str = ''
    kind: str = ''
    bootstrap: list[str] = ABSENT
    idc: str = ''
    credentials: str | None = None
    labels: list[ClusterLabel] = ABSENT


class ClusterLabel(Struct):
    name: str = ''
    value: str = ''
