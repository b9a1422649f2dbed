"""Client metrics as a part of a node: its state, and what events do to it.

As long as nobody asks, there is nothing here and no timer. Every client of today does ask, once in five minutes as long
as there is no subscription, and is remembered for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from penstock.metadata.image import Configs
from penstock.node.client_metrics.instances import ClientInstance, ClientInstances, known_by
from penstock.node.client_metrics.pushed import PushedMetrics
from penstock.node.client_metrics.subscriptions import Subscriptions
from penstock.node.connection import Connection
from penstock.node.limits import CLIENT_INSTANCES_LOOK_MS
from penstock.node.metrics import COUNTER, GAUGE, Sample
from penstock.node.request import Request
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.records.compression import Contexts


class ClientMetrics:
    """See the module's head.

    Attributes: `contexts` of decompression. `too_early`, `unknown_subscriptions`, `accepted`, `unreadable`: how often a
    client came before its interval was over, with the id of another subscription, with metrics, and with what are none.
    """

    def __init__(self, state: NodeState, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.subscriptions = Subscriptions()
        self.instances = ClientInstances()
        self.pushed = PushedMetrics(lambda: state.settings.penstock_client_metrics_series_max)
        self.contexts = Contexts()
        self.too_early = self.unknown_subscriptions = self.accepted = self.unreadable = 0
        self._looks = False

    def configure(self, changed: Mapping[tuple[int, str], Configs]) -> None:
        """Configs of resources have changed."""
        self.subscriptions.configure(changed)

    def new_id(self) -> UUID:
        """An id for a client that has none."""
        return self.instances.new_id(self._scheduler.random)

    def instance(self, instance_id: UUID, request: Request[Any], now_ms: int) -> ClientInstance:
        """The instance that a request is of, by the subscriptions as they are now."""
        found, version = self.instances.heard(instance_id, now_ms), self.subscriptions.version
        if found is not None and found.version == version:
            return found
        connection = request.connection
        known = found.known_by if found is not None else known_by(instance_id, request.client_id, connection)
        found = ClientInstance(instance_id, known, self.subscriptions.of(known), version, connection.id)
        self.instances.add(found, now_ms)
        self.look_later(now_ms)
        return found

    def forget(self, connection: Connection) -> None:
        """The connection is closed."""
        self.instances.disconnected(connection.id)

    def look_later(self, now_ms: int) -> None:
        """Has it looked for what is to be forgotten, as long as there is anything."""
        if not self._looks:
            self._looks = True
            self._scheduler.timers.at(now_ms + CLIENT_INSTANCES_LOOK_MS, self._look, duty=True)

    def _look(self, now_ms: int) -> None:
        self.instances.expire(now_ms)
        self.pushed.expire(now_ms)
        self._looks = False
        if len(self.instances) or not self.pushed.empty:
            self.look_later(now_ms)

    def samples(self) -> Iterator[Sample | None]:
        """What clients have pushed, and how they came; in steps (`penstock.node.samples`)."""
        name = "kafka_server_clientmetrics"
        yield Sample(f"{name}_instance_count", GAUGE, "Client instances that are remembered.", len(self.instances))
        text = "Requests with the id of another subscription than the client has."
        yield Sample(f"{name}_unknown_subscription_request_total", COUNTER, text, self.unknown_subscriptions)
        text = "Requests that came before the push interval was over."
        yield Sample(f"{name}_throttle_total", COUNTER, text, self.too_early)
        yield Sample(f"{name}_plugin_export_total", COUNTER, "Pushes of metrics that were taken.", self.accepted)
        text = "Pushes that were no metrics, or could not be decompressed."
        yield Sample(f"{name}_plugin_error_total", COUNTER, text, self.unreadable)
        text = "Client metrics subscriptions that this broker goes by."
        yield Sample("penstock_client_metrics_subscriptions", GAUGE, text, len(self.subscriptions))
        yield Sample("penstock_client_metrics_series", GAUGE, "Series pushed by clients.", len(self.pushed))
        text = "Data points that clients pushed and that are not shown."
        for reason, count in self.pushed.left_out.items():
            yield Sample("penstock_client_metrics_points_left_out_total", COUNTER, text, count, {"reason": reason})
        yield from self.pushed.samples()
