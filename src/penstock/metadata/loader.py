"""Records in, images out: what follows a metadata log, batch by batch.

Batches are atomic. A metadata transaction (KIP-868) makes several batches atomic: nothing of it is in an image until
its EndTransactionRecord, and an AbortTransactionRecord throws all of it away.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.metadata.delta import MetadataDelta, MetadataError
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.result import MetadataMessage

TRANSACTION_RECORDS = frozenset({"BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"})
"""Records that are replayed here and change no image by themselves."""

Publication = tuple[MetadataImage, MetadataImage, MetadataDelta]
"""Old image, new image, and what has changed between them."""


class MetadataLoader:
    """Follows one log.

    Attributes:
        image: the newest image; as of before an open transaction.
        transaction_start_offset: of the open transaction's first record; -1 when none is open.
    """

    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image
        self.transaction_start_offset = -1
        self._delta = MetadataDelta(image)
        self._offset = image.offset
        self._epoch = image.epoch
        self._timestamp_ms = image.timestamp_ms
        self._published: list[Publication] = []

    @property
    def last_offset(self) -> int:
        """Offset of the last record that was loaded, also within an open transaction."""
        return self._offset

    def load(self, records: Sequence[MetadataMessage], last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """Replays one batch. Its changes are in `publish`.

        Raises MetadataError for a record that cannot be replayed; the loader cannot be used after that.
        """
        base_offset = last_offset - len(records) + 1
        for number, record in enumerate(records):
            if record.NAME in TRANSACTION_RECORDS:
                self._transaction(record, base_offset + number)
            else:
                self._delta.replay(record)
        self.advance(last_offset, epoch, timestamp_ms)

    def advance(self, last_offset: int, epoch: int, timestamp_ms: int) -> None:
        """The log has gone on without metadata records: a control batch, or the end of a checkpoint."""
        self._offset, self._epoch, self._timestamp_ms = last_offset, epoch, timestamp_ms

    def publish(self) -> list[Publication]:
        """The images made since the last call, oldest first; usually one. Nothing while a transaction is open."""
        if self.transaction_start_offset < 0 and self._offset > self.image.offset:
            self._apply()
        published, self._published = self._published, []
        return published

    def _apply(self) -> None:
        old, delta = self.image, self._delta
        self.image = delta.apply(self._offset, self._epoch, self._timestamp_ms)
        self._published.append((old, self.image, delta))
        self._delta = MetadataDelta(self.image)

    def _transaction(self, record: MetadataMessage, offset: int) -> None:
        begins = record.NAME == "BeginTransactionRecord"
        if begins == (self.transaction_start_offset >= 0):
            state = "one is open already" if begins else "none is open"
            raise MetadataError(f"{record.NAME} at offset {offset}, but {state}")
        if begins:
            self._offset = max(self.image.offset, offset - 1)
            if self._offset > self.image.offset:
                self._apply()
            self.transaction_start_offset = offset
        else:
            self.transaction_start_offset = -1
            if record.NAME == "AbortTransactionRecord":
                self._delta = MetadataDelta(self.image)
