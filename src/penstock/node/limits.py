"""Limits of a node: bounds of queues, caches, requests and loops that nobody needs to tune.

As in every room, a limit has one name, its unit last, and says what happens to anything that exceeds it. One that a
lower room needs as well is defined there.
"""

from penstock.config.values import KiB, MiB

# Requests and their turns
TURN_WORK_MS = 5
"""How long requests are executed in one turn of the loop, whose callbacks plan to run no longer; what exceeds it is
executed in the next."""
TENANT_SHARE_MS = 5
"""What the requests of one tenant may take before those of all other tenants that wait have had as much."""
CONNECTION_SHARE_MS = 2
"""What the requests of one connection may take before those of all others of its tenant that wait have had as much."""
BYTES_PER_SHARE_MS = 2 * MiB
"""Bytes that a client sends or gets that count as a millisecond of its shares, beside the time for the request."""
CLIENT_IDS_PER_ADDRESS_MAX = 8
"""Client ids of anonymous clients of one address that have turns of their own; further ones share one."""
LONG_REQUESTS_MAX = 8
"""Requests that take more than one step and are under way; further ones wait, each in no more memory than its frame
and one step take. As many again of nodes."""
LONG_REQUESTS_OF_TENANT_MAX = 4
"""Of them, those of one tenant, so that others find a place; further ones wait."""
STEPPED_FRAME_BYTES = 32 * KiB
"""Frames beyond this size are decoded in steps."""
PARTITIONS_PER_STEP = 100
"""Partitions, topics or names of one request that are looked at in one step of it."""
LOGS_OPENED_AT_ONCE = 10
"""Logs that a WriteTxnMarkers request has opened at a time: others who need the disk wait for these only."""
PARKED_REQUESTS_MAX = 100_000
"""Requests that wait for data, replicas or a timeout; the oldest fetch is answered early beyond it."""
LEAVING_CONNECTIONS_MAX = 1_000
"""Connections that the other side has closed, and of which something waits for its turn; the oldest are dropped."""

# What one request may name
TOPICS_PER_REQUEST_MAX = 10_000
"""Topics of one request that creates, deletes or changes them, or elects leaders; more are POLICY_VIOLATION. And topics
that one member of a consumer group names; more are INVALID_REQUEST."""
MEMBERS_PER_REQUEST_MAX = 10_000
"""Members that leave a group with one request; more are INVALID_REQUEST."""
RESOURCES_PER_REQUEST_MAX = 10_000
"""Resources of one request that changes configs; more are POLICY_VIOLATION, as more records are with Kafka."""
LOGIN_AGAIN_PAUSE_MS = 1_000
"""How often a client that is logged in may log in again, as with Kafka; its handshake is ILLEGAL_SASL_STATE before."""
LOGIN_STEPS_MAX = 2_000
"""Steps of clients' logins that run or wait for a thread; the connection of a further one is closed, and may try again.
"""
DERIVED_KEYS_MAX = 16
"""Keys that were derived from this node's own passwords and are kept; beyond it all are derived again."""
LOGIN_FAILURES_LOGGED_PER_S = 10
"""Lines in the log about failed logins in a second; the others are counted in the next line."""
DENIALS_LOGGED_PER_S = 10
"""Lines in the log about denied requests in a second; the others are counted in the next line."""
SCRAM_CHANGES_PER_REQUEST_MAX = 1_000
"""SCRAM credentials of one request that changes them, or users of one that describes them; more are POLICY_VIOLATION.
"""
REGISTERED_PER_NODE_MAX = 1_000
"""Listeners, features or log directories of one node that registers, or features of one update; more are refused."""

# Verified transactions
VERIFICATIONS_PER_REQUEST_MAX = 1_000
"""Transactions that a coordinator is asked about in one request; the others are in the next."""
VERIFICATIONS_WAITING_MAX = 10_000
"""Transactions that wait to be verified by one coordinator; further ones fail, and their clients repeat the
request."""

