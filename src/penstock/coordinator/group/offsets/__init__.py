"""Committed offsets: of groups of either kind, and of consumers that use a group id for nothing else.

- `state.py`: the offsets by group, topic and partition, and those that wait for the end of a transaction.
- `commit.py`, `fetch.py`, `delete.py`: OffsetCommit, OffsetFetch, OffsetDelete.
- `expiry.py`: offsets that nobody has used for too long, and groups that have none left; those of deleted topics.
"""
