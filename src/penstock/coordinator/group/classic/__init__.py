"""Classic groups: the members agree among themselves, the coordinator brings them together (KIP-62, 345, 394, 814).

A generation goes through these states. *Empty*: nobody is in. *PreparingRebalance*: who wants to stay joins again, and
waits for the answer until all have, or the time is over. *CompletingRebalance*: all have been told who they are; they
sync, and wait for what the leader among them assigns. *Stable*: the assignment is committed and told. *Dead*: this
broker is not the coordinator any more.

- `member.py`, `group.py`: the soft state.
- `join.py`: JoinGroup. `rebalance.py`: how a rebalance begins and how its first phase ends; the timers of members.
- `sync.py`, `heartbeat.py`, `leave.py`, `describe.py`: the other requests.
- `pending.py`: member ids that were given out and have not joined yet.
- `replay.py`: the group as the log has it.
"""
