"""Limits of coordinators: their loading and timers, members, regular expressions and assignments."""

from penstock.config.values import MiB

COORDINATOR_RECORDS_PER_STEP = 500
"""Records that a coordinator replays in one step while it loads a partition; about 3 ms."""
COORDINATOR_LATEST_RECORDS_MAX = 20_000
"""Keys whose last record a coordinator looks for while it loads a partition; those found are replayed then."""
COORDINATOR_LOAD_RETRY_MS = 10
"""After this long it reads a partition again that it could not read, after the second time twice as long, and so on."""
COORDINATOR_LOAD_RETRY_MAX_MS = 5_000
"""It does not wait longer than this."""
COORDINATOR_LOAD_ATTEMPTS = 20
"""Reads in a row that may fail, in about a minute; then the partition has no coordinator here until it is led anew."""
COORDINATOR_TIMERS_PER_TURN = 500
"""Timers of coordinators that end in one turn of the loop, and operations that are answered as too late."""
COORDINATOR_TIMER_WITH_RECORDS = 20
"""A timer that has records written counts for so many of them: 25 transactions that time out are about 5 ms."""
COORDINATOR_TIMER_RETRY_MS = 500
"""After this long a timer whose records were refused is tried again."""
EXPIRY_OFFSETS_PER_STEP = 1_000
"""Offsets that are looked at for their expiry in one turn of the loop; about 2 ms. The other groups follow."""
PENDING_MEMBERS_MAX = 10_000
"""Member ids of classic groups that one partition of the coordinator has given out and that have not joined yet; the
first one is taken back when there are more, and its client asks for another."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long the first join of a member may wait before the member is dropped, as Kafka's: its client is gone."""
REGEX_PROGRAM_BYTES = 2 * MiB
"""Memory of a regular expression that members subscribe to, compiled. A larger one is not valid."""
REGEX_MATCHES_PER_STEP = 500
"""Topic names that are matched with a regular expression in one step; about 2 ms."""
REGEX_COMPILING_MATCHES = 25
"""How many matches compiling a regular expression counts for."""
REGEX_INSTRUCTIONS_PER_STEP = 100_000
"""The same as a sum of the sizes of the expressions, for those that are large and slow."""
REGEX_STEP_DELAY_MS = 1
"""Between two steps of such matching other events have their turn."""
REGEX_REFRESH_INTERVAL_MIN_MS = 10_000
"""The regular expressions of a group are not evaluated more often, as in Kafka."""
GROUP_PARTITIONS_PER_MEMBER = 16
"""So many partitions count for one member where members are counted by which an assignment is cut into steps."""
GROUP_TARGET_WORK = 3
"""The record of a member's new target counts for so many of them, without its partitions; 166 are a step of
about 2 ms."""
GROUP_ASSIGNMENT_STEP_DELAY_MS = 1
"""Between two steps of an assignment other events have their turn."""
GROUP_SETTLING_MS = 15_000
"""For so long after an assignment all members of a group send heartbeats at short intervals, if some are not done."""
GROUP_STABLE_HEARTBEAT_MIN_MS = 500
"""Shortest time between two heartbeats of a stable member, on a broker that has few members."""
GROUP_SETTLING_HEARTBEATS_PER_SECOND = 500
"""Heartbeats a second of a group that is changing its assignment; in a larger one the intervals are longer."""
SETTLING_HEARTBEATS_PER_SECOND = 1_000
"""Heartbeats a second of all groups of a broker that are changing theirs, about a twentieth of a core."""
SETTLING_BACKLOG_MAX_MS = 5_000
"""Heartbeats beyond that rate are put off, and by so much at most."""
SETTLING_PRINCIPALS_MAX = 1_000
"""Principals that have equal shares of that rate; further ones have one share together."""
TRANSACTIONAL_IDS_PER_STEP = 500
"""Transactional ids that are looked at in one turn of the loop, after a load or for their expiry; about 1 ms."""
ENDINGS_PER_STEP = 50
"""Prepared ends that go on in one turn of the loop after a load; about 2 ms."""
LISTED_TRANSACTIONS_PER_STEP = 1_000
"""Transactional ids that ListTransactions looks at in one turn of the loop; about 2 ms. The others follow."""
LISTED_PATTERN_WORK = 64
"""Instructions of its pattern times bytes of an id that count for one more id; about 2 us, at worst."""
LISTED_PATTERN_WORK_MAX = 1_000_000
"""The same product for a single id, about 35 ms at worst; ListTransactions with a pattern beyond it is refused."""
