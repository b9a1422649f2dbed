"""Limits that are not settings: what bounds a queue, a cache, a frame or a loop when nobody needs to tune it.

Each has one name, its unit last, and says what happens to what exceeds it.
"""

from penstock.config.values import GiB, KiB, MiB

# Connections and frames (server, node)
JOURNAL_LINES_MAX = 20
"""Lines in the log about one request; that there is more of it is one further line."""
JOURNAL_PARTITIONS_MAX = 5
"""Partitions of one metadata image that are named in the log, of each kind of change; the others are counted."""
JOURNAL_TEXT_MAX = 200
"""Characters of what a client has named or set, in the log; the rest is left out."""
REFUSAL_REPEAT_MS = 60_000
"""A client's host is told in the log to have asked for something unsupported this often at most."""
REFUSALS_REMEMBERED_MAX = 1_000
"""Refusals of which it is remembered when they were told; while there are so many, further ones are not told."""
METRICS_PARTITIONS_MAX = 10_000
"""Replicas of this node that have metrics of their own; what more there are is only counted."""
METRICS_GROUP_OFFSETS_MAX = 10_000
"""Committed offsets that have metrics of their own; what more there are is only counted."""
METRICS_PARTITIONS_PER_STEP = 1_000
"""Partitions that a scrape looks at before others have their turn."""
CALLBACK_BUDGET_MS = 5
"""How long one callback of the event loop plans to run; long work is stepped."""
TURN_WORK_MS = CALLBACK_BUDGET_MS
"""How long requests are executed in one turn of the loop; what exceeds it is executed in the next."""
ROUND_SHARE_MS = 2
"""What the requests of one connection may take before those of all others that wait have had as much."""
LONG_REQUESTS_MAX = 8
"""Requests that take more than one step and are under way; further ones wait, each in no more memory than its frame
and one step take."""
LEAVING_CONNECTIONS_MAX = 1_000
"""Connections that the other side has closed, and of which something waits for its turn; the oldest are dropped."""

# Protocol (what a hostile frame may make us allocate)
TAGGED_FIELDS_MAX = 1024
"""Unknown tagged fields of one structure; a frame with more is a protocol error."""
STRING_MAX_BYTES = 32767
"""Kafka's limit of a string with a 16-bit length, kept for compact strings as well."""
ARRAY_ELEMENTS_MAX = 1_000_000
"""Elements of the arrays of one message, nested ones included; one with more is a protocol error."""
ELEMENTS_PER_STEP = 512
"""Elements of arrays that are read or written in one step of a large message; about half a millisecond."""
PARTITIONS_PER_STEP = 100
"""Partitions, topics or names of one request that are looked at in one step of it."""
GROUPS_PER_STEP = 10
"""Groups of one request that are described, or parts of groups whose offsets are asked for, in one step of it."""
STEPPED_FRAME_BYTES = 32 * KiB
"""Frames beyond this size are decoded in steps."""
UUID_CACHE_MAX = 4096
"""Decoded ids kept so that equal ids are one object; when full, the cache starts anew."""

# Records
DECOMPRESSED_BATCH_MAX_BYTES = 1 * GiB
"""Output of one compressed batch; a batch that unpacks to more is corrupt."""
PRODUCED_BATCH_UNPACKED_MAX_BYTES = 128 * MiB
"""The same for a batch that the broker itself unpacks while it is produced, to recompress it or to look at its records:
clients choose how many come at once, and each costs the broker so much memory."""
DEEP_VALIDATION_INLINE_MAX_BYTES = 32 * KiB
"""Batches up to this size, compressed and unpacked, are walked or recompressed on the loop; others in a lane."""
DEEP_VALIDATION_INLINE_MAX_RECORDS = 100
"""Batches of up to so many records are walked on the loop, in about half a millisecond; others in a lane."""
DEEP_VALIDATION_MAX_RECORDS = 1_000_000
"""Records of a batch that the broker walks while it is produced, which takes seconds; one with more is refused."""
RECORD_ERRORS_MAX = 1_000
"""Records at fault that the answer to a produce names, the first ones; the batch is refused as a whole anyway."""

# Logs
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

