"""Guardian itself, without the world: the records of its log, the state that they make, what it answers, and its node.

records.py   the records, in the frames of Kafka's metadata records     state.py   the state, by replaying them
calls.py     what is asked, as method and path of the REST API: decisions that make records, and reads
lease.py     when the leader may act by itself
quorum.py    the replica of the log, and what is committed of it        leader.py  changes on their way to the log
node.py      one node: requests, timers and disk operations in, effects out     handlers.py  the APIs that it serves
identity.py  which Guardian, node and voters a directory belongs to
"""
