"""Guardian itself, without the world: its log, what it sees of the clusters, what it answers, and what it does.

The log:      records.py, levels.py   the records, in the frames of Kafka's metadata records, and since which level
              state.py, accounts.py   the state, by replaying them; of it the users and their tokens
              quorum.py, committed.py, leader.py   the replica of the log, what is committed of it, changes on their way
              lease.py                when the leader may act by itself
              identity.py             which Guardian, node and voters a directory belongs to
Calls:        calls.py, answering.py  what is asked, as method and path of the REST API, and which resource answers
              resources/, described.py   what there is to ask for, and what that says of itself to people and tools
              roles.py, permitted.py  who may do what
              front.py, handlers.py   who answers, this node or the leader; the APIs by which calls come
Clusters:     sight.py                what the leader has seen of them
              sampler.py, watch.py, looks.py, look_at_*.py   how it looks, at all, at one, at one part of one
              believing.py            what is believed of what brokers answer
              windows.py              what is written to each partition
              reach.py                calls to their brokers
              canary.py, canary_topic.py   how long each broker takes from a write to its being read
What is done: alarms/                 what is wrong, and the healing of it
              work/                   plans, and the executor that carries them out
node.py       one node, put together: requests, timers and disk operations in, effects out
"""
