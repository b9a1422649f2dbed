"""Blocks of producer ids: a broker takes a thousand at a time and hands them out one by one (KIP-730)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.brokers import checked
from penstock.metadata.result import Result
from penstock.protocol.messages.metadata.producer_ids_record import ProducerIdsRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

BLOCK_IDS = 1000
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The ids [first, first + length)."""

    first: int
    length: int


def allocate_producer_ids(controller: Controller, broker_id: int, broker_epoch: int) -> Result[ProducerIdBlock]:
    """The next block for a broker. Raises RequestError for a broker that is not registered with this epoch."""
    checked(controller, broker_id, broker_epoch)
    first = controller.image.next_producer_id
    if first > LARGEST_ID - BLOCK_IDS:
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been used.")
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_IDS)
    return Result(ProducerIdBlock(first, BLOCK_IDS), [record])
