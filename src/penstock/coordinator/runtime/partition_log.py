"""What a shard needs of its partition. The node implements it over its replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.log.producer_state import VerificationGuard


class PartitionLog(Protocol):
    """A partition of the coordinator's topic, led by this node.

    Attributes:
        leader_epoch: of the leadership. max_batch_bytes: the topic's max.message.bytes.
        log_start_offset, high_watermark: as of now.
        end_offset: where the next batch will begin, writes under way included.
    """

    @property
    def leader_epoch(self) -> int: ...

    @property
    def max_batch_bytes(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def append(
        self, batch: bytearray, now_ms: int, *, guard: VerificationGuard | None = None, transaction_version: int = 0
    ) -> int:
        """Appends a batch as with acks=all and returns the offset after it. It is written later.

        `guard`: of a batch that may begin a transaction. `transaction_version`: by whose rules a marker ends one.
        Raises RequestError when the batch is refused; then nothing was appended.
        """
        ...

    def guard(self, producer_id: int, producer_epoch: int, now_ms: int, *, adds: bool) -> VerificationGuard | None:
        """What the first batch of a producer's transaction needs; None if it is open here in this epoch already.

        `adds`: its coordinator is asked to add the partition. Raises RequestError: INVALID_PRODUCER_EPOCH if there is a
        newer epoch, or why the log cannot be asked now.
        """
        ...

    def wait(self, offset: int, committed: Callable[[int], None], now_ms: int) -> None:
        """Calls `committed(now_ms)` when the high watermark reaches `offset`; at once if it has.

        It is not called if the leadership ends first; then the runtime's `resigned` is.
        """
        ...

    def read(self, offset: int, done: Callable[[bytes | None, int], None], now_ms: int) -> None:
        """Reads whole batches from the one with `offset` on, at least one; calls `done(data, now_ms)` later.

        The data is empty at the log's end; None if it cannot be read.
        """
        ...
