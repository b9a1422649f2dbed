"""Limits of logs: open files, what is kept in memory, and how much one look or step reads."""

from penstock.config.values import GiB, KiB, MiB

GROUP_FSYNC_FILES_MAX = 64
"""Files that one round of fsyncs covers, directories of new files included; logs with further ones wait for the next
round. The last log of a round may add its directory, and segments that were just closed."""
OPEN_LOGS_MAX = 10_000
"""Logs with open descriptors; the least recently used are closed beyond it (and never more than descriptors allow)."""
BUSY_LOGS_PASSED_OVER_MAX = 100
"""Logs in use that are passed over in search of one to close; if there is none, a later opening looks again."""
PRODUCER_IDS_PER_PARTITION_MAX = 100_000
"""Idempotent producers remembered in one partition; the one idle longest is forgotten beyond it."""
RETENTION_WALL_STEP_MS = 1_000
"""By so much the machine's clock must be set for retention and the cleaner to look anew at what falls due by it."""
PRODUCERS_EXPIRED_PER_STEP = 10_000
"""Idempotent producers of several logs that are looked at in one step for those that are idle."""
RETENTION_LOOKED_AT_MAX = 20
"""Replicas that retention goes through in one step; the next step follows a millisecond later."""
TIMES_CHECKED_AT_ONCE_MAX = 16
"""Segments of an open log whose time indexes one operation checks before retention goes by them."""
UNLINKS_PER_STEP = 50
"""Files of one log directory that are removed at a time. With the next limit: 500 a second at most."""
UNLINK_STEP_MS = 100
"""So much later the next ones are removed."""
FILES_OF_A_LOG = 8
"""A directory that is removed counts as so many files: those of a segment, its own and itself."""
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
RECOVERY_PRODUCER_BATCHES_MAX = 250_000
"""Batches of producers that a scan of segments keeps in memory at most before they are accounted for."""
RECOVERY_WORKER_MIN_BYTES = 8 * MiB
"""A recovery that has fewer bytes to scan is done in the lane: with one-record batches that takes about as long as to
start a worker."""
RECOVERY_TASK_MAX_BYTES = 512 * MiB
"""A log with more than this to scan is scanned by several workers, one segment a task."""
RECOVERY_PARTS_MAX = 8
"""So many segments of one log are with the workers at a time. Their new indexes are kept until all of these are done:
5 MB for each GiB, with the usual interval between entries."""
RECOVERY_PART_BATCHES_MAX = 20_000
"""Batches of producers that the scan of one segment may report; with more, one worker scans the whole log."""
RECOVERY_PART_INDEXES_MAX_BYTES = 24 * MiB
"""Indexes that it may report, more than `segment.index.bytes` lets grow by default. A topic's owner who has lowered
`index.interval.bytes` since the segment was written could have it report fifty times as much as usual."""
RECOVERY_SAID_EVERY_MS = 30_000
"""How often the log says how far the recovery of a directory is."""
RECOVERY_CHANGES_MAX_BYTES = 64 * MiB
"""What workers may report to be written when all of a log is scanned; one with more is done in the lane."""
RECOVERY_TASK_MAX_MS = 120_000
"""How long a worker may take to recover a log, and so much longer for each GiB, which 9 MB/s are enough for. When that
is over, the lane begins anew, and takes what it takes."""
PREFERRED_DIRECTORIES_MAX = 10_000
"""Replicas that do not exist yet and of which a node remembers the log directory that somebody wants them in."""
CLEANING_CHUNK_BYTES = 512 * 1024
"""What a pass of the cleaner from the command line reads or writes at once, little enough to stay in a core's cache; a
larger batch is read whole."""
CLEANING_CHUNK_MIN_BYTES = 4 * KiB
"""The least that a pass in a broker reads or writes at once, if `log.cleaner.io.buffer.size` gives it even less."""
CLEANING_CHUNK_MAX_BYTES = 4 * MiB
"""The most that a pass in a broker reads or writes at once, if `log.cleaner.io.buffer.size` gives it even more."""
CLEANING_BATCH_MEMORY_BYTES = 64 * MiB
"""What one batch may take in the cleaner's memory; one that would take more, by what it unpacks to or by the number of
its records, is kept as it is and reported."""
CLEANING_BATCH_MEMORY_RATIO = 5
"""Those as a multiple of `max.message.bytes`, if that is more: so a large batch that is not compressed has room."""
CLEANING_RECORD_BYTES = 192
"""What the cleaner reckons for each record of a batch: its place and its hash, or, in plain Python, a tuple and a
key."""
CLEANING_PROBLEMS_REPORTED_MAX = 100
"""Damaged batches and segments that the report of a cleaner's pass names; it counts the others."""
CLEANING_TASK_MAX_MS = 1_800_000
"""How long a worker may take for a pass of the cleaner, and so much longer for each GiB."""
CLEANING_PART_BYTES = 16 * GiB
"""The new segments of one part of a pass of the cleaner take no more than this, or than the segments in which it looks
for keys, if those are larger: the next part begins when they are in use. It is what a pass needs besides at most."""
CLEANING_AGAIN_MS = 600_000
"""After this time a log that could not be cleaned is tried again; sooner if its topic's configuration changes."""
CLEANING_HELD_MS = 600_000
"""A log that waits for so long to be opened, closed or given other segments counts as a dead thread of the cleaner."""
CLEANING_LOOK_REPLICAS_MAX = 32
"""Logs whose files one look for what is to be cleaned goes through."""
COMPILED_MIN_BYTES = 1 * MiB
"""A pass of the cleaner or a scan of a recovery over fewer bytes is done in plain Python: with one record a batch that
takes as long as to import numba."""
CLEANING_BACKOFF_MIN_MS = 100
"""The cleaner waits at least this long between two looks, even if `log.cleaner.backoff.ms` is less."""
CLEANING_LOOKED_AT_MAX = 500
"""Replicas that the cleaner goes through in one step, to see whether they may have to be cleaned."""
LEGACY_HOLES_NAMED_MAX = 100
"""Damaged places of a log of an old format that are named; the others are counted."""
VERIFY_FINDINGS_MAX = 100
"""Findings about one log that a check of it lists, of each severity; it counts the others."""
VERIFY_COMPILED_MIN_BYTES = 16 * MiB
"""A check of a log with fewer bytes walks over its records in plain Python: somebody waits for the command, which would
have to import numba first."""
VERIFY_LOOKS_MAX = 3
"""How often a check looks at a log whose files change meanwhile, before it says that it cannot judge it."""
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
