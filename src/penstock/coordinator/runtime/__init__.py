"""What every coordinator stands on: shards that append records, replay them, answer when they commit, and revert.

`Runtime` (runtime.py) has a `Shard` (shard.py) for each partition of the coordinator's topic that this node leads. A
shard has a `Machine`, the coordinator's own state machine, which knows nothing of logs: it gets an operation, looks at
its state and returns a `Result` (result.py), records and an answer.

- The records go into a batch and are replayed into the machine's timeline state at once, so that the next operation
  sees them. The batch is appended at the end of the loop's turn, or after the append linger.
- The answer leaves when the batch is committed. One that is refused, or whose leadership is lost, is reverted.
- A partition that is led anew is loaded (loading.py): its log is replayed in steps; COORDINATOR_LOAD_IN_PROGRESS
  meanwhile.
- What an append was refused with is told in terms of coordinators (append_errors.py).
- Timers are data (timers.py): a key and a deadline. The machine is told of the key when the time has come.

Source: coordinator-common of Apache Kafka 4.3 (CoordinatorRuntime).
"""
