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
