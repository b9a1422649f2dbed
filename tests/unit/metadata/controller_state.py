"""A controller's state without a log: brokers registered, records replayed as if they were appended."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from penstock.config.server import Settings
from penstock.metadata import brokers
from penstock.metadata.brokers import Registration
from penstock.metadata.controller import Controller
from penstock.metadata.image import Endpoint
from penstock.metadata.loader import MetadataLoader
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord

NOW_MS = 1_800_000_000_000


def directory_of(broker_id: int) -> UUID:
    return UUID(int=0xD000 + broker_id)


class State:
    """A controller and the offset of its last record."""

    def __init__(self, *, broker_ids: Sequence[int] = (1,), level: int = 30, **settings: Any) -> None:
        self.controller = Controller(Settings.for_node(1, **settings), Random(3), MetadataLoader())
        self.replay([FeatureLevelRecord(name="metadata.version", feature_level=level)])
        for broker_id in broker_ids:
            self.register(broker_id)
            self.unfence(broker_id)

    @property
    def last_offset(self) -> int:
        return self.controller.last_offset

    def replay(self, records: Sequence[Any]) -> None:
        """Appends records."""
        if records:
            self.controller.replay(records, self.last_offset + len(records), 1, NOW_MS)

    def commit(self) -> list[Any]:
        """Commits everything."""
        return self.controller.committed(self.last_offset)

    def register(self, broker_id: int, *, incarnation: int = 1, rack: str | None = None) -> int:
        registration = Registration(
            broker_id,
            UUID(int=broker_id << 32 | incarnation),
            [Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id)],
            [directory_of(broker_id)],
            rack,
        )
        result = brokers.register_broker(self.controller, registration, self.last_offset + 1)
        self.replay(result.records)
        return result.response

    def epoch_of(self, broker_id: int) -> int:
        return self.controller.image.brokers[broker_id].epoch

    def unfence(self, broker_id: int) -> None:
        self.replay(brokers.unfence_broker(self.controller, broker_id, self.epoch_of(broker_id)).records)

    def fence(self, broker_id: int) -> None:
        self.replay(brokers.fence_broker(self.controller, broker_id, self.epoch_of(broker_id)).records)
