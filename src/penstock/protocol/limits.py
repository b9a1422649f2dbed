"""Limits of the protocol: what a hostile frame may make us allocate, and how much of a message is one step."""

TAGGED_FIELDS_MAX = 1024
"""Unknown tagged fields of one structure; a frame with more is a protocol error."""
STRING_MAX_BYTES = 32767
"""Kafka's limit of a string with a 16-bit length, kept for compact strings as well."""
ARRAY_ELEMENTS_MAX = 1_000_000
"""Elements of the arrays of one message, nested ones included; one with more is a protocol error."""
ELEMENTS_PER_STEP = 512
"""Elements of arrays that are read or written in one step of a large message; about half a millisecond."""
UUID_CACHE_MAX = 4096
"""Decoded ids kept so that equal ids are one object; when full, the cache starts anew."""
