"""Limits of replication: validation of what is produced, fetch sessions, and the pace of followers."""

from penstock.config.values import KiB, MiB

PRODUCED_BATCH_UNPACKED_MAX_BYTES = 128 * MiB
"""What a batch may unpack to that the broker itself unpacks while it is produced, to recompress it or to look at its
records; one that unpacks to more is refused: clients choose how many come at once, and each costs the
broker so much memory."""
DEEP_VALIDATION_INLINE_MAX_BYTES = 32 * KiB
"""Batches up to this size, compressed and unpacked, are walked or recompressed on the loop; others in a lane."""
DEEP_VALIDATION_INLINE_MAX_RECORDS = 100
"""Batches of up to so many records are walked on the loop, in about half a millisecond; others in a lane."""
DEEP_VALIDATION_WORKER_MIN_RECORDS = 10_000
"""Batches of so many records are walked by a worker process; to send it smaller ones costs about as much."""
DEEP_VALIDATION_TASK_MAX_MS = 60_000
"""How long a worker may take for a batch; when that is over, the producer is told to try again."""
DEEP_VALIDATION_MAX_RECORDS = 1_000_000
"""Records of a batch that the broker walks while it is produced, which takes seconds; one with more is refused."""
UNREADABLE_WRITES_MAX = 1024
"""Writes above a high watermark whose sizes a leader remembers, to estimate what a new high watermark gives readers."""
FETCH_SESSION_PARTITIONS_MAX = 300_000
"""Partitions of all fetch sessions, about half a kilobyte each; beyond it the session with most partitions ends, and
its client names them all with each fetch."""
FOLLOWED_PER_FETCH_MAX = 500
"""Partitions that join a follower's fetch session with one fetch; further ones join with the next, at once."""
FETCH_RETRY_MS = 20
"""A follower's first pause after an error of its leader; twice as long after each further one, up to
replica.fetch.backoff.ms."""
EXPECTED_FOLLOWERS_MS = 1_000
"""How long after a change of leadership followers are expected to ask for further partitions."""
LEFT_OUT_WAIT_MS = 20
"""How long a follower's fetch waits for records while writes are under way whose partitions are not in it."""
COUNTED_PARTITIONS_MAX = 100_000
"""Replicas with counters of their own; what further ones have counts in the sum of others."""
