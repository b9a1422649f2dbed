"""DeleteShareGroupOffsetsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DeleteShareGroupOffsetsRequest(Message, key=92, versions=(0, 0), flexible_from=0):
    """DeleteShareGroupOffsetsRequest, versions 0 to 0."""

    group_id: str = ''
    topics: list[DeleteShareGroupOffsetsRequestTopic] = ABSENT


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ''
