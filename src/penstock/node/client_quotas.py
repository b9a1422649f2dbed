"""Client quotas on this broker: what the requests of clients cost, and how long their connections are muted for it.

Bytes and time beyond a quota are never an error. Who is over one is answered at once, with the time for which its
connection is muted from then on (KIP-219); `penstock.node.exit` does both. Bytes of a Produce count when it executes,
before the next one can. A Fetch gets at most what its quota allows in all windows; if it is over the quota all the
same, its answer is empty, costs nothing and leaves the session as it was. But what alone is more than a quota allows
passes if the client is not over the quota without it, and the client waits all the longer: else it could never get a
large batch.

`request_percentage` is of the time in which the loop executes requests: 100 is all of it, by one client
(docs/adr/0048). Requests of nodes, and acks=0, are exempt, as in Kafka, and so is what a login takes: who it is for is
not known yet, and logins have bounds of their own. Who asks as a node and may not is counted like anybody. Partition
mutations are counted on the active controller, whom the broker tells for whom it asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.config.addresses import canonical_address
from penstock.config.values import LONG_MAX
from penstock.errors import ErrorCode, RequestError
from penstock.events import events
from penstock.log.names import COORDINATOR_TOPICS
from penstock.metadata.client_quotas import ClientQuotas as QuotasByEntity
from penstock.metadata.client_quotas import Entity, QuotaValues, connection_rates
from penstock.node.fetch_answers import replica_id
from penstock.node.limits import CROWDED_TOLD_EVERY_MS
from penstock.node.login import LoginState
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_topics_request import CreateTopicsRequest
from penstock.quota.connections import ConnectionRates
from penstock.quota.levels import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from penstock.quota.usages import ClientUsages, Usage, Usages, Windows
from penstock.security.authorizer import OwnPrincipal
from penstock.security.rights import ACT_IN_CLUSTER, END_TRANSACTIONS

if TYPE_CHECKING:
    from penstock.config.broker.settings import BrokerSettings
    from penstock.node.connection import Connection
    from penstock.node.gate import Gate
    from penstock.node.request import Request
    from penstock.node.scheduler import Scheduler
    from penstock.node.state import NodeState

logger = events("node.client_quotas")

NODES_ONLY = (ACT_IN_CLUSTER, END_TRANSACTIONS)
"""What only the nodes of the cluster may do."""
VERIFIES_FROM = 4
"""AddPartitionsToTxn is between brokers from this version on."""
NO_LIMIT_BYTES = 1 << 62


class ClientQuotas:
    """See the module's head. Attributes: `active`, whether a user or client id has a quota; `usages`, of all that
    have one; `connections`, of addresses.
    """

    def __init__(self, state: NodeState, scheduler: Scheduler, gate: Gate) -> None:
        settings = state.settings
        self._scheduler = scheduler
        self._gate = gate
        self._controller_listeners = settings.controller_listener_names
        self._windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1_000)
        mutation_windows = Windows(
            settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1_000
        )
        self.usages = Usages(
            self._windows, mutation_windows, settings.penstock_quota_entities_max, defaults_of(settings)
        )
        self.connections = ConnectionRates(self._windows, settings.penstock_quota_entities_max)
        self._forgets = False
        self._crowded_told = self._crowded_quiet_until_ms = 0
        self.active = self.usages.active

    def configure(self, quotas: QuotasByEntity) -> None:
        """Puts quotas into force, from the next request of each client on."""
        self.usages.configure(quotas)
        self.active = self.usages.active

    def addresses_changed(self, changes: Mapping[Entity, QuotaValues]) -> None:
        """Puts the changed quotas of addresses into force, from the next connection of each on."""
        for address, name, limit in connection_rates(changes):
            self.connections.change(address, name, limit)

    def connection_delay_ms(self, address: str, now_ms: int) -> int:
        """Counts a new connection of an address, which may be written in any way. After how many ms it is to be closed
        because there are too many; else 0.
        """
        return self.connections.delay_ms(canonical_address(address) or address, now_ms)

    def begins(self, request: Request[Any], now_ms: int) -> int:
        """Finds what holds for a request, and counts what it costs before it executes. For how many ms nothing more of
        its connection may.
        """
        connection, body = request.connection, request.body
        connection.time_usage = None
        if body is None or logs_in(connection) or self._is_of_node(request):
            return 0
        usages = request.usages = self.of(request, now_ms)
        if request.handler.key is not ApiKey.PRODUCE:
            connection.time_usage = usages.request
            return 0
        if body.acks == 0:
            request.usages = usages._replace(request=None)
        else:
            connection.time_usage = usages.request
        return 0 if usages.produce is None else usages.produce.count(request.frame_bytes, now_ms)

    def throttle_time_ms(self, request: Request[Any], answer_bytes: int, now_ms: int) -> int:
        """Counts an answer that is about to leave, of a Fetch with its bytes. For how many ms its connection is to be
        muted.
        """
        usages = request.usages
        if usages is None:
            return 0
        delay_ms = 0
        if usages.fetch is not None and request.handler.key is ApiKey.FETCH:
            delay_ms = usages.fetch.count(answer_bytes, now_ms)
        if usages.request is not None:
            delay_ms = max(delay_ms, self._time_delay_ms(usages.request, now_ms))
        return delay_ms

    def fetch_max_bytes(self, request: Request[Any]) -> int:
        """What a fetch may get at once: more would be over its quota whatever has passed before (KAFKA-9677). It is a
        byte at least: who may have nothing would not have to wait for more.
        """
        usage = None if request.usages is None else request.usages.fetch
        if usage is None:
            return NO_LIMIT_BYTES
        windows_s = (self._windows.number - 1) * self._windows.width_ms / 1_000
        return int(min(max(1.0, usage.limit * windows_s), NO_LIMIT_BYTES))

    def fetch_delay_ms(self, request: Request[Any], size_bytes: int, now_ms: int) -> int:
        """How long a fetch that found so much is to be held back, and answered with nothing; 0 if it is not."""
        if request.usages is None:
            return 0
        # It may have waited for so long that what it began with is forgotten, or a quota has changed.
        usages = request.usages = self.of(request, now_ms)
        if usages.fetch is None:
            return 0
        usage = usages.fetch
        delay_ms = usage.rate.delay_ms(usage.limit, now_ms, size_bytes)
        alone_over = size_bytes > self.fetch_max_bytes(request)
        if not delay_ms or (alone_over and not usage.rate.delay_ms(usage.limit, now_ms)):
            return 0
        request.usages = usages._replace(fetch=None)
        return usage.delayed(delay_ms, now_ms)

    def mutations(self, request: Request[Any], *, strict: bool, now_ms: int) -> MutationQuota:
        """The quota for the partitions that a request creates or deletes here, on the active controller."""
        counts = self.active and not self._is_of_node(request)
        return MutationQuota(self.of(request, now_ms).mutations if counts else None, strict=strict, now_ms=now_ms)

    def of(self, request: Request[Any], now_ms: int) -> ClientUsages:
        """What holds for the client of a request."""
        if not self._forgets:
            self._forgets = True
            self._scheduler.timers.at(now_ms + self._kept_ms, self._forget)
        return self.usages.of(request.principal.name, request.client_id or "", now_ms)

    @property
    def _kept_ms(self) -> int:
        return self._windows.number * self._windows.width_ms

    def _forget(self, now_ms: int) -> None:
        self._scheduler.do(self._forgetting(now_ms))

    def _forgetting(self, now_ms: int) -> Iterator[None]:
        self._tell_crowded(now_ms)
        yield from self.usages.look_through(now_ms, tell)
        self._forgets = bool(self.usages.kept)
        if self._forgets:
            self._scheduler.timers.at(self._scheduler.now_ms + self._kept_ms, self._forget)

    def _tell_crowded(self, now_ms: int) -> None:
        """Says in the log that clients share a measure, which none of them can know."""
        crowded = self.usages.crowded
        if crowded == self._crowded_told or now_ms < self._crowded_quiet_until_ms:
            return
        self._crowded_told, self._crowded_quiet_until_ms = crowded, now_ms + CROWDED_TOLD_EVERY_MS
        logger.warning(
            "more clients have quotas than are measured apart, or longer names: the rest share one measure a limit",
            measured=len(self.usages.kept),
            times=crowded,
            setting="penstock.quota.entities.max",
        )

    def _is_of_node(self, request: Request[Any]) -> bool:
        """Whether a node sends it, as one, and may do that."""
        if isinstance(request.principal, OwnPrincipal):
            return True
        needs = request.handler.needs
        if needs is not None and needs in NODES_ONLY:
            return self._gate.would_allow(request, needs)
        return self._asks_as_node(request) and self._gate.would_allow(request, ACT_IN_CLUSTER)

    def _asks_as_node(self, request: Request[Any]) -> bool:
        """Whether only nodes ask so: followers, leaders that verify a transaction, and what a broker sends to the
        controller for itself. On one connection with that goes its heartbeat, which must not wait. Who fetches as
        replica -2, to debug, is a consumer.
        """
        key, body = request.handler.key, request.body
        if key is ApiKey.FETCH:
            return replica_id(body) >= 0
        if key is ApiKey.LIST_OFFSETS:
            return bool(body.replica_id >= 0)
        if key is ApiKey.ADD_PARTITIONS_TO_TXN:
            return request.version >= VERIFIES_FROM
        if request.connection.id <= 0 or request.listener not in self._controller_listeners:
            return False
        return key is ApiKey.API_VERSIONS or (key is ApiKey.CREATE_TOPICS and makes_coordinator_topics(body))

    def _time_delay_ms(self, usage: Usage, now_ms: int) -> int:
        """At most a window, as in Kafka: the work of a request may be long, and its client shall not wait for hours."""
        usage.count_time(now_ms)
        return usage.delayed(min(usage.rate.delay_ms(usage.limit, now_ms), self._windows.width_ms), now_ms)


def defaults_of(settings: BrokerSettings) -> dict[str, float]:
    """What the settings give each client id, by key; what is the setting's default is no limit."""
    given = {
        PRODUCER_BYTE_RATE: settings.quota_producer_default,
        CONSUMER_BYTE_RATE: settings.quota_consumer_default,
    }
    return {key: float(limit) for key, limit in given.items() if limit < LONG_MAX}