# Timers and errors
DUTY_PAUSE_MS = 1_000
"""How long a timer or a part of the node rests whose turn ended in a bug; then it is tried again."""
BUG_CAUSES_MAX = 100
"""Lines of code that raised what should never be raised, of which it is remembered when they were logged; while there
are so many, further ones are not logged. As many again of what is damaged on a disk."""
BUG_LOGGED_AGAIN_MS = 60_000
"""An error from the same line, or over the same damage, is logged this often at most."""

# The journal and the metrics
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
METRICS_QUOTA_USAGES_MAX = 1_000
"""Users and client ids whose use of their quotas is in the metrics, for each kind of quota together."""
METRICS_UNCLEANABLE_LOGS_MAX = 100
"""Logs that the cleaner could not clean that are named in the metrics with the reason; all of them are counted."""
METRICS_REASON_CHARACTERS_MAX = 300
"""What is said of the reason there; the log of the broker has all of it."""

# Followers, leaders and log directories
FOLLOWERS_OPENED_PER_STEP = 100
"""Logs of followers that one step of long work has opened."""
FOLLOWER_WRITE_WAIT_MS = 10
"""How long a fetcher waits for the writes of its last answer; a partition that is slower is left out of fetches."""
EXPECTED_FOLLOWER_WAIT_MS = 20
"""How long the fetch of such a follower may wait for data, so that its next one comes soon."""
LAGGING_PER_STEP = 500
"""Led partitions with followers behind that are looked at in one turn."""
ISR_CHANGES_PER_REQUEST_MAX = 500
"""Partitions of one AlterPartition request; further proposals go with the next."""
ALTER_PARTITION_RETRY_MS = 50
"""Between two tries of an AlterPartition request, as Kafka's."""
MOVES_AT_ONCE_MAX = 4
"""Replicas that are copied to other log directories at the same time; further ones wait."""
MOVE_READ_BYTES = 1 * MiB
"""What such a copy reads at once."""
MOVE_FILES_MIN_BYTES = 4 * MiB
"""Closed segments of a log that has fewer bytes of them left are copied batch by batch."""
MOVE_FILE_TRIES_MAX = 3
"""So often a segment is copied anew whose files have changed meanwhile; then the move goes on batch by batch."""
THROTTLED_LOOK_MS = 1_000
"""Longest time before a throttled replica is looked at again: its throttle may have been taken away."""
DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX = 2_250
"""Replicas whose log directories one AssignReplicasToDirs request tells, as Kafka's."""
DIRECTORY_ASSIGNMENTS_PER_STEP = 1_000
"""Replicas whose log directory is compared with the metadata in one step of long work."""
DIRECTORY_ASSIGNMENT_RETRY_MS = 100
"""After an AssignReplicasToDirs request has failed; twice as long after each further time."""
DIRECTORY_ASSIGNMENT_RETRY_MAX_MS = 10_000
"""The longest such pause, as Kafka's."""

# Metadata
METADATA_RECORDS_PER_STEP = 200
"""Committed metadata records that a node replays in one turn of the loop; the rest follow, with other work between."""
METADATA_APPENDS_MAX = 10_000
"""Changes that wait for the metadata log to be flushed; a further one is refused until some are committed."""
CHECKPOINT_RETRY_MS = 60_000
"""After that time a checkpoint of the metadata is tried again for which there was no room."""
CHANGES_PER_STEP = 100
"""Changes of metadata that the controller decides in one step of a request: topics, partitions, configs. What is larger
and cannot be cut, a topic of many partitions, is a step by itself."""
ANSWERS_KEPT_MAX = 64
"""Encoded answers kept of an API (Metadata, ApiVersions) while what they tell of is the same; all are forgotten beyond
it."""
METADATA_PARTITIONS_PER_STEP = 1000
"""Partitions of a listing that are described before others have their turn, give or take a topic."""
ACLS_PER_STEP = 1000
"""ACLs that a filter looks at before others have their turn."""
TOKENS_PER_STEP = 200
"""Delegation tokens that a request looks at, or computes HMACs of, before others have their turn."""
TOKEN_OWNERS_PER_REQUEST_MAX = 1_000
"""Owners whose delegation tokens are to be described; a request with more is POLICY_VIOLATION."""
ACL_FILTERS_PER_REQUEST_MAX = 1_000
"""Filters of one DeleteAcls; a request with more is POLICY_VIOLATION."""
CLIENT_QUOTAS_PER_STEP = 1000
"""Entities with client quotas that a filter looks at before others have their turn."""
QUOTA_USAGES_PER_STEP = 50
"""Measures of what clients use of their quotas that a request looks at before others have their turn."""
QUOTA_USAGES_PER_ANSWER_MAX = 1_000
"""Measures of what clients use of their quotas in one answer: those nearest to their limits."""
QUOTA_CHANGES_PER_REQUEST_MAX = 10_000
"""Entities of one AlterClientQuotas, and changes of all of them together, as Kafka's MAX_RECORDS_PER_USER_OP; more are
POLICY_VIOLATION."""
METADATA_ANSWER_KEPT_TOPICS_MAX = 1000
"""Topics named in a Metadata request whose answer is kept; longer requests are answered anew each time."""

