"""The topic that a quorum keeps its log in. That of the metadata quorum is Kafka's, that of Guardian ours."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class QuorumTopic(NamedTuple):
    """A topic of one partition, whose replicas are the members of a quorum."""

    name: str
    topic_id: UUID

    @property
    def directory(self) -> str:
        """Where its log and the files beside it are."""
        return f"{self.name}-0"


METADATA = QuorumTopic("__cluster_metadata", UUID(int=1))
"""Name and id are the same in every cluster."""
GUARDIAN = QuorumTopic("__guardian_log", UUID(int=0x6775_6172_6469_616E))
"""Of Guardian's own quorum, in processes of its own; no cluster has a topic of this name or id."""
