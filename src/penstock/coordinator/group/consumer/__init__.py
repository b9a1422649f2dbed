"""Consumer groups (KIP-848): the coordinator assigns, members only report what they want and what they have.

Three epochs describe the progress of a group. The *group epoch* rises when its subscriptions or the topics behind them
change. The *assignment epoch* is the group epoch that the target assignment was computed for. The *member epoch* is the
assignment epoch that a member has reached. A heartbeat advances all three:

1. `heartbeat.py` checks the requester (`members.py`), updates the member, and raises the group epoch when that changes
   what the group subscribes to (`target.py`, with the regular expressions of `regex.py`).
2. `target.py` computes the target assignment of a new group epoch.
3. `current.py` brings the member one step nearer to its target: first it gives up what it must not have any more, then
   it gets what nobody else has any more. So no partition ever has two owners.

`group.py` is the state, all of it in timeline maps; `replay.py` changes it, from the records of `records_consumer.py`.
`leave.py` removes members, on request or when one of their `timers.py` is due. `regexes.py` evaluates regular
expressions, `topics.py` knows the topics of groups, `topic_changes.py` notices their changes. `describe.py` is
ConsumerGroupDescribe. `classic.py` serves members that speak the classic protocol while a group migrates, whose
subscriptions `embedded.py` reads; `upgrade.py` and `downgrade.py` turn a group of one kind into one of the other.
"""