def tell(usage: Usage) -> None:
    """Says in the log who has been slowed down for minutes: somebody may have to have more, or to ask for less."""
    seconds = (usage.delayed_until_ms - usage.delayed_since_ms) // 1_000
    logger.warning(
        "clients are held back by their quota all the time",
        quota=usage.key,
        limit=usage.limit,
        level=usage.level,
        user=usage.user or "any",
        client=usage.client_id or "any",
        seconds=seconds,
    )


class MutationQuota:
    """What one request may change of partitions (KIP-599).

    `strict`: once tokens are short, the rest of the request is refused; else it is done, and its client waits.
    """

    __slots__ = ("_now_ms", "_strict", "_usage", "delay_ms")

    def __init__(self, usage: Usage | None, *, strict: bool, now_ms: int) -> None:
        self._usage = usage
        self._strict = strict
        self._now_ms = now_ms
        self.delay_ms = 0

    def take(self, partitions: int) -> None:
        """Counts partitions that are created or deleted. Raises RequestError if that must wait."""
        usage = self._usage
        if usage is None or usage.tokens is None:
            return
        if self._strict and self._wait(usage, usage.tokens.delay_ms(self._now_ms)):
            raise RequestError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        usage.tokens.take(partitions, self._now_ms)
        usage.rate.record(partitions, self._now_ms)
        if not self._strict:
            self._wait(usage, usage.tokens.delay_ms(self._now_ms))

    def _wait(self, usage: Usage, delay_ms: int) -> bool:
        """Whether the client must wait; it is told so once, of all topics of the request together."""
        usage.delayed(delay_ms, self._now_ms, told_ms=self.delay_ms)
        self.delay_ms = delay_ms
        return delay_ms > 0


def makes_coordinator_topics(body: CreateTopicsRequest) -> bool:
    """Whether it creates nothing but topics that coordinators keep their state in, as a broker does when a client first
    asks for one.
    """
    return all(topic.name in COORDINATOR_TOPICS for topic in body.topics)


def logs_in(connection: Connection) -> bool:
    """Whether nobody has logged in yet on a connection that asks for it."""
    return connection.login is not None and connection.login.state is not LoginState.DONE
