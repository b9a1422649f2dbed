"""Limits of logs: open files, what is kept in memory, and how much one look or step reads."""

from penstock.config.values import KiB, MiB

OPEN_LOGS_MAX = 10_000
"""Logs with open descriptors; the least recently used are closed beyond it (and never more than descriptors allow)."""
BUSY_LOGS_PASSED_OVER_MAX = 100
"""Logs in use that are passed over in search of one to close; if there is none, a later opening looks again."""
PRODUCER_IDS_PER_PARTITION_MAX = 100_000
"""Idempotent producers remembered in one partition; the one idle longest is forgotten beyond it."""
RETENTION_WALL_STEP_MS = 1_000
"""By so much the machine's clock must be set ahead for retention to look anew at what falls due by it."""
PRODUCERS_EXPIRED_PER_STEP = 10_000
"""Idempotent producers of several logs that are looked at in one step for those that are idle."""
BATCHES_PER_PRODUCER = 5
"""Batches remembered for each producer id to recognise duplicates (as Kafka: the in-flight limit of clients)."""
RECALLED_INDEX_ENTRIES = 8
"""Index entries from the end of a log within which opening it looks for the batches of idempotent producers."""
INDEX_TAIL_ENTRIES = 512
"""Entries of an active segment's index kept in memory alone; the next append then writes them to the file."""
INDEX_BLOCK_ENTRIES = 512
"""A search in an index file halves the range entry by entry down to this many, which it reads at once."""
POSITION_HINTS_MAX = 64
"""Offset -> file position pairs a log remembers for its readers, and as many for its latest appends."""
LOOKED_UP_INLINE_MAX_BYTES = 32 * KiB
"""Batches up to this size, compressed and unpacked, are searched for a record's time on the loop; others in a lane."""
LOOKED_UP_INLINE_MAX_RECORDS = 100
"""The same as a number of records."""
LOOKED_UP_UNPACKED_MAX_BYTES = 256 * MiB
"""What a batch may unpack to that is searched for a record's time; the answer for one with more is INVALID_RECORD."""
LOOKED_UP_RECORDS_MAX = 1_000_000
"""The same as a number of records."""
WALKS_REMEMBERED_MAX = 64
"""Outcomes of such searches that a segment remembers until whoever asked comes back for them; older ones go first."""
HEADER_WINDOW_BYTES = 4 * KiB
"""What one look for batch headers reads; batches smaller than that share a read."""
NAME_CHANGES_REMEMBERED_MAX = 32_768
"""Renames, removals and cuts of files that a log directory remembers, so that answers under way find what they mean; an
answer that is older fails, and its connection is closed."""
RECOVERY_CHUNK_BYTES = 4 * MiB
"""What a recovery reads at once; a batch larger than that is read whole."""
RECOVERY_WORKER_MIN_BYTES = 8 * MiB
"""A recovery that has fewer bytes to scan is done in the lane: with one-record batches that takes about as long as to
start a worker."""
RECOVERY_CHANGES_MAX_BYTES = 64 * MiB
"""What a worker may report to be written in the recovery of one log; one with more is done in the lane."""
RECOVERY_TASK_MAX_MS = 120_000
"""How long a worker may take to recover a log, and so much longer for each GiB, which 9 MB/s are enough for. When that
is over, the lane begins anew, and takes what it takes."""
PREFERRED_DIRECTORIES_MAX = 10_000
"""Replicas that do not exist yet and of which a node remembers the log directory that somebody wants them in."""
CLEANING_CHUNK_BYTES = 512 * 1024
"""What the cleaner reads or writes at once, little enough to stay in a core's cache; a larger batch is read whole."""
CLEANING_PROBLEMS_REPORTED_MAX = 100
"""Damaged batches and segments that the report of a cleaner's pass names; it counts the others."""
CLEANING_TASK_MAX_MS = 1_800_000
"""How long a worker may take for a pass of the cleaner, and so much longer for each GiB."""
CLEANING_AGAIN_MS = 600_000
"""After this time a log that could not be cleaned is tried again; sooner if its topic's configuration changes."""
CLEANING_LOOK_REPLICAS_MAX = 32
"""Logs whose files one look for what is to be cleaned goes through."""
COMPILED_MIN_BYTES = 1 << 20
"""A pass over fewer bytes is done in plain Python: with one record a batch that takes as long as to import numba."""
CLEANING_BACKOFF_MIN_MS = 100
"""The cleaner waits at least this long between two looks, even if `log.cleaner.backoff.ms` is less."""
CLEANING_LOOKED_AT_MAX = 500
"""Replicas that the cleaner goes through in one step, to see whether they may have to be cleaned."""
PROMISED_MS = 600_000
"""So long a new replica counts as being filled, unless it has become as large as expected before."""
PROMISED_REPLICAS_MAX = 10_000
"""New replicas that are remembered for that; the oldest is forgotten beyond it."""
RESERVE_MAX_BYTES = 256 * MiB
"""What is kept free of records in a log directory's file system unless `penstock.log.dir.reserve.bytes` is set."""
RESERVE_SHARE = 20
"""But never more than this part of a small file system, one twentieth."""
SPACE_LOOK_MS = 1_000
"""Between two looks at the free space of a directory that is being written to, or is full."""
SPACE_BACK_LOOKS = 1
"""Looks that must find room, before the one that counts, after a write has found none."""
SPACE_MARGIN_MIN_BYTES = 256 * KiB
"""At least so much more than the reserve must be free before a full directory takes records again."""
SPACE_RETRY_MS = 1_000
"""After this time a change of files that found no room is tried again."""