# Replication
UNREADABLE_WRITES_MAX = 1024
"""Writes above a high watermark whose sizes a leader remembers, to estimate what a new high watermark gives readers."""
FOLLOWERS_OPENED_PER_STEP = 100
"""Logs of followers that one step of long work has opened."""
PREFERRED_DIRECTORIES_MAX = 10_000
"""Replicas that do not exist yet and of which a node remembers the log directory that somebody wants them in."""
MOVES_AT_ONCE_MAX = 4
"""Replicas that are copied to other log directories at the same time; further ones wait."""
MOVE_READ_BYTES = 1024 * 1024
"""What such a copy reads at once."""
THROTTLED_LOOK_MS = 1_000
"""Longest time before a throttled replica is looked at again: its throttle may have been taken away."""
FETCH_SESSION_PARTITIONS_MAX = 300_000
"""Partitions of all fetch sessions, about half a kilobyte each; beyond it the session with most partitions ends, and
its client names them all with each fetch."""
FOLLOWED_PER_FETCH_MAX = 500
"""Partitions that join a follower's fetch session with one fetch; further ones join with the next, at once."""
LAGGING_PER_STEP = 500
"""Led partitions with followers behind that are looked at in one turn."""
ISR_CHANGES_PER_REQUEST_MAX = 500
"""Partitions of one AlterPartition request; further proposals go with the next."""
FETCH_RETRY_MS = 20
"""A follower's first pause after an error of its leader; twice as long after each further one, up to
replica.fetch.backoff.ms."""
FOLLOWER_WRITE_WAIT_MS = 10
"""How long a fetcher waits for the writes of its last answer; a partition that is slower is left out of one fetch."""
ALTER_PARTITION_RETRY_MS = 50
"""Between two tries of an AlterPartition request, as Kafka's."""
DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX = 2_250
"""Replicas whose log directories one AssignReplicasToDirs request tells, as Kafka's."""
DIRECTORY_ASSIGNMENTS_PER_STEP = 1_000
"""Replicas whose log directory is compared with the metadata in one step of long work."""
DIRECTORY_ASSIGNMENT_RETRY_MS = 100
"""After an AssignReplicasToDirs request has failed; twice as long after each further time."""
DIRECTORY_ASSIGNMENT_RETRY_MAX_MS = 10_000
"""The longest such pause, as Kafka's."""
EXPECTED_FOLLOWERS_MS = 1_000
"""How long after a change of leadership followers are expected to ask for further partitions."""
EXPECTED_FOLLOWER_WAIT_MS = 20
"""How long the fetch of such a follower may wait for data, so that its next one comes soon."""

# Node
BUG_CAUSES_MAX = 100
"""Lines of code that raised what should never be raised, of which it is remembered when they were logged; while there
are so many, further ones are not logged. As many again of what is damaged on a disk."""
BUG_LOGGED_AGAIN_MS = 60_000
"""An error from the same line, or over the same damage, is logged this often at most."""
DUTY_PAUSE_MS = 1_000
"""How long a timer or a part of the node rests whose turn ended in a bug; then it is tried again."""
PARKED_REQUESTS_MAX = 100_000
"""Requests that wait for data, replicas or a timeout; the oldest fetch is answered early beyond it."""
TOPIC_NAME_MAX_CHARACTERS = 249
"""Kafka's limit: a directory name must hold the topic, the partition and a suffix."""
TOPICS_PER_REQUEST_MAX = 10_000
"""Topics of one request that creates, deletes or changes them, or elects leaders; more are POLICY_VIOLATION. And topics
that one member of a consumer group names; more are INVALID_REQUEST."""
MEMBERS_PER_REQUEST_MAX = 10_000
"""Members that leave a group with one request; more are INVALID_REQUEST."""
RESOURCES_PER_REQUEST_MAX = 10_000
"""Resources of one request that changes configs; more are POLICY_VIOLATION, as more records are with Kafka."""
CONFIGS_PER_RESOURCE_MAX = 1_000
"""Configs of one resource, or of one new topic, in a request; one with more is refused."""
REPLICAS_PER_PARTITION_MAX = 1_000
"""Replicas that somebody assigns to one partition; more are INVALID_REPLICA_ASSIGNMENT."""
REGISTERED_PER_NODE_MAX = 1_000
"""Listeners, features or log directories of one node that registers, or features of one update; more are refused."""
CHANGES_PER_STEP = 100
"""Changes of metadata that the controller decides in one step of a request: topics, partitions, configs. What is larger
and cannot be cut, a topic of many partitions, is a step by itself."""
PARTITIONS_PER_TOPIC_MAX = 100_000
"""Partitions of one topic."""
METADATA_ANSWERS_KEPT_MAX = 64
"""Encoded Metadata answers kept for the present image; all are forgotten beyond it."""
METADATA_ANSWER_KEPT_TOPICS_MAX = 1000
"""Topics named in a Metadata request whose answer is kept; longer requests are answered anew each time."""
METADATA_APPENDS_MAX = 10_000
"""Changes that wait for the metadata log to be flushed; a further one is refused until some are committed."""
PARTITIONS_PER_REQUEST_MAX = 10_000
"""Partitions that one request may create, as Kafka's MAX_PARTITIONS_PER_BATCH; more are POLICY_VIOLATION."""
LOST_CONNECTION_GRACE_MS = 500
"""How long a broker whose connection to the controller is lost may take to be heard of again before it is fenced."""
LEADERSHIP_CHANGES_PER_STEP = 200
"""Partitions whose leader or in-sync replicas the controller changes at once when a broker goes, or that it balances
in one turn; the rest follow in further steps, with other work in between."""
CONTROLLER_RECORDS_PER_BATCH_MAX = 10_000
"""Metadata records that one request may append atomically (Kafka's MAX_RECORDS_PER_USER_OP)."""
METADATA_RECORDS_PER_STEP = 200
"""Committed metadata records that a node replays in one turn of the loop; the rest follow, with other work between."""
CONTROLLER_CALLS_MAX = 1_000
"""Calls to the active controller that wait or are under way, forwarded requests included; a further one fails."""
PEER_CALLS_MAX = 1_000
"""Calls to another node over one channel that wait or are under way; a further one fails at once."""
PEER_IN_FLIGHT_MAX = 32
"""Requests of one connection to another node that wait for their answers; further ones wait to be sent."""
PEER_CHANNELS_MAX = 10_000
"""Channels to other nodes kept for reuse; a call over a further one fails at once until idle ones are gone."""

