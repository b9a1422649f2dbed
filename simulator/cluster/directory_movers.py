"""Admins that have brokers move replicas of the load between their log directories (AlterReplicaLogDirs, KIP-113).

A broker is asked by itself, so the request goes to one that may have no such replica, or be another's by the time it is
answered. Where a replica lies does not matter to anybody: it has to lie in one place, with all that it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from simulator.cluster.load import AGAIN, Load
from simulator.world.checks import check
from simulator.world.machine import Machine

VERSION = 2
PAUSE_MS_MAX = 480
"""Up to this between an answer and the next request, whatever time the clients of the load take."""


class DirectoryMover:
    """One of them.

    Attributes:
        moves: how many moves were begun. busy: it waits for an answer.
    """

    def __init__(self, load: Load, number: int, brokers: Sequence[Machine]) -> None:
        self.load = load
        self.client = load.client(f"directory-mover-{number}")
        self.brokers = brokers
        self.moves = 0
        self.busy = False

    def go_on(self) -> None:
        """Asks a broker for a move, perhaps to where the replica lies already."""
        if not self.load.going_on:
            return
        self.busy = True
        random = self.load.simulation.random
        broker = random.choice(list(self.brokers))
        partition = random.choice(list(self.load.partitions))
        topic = AlterReplicaLogDirTopic(name=partition.topic, partitions=[partition.index])
        path = random.choice(broker.settings.directories)
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
        self.client.ask(broker.address(), request, VERSION, self._answered)

    def _answered(self, response: Any) -> None:
        if response is not None:
            code = ErrorCode(response.results[0].partitions[0].error_code)
            known = code is ErrorCode.NONE or code in AGAIN
            check(known, "an admin is answered", f"{self.client.name}: {code.name}")
            self.moves += code is ErrorCode.NONE
        self.busy = False
        self.load.simulation.after_ms(self.load.simulation.random.randrange(PAUSE_MS_MAX), self.go_on)
