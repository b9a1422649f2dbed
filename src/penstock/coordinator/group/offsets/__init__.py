"""Committed offsets: of groups of either kind, and of consumers that use a group id for nothing else.

- `state.py`: the offsets by group, topic and partition, and those that wait for the end of a transaction.
- `replay.py`: offsets as the log has them; `stored.py`: the same as bytes, for the usual form, while a log is loaded.
- `commit.py`, `fetch.py`, `delete.py`: OffsetCommit, OffsetFetch, OffsetDelete.

Offsets that nobody has used for too long, and those of deleted topics, are removed by `../maintenance.py`.
"""
