"""Limits that are not settings: what bounds a queue, a cache, a frame or a loop when nobody needs to tune it.

Each has one name, its unit last, and says what happens to what exceeds it.
"""

from penstock.config.values import GiB, KiB, MiB

# Connections and frames (server, node)
UNAUTHENTICATED_FRAME_MAX_BYTES = 64 * KiB
"""A longer frame before authentication has passed closes the connection (only where the listener authenticates)."""
CONNECTION_IN_FLIGHT_MAX_BYTES = 128 * MiB
"""Bytes of requests of one connection that wait or run; reading pauses beyond it, save for one frame."""
TURN_MAX_BYTES = 1 * MiB
"""Bytes that one connection may receive, or send, in one turn of the loop before the next one has its turn."""
RECEIVE_BUFFER_BYTES = 64 * KiB
"""What one read from a socket asks for when no frame is open."""
BUFFER_POOL_MAX_BYTES = 16 * MiB
"""Idle receive buffers kept for reuse in all; what exceeds it is freed."""
SEND_CHUNKS_MAX = 1024
"""Chunks of one sendmsg (IOV_MAX on Linux); more go out in further calls."""
SEND_PIECE_BYTES = 256 * KiB
"""File bytes that a connection has in memory for sending; an answer is read piece by piece as the socket takes it."""
SEND_QUEUE_MAX_BYTES = 4 * MiB
"""Answers in memory (not in files) that wait for one client to read; beyond it we stop reading its requests."""
UNSENT_PIECES_MAX_BYTES = 64 * MiB
"""File pieces kept for slow readers in all; beyond it an unsent piece is dropped and read again when its turn comes."""
RECEIVED_MAX_BYTES = 512 * MiB
"""Request bytes of all connections held at once when queued.max.request.bytes sets none; reading pauses beyond it."""
RECEIVE_RATE_MIN_BYTES_PER_S = 16 * KiB
"""A frame may take its base timeout plus its size at this rate; slower senders are closed."""
RECEIVE_GROWTH = 16
"""A frame's buffer is at most this many times what has arrived of it, so that announcing a size costs nothing."""
ACCEPTS_PER_TURN = 64
"""Connections one listener accepts in one turn of the loop."""
CLOSE_LINGER_MS = 5_000
"""How long a connection that is being closed may take to read its last answers."""
DESCRIPTORS_RESERVED = 64
"""Descriptors kept from clients: listeners, the loop, checkpoints, the lock files."""
LANE_SLOW_MS = 10
"""An append on the loop that took longer sends its directory's appends to the lane."""
LANE_HEALTHY_AFTER_MS = 10_000
"""How long all appends of a lane must have been fast before they run on the loop again."""
HTTP_CONNECTIONS_MAX = 32
"""Connections of the metrics endpoint; a further one is closed."""
HTTP_HEAD_MAX_BYTES = 8 * KiB
"""Request line and headers on the metrics endpoint."""
HTTP_TIMEOUT_MS = 10_000
"""How long a request on the metrics endpoint may take to arrive and its answer to be read."""
CALLBACK_BUDGET_MS = 5
"""How long one callback of the event loop plans to run; long work is stepped."""

# Protocol (what a hostile frame may make us allocate)
TAGGED_FIELDS_MAX = 1024
"""Unknown tagged fields of one structure; a frame with more is a protocol error."""
STRING_MAX_BYTES = 32767
"""Kafka's limit of a string with a 16-bit length, kept for compact strings as well."""
ARRAY_ELEMENTS_MAX = 1_000_000
"""Structures, strings and ids in the arrays of one message, nested ones included; one with more is a protocol error."""
UUID_CACHE_MAX = 4096
"""Decoded ids kept so that equal ids are one object; when full, the cache starts anew."""

# Records
DECOMPRESSED_BATCH_MAX_BYTES = 1 * GiB
"""Output of one compressed batch; a batch that unpacks to more is corrupt."""
PRODUCED_BATCH_UNPACKED_MAX_BYTES = 128 * MiB
"""The same for a batch that the broker itself unpacks while it is produced, to recompress it or to look at its records:
clients choose how many come at once, and each costs the broker so much memory."""
DEEP_VALIDATION_INLINE_MAX_BYTES = 64 * KiB
"""Batches up to this size are walked on the loop; larger ones are a Deferred in a worker."""

