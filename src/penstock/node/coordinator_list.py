"""The coordinators of a node. A new kind is a line here; the rest of the node treats all alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.node.coordinator import Coordinator, KeyType
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.groups import GroupService
from penstock.node.journal import NO_SHARE_GROUPS
from penstock.node.transactions import TransactionService
from penstock.security.rights import Right

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta


class UnsupportedKeyType(NamedTuple):
    """A key type without a coordinator: the reason, the right that a requester needs, the log's word for a key, and the
    version of FindCoordinator from which clients are told.
    """

    why: str
    right: Right | None = None
    field: str | None = None
    told_from: int = 0


UNSUPPORTED_KEY_TYPES: Mapping[int, UnsupportedKeyType] = {
    KeyType.SHARE: UnsupportedKeyType(NO_SHARE_GROUPS, told_from=6),
}


class Coordinators:
    """See the module's head. Handlers use the coordinator of their APIs by name."""

    def __init__(self, host: CoordinatorHost) -> None:
        self.groups = Coordinator(host, GroupService(host))
        self.transactions = Coordinator(host, TransactionService(host, lambda: self.transactions.runtime))
        self.all: tuple[Coordinator[Any], ...] = (self.groups, self.transactions)
        self._guarded = host.scheduler.guarded

    def of(self, key_type: int) -> Coordinator[Any] | None:
        """The coordinator for keys of this type; None if there is none."""
        return next((each for each in self.all if each.key_type == key_type), None)

    def published(self, delta: MetadataDelta, now_ms: int) -> None:
        """Passes a new image to all coordinators; the replicas have applied it already."""
        for each in self.all:
            self._guarded("metadata", f"the {each.name} coordinator", each.published, delta, now_ms)