# Calls to other nodes
CONTROLLER_CALLS_MAX = 1_000
"""Calls to the active controller that wait or are under way, forwarded requests included; a further one fails."""
PEER_CALLS_MAX = 1_000
"""Calls to another node over one channel that wait or are under way; a further one fails at once."""
PEER_IN_FLIGHT_MAX = 32
"""Requests of one connection to another node that wait for their answers; further ones wait to be sent."""
PEER_CHANNELS_MAX = 10_000
"""Channels to other nodes kept for reuse; a call over a further one fails at once until idle ones are gone."""

# Coordinators and groups
COORDINATOR_LOAD_BYTES = 1 * MiB
"""What a coordinator reads of its partition at a time, while it loads it."""
GROUPS_PER_STEP = 10
"""Groups of one request that are described, or parts of groups whose offsets are asked for, in one step of it."""
LISTED_GROUPS_PER_STEP = 400
"""Groups that ListGroups looks at in one turn of the loop; about 3 ms. The others follow."""
GROUP_PLACES_MAX = 16_384
"""Group ids of which it is remembered in which partition of the coordinators' topic they belong."""
GROUP_PLACES_ID_MAX = 256
"""Longer ids are not remembered: nobody may have much memory filled with them."""

# Transactions
OPEN_TRANSACTIONS_SEEN_MAX = 10_000
"""Open transactions of which a broker remembers since when it has seen them, to find those that hang; further ones are
looked at when some of these have ended."""
OPEN_TRANSACTIONS_ASKED_MAX = 1_000
"""Of them, those that coordinators are asked about in one look; the others in the next ones, in turn."""
MARKERS_PER_PART_MAX = 500
"""Partitions of one transaction whose markers go together; and partitions whose leaders are looked up in one step."""
MARKERS_PER_REQUEST_MAX = 2_000
"""Markers of one WriteTxnMarkers request; further ones go with the next, since one is under way to each lane."""
MARKERS_SLOWEST_MS = 1_000
"""Once a partition of a WriteTxnMarkers request has its answer, the others have so long; then they are
REQUEST_TIMED_OUT, and come again by themselves."""
MARKERS_ANSWER_MS = 1_000
"""For so long after request.timeout.ms, in which a leader waits for its replicas, its answer to markers may come."""
MARKER_SLOW_LANES = 4
"""Requests with markers for slow partitions that are under way to one broker, beside that for the others. A slow
partition has always the same lane, with a connection of its own, and holds back the slow ones of this lane only."""
MARKER_SLOW_PARTITIONS_MAX = 10_000
"""Partitions known to be slow; of more of them the first is taken for a usual one again."""
MARKER_PASSED_TRIES = 5
"""After so many refusals as its producer is past it (INVALID_PRODUCER_EPOCH), in about 2 s, a partition goes without
the marker."""
MARKERS_RETRY_MS = 100
"""After this long a marker is sent again that a partition's leader has refused; after twice as long the next time, and
so on."""
MARKERS_BACKOFF_MS = 50
"""After twice as long markers go to a broker again that has not answered; twice as long after each further time."""
MARKERS_BACKOFF_MAX_MS = 1_000
"""The longest pause of both kinds."""
MARKERS_UNPLACED_LOOK_MS = 1_000
"""Partitions without a leader are looked at this often, beside each change of theirs."""
MARKER_FAILURES_TOLD = 10
"""After so many refusals of a marker the log says so, once."""
TRANSACTIONS_PER_STEP = 20
"""Transactions of one request that are described, added to or verified in one step of it."""

