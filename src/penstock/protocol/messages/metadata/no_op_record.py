"""NoOpRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class NoOpRecord(Message):
    """NoOpRecord, versions 0 to 0."""

    __slots__ = ()

    NAME = "NoOpRecord"
    KEY = 20
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
