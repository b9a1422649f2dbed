"""The group coordinator: groups of consumers, and the offsets that they commit. One machine a partition of its topic.

- `state.py` is the state of a partition: its timeline, groups, offsets and timers. The rules are functions of it, and
  `machine.py` on top tells which rule is for a record, a timer, a change of the leadership or of the metadata.
- `groups.py` keeps the groups by id, `by_topic.py` knows which have to do with a topic; `base.py` says what every kind
  of group can be asked.
- `classic/`: groups whose members agree among themselves (JoinGroup, SyncGroup). Their members are soft state.
- `consumer/`: groups that the coordinator assigns (KIP-848). All of it is replicated state.
- `classic_requests.py`: the requests of the classic protocol, which groups of both kinds serve. What depends on the
  kind of a group is looked up there; a new kind has an entry, or refuses them.
- `offsets/`: committed offsets of both kinds, and of consumers without a group.
- `maintenance.py`: groups are listed and deleted, offsets and empty groups expire, deleted topics are forgotten.
- `settings.py`: the settings of groups; `context.py`: what a group keeps of the request that a member came with.
- `records.py`, `records_consumer.py`: the records that all this is made of.

An operation is a function `(state, ..., now_ms) -> Result`. It raises RequestError with Kafka's code, and then it has
changed nothing. The callers have looked up topic ids and checked what a client may do.
Source: group-coordinator of Apache Kafka 4.3.
"""
