"""ListConfigResourcesRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ListConfigResourcesRequest(Message, key=74, versions=(0, 1), flexible_from=0):
    """ListConfigResourcesRequest, versions 0 to 1."""

    resource_types: list[int] = ABSENT
