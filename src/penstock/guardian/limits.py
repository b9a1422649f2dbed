"""Limits of Guardian. Nobody needs to tune them."""

from penstock.config.values import KiB, MiB

MODEL_REPLICAS_MAX = 20_000_000
"""Replicas of one model; a larger one is refused, since its arrays would need over 8 GB."""
MODEL_BROKERS_MAX = 20_000
"""Brokers of one model; a larger one is refused."""
MODEL_PROBLEMS_MAX = 20
"""Problems of a model that are named at once; of the others only the number is said."""
MODEL_NUMBER_MAX = 1e18
"""Cores, bytes or bytes a second of one broker, disk or replica; more is refused, so that no sum becomes infinite."""
MODEL_CAPACITY_MIN = 1e-6
"""Cores, bytes or bytes a second below which a capacity is refused: what is used of it would become infinite."""
PLAN_FILE_BYTES_MAX = 1 << 30
"""Bytes of a file with a plan; a larger one is refused. A plan of a million moves has some 400 MB."""
PLAN_FAULTS_SHOWN = 20
"""Faults of a plan that are named at once; of the others only the number is said."""
POLICY_SECONDS_MAX = 10.0
"""Seconds that a policy may take for the moves of one plan; one that takes longer is ended, and nothing is planned."""
POLICY_BYTES_MAX = 1 << 20
"""Bytes of a policy's file; a larger one is refused."""
POLICY_MEMORY_BYTES_MAX = 4 << 30
"""Address space of the process in which a policy runs; what needs more fails with MemoryError."""
POLICY_OUTPUT_BYTES_MAX = 64 * MiB
"""Bytes of a policy's answer, and of what it prints; what writes more fails. That of a million moves has 20 MB."""
POLICY_ROUNDS_MAX = 10
"""Plans that are made anew without what a policy does not allow; if that is not enough, nothing moves."""
TWIN_MOVES_MAX = 20_000
"""Moves of a plan that the twin carries out; a larger one is refused, it would take many minutes."""
TWIN_LOOKED_AT_MAX = 2_000
"""Waiting moves that are looked at when a copy has ended and another may begin; those behind wait for the next end."""
TWIN_OVER_SHOWN = 20
"""Links and disks beyond their capacity that are named; of others only the number is said."""
TWIN_BROKERS_MAX = 1_000
"""Brokers that come at once in the twin; more are refused."""
PLACED_REPLICAS_MAX = 200_000
"""Replicas of one topic that are placed at once; more are refused. A hundred brokers take some 10 s for so many."""
PLAN_ROUNDS_MAX = 12
"""Rounds over all brokers; a plan usually ends after three, when a round has found nothing more that is worth it."""
PLAN_TARGETS_MAX = 24
"""Brokers that are looked at as the target of a replica, drawn anew for each; all of them where there are no more."""
PLAN_SOURCES_MAX = 48
"""Replicas of others that are looked at to fill a broker, drawn anew for each step."""
PLAN_SWAPS_MAX = 100
"""Pairs of replicas that are looked at for one swap."""
PLAN_SMALL_WORK = 1_000
"""Replicas times disks up to which all moves and swaps are looked at, again and again from other beginnings."""
PLAN_RESTARTS_MAX = 400
"""Other beginnings from which a small model is planned again, at most; a quarter without success are enough."""
PLAN_RESTARTS_WORK = 40_000
"""Replicas times disks times other beginnings, at most half a second of work; so larger models have fewer of them."""
PLAN_CONFLICTS_MAX = 10
"""Conflicts between rules that are worked out; of further unmet rules only the violation is said."""
PLAN_CONFLICT_REPLICAS_MAX = 200
"""Replicas of a broker over its capacity that are looked at for what forbids them to leave."""
TELEMETRY_FRAME_MAX_BYTES = 16 * 1024 * 1024
"""Bytes of a broker's telemetry as it comes; a larger frame is refused."""
TELEMETRY_UNPACKED_MAX_BYTES = 64 * 1024 * 1024
"""The same decompressed: 100,000 replicas with numbers of eight bytes take 15 MiB."""
TELEMETRY_SECTIONS_MAX = 2_000
"""Sections of a frame; a broker has one or two for each five hundred rows."""
TELEMETRY_COLUMNS_MAX = 256
"""Columns, or fields of names, of a section, those of newer brokers included."""
TELEMETRY_VALUES_MAX = 8 * 1024 * 1024
"""Values of a frame, each of which takes 8 bytes here; 100,000 replicas have 1.8 million."""
REST_CONNECTIONS_MAX = 256
"""Connections of the REST API; for a further one the one goes that is idle longest. If none is, it is told so."""
REST_BACKLOG = 128
"""Connections that the system keeps until the REST API takes them."""
REST_ACCEPT_PAUSE_S = 0.1
"""How long no connection is taken after one could not be: descriptors may have run out."""
REST_HEAD_MAX_BYTES = 16 * KiB
"""Request line and headers of a request over HTTP; more is refused."""
REST_REQUEST_TIMEOUT_S = 30.0
"""How long a request over HTTP may take, from the end of the one before it on its connection (or from connecting) until
its answer is read.
"""
REST_ANSWER_TIMEOUT_S = 15.0
"""How long whoever asks over HTTP waits for the answer of Guardian."""
REST_LARGE_BODIES_MAX = 16
"""Bodies over 256 KiB, as plans have, that are here at once, arriving or asked about; who brings more comes again."""
REST_DISCARD_MAX_BYTES = 16 * MiB
"""Of a body that is too large, so much is read and dropped before the refusal: who still sends does not read."""
REST_LINGER_S = 1.0
"""How long a connection that is closed may take to read what was sent to it."""
REST_STOP_S = 2.0
"""How long requests that are being answered may take when the node stops."""
REST_LOGINS_LOGGED_EVERY_MS = 10_000
"""Failed logins over HTTP from one address are in the log once in so long, with their number."""
REST_LOGIN_ADDRESSES_MAX = 1_000
"""Addresses that are remembered for that; while there are so many, failures of others are only counted."""
