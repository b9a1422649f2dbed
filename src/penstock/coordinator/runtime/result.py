"""What an operation of a coordinator returns: records to append, and an answer that leaves when they are committed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from penstock.errors import ErrorCode
from penstock.protocol.message import Message

R = TypeVar("R")

KEPT = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
"""Codes of `Result.appended` after which the records are in the state. Those that take too long may still commit."""


Encoded = tuple[bytes, bytes | None]
"""Key and value in their stored form. No value: a tombstone."""


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator's topic. No value: a tombstone. `version` is that of the value."""

    key: Message
    value: Message | None = None
    version: int = 0


class RecordRun(Sequence[CoordinatorRecord]):
    """Records that are encoded and replayed together, for less than one by one, and to the same effect."""

    __slots__ = ()

    @abstractmethod
    def encoded(self) -> list[Encoded]:
        """Keys and values in their stored form, as the codecs give them."""

    @abstractmethod
    def replay(self, offset: int) -> None:
        """Applies the records to the state; the first one has this offset."""


@dataclass(slots=True)
class Result(Generic[R]):
    """See the module's head.

    Attributes:
        response: the answer. None when the operation has arranged for one by itself.
        records: appended in this order.
        appended: called once with NONE when the records are committed, or with the error (see `Shard.write` for the
            codes, and KEPT). For state outside of the timeline that must be corrected then.
        replay: whether the records are replayed now. False if the state contains them already. Or a function that
            changes the replicated state instead, once they have their batch: if that is refused, so is this.
        atomic: whether the records must go into one batch.
        is_step: of a timer: of some long work. Further timers have to wait for the next turn of the loop.
    """

    response: R | None = None
    records: Sequence[CoordinatorRecord] = ()
    appended: Callable[[ErrorCode, int], None] | None = None
    replay: bool | Callable[[], None] = True
    atomic: bool = True
    is_step: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether the result is an answer alone, without records."""
        return not self.records and self.appended is None
