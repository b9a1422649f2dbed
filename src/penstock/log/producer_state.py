from __future__ import annotations

from enum import Enum


class Origin(Enum):
    """Where an append comes from, which decides what is checked (Kafka's AppendOrigin)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT = "raft"
