"""Limits of record batches: what one may unpack to, and what is said of one that is refused."""

from penstock.config.values import GiB

DECOMPRESSED_BATCH_MAX_BYTES = 1 * GiB
"""Output of one compressed batch; a batch that unpacks to more is corrupt."""
RECORD_ERRORS_MAX = 1_000
"""Records at fault that the answer to a produce names, the first ones; the batch is refused as a whole anyway."""
