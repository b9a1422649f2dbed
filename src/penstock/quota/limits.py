"""Limits of quotas: how much of what is measured is looked at at once. Nobody needs to tune them."""

USAGES_PER_STEP = 500
"""Usages that are looked at, whether they can be forgotten, before others have their turn."""
NAMES_MAX = 255
"""Characters in the names of a user and a client id together that are measured apart under a default quota; those with
longer ones share one measure, or a client could fill the memory with names that it makes up."""
ADDRESSES_LOOKED_AT_MAX = 2
"""Addresses that a new one has looked at, whether they can be forgotten: more than one, so that they become fewer."""
TOLD_AFTER_MS = 120_000
"""How long clients are held back without a pause before the log says so."""
EXPIRES_AFTER_MS = 3_600_000
"""After an hour in which nothing has passed, a measure is forgotten whatever its client still owes, and its metrics
with it; as Kafka's INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS."""
SLOWED_PAUSE_MS = 1_000
"""A shorter pause between two times of being held back is none: a client needs a moment to ask again."""
