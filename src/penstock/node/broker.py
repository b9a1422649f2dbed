"""One node, broker and controller in one, as a state machine: events in, effects out.

The shell (server) or the simulator calls `connected`, `received`, `disconnected`, `operation_completed`,
`operation_failed` and `tick`, and drains `effects` after each. Nothing here waits, reads a clock or opens a file.

Handlers get the broker as `node`. What they use of it: `settings`, `image` (the committed metadata), `controller`,
`logs`, `replicas` (the partitions this node leads), `timers`, `purgatory`, `random`, `emit`, `answer`, `hold` and `release`.
"""
