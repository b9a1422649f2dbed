"""The active controller: its state machines on top of the metadata quorum, while this node leads it.

Requests read `state` (the metadata with everything appended) and get a `Result`; `append` replays its records at
once, writes them, and answers when they are committed. Brokers' images follow committed records only. When the
leadership is lost, or the log, everything that is not committed is undone and its waiters are told.

The controller becomes active when this node leads the quorum and all that was in the log is committed, loaded and
published; an empty log gets its first records then. Then the node registers its broker (`register_broker`) and, when
the broker has caught up with its own registration, has it unfenced (`unfence_broker`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from penstock.config.limits import CONTROLLER_RECORDS_PER_BATCH_MAX, METADATA_APPENDS_MAX
from penstock.config.server import Settings
from penstock.errors import ErrorCode, RequestError
from penstock.metadata import brokers
from penstock.metadata.activation import activation_records
from penstock.metadata.brokers import Registration
from penstock.metadata.controller import Controller
from penstock.metadata.duties import Duties
from penstock.metadata.features import METADATA_VERSIONS, MetadataVersion
from penstock.metadata.image import Endpoint
from penstock.metadata.loader import MetadataLoader, Publication
from penstock.metadata.records import encode_records
from penstock.metadata.result import MetadataMessage
from penstock.node.quorum import Quorum
from penstock.records.builder import BatchBuilder

__all__ = ["ControllerNode", "ControllerObserver", "Registration"]


class ControllerObserver(Protocol):
    """The node around the controller."""

    def controller_active(self, now_ms: int) -> None:
        """This node is the active controller from now on: its state is complete, and `append` is allowed."""


Done = Callable[[int], None]
Failed = Callable[[ErrorCode, int], None]


@dataclass(slots=True)
class _Waiting:
    """Whom to tell when everything through `last_offset` is committed, or lost."""

    last_offset: int
    committed: Done
    failed: Failed


class ControllerNode:
    """See the module's head.

    Attributes:
        state: the state machines, for handlers; they decide on everything appended so far. None before this node has
            led for the first time.
        duties: what the controller does by itself, and the brokers' sessions; there whenever `state` is.
        active: whether this node is the active controller.
    """

    def __init__(
        self,
        settings: Settings,
        quorum: Quorum,
        observer: ControllerObserver,
        *,
        bootstrap: Sequence[MetadataMessage],
        random: Random,
    ) -> None:
        """`bootstrap` are the records that an empty metadata log starts with."""
        self.settings = settings
        self.active = False
        self.state: Controller
        self.duties: Duties
        self._quorum = quorum
        self._observer = observer
        self._bootstrap = bootstrap
        self._random = random
        self._waiting: deque[_Waiting] = deque()
        quorum.leadership = self

    # What the quorum tells the controller

    def claim(self, loader: MetadataLoader, now_ms: int) -> None:
        """This node leads, and the state begins with what is committed."""
        self.state = Controller(self.settings, self._random, loader)
        self.duties = Duties(self.state, now_ms)
        self.active = True
        records = activation_records(self.state, self._bootstrap).records
        if records:
            self.append(records, self._observer.controller_active, lambda code, at_ms: None, now_ms)
        else:
            self._observer.controller_active(now_ms)

    def advance(self, last_offset: int, epoch: int, now_ms: int) -> None:
        """The quorum has appended a batch of its own."""
        self.state.advance(last_offset, epoch, now_ms)

    def committed(self, high_watermark: int) -> list[Publication]:
        """The images that are committed now."""
        return self.state.committed(high_watermark - 1)

    def published(self, high_watermark: int, now_ms: int) -> None:
        """Readers see everything below the offset: answers leave."""
        while self._waiting and self._waiting[0].last_offset < high_watermark:
            self._waiting.popleft().committed(now_ms)

    def renounce(self, now_ms: int) -> None:
        """The leadership is lost: what is not committed is undone, and this controller is not active any more."""
        self.active = False
        self.state.revert()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.failed(ErrorCode.NOT_CONTROLLER, now_ms)

    # Appending

    @property
    def next_offset(self) -> int:
        """The offset of the record that is appended next."""
        return self._quorum.next_offset

    @property
    def metadata_version(self) -> MetadataVersion:
        """The row of the finalized metadata.version, by which record and request versions are chosen."""
        level = self.state.image.metadata_version
        return METADATA_VERSIONS[level or max(METADATA_VERSIONS)]

    def append(
        self,
        records: Sequence[MetadataMessage],
        committed: Done,
        failed: Failed,
        now_ms: int,
        *,
        atomic: bool = True,
    ) -> None:
        """Replays records now and appends them, as one batch unless `atomic` is false: then as many as they need.

        `committed(now_ms)` is called when they are committed and `image` contains them, `failed(code, now_ms)` when
        they are lost; exactly one of them, never before this method has returned. Raises RequestError NOT_CONTROLLER
        when this node is not active, THROTTLING_QUOTA_EXCEEDED when too many appends wait.
        """
        assert records, "an append has records"
        if not self.active:
            raise RequestError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        if len(self._waiting) >= METADATA_APPENDS_MAX:
            raise RequestError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{METADATA_APPENDS_MAX} changes wait for the metadata log."
            )
        size = len(records) if atomic else CONTROLLER_RECORDS_PER_BATCH_MAX
        pieces = [records[start : start + size] for start in range(0, len(records), size)]
        base_offset = self._quorum.next_offset
        batches = []
        for piece in pieces:
            batches.append(self._batch(piece, base_offset, now_ms))
            base_offset += len(piece)
        for piece, batch in zip(pieces, batches, strict=True):
            last_offset = self._quorum.next_offset + len(piece) - 1
            self.state.replay(piece, last_offset, self._quorum.epoch, now_ms)
            self._quorum.append(batch, now_ms)
        self._waiting.append(_Waiting(base_offset - 1, committed, failed))

    def _batch(self, records: Sequence[MetadataMessage], base_offset: int, now_ms: int) -> BatchBuilder:
        builder = BatchBuilder(base_offset=base_offset, leader_epoch=self._quorum.epoch)
        for value in encode_records(records, self.metadata_version):
            builder.append(now_ms, None, value)
        largest = self.settings.internal_metadata_max_batch_size_in_bytes
        if builder.size_bytes > largest:
            raise RequestError(
                ErrorCode.POLICY_VIOLATION,
                f"The change needs {builder.size_bytes} bytes of records, more than {largest}.",
            )
        return builder

    # This node's broker

    def register_broker(self, registration: Registration, registered: Callable[[int, int], None], now_ms: int) -> None:
        """Registers this node's broker, and this controller. `registered(broker_epoch, now_ms)` when that is committed.

        Raises RequestError when the registration is refused.
        """
        assert registration.broker_id == self.settings.node_id, "a node registers its own broker"
        result = brokers.register_broker(self.state, registration, self.next_offset)
        own = brokers.register_controller(
            self.state, self.settings.node_id, registration.incarnation_id, self._controller_endpoints()
        )
        epoch = result.response
        self.append(
            [*result.records, *own.records],
            lambda at_ms: registered(epoch, at_ms),
            lambda code, at_ms: None,
            now_ms,
            atomic=False,
        )

    def _controller_endpoints(self) -> list[Endpoint]:
        return [Endpoint(each.listener, each.host, each.port) for each in self.settings.controller_endpoints]

    def unfence_broker(self, done: Done, now_ms: int) -> None:
        """The broker has caught up: it may lead, and partitions without a leader get one. `done` when committed."""
        broker = self.state.image.brokers[self.settings.node_id]
        self._append_or_done(brokers.unfence_broker(self.state, broker.id, broker.epoch).records, done, now_ms)

    def controlled_shutdown(self, done: Done, now_ms: int) -> None:
        """Takes this node's broker out of leadership, as Kafka does on a clean stop; `done` when it may stop.

        It is marked as shutting down, its leaderships go, and then it is fenced.
        """
        broker = self.state.image.brokers.get(self.settings.node_id)
        if not self.active or broker is None or broker.fenced:
            done(now_ms)
            return
        leaving = brokers.begin_controlled_shutdown(self.state, broker.id, broker.epoch).records

        def fence(at_ms: int) -> None:
            fenced = brokers.fence_broker(self.state, broker.id, broker.epoch).records
            self._append_or_done(fenced, done, at_ms)

        self._append_or_done(leaving, fence, now_ms)

    def _append_or_done(self, records: Sequence[MetadataMessage], done: Done, now_ms: int) -> None:
        """Who leaves, or who waits for nothing, is not kept by a controller that has just lost its leadership."""
        if records and self.active:
            self.append(records, done, lambda code, at_ms: done(at_ms), now_ms, atomic=False)
        else:
            done(now_ms)
