"""The records of a batch, decompressed, as far as the memory of a pass goes.

A batch is in memory as a whole: as it was read, its records, where each of them begins, and what stays of it, before
and after it is compressed. Somebody who may write can make a batch of a few bytes that takes gigabytes so, by what it
unpacks to or by millions of records of seven bytes. Such a batch is refused before memory is taken for it, and is kept
as one that cannot be read is.
"""

from __future__ import annotations

from penstock.errors import InvalidRecordError
from penstock.log.compaction.scan import COPIES, Found
from penstock.log.limits import CLEANING_RECORD_BYTES
from penstock.records.batch import HEADER_BYTES, BatchHeader, Buffer
from penstock.records.compression import Codec, Contexts, DecompressionLimitError, decompress


class Unpacking:
    """Gives the records of batches; `memory_bytes` is what one batch may take."""

    def __init__(self, contexts: Contexts, memory_bytes: int) -> None:
        self._contexts = contexts
        self._memory_bytes = memory_bytes

    def records(self, found: Found) -> Buffer:
        """The records of a batch, decompressed.

        Raises CorruptRecordError for bytes that the codec cannot read, InvalidRecordError for a compression type that
        does not exist, and for a batch that takes too much memory.
        """
        header = found.header
        payload = found.data[HEADER_BYTES : header.size_bytes]
        codec = header.compression
        taken_bytes = max(header.record_count, 0) * CLEANING_RECORD_BYTES
        if codec is not Codec.NONE:
            taken_bytes += len(payload)
        room_bytes = (self._memory_bytes - taken_bytes) // COPIES
        if room_bytes < 0 or (codec is Codec.NONE and len(payload) > room_bytes):
            raise self._too_large(header)
        try:
            return decompress(codec, payload, room_bytes, self._contexts)
        except DecompressionLimitError:
            raise self._too_large(header) from None

    def _too_large(self, header: BatchHeader) -> InvalidRecordError:
        return InvalidRecordError(
            f"its {header.record_count} records take more than the {self._memory_bytes} bytes of memory that the "
            "cleaner has for a batch"
        )