# Logs
OPEN_LOGS_MAX = 10_000
"""Logs with open descriptors; the least recently used are closed beyond it (and never more than descriptors allow)."""
BUSY_LOGS_PASSED_OVER_MAX = 100
"""Logs in use that are passed over in search of one to close; if there is none, a later opening looks again."""
PRODUCER_IDS_PER_PARTITION_MAX = 100_000
"""Idempotent producers remembered in one partition; the one idle longest is forgotten beyond it."""
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
HEADER_WINDOW_BYTES = 4 * KiB
"""What one look for batch headers reads; batches smaller than that share a read."""
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
PARKED_REQUESTS_MAX = 100_000
"""Requests that wait for data, replicas or a timeout; the oldest fetch is answered early beyond it."""
TOPIC_NAME_MAX_CHARACTERS = 249
"""Kafka's limit: a directory name must hold the topic, the partition and a suffix."""
TOPICS_PER_REQUEST_MAX = 10_000
"""Topics of one CreateTopics or DeleteTopics request."""
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
PEER_ANSWER_MAX_BYTES = 256 * MiB
"""One answer of another node; a longer one closes the connection."""

# Client
CLIENT_RESPONSE_BYTES = 128 * MiB
"""One response that the small client accepts; a longer one closes the connection."""
CLIENT_SCRATCH_BYTES = 64 * KiB
"""Receive buffer of one client connection; larger responses get a buffer of their own size."""
CLIENT_RETRY_BACKOFF_MS = 100
"""Between two tries of a request that failed retriably."""
CLIENT_FETCH_BYTES = 4 * MiB
"""What one fetch of one partition asks for."""
CLIENT_BATCH_BYTES = 512 * KiB
"""A batch that the client builds is sent when the next record would make it larger."""
CLIENT_CONFIG_RESOURCES = 500
"""Resources whose configs one request asks for; more of them take several requests."""

# Spark
SPARK_FETCHES_AHEAD = 4
"""Fetches that wait for a task to decode them; the fetching thread pauses beyond it."""
SPARK_RANGES_AT_ONCE = 4
"""Ranges that one task fetches side by side."""
SPARK_FILE_READ_BYTES = 4 * MiB
"""What one read of a segment's file takes; a batch that is larger is read whole, up to CLIENT_RESPONSE_BYTES."""
SPARK_FILES_LEAST_OFFSETS = 10_000
"""A task with fewer offsets than this asks the brokers at once: looking for files would cost more than it saves."""
SPARK_RUN_BYTES = 8 * MiB
"""Decompressed records that a task turns into Arrow columns at a time; a batch that is larger is decoded whole."""
SPARK_ARROW_BATCH_ROWS = 10_000
"""Rows of one Arrow batch that a task hands to Spark; larger ones are cut."""
SPARK_TASK_OFFSETS_WORTHWHILE = 20_000
"""Offsets that are worth a task of their own; a smaller read has fewer tasks than there are cores."""
SPARK_TASK_REPLANS = 10
"""How often a task asks anew what is left of its ranges, with failOnDataLoss = false."""
SPARK_SAMPLE_BYTES = 64 * KiB
"""What planning a microbatch fetches of a partition to estimate the size of what waits, with maxBytesPerTrigger."""
SPARK_SAMPLED_PARTITIONS = 128
"""Partitions that are looked at for that estimate; the others are taken to be alike."""
LOAD_OFFSETS_PER_JOB = 5_000_000
"""Offsets that one job of a load takes on; what is beyond waits for the next job."""

# Lake tables
LAKE_GAPS_PER_PIPELINE = 4096
"""Gaps that a table's progress names one by one, for each pipeline; beyond it the oldest are sealed into ranges."""
LAKE_SEALED_PER_PIPELINE = 4096
"""Sealed ranges of gaps kept for each pipeline; beyond it those of a partition are merged pairwise."""
LAKE_GAPS_PER_LOG_ENTRY = 256
"""Gaps that a commit's own metadata repeats for people; a commit with more tells their number only."""
LAKE_SUMMARIES_KEPT = 16
"""Progress summaries kept for readers of a Delta table's recent versions; older ones are deleted after a commit."""

