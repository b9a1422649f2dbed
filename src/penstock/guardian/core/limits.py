"""Limits of Guardian: what it knows, what one request may bring, and what waits."""

from penstock.config.values import DAY_MS, KiB

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
GUARDIAN_USERS_MAX = 1_000
"""Users; a further one is refused."""
GUARDIAN_USER_ROLES_MAX = 64
"""Roles of one user; more are refused. Who needs one for each of many clusters has one for all."""
GUARDIAN_USER_TOKENS_MAX = 10
"""Tokens of one user that have not expired; a further one is refused."""
GUARDIAN_TOKEN_DEFAULT_MS = 90 * DAY_MS
"""How long a token counts that is made without saying so."""
GUARDIAN_TOKEN_MAX_MS = 366 * DAY_MS
"""How long a token may count; a longer time is refused."""
GUARDIAN_TOKEN_STATE_AGE_MAX_MS = 10_000
"""How old what a node knows may be for tokens to count there: it may not have heard yet that one was revoked."""
GUARDIAN_PATH_MAX = 2_000
"""Characters of a path and its query; a longer one is refused."""
