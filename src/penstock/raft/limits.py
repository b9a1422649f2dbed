"""Limits of a quorum: how many replicas its leader knows."""

RAFT_VOTERS_MAX = 25
"""Voters of a metadata quorum: a set with more is refused."""
RAFT_OBSERVERS_MAX = 2000
"""Observers of the metadata quorum whose progress a leader keeps; the one that fetched longest ago makes room."""
