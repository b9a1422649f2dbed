"""Limits of a quorum: how many replicas its leader knows, and what a replica holds back."""

RAFT_VOTERS_MAX = 25
"""Voters of a metadata quorum: a set with more is refused."""
RAFT_OBSERVERS_MAX = 2000
"""Observers of the metadata quorum whose progress a leader keeps; the one that fetched longest ago makes room."""
RAFT_HELD_BACK_MAX = 1_000
"""Calls and answers that wait until the state of an election is on disk; beyond it the oldest answer is dropped: who
asked has long given up on it."""
