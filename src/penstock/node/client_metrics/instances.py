"""The clients that this broker has heard of: what they are known by, what they are asked for, and when they came last.

A client gets an id when it asks for the first time and keeps it for its life, whichever broker it asks; so an id that
this broker does not know is a client's that came from elsewhere. Like Kafka's, an instance is forgotten with the
connection that it came by, or when it was not heard of for three push intervals, or when there are too many; and it is
a new one when the subscriptions have changed. Unlike Kafka's, only a few come by one connection, and all of them
go with it, not only the last. Source: ClientMetricsManager and ClientMetricsInstance of Apache Kafka 4.3.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from random import Random
from uuid import UUID

from penstock.config import client_metrics as configs
from penstock.errors import ErrorCode
from penstock.node.client_metrics.subscriptions import Wanted
from penstock.node.connection import Connection
from penstock.node.limits import CLIENT_INSTANCE_EXPIRY_MS, CLIENT_INSTANCES_MAX, CLIENT_INSTANCES_PER_CONNECTION_MAX

NEVER_MS = -(1 << 62)
UNKNOWN = "unknown"
"""The software of a client that has not said what it is, as in Kafka."""


def text_of(uuid: UUID) -> str:
    """An id as Kafka writes it."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def known_by(instance_id: UUID, client_id: str | None, connection: Connection) -> Mapping[str, str | None]:
    """What `match` of a subscription may ask about a client."""
    return {
        configs.CLIENT_INSTANCE_ID: text_of(instance_id),
        configs.CLIENT_ID: client_id,
        configs.CLIENT_SOFTWARE_NAME: connection.software_name or UNKNOWN,
        configs.CLIENT_SOFTWARE_VERSION: connection.software_version or UNKNOWN,
        configs.CLIENT_SOURCE_ADDRESS: connection.address,
        configs.CLIENT_SOURCE_PORT: connection.peer.rpartition(":")[2],
    }


class ClientInstance:
    """One client. `version` is that of the subscriptions when it was decided what it is asked for."""

    __slots__ = (
        "connection",
        "expires_ms",
        "id",
        "known_by",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "subscription_id",
        "terminating",
        "version",
        "wanted",
    )

    def __init__(
        self, instance_id: UUID, known_by: Mapping[str, str | None], wanted: Wanted, version: int, connection: int
    ) -> None:
        self.id = instance_id
        self.known_by = known_by
        self.wanted = wanted
        self.subscription_id = wanted.subscription_id(instance_id)
        self.version = version
        self.connection = connection
        self.terminating = False
        self.last_error = ErrorCode.NONE
        self.last_get_ms = self.last_push_ms = NEVER_MS
        self.expires_ms = NEVER_MS

    @property
    def expiry_ms(self) -> int:
        """How long after its last request it is remembered."""
        return max(CLIENT_INSTANCE_EXPIRY_MS, 3 * self.wanted.push_interval_ms)

    def gets(self, now_ms: int) -> bool:
        """The client asks what to push. Whether it may: not within a push interval of its last request."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.wanted.push_interval_ms:
            return False
        self.last_get_ms = now_ms
        return True

    def pushes(self, now_ms: int) -> bool:
        """The client pushes. Whether it may: at once after it asked, since it waits for a random part of the interval
        then; else after a push interval.
        """
        soon = now_ms - self.last_push_ms < self.wanted.push_interval_ms
        if soon and self.last_get_ms <= self.last_push_ms:
            return False
        self.last_push_ms = now_ms
        return True


class ClientInstances:
    """All of them, those heard of least recently first."""

    def __init__(self) -> None:
        self._by_id: dict[UUID, ClientInstance] = {}
        self._by_connection: dict[int, dict[UUID, None]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def new_id(self, random: Random) -> UUID:
        """An id that no client has."""
        while True:
            found = UUID(int=random.getrandbits(128), version=4)
            if found not in self._by_id and not text_of(found).startswith("-"):
                return found

    def heard(self, instance_id: UUID, now_ms: int) -> ClientInstance | None:
        """The instance, which is heard of now; None if it is not known, or has expired."""
        found = self._by_id.pop(instance_id, None)
        if found is None:
            return None
        if found.expires_ms <= now_ms:
            self._forget_connection(found)
            return None
        found.expires_ms = now_ms + found.expiry_ms
        self._by_id[instance_id] = found
        return found

    def add(self, instance: ClientInstance, now_ms: int) -> None:
        """Adds one that is heard of now, in place of an older one with its id, and of the first of too many that came
        by its connection: nobody may have others forgotten, or much remembered, under ever new ids.
        """
        self.forget(instance.id)
        siblings = self._by_connection.get(instance.connection, {})
        if len(siblings) >= CLIENT_INSTANCES_PER_CONNECTION_MAX:
            self.forget(next(iter(siblings)))
        if len(self._by_id) >= CLIENT_INSTANCES_MAX:
            self.forget(next(iter(self._by_id)))
        instance.expires_ms = now_ms + instance.expiry_ms
        self._by_id[instance.id] = instance
        self._by_connection.setdefault(instance.connection, {})[instance.id] = None

    def forget(self, instance_id: UUID) -> None:
        """Forgets one, if it is known."""
        found = self._by_id.pop(instance_id, None)
        if found is not None:
            self._forget_connection(found)

    def _forget_connection(self, instance: ClientInstance) -> None:
        siblings = self._by_connection[instance.connection]
        del siblings[instance.id]
        if not siblings:
            del self._by_connection[instance.connection]

    def disconnected(self, connection: int) -> None:
        """Forgets the instances that came by this connection first."""
        for instance_id in self._by_connection.pop(connection, {}):
            del self._by_id[instance_id]

    def expire(self, now_ms: int) -> None:
        """Forgets those that were not heard of for too long."""
        for each in [each.id for each in self._by_id.values() if each.expires_ms <= now_ms]:
            self.forget(each)
