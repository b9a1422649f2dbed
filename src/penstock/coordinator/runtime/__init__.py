"""The base of every coordinator: shards that append records, replay them, answer when they commit, and revert.

`Runtime` (runtime.py) has a `Shard` (shard.py) for each partition of the coordinator's topic that this node leads. A
shard has a `Machine`, the coordinator's own state machine, which knows nothing of logs: it gets an operation, looks at
its state and returns a `Result` (result.py), records and an answer.

- The records go into a batch and are replayed into the machine's timeline state at once, so that the next operation
  sees them. The batch is appended at the end of the loop's turn, or after the append linger.
- The answer leaves when the batch is committed. A batch that is refused, or whose leadership is lost, is reverted.
- A newly led partition is loaded (loading.py): its log is replayed in steps; COORDINATOR_LOAD_IN_PROGRESS meanwhile.
- Errors of an append are translated into those of coordinators (append_errors.py).
- Timers are data (timers.py): a key and a deadline. At the deadline the machine is called with the key.

Source: coordinator-common of Apache Kafka 4.3 (CoordinatorRuntime).
"""
