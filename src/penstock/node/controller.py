"""The controller of this node: raft, the metadata log and the controller's state machines, put together.

Requests read `controller` (the state with everything appended) and get a `Result`; `append` replays its records at once,
writes them, and answers when they are committed. Brokers' images follow committed records only: `image` and the
observer's `image_published`. A failed append undoes everything that is not committed.

The order of a start: `start` reads `quorum-state`, the newest checkpoint and the log after it, and publishes what was
known to be committed before; the single voter elects itself (quorum-state is durable before it acts), appends its
LeaderChange, and is active once that is committed. Then the node registers its broker (`register_broker`) and, when the
broker has caught up with its own registration, has it unfenced (`unfence_broker`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol
from uuid import UUID

from penstock.config.server import Settings
from penstock.errors import ErrorCode
from penstock.log.disk import Disk, Operation
from penstock.metadata.controller import Controller
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import Endpoint, MetadataImage
from penstock.metadata.result import MetadataMessage


class ControllerObserver(Protocol):
    """The broker around the controller: carries out its operations and hears what has happened."""

    def emit(self, operation: Operation) -> None:
        """Run this operation; its end goes to `operation.owner`."""
        ...

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """Committed metadata has moved on from `old` to `new`."""
        ...

    def controller_active(self, now_ms: int) -> None:
        """This node is the active controller from now on: its state is complete, and `append` is allowed."""
        ...

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        """The metadata log directory has failed. Without it the node cannot go on."""
        ...


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker registers with: KIP-631, BrokerRegistration. `log_dirs` are the directories' ids."""

    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    log_dirs: Sequence[UUID]
    rack: str | None = None
    previous_broker_epoch: int = -1


Committed = Callable[[int], None]
Failed = Callable[[ErrorCode, int], None]


class ControllerNode:
    """See the module's head.

    Attributes:
        controller: the state machines, for handlers; decides on everything appended so far.
        image: the committed metadata.
        active: whether this node is the active controller.
        epoch: the controller's epoch; 0 before the first election.
        broker_epoch: epoch of this node's registered broker, once committed; -1 before.
    """

    controller: Controller
    image: MetadataImage
    active: bool
    epoch: int
    broker_epoch: int

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        observer: ControllerObserver,
        *,
        cluster_id: str,
        directory_id: UUID,
        random: Random,
    ) -> None:
        """`disk` is the blocking disk of the metadata log directory (`metadata.log.dir`), `directory_id` its id."""
        raise NotImplementedError

    def start(self, now_ms: int) -> None:
        """Reads the directory and begins to become active. Blocks on the disk; called once, before anything is served.

        Raises StorageError or ConfigError, in one line, for a directory that cannot be used: not formatted, damaged before
        its committed end, a feature level above ours, a quorum that is not this node alone.
        """
        raise NotImplementedError

    def append(self, records: Sequence[MetadataMessage], committed: Committed, failed: Failed, now_ms: int) -> None:
        """Replays records now and appends them as one atomic batch.

        `committed(now_ms)` is called when they are committed and `image` contains them, `failed(code, now_ms)` when they
        are lost; exactly one of them, never before this method has returned. Raises RequestError NOT_CONTROLLER when
        this node is not active.
        """
        raise NotImplementedError

    def register_broker(self, registration: Registration, registered: Callable[[int, int], None], now_ms: int) -> None:
        """Registers this node's broker. `registered(broker_epoch, now_ms)` is called when that is committed."""
        raise NotImplementedError

    def unfence_broker(self, now_ms: int) -> None:
        """The broker has caught up: it may lead. The partitions without a leader get one."""
        raise NotImplementedError

    def controlled_shutdown(self, done: Committed, now_ms: int) -> None:
        """Takes this node's broker out of leadership, as Kafka does on a clean stop; `done` when it may stop."""
        raise NotImplementedError

    def describe_quorum(self, now_ms: int) -> Any:
        """The quorum's state for DescribeQuorum (`raft.raft.QuorumDescription`)."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Time has come to `next_deadline_ms`: a checkpoint may be due."""
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        """When `tick` is wanted."""
        raise NotImplementedError

    def shutdown(self, stopped: Committed, now_ms: int) -> None:
        """Flushes and closes the metadata log; `stopped(now_ms)` when that is done."""
        raise NotImplementedError