# Loads
LOAD_INLINE_OFFSETS = 20_000
"""Offsets up to which a job of a load runs in the driver itself: below that a Spark job costs more than it shares."""
LOAD_FIRST_OFFSETS = 10_000
"""Offsets of the first job into a table whose columns are found in the data: it runs again with the columns found."""
LOAD_COLUMNS_MAX = 1000
"""Columns that a load gives a table; records with further new fields go to the quarantine table."""
LOAD_OPEN_FILES = 64
"""Data files that one task writes side by side (one a table and day); the one begun first is closed beyond it."""
LOAD_REPLANS = 20
"""Times a job is planned anew because the table, its columns or a schema changed under it, before the load gives up."""
LOAD_METADATA_AGE_MS = 5000
"""How old the list of topics and partitions may grow while nothing new comes in."""
LOAD_POLL_MS = 500
"""One long poll for new records; a load that is told to stop, stops within it."""
GROUP_COMMIT_INTERVAL_MS = 5000
"""How often a pipeline commits its group's offsets at most; Kafka's `auto.commit.interval.ms`."""
GROUP_COMMIT_RETRY_MS = 30_000
"""How long it leaves a coordinator alone that did not take them; twice as long each time that it happens again."""
GROUP_COMMIT_RETRY_MAX_MS = 600_000
"""The longest such time."""
GROUP_COMMIT_REPEAT_MS = 3_600_000
"""How often offsets that do not move are committed again, before brokers forget them."""
GROUP_COMMIT_TIMEOUT_MS = 5000
"""How long a commit may hold a pipeline up."""
GROUP_COMMIT_PARTITIONS = 1000
"""Partitions of one commit: its records are a single batch of the offsets topic, of at most a megabyte."""
JSON_NESTING_MAX = 256
"""Brackets of one JSON value up to which it takes the fast way: the parser there descends without a limit."""
RESULT_TABLE_FILES_MAX = 100
"""Files of a Delta table of results; a batch that leaves more has them compacted."""
SINK_QUEUE_BYTES = 32 * MiB
"""Records that one task of the sink has queued for the brokers (Java's buffer.memory); it waits beyond it."""
SINK_QUEUE_RECORDS = 200_000
"""The same as a number: small records cost more than their bytes."""
SINK_ROWS_AT_ONCE = 10_000
"""Rows that the sink turns into Python values at once; larger Arrow batches are gone through in parts."""
SINK_PRODUCERS_MAX = 4
"""Producers that a Python worker keeps for later tasks; the one used longest ago ends beyond it."""
LAKE_VERIFY_THREADS = 4
"""Files of a table that are read at once to prove it."""
LAKE_RUNS_UNJOINED = 1 << 16
"""Runs of offsets of a partition that wait to be joined with the others."""
LAKE_RANGES_SHOWN = 20
"""Ranges kept of each kind a partition; a table that is wrong everywhere must not fill the memory with proof of it."""
PIPELINES_PER_RUN = 64
"""Pipelines that one run shares a session among; more need another run."""
PIPELINE_POLL_MS = 250
"""How often a pipeline looks at its streaming queries."""
PIPELINE_STATUS_MS = 1_000
"""How often a run writes its pipelines' figures for `penstock pipeline status`, and redraws its lines."""
PIPELINE_LAG_MS = 5_000
"""How often the brokers are asked how far a streaming query is behind, where Spark does not tell."""
PIPELINE_RATE_MS = 10_000
"""The window of a pipeline's rows a second."""
PIPELINE_RATE_SAMPLES = 1_000
"""Batches that such a window remembers; of more in so short a time the oldest are forgotten."""
PIPELINE_STOP_MS = 30_000
"""How long the batch that runs when a pipeline is stopped may take to end; then it is cut off, and repeated later."""
PIPELINE_ERROR_CHARACTERS = 2_000
"""What is kept of an error's text."""
LAKE_ROW_GROUP_ROWS = 1 << 18
"""Rows that a task collects before it writes them as one row group of a Parquet file."""
LAKE_ROW_GROUP_BYTES = 32 * MiB
"""The same in bytes; a file that is open holds as much memory."""
LAKE_SAMPLE_RANGES = 10
"""Places of each partition at which a sample of its rows is held against the broker."""
MIRROR_FETCH_BYTES = 4 * MiB
"""What a mirror takes of one partition at a time."""

# SQL over topics
SQL_MEMORY = "1GiB"
"""What DuckDB holds in memory for a query; what exceeds it spills into a temporary directory."""
SQL_RESULT_BATCH_ROWS = 10_000
"""Rows of a result that are in memory at once on their way out."""
SQL_TABLE_ROWS = 1_000
"""Rows of a result shown as a table, which must be held to be aligned; the other forms have no limit."""
SQL_CELL_CHARACTERS_MAX = 80
"""Characters of one cell of such a table; longer ones are cut."""
SQL_JSON_SAMPLE_RECORDS = 1_000
"""Records from which the columns of JSON values are learnt."""
SQL_JSON_COLUMNS_MAX = 1_000
"""Fields of JSON values; a topic with more cannot be a table of columns."""
SQL_STOP_TIMEOUT_S = 5
"""How long a query that is interrupted may take to end before it is left behind."""
SQL_TOPICS_MAX = 1_000
"""Topics that SHOW TABLES lists."""
LAKE_SNAPSHOTS_KEPT = 50
"""Snapshots that an Iceberg table keeps when it has twice as many; appends that later ones superseded are dropped."""

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
REGEX_INSTRUCTIONS_PER_STEP = 100_000
"""The same as a sum of the sizes of the expressions, for those that are large and slow."""
REGEX_STEP_DELAY_MS = 1
"""Between two steps other events have their turn."""
REGEX_REFRESH_INTERVAL_MIN_MS = 10_000
"""The regular expressions of a group are not evaluated more often, as in Kafka."""
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