# SQL over topics
RAFT_OBSERVERS_MAX = 2000
"""Observers of the metadata quorum whose progress a leader keeps; the one that fetched longest ago makes room."""

RAFT_VOTERS_MAX = 25
"""Voters of a metadata quorum: a set with more is refused."""

# Coordinators
COORDINATOR_RECORDS_PER_STEP = 500
"""Records that a coordinator replays in one step while it loads a partition; about 3 ms."""
COORDINATOR_LATEST_RECORDS_MAX = 20_000
"""Keys whose last record a coordinator looks for while it loads a partition; those found are replayed then."""
COORDINATOR_LOAD_BYTES = 1 * MiB
"""What it reads of the partition at a time."""
COORDINATOR_LOAD_RETRY_MS = 10
"""After this long it reads a partition again that it could not read, after the second time twice as long, and so on."""
COORDINATOR_LOAD_RETRY_MAX_MS = 5_000
"""It does not wait longer than this."""
COORDINATOR_LOAD_ATTEMPTS = 20
"""Reads in a row that may fail, in about a minute; then the partition has no coordinator here until it is led anew."""
COORDINATOR_TIMERS_PER_TURN = 500
"""Timers of coordinators that end in one turn of the loop."""
COORDINATOR_TIMER_RETRY_MS = 500
"""After this long a timer whose records were refused is tried again."""
EXPIRY_OFFSETS_PER_STEP = 1_000
"""Offsets that are looked at for their expiry in one turn of the loop; about 2 ms. The other groups follow."""
LISTED_GROUPS_PER_STEP = 400
"""Groups that ListGroups looks at in one turn of the loop; about 3 ms. The others follow."""
PENDING_MEMBERS_MAX = 10_000
"""Member ids of classic groups that one partition of the coordinator has given out and that have not joined yet; the
first one is taken back when there are more, and its client asks for another."""
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long the first join of a member may wait before the member is dropped, as Kafka's: its client is gone."""

# Consumer groups
REGEX_PROGRAM_BYTES = 2 * MiB
"""Memory of a regular expression that members subscribe to, compiled. A larger one is not valid."""
REGEX_MATCHES_PER_STEP = 500
"""Topic names that are matched with a regular expression in one step; about 2 ms."""
REGEX_COMPILING_MATCHES = 25
"""How many matches compiling a regular expression counts for."""
REGEX_INSTRUCTIONS_PER_STEP = 100_000
"""The same as a sum of the sizes of the expressions, for those that are large and slow."""
REGEX_STEP_DELAY_MS = 1
"""Between two steps other events have their turn."""
REGEX_REFRESH_INTERVAL_MIN_MS = 10_000
"""The regular expressions of a group are not evaluated more often, as in Kafka."""
GROUP_ASSIGNED_PER_STEP = 500
"""Members of a consumer group up to which its assignment is computed at once, within a heartbeat, in up to 5 ms; the
default of a setting. For a larger group so many are looked at in one step, in about 1 ms."""
GROUP_PARTITIONS_PER_MEMBER = 16
"""So many partitions count for one member in that."""
GROUP_TARGET_WORK = 3
"""The record of a member's new target counts for so many members that are looked at, without its partitions; 166 of
them are a step of about 2 ms."""
GROUP_ASSIGNMENT_STEP_DELAY_MS = 1
"""Between two steps other events have their turn."""
GROUP_PLACES_MAX = 16_384
"""Group ids of which it is remembered in which partition of the coordinators' topic they belong."""
GROUP_PLACES_ID_MAX = 256
"""Longer ids are not remembered: nobody may have much memory filled with them."""
GROUP_SETTLING_MS = 15_000
"""For so long after an assignment all members of a group send heartbeats at short intervals, if some are not done."""
GROUP_STABLE_HEARTBEAT_MIN_MS = 500
"""Shortest time between two heartbeats of a stable member, on a broker that has few members."""
GROUP_SETTLING_HEARTBEATS_PER_SECOND = 500
"""Heartbeats a second of a group that is changing its assignment; in a larger one the intervals are longer."""
