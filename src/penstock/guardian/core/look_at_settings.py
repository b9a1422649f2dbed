"""A look at the settings of topics that Guardian goes by: `min.insync.replicas`.

A topic that is new is asked for at the next look, and again every SETTINGS_EVERY_MS; not all at once, so many a call.
"""

from __future__ import annotations

from penstock.errors import ErrorCode
from penstock.guardian.core.believing import Doubts, error_name
from penstock.guardian.core.limits import GUARDIAN_SETTINGS_PER_CALL
from penstock.guardian.core.looks import Look, Watched
from penstock.guardian.core.reach import ANY
from penstock.guardian.core.sight import SETTINGS, SeenTopic
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult

SETTINGS_EVERY_MS = 60_000
MIN_INSYNC = "min.insync.replicas"
TOPIC = 2
"""The type of a resource that has settings, as in DescribeConfigs."""
REPLICAS_MAX = 32_767


class LookAtSettings(Look):
    """See the module's head."""

    def __init__(self, watched: Watched, every_ms: int) -> None:
        super().__init__(watched, SETTINGS, every_ms)
        self._answered_ms: dict[str, int] = {}
        self._left: list[str] = []
        self._doubts = Doubts()

    def saw_topics(self, now_ms: int) -> None:
        """Topics have come and gone: new ones are asked for at once."""
        topics = self.watched.seen.topics
        for name in [each for each in self._answered_ms if each not in topics]:
            del self._answered_ms[name]
        new = any(topic.min_insync_replicas is None and name not in self._answered_ms for name, topic in topics.items())
        if new and not self.under_way:
            self.under_way = True
            self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        self._doubts = Doubts()
        self._left = [name for name, topic in self.watched.seen.topics.items() if self._is_due(name, topic, now_ms)]
        self._go_on(now_ms)

    def _is_due(self, name: str, topic: SeenTopic, now_ms: int) -> bool:
        answered_ms = self._answered_ms.get(name)
        unknown = answered_ms is None or topic.min_insync_replicas is None
        return unknown or now_ms - (answered_ms or 0) >= SETTINGS_EVERY_MS

    def _go_on(self, now_ms: int) -> None:
        """Asks for the next topics; when none are left, all have been seen."""
        names, self._left = self._left[:GUARDIAN_SETTINGS_PER_CALL], self._left[GUARDIAN_SETTINGS_PER_CALL:]
        if not names:
            self.under_way = False
            oldest_ms = min(self._answered_ms.values(), default=now_ms)
            self.watched.saw(SETTINGS, oldest_ms, self._doubts.text)
            return
        resources = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=[MIN_INSYNC])
            for name in names
        ]
        self.watched.ask(ANY, DescribeConfigsRequest(resources=resources), self._came, now_ms)

    def _came(self, answer: Message | None, reason: str | None, now_ms: int) -> None:
        if self.gone or not isinstance(answer, DescribeConfigsResponse):
            self.failed(str(reason))
            return
        topics = self.watched.seen.topics
        for row in answer.results:
            topic = topics.get(row.resource_name)
            if topic is None or row.resource_type != TOPIC or row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue  # it may have gone
            self._answered_ms[topic.name] = now_ms
            value = min_insync_of(row)
            if value is None:
                why = error_name(row.error_code) if row.error_code else f"its {MIN_INSYNC} is no number of replicas"
                self._doubts.add(f"topic {topic.name}: {why}")
            topic.min_insync_replicas = value
        self._go_on(now_ms)


def min_insync_of(row: DescribeConfigsResult) -> int | None:
    """The setting, as a broker tells it of a topic; None where it tells none that can be."""
    if row.error_code:
        return None
    for each in row.configs:
        value = each.value or ""
        if each.name == MIN_INSYNC and value.isascii() and value.isdecimal() and len(value) <= len(str(REPLICAS_MAX)):
            return int(value) if 0 < int(value) <= REPLICAS_MAX else None
    return None
