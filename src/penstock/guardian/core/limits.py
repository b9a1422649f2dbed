"""Limits of Guardian: what it knows, what one request may bring, and what waits."""

from penstock.config.values import KiB

GUARDIAN_CLUSTERS_MAX = 1_000
"""Clusters of a federation; a further one is refused."""
GUARDIAN_LABELS_MAX = 64
"""Labels of one cluster; one with more is refused."""
GUARDIAN_BOOTSTRAP_MAX = 32
"""Bootstrap servers of one cluster; one with more is refused."""
GUARDIAN_TEXT_MAX = 255
"""Characters of a name, value or address; a longer one is refused."""
GUARDIAN_BODY_MAX_BYTES = 256 * KiB
"""What one call may bring; more is refused before it is read."""
GUARDIAN_COMMANDS_REMEMBERED_MAX = 1_000
"""Changes that are remembered, so that one which is asked for again is not made again; older ones are forgotten."""
GUARDIAN_APPENDS_MAX = 1_000
"""Changes that wait for the log; a further one is refused until some are committed."""
GUARDIAN_RECORDS_PER_STEP = 2_000
"""Committed records that are replayed in one step; others have their turn before the next."""
GUARDIAN_HANDED_ON_MAX = 1_000
"""Changes that a node has handed on to the leader and that have no answer yet; a further one is refused."""
GUARDIAN_SEEN_BROKERS_MAX = 5_000
"""Brokers of one cluster that are looked at; nothing is taken from one that names more."""
GUARDIAN_SEEN_PARTITIONS_MAX = 1_000_000
"""Partitions of one cluster that are kept in sight; nothing is taken from one that names more."""
GUARDIAN_SEEN_REPLICAS_MAX = 200_000
"""Replicas of one broker that are kept in sight; nothing is taken from one that names more."""
GUARDIAN_SEEN_DISKS_MAX = 256
"""Log directories of one broker that are kept in sight; nothing is taken from one that names more."""
GUARDIAN_SEEN_PER_STEP = 4_000
"""Partitions or replicas of an answer that are looked through in one step; others have their turn before the next."""
GUARDIAN_SETTINGS_PER_CALL = 500
"""Topics whose settings are asked for at once; the others are asked for after the answer."""
GUARDIAN_DOUBTS_TOLD = 3
"""Things of an answer that are not believed and are named; of the others only the number is told."""
GUARDIAN_ROWS_PER_ANSWER = 2_000
"""Rows of one answer about what is seen; the others come on the next pages."""
GUARDIAN_ENDS_PER_CALL = 5_000
"""Partitions whose ends are asked for at once; the others are asked for after the answer."""
GUARDIAN_WINDOWS_KEPT = 288
"""Windows of five minutes that are kept for each partition, a day of them; older ones are forgotten."""
