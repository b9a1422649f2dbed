"""Producer ids for idempotent producers: this broker gets blocks of ids from the controller and gives out single ids.

It asks for the next block when a tenth of the present one is left, as Kafka does, so that hardly any producer waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata import producer_ids
from penstock.metadata.producer_ids import ProducerIdBlock
from penstock.node.channel import Channel
from penstock.node.purgatory import Purgatory
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from penstock.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

if TYPE_CHECKING:
    from penstock.protocol.message import Message

PREFETCH_FRACTION = 10
RETRY_MS = 100


class ProducerIds:
    """The block in use and the next one. Requests that find neither park on `KEY`."""

    KEY = "producer ids"

    def __init__(self, state: NodeState, scheduler: Scheduler, channel: Channel, purgatory: Purgatory) -> None:
        self._state = state
        self._scheduler = scheduler
        self._channel = channel
        self._purgatory = purgatory
        self._next_id = 0
        self._end = 0
        self._following: tuple[int, int] | None = None
        self._asking = False

    def take(self, now_ms: int) -> int | None:
        """The next producer id, or None until a block has come; `KEY` is fired then."""
        if self._next_id == self._end and self._following is not None:
            (self._next_id, self._end), self._following = self._following, None
        found = None
        if self._next_id < self._end:
            found = self._next_id
            self._next_id += 1
        left = self._end - self._next_id
        if self._following is None and not self._asking and left <= producer_ids.BLOCK_IDS // PREFETCH_FRACTION:
            self._ask(now_ms)
        return found

    def is_ready(self, now_ms: int) -> bool:
        """Whether `take` has an id; asks for a block if not, and `KEY` is fired when it has come."""
        if self._next_id < self._end or self._following is not None:
            return True
        if not self._asking:
            self._ask(now_ms)
        return False

    def _ask(self, now_ms: int) -> None:
        self._asking = True

        def request() -> AllocateProducerIdsRequest:
            return AllocateProducerIdsRequest(broker_id=self._state.node_id, broker_epoch=self._state.broker_epoch)

        def answered(answer: Message | None, at_ms: int) -> None:
            if isinstance(answer, AllocateProducerIdsResponse) and not answer.error_code:
                self._got(ProducerIdBlock(answer.producer_id_start, answer.producer_id_len), at_ms)
            else:
                self._lost(at_ms)

        self._channel.to_controller(request, answered, now_ms)

    def _got(self, block: ProducerIdBlock, now_ms: int) -> None:
        self._asking = False
        self._following = (block.first, block.first + block.length)
        self._purgatory.fire(self.KEY, now_ms)

    def _lost(self, now_ms: int) -> None:
        """No controller answered, or it refused: asks again soon; waiting requests wait on, until their deadline."""

        def retry(at_ms: int) -> None:
            self._asking = False
            if not self._state.stopping:
                self._ask(at_ms)

        self._scheduler.timers.at(now_ms + RETRY_MS, retry, duty=True)
