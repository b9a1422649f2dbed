"""Limits of Guardian: what it knows, what one request may bring, and what waits."""

from penstock.config.values import DAY_MS, KiB, MiB

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
GUARDIAN_PLAN_BODY_MAX_BYTES = 8 * MiB
"""What a call may bring that submits a plan; more is refused before it is read."""
GUARDIAN_PLAN_MOVES_MAX = 10_000
"""Partitions that one plan may move; a plan with more is refused."""
GUARDIAN_PLANS_MAX = 100
"""Plans that have not ended; a further one is refused."""
GUARDIAN_LIVE_MOVES_MAX = 50_000
"""Moves of all plans that have not ended; a plan that would make more is refused."""
GUARDIAN_FINISHED_PLANS_MAX = 50
"""Plans that have ended and are kept to be looked at; the oldest are forgotten."""
GUARDIAN_FINISHED_MOVES_MAX = 50_000
"""Moves of such plans; the oldest plans are forgotten when there are more."""
GUARDIAN_MOVE_HISTORY_MAX = 16
"""Stages of one move that are kept; the oldest are forgotten."""
GUARDIAN_MOVES_IN_RECORD_MAX = 200
"""Moves that one record tells of; a plan with more has several."""
GUARDIAN_DECISIONS_MAX = 1_000
"""Decisions that are kept; the oldest are forgotten."""
GUARDIAN_MOVES_SHOWN_MAX = 1_000
"""Moves that one answer has; others are asked for by `after`."""
GUARDIAN_RECORDS_PER_ROUND = 500
"""Records of moves that one round of the executor writes; the next round writes the others."""
GUARDIAN_CANDIDATES_MAX = 500
"""Waiting moves that one round of the executor looks at; the next rounds look at the others."""
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
GUARDIAN_TOPICS_COMPARED_MAX = 255
"""Topics among which one with a name like that asked for is looked for; in a cluster with more none is suggested."""
GUARDIAN_ENDS_PER_CALL = 5_000
"""Partitions whose ends are asked for at once; the others are asked for after the answer."""
GUARDIAN_WINDOWS_KEPT = 288
"""Windows of five minutes that are kept for each partition, a day of them; older ones are forgotten."""
GUARDIAN_FRESH_MS = 30_000
"""How old what was seen may be for an alarm to rest on it; what is older says nothing."""
GUARDIAN_ALARMS_MAX = 1_000
"""Alarms in the log; those that have recovered are forgotten first, and with as many open ones no further is raised."""
GUARDIAN_ALARM_SENTENCES_MAX = 8
"""Sentences of evidence that an alarm keeps; further ones are left out."""
GUARDIAN_ALARM_SENTENCE_MAX = 500
"""Characters of such a sentence; a longer one is cut."""
GUARDIAN_ALARMS_PER_LOOK = 100
"""Alarms that one look at a cluster may change; the next look changes the others."""
GUARDIAN_CENSUS_PER_STEP = 4_000
"""Partitions that are counted in one step; others have their turn before the next."""
GUARDIAN_CENSUS_NAMED_MAX = 1_000
"""Partitions of a broker that a census names; the others are only counted."""
GUARDIAN_TREND_POINTS_MAX = 120
"""Looks at a disk that make its trend; with more, every other one is dropped."""
GUARDIAN_PINGS_MAX = 20
"""Dead brokers of a cluster that are called at once; with more of them nothing is done anyway."""
GUARDIAN_EVACUATED_MAX = 10_000
"""Replicas that one evacuation moves; it says how many it leaves."""
GUARDIAN_CANARY_LATENCIES_MAX = 60
"""Latencies of a broker's canary that are kept; the oldest are forgotten."""
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
