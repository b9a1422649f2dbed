"""Limits of record batches: what one may unpack to, and what is said of one that is refused."""

from penstock.config.values import GiB, MiB

DECOMPRESSED_BATCH_MAX_BYTES = 1 * GiB
"""Output of one compressed batch; a batch that unpacks to more is corrupt."""
RECORD_ERRORS_MAX = 1_000
"""Records at fault that the answer to a produce names, the first ones; the batch is refused as a whole anyway."""
LEGACY_WINDOW_BYTES = 4 * MiB
"""What is read at a time from a file of an old format; a message that does not fit gets a read of its own."""
LEGACY_MESSAGE_MAX_BYTES = 128 * MiB
"""One message of an old format; a length beyond it is a lie, and what claims it is damaged."""
LEGACY_WRAPPER_MAX_BYTES = 256 * MiB
"""What one compressed message of an old format may unpack to, with those inside it; beyond it, it is passed over."""
LEGACY_INNER_MESSAGES_MAX = 1_000_000
"""Messages inside a compressed one of an old format that a broker reads, to find a time or to clean a log."""
LEGACY_WRAPPER_DEPTH_MAX = 3
"""Compressed messages inside each other; one that lies deeper is passed over."""
LEGACY_SEARCHED_BYTES_MAX = 4 * GiB
"""Bytes of one file under checksums that turn out wrong; beyond it, the rest of the file is passed over."""
