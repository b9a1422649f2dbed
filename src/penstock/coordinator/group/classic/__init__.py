"""Classic groups: the members agree among themselves, the coordinator brings them together (KIP-62, 345, 394, 814).

A generation goes through these states. *Empty*: there are no members. *PreparingRebalance*: members that want to stay
join again, and get their answers when all have joined, or the time is over. *CompletingRebalance*: all have been told
the members; they sync, and wait for the assignment of their leader. *Stable*: the assignment is committed and has been
sent. *Dead*: this broker is no longer the coordinator.

- `member.py`, `group.py`: the soft state.
- `join.py`: JoinGroup. `rebalance.py`: how a rebalance begins and how its first phase ends; the timers of members.
- `sync.py`, `heartbeat.py`, `leave.py`, `describe.py`: the other requests.
- `pending.py`: member ids that were given out and have not joined yet.
- `replay.py`: the group according to the log.
"""
