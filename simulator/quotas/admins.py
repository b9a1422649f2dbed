"""The admin of quotas in a simulated cluster: it sets and deletes limits, through any broker.

What it was told holds from then on, through all failovers, and on every broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import ErrorCode
from penstock.metadata.client_quotas import ClientQuotas
from penstock.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from penstock.quota.levels import CLIENT_ID, CLIENT_KEYS, CONNECTION_CREATION_RATE, IP, USER, Entity, levels_of
from simulator.cluster.load import Load
from simulator.quotas.rules import CHANGED
from simulator.world.checks import check

SURVIVES = "quotas survive"
VERSION = 1
VALUE_MAX = 1_000_000
SMALL = (200, 3_000)
"""What the client whose limits are changed while it is slowed down may produce."""
DELETE_PROBABILITY = 0.4
PAUSE_MS = (5, 60)
SMALL_ENTITIES: tuple[Entity, ...] = (
    ((CLIENT_ID, CHANGED), (USER, "ANONYMOUS")),
    ((CLIENT_ID, CHANGED), (USER, None)),
)
ENTITIES: tuple[Entity, ...] = (
    *dict.fromkeys([*levels_of("a", "c"), *levels_of("b", "d")]),
    *(2 * SMALL_ENTITIES),
    ((IP, None),),
    ((IP, "10.0.0.7"),),
)

Limit = tuple[Entity, str]


class QuotaAdmin:
    """See the module's head.

    Attributes:
        known: what it was told last of each limit; None: it is deleted. A limit of a request without an answer is not
            among them from then on: the request may be carried out at any time.
        changes: how many of its requests were answered well.
        busy: it waits for an answer.
    """

    def __init__(self, load: Load) -> None:
        self.load = load
        self.random = load.simulation.random
        self.client = load.client("quotas")
        self.known: dict[Limit, float | None] = {}
        self.changes = 0
        self.busy = False
        self._unsure: set[Limit] = set()

    def go_on(self) -> None:
        """Changes one or two limits of one entity."""
        if not self.load.going_on:
            return
        self.busy = True
        entity = self.random.choice(ENTITIES)
        keys = (CONNECTION_CREATION_RATE,) if entity[0][0] == IP else CLIENT_KEYS
        chosen = self.random.sample(keys, min(len(keys), self.random.randrange(1, 3)))
        between = SMALL if entity in SMALL_ENTITIES else (1, VALUE_MAX)
        self._alter(entity, {key: self._value(*between) for key in chosen})

    def set_limits(self, limits: Mapping[Limit, float], done: Callable[[], None]) -> None:
        """Sets what nobody changes, before everything else."""
        entries = [
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[OpData(key=key, value=limit, remove=False)],
            )
            for (entity, key), limit in limits.items()
        ]

        def answered(response: Any) -> None:
            if response is None or any(entry.error_code for entry in response.entries):
                self.load.simulation.after_ms(PAUSE_MS[0], lambda: self.set_limits(limits, done))
            else:
                self.known.update(limits)
                done()

        self.client.ask_any(AlterClientQuotasRequest(entries=entries), VERSION, answered)

    def _value(self, least: int, most: int) -> float | None:
        deletes = self.random.random() < DELETE_PROBABILITY
        return None if deletes else float(self.random.randrange(least, most))

    def _alter(self, entity: Entity, limits: dict[str, float | None]) -> None:
        entry = EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
        )

        def answered(response: Any) -> None:
            code = None if response is None else response.entries[0].error_code
            for key, value in limits.items():
                limit = entity, key
                if code != ErrorCode.NONE:
                    self._unsure.add(limit)
                    self.known.pop(limit, None)
                elif limit not in self._unsure:
                    self.known[limit] = value
            self.changes += code == ErrorCode.NONE
            self.busy = False
            self.load.simulation.after_ms(self.random.randrange(*PAUSE_MS), self.go_on)

        self.client.ask_any(AlterClientQuotasRequest(entries=[entry]), VERSION, answered)

    def check_quotas(self, found: ClientQuotas) -> None:
        """What is there in the end is what the admin was told."""
        for (entity, key), value in self.known.items():
            there = (found.get(entity) or {}).get(key)
            check(there == value, SURVIVES, f"{key} of {entity} is {there}, and was answered to be {value}")
