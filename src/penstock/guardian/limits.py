"""Limits of Guardian. Nobody needs to tune them."""

MODEL_REPLICAS_MAX = 20_000_000
"""Replicas of one model; a larger one is refused, since its arrays would need over 8 GB."""
MODEL_BROKERS_MAX = 20_000
"""Brokers of one model; a larger one is refused."""
MODEL_PROBLEMS_MAX = 20
"""Problems of a model that are named at once; of the others only the number is said."""
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
PLAN_RESTARTS_MAX = 40
"""Other beginnings from which a small model is planned again."""
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
