"""What the authorizer denied: a line each in the log of `penstock.node.denials`, and counters under Kafka's names.

What a line has is what an operator needs to give the right, or to find who tries: principal, operation, resource, host,
API, and the rule. A list that leaves out what somebody may not see denies nothing (Kafka logs none of that either). At
most DENIALS_LOGGED_PER_S lines a second are written, and the next one says how many were left out: a client without
rights that tries again and again fills no disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.events import LineBudget, events
from penstock.node.limits import DENIALS_LOGGED_PER_S, JOURNAL_TEXT_MAX
from penstock.node.metrics import COUNTER, GAUGE, Sample
from penstock.node.request import Request
from penstock.node.scheduler import Scheduler
from penstock.security.authorizer import Authorizer
from penstock.security.rights import Right

logger = events("node.denials")


class Denials:
    """See the module's head. Attributes: `count`, of all that was denied."""

    def __init__(self, authorizer: Authorizer, scheduler: Scheduler) -> None:
        self.count = 0
        self._authorizer = authorizer
        self._scheduler = scheduler
        self._lines = LineBudget(DENIALS_LOGGED_PER_S)

    def denied(self, request: Request[Any], right: Right, name: str) -> None:
        """Somebody asked for what he may not do."""
        self.count += 1
        left_out = self._lines.left_out(self._scheduler.now_ms)
        if left_out is None:
            return
        connection = request.connection
        host, principal = connection.address, connection.principal
        more = {"more_since_the_last": left_out} if left_out else {}
        logger.warning(
            "denied",
            principal=str(principal)[:JOURNAL_TEXT_MAX],
            operation=right.operation.name,
            resource=f"{right.resource.name}:{name[:JOURNAL_TEXT_MAX]}",
            host=host,
            api=request.api.name,
            rule=self._authorizer.reason(principal, host, right.operation, right.resource, name),
            **more,
        )

    def samples(self) -> Iterator[Sample]:
        """What Kafka's authorizer-metrics tell, with a counter for its rate."""
        name = "kafka_server_authorizer_metrics"
        yield Sample(f"{name}_acls_total_count", GAUGE, "ACLs of the cluster.", self._authorizer.acl_count)
        yield Sample(f"{name}_authorization_denied_total", COUNTER, "Rights asked for and denied.", self.count)