# Client metrics
CLIENT_METRICS_SUBSCRIPTIONS_MAX = 1_000
"""Subscriptions to client metrics that a broker goes by, in the order of their names; the log says so when there are
more."""
CLIENT_WANTED_REMEMBERED_MAX = 64
"""Sets of subscriptions that a client has matched, whose metrics together are remembered: that takes long to find."""
CLIENT_INSTANCES_MAX = 16_384
"""Client instances that a broker remembers, as Kafka's; the one heard of least recently is forgotten beyond it, and is
a new one when it comes back."""
CLIENT_INSTANCES_PER_CONNECTION_MAX = 8
"""Those of one connection; every client has one, so more are an attempt to have others forgotten."""
CLIENT_INSTANCE_EXPIRY_MS = 60_000
"""A client instance is forgotten when it was not heard of for so long and for three of its push intervals, as Kafka's.
What it has pushed is in the metrics for as long."""
CLIENT_INSTANCES_LOOK_MS = 10_000
"""How often it is looked for instances to forget, while there are any."""
CLIENT_POINTS_PER_PUSH_MAX = 10_000
"""Data points of one push that are kept; the others are counted, and so are those beyond the next limit."""
CLIENT_SERIES_PER_INSTANCE_MAX = 1_000
"""Series in the metrics of one client instance; what comes after is counted only."""
CLIENT_METRIC_NAME_CHARACTERS_MAX = 200
"""Characters of the name of a metric, and of the name or value of an attribute, that a client pushes; a point with a
longer one is counted only."""
CLIENT_POINT_ATTRIBUTES_MAX = 10
"""Attributes of a data point or of a client; further ones are left out."""
CLIENT_LABEL_CHARACTERS_MAX = 256
"""Characters of what a client calls itself, in the labels of its metrics; the rest is left out."""
CLIENT_POINT_BYTES_MAX = 8 * KiB
"""Bytes of one data point, and of one attribute of a client; a push with a larger one is INVALID_RECORD."""
CLIENT_NAMES_REMEMBERED_MAX = 1_024
"""Names of metrics, attributes and sets of them that are remembered as they were read: many series share one."""
CLIENT_ATTRIBUTE_REMEMBERED_BYTES = 256
"""A larger attribute is not remembered: nobody may have much memory filled with them."""
CLIENT_METRICS_BYTES_PER_STEP = 4 * KiB
"""Bytes of a push that are read before others have their turn; about a millisecond."""
CLIENT_POINTS_PER_STEP = 100
"""Data points that are put into the metrics before others have their turn; about a millisecond."""
CROWDED_TOLD_EVERY_MS = 3_600_000
"""How often the log may say that more clients have quotas than are measured apart."""

# Telemetry
TELEMETRY_PARTITIONS_MAX = 100_000
"""Replicas with rows in an answer, which says how many it has left out."""
TELEMETRY_CLIENTS_MAX = 1_000
"""Clients with counters of their own. Of more, those without connections go, and their counts stay in the sum."""
TELEMETRY_GROUPS_MAX = 10_000
"""Groups of this coordinator with rows in an answer; further ones are left out."""
TELEMETRY_DISK_READ_LOGS_MAX = 10_000
"""Logs of which it is counted apart what was read from the disk, between two answers."""
TELEMETRY_NAME_CHARACTERS_MAX = 256
"""Characters of what a client calls itself, and of a group's id; the rest is left out."""
TELEMETRY_ROWS_PER_STEP = 500
"""Rows that are gathered before others have their turn; one or two milliseconds."""
TELEMETRY_ZSTD_LEVEL = 1
"""Of answers: the columns are small numbers already."""
TELEMETRY_REMOVALS_MAX = 10_000
"""Rows that have ended and are remembered for callers who know them; who knows of more gets a whole answer."""
