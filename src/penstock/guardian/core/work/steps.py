"""What a worker's round needs of the node around it, and what it yields to have something done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from penstock.guardian.core.reach import Ended
from penstock.guardian.core.state import Cluster, GuardianState
from penstock.guardian.core.work.plans import Plan
from penstock.guardian.core.work.replaying import WorkRecord
from penstock.protocol.message import Message


class Host(Protocol):
    """The node around a worker."""

    @property
    def state(self) -> GuardianState:
        """With everything that was appended."""

    def may_act(self, now_ms: int) -> bool: ...

    def wall_ms(self, now_ms: int) -> int: ...

    def write(self, records: Sequence[WorkRecord], ended: Callable[[bool, int], None], now_ms: int) -> None:
        """Appends records; `ended(committed, now_ms)` once, when all that was appended is committed, or lost."""

    def ask(
        self, cluster: Cluster, broker: int, message: Message, ended: Ended, now_ms: int, *, timeout_ms: int
    ) -> None:
        """As `Reach.ask`."""

    def knows(self, cluster: Cluster, broker: int) -> bool:
        """Whether it is known where a broker is."""

    def kafka_id(self, cluster: Cluster) -> str:
        """As `Reach.kafka_id`."""


@dataclass(slots=True)
class Ask:
    """Requests to brokers, all at once; their answers come as a list, None for none. `acts`: they change something, so
    they are not sent without the lease.
    """

    calls: list[tuple[int, Message]]
    acts: bool = False


@dataclass(slots=True)
class Write:
    """Records; the round goes on when they, and all before them, are committed."""

    records: list[WorkRecord]


Round = Generator[Ask | Write, Any, Any]


class Working(Protocol):
    """What a part of a round uses of its worker.

    Attributes: `id`, of the cluster; `now_ms`, of the present step; `changed`, whether the round has changed anything.
    """

    host: Host
    id: UUID
    now_ms: int
    changed: bool

    @property
    def cluster(self) -> Cluster: ...

    @property
    def auto_rate_bytes(self) -> int:
        """Bytes a second of copies whose plan leaves that to Guardian."""

    def plans(self) -> list[Plan]:
        """Plans of the cluster that are worked at."""

    def write(self, records: Iterable[WorkRecord]) -> Round:
        """Writes records, if there are any, and waits until they are committed."""
