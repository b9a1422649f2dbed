"""The acts that heal: an election of preferred leaders, and the evacuation of what is dead.

An act is begun after its intent is in the log, and `ended` is told once what has come of it. Both acts may be begun
again by another leader that finds the intent: an election is not needed twice, and a plan has the id of its alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from penstock.errors import ErrorCode
from penstock.guardian.core.alarms.alarm import Alarm
from penstock.guardian.core.alarms.census import Census, PartitionKey
from penstock.guardian.core.alarms.finding import DEAD_BROKER, DEAD_DISK, SKEWED_LEADERS
from penstock.guardian.core.believing import error_name
from penstock.guardian.core.reach import CONTROLLER, Reach
from penstock.guardian.core.sight import ClusterSight
from penstock.guardian.core.state import Cluster
from penstock.protocol.message import Message
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.elect_leaders_response import ElectLeadersResponse
from penstock.records.wall import WallTime

PREFERRED = 0
"""Election type of KIP-460."""
TIMEOUT_MS = 30_000
CHANNEL = "heal"

Ended = Callable[[bool | None, str, int], None]
"""`ended(begun, said, now_ms)`: whether the act was done or is being done, and by what; or why it could not be. None:
it cannot be begun just now, and is to be tried again.
"""


class Submission(Protocol):
    """Hands plans to whoever carries them out."""

    def submit(
        self, cluster: Cluster, alarm: Alarm, seen: ClusterSight, wall_ms: int, now_ms: int, *, submitted: Ended
    ) -> None:
        """Has what is dead evacuated; `submitted` is called once. An alarm's plan is taken once."""

    def cancel(self, alarm: Alarm, why: str, wall_ms: int, now_ms: int) -> None:
        """Ends the plan of an alarm that needs it no more, if it has not ended."""


class Healing:
    """See the module's head. Attributes: `kinds`, the kinds of anomaly that there is an act for."""

    kinds = frozenset({SKEWED_LEADERS, DEAD_BROKER, DEAD_DISK})

    def __init__(self, reach: Reach, wall: WallTime, submission: Submission) -> None:
        self._reach = reach
        self._wall = wall
        self._submission = submission

    def begin(
        self, cluster: Cluster, alarm: Alarm, seen: ClusterSight, census: Census, now_ms: int, *, ended: Ended
    ) -> None:
        """Begins the act for an alarm whose intent is in the log."""
        if alarm.kind == SKEWED_LEADERS:
            away = census.away.get(alarm.broker)
            request = election(away.named if away is not None else ())
            done = partial(elected, ended)
            self._reach.ask(cluster, CONTROLLER, request, done, now_ms, timeout_ms=TIMEOUT_MS, channel=CHANNEL)
        else:
            self._submission.submit(cluster, alarm, seen, self._wall.at(now_ms), now_ms, submitted=ended)

    def over(self, alarm: Alarm, seen: ClusterSight, now_ms: int) -> None:
        """An alarm is over. What is still being copied because of a broker that is back is taken back."""
        if alarm.kind == DEAD_BROKER and alarm.heals and alarm.broker in seen.brokers:
            self._submission.cancel(alarm, f"broker {alarm.broker} is back", self._wall.at(now_ms), now_ms)


def election(partitions: Iterable[PartitionKey]) -> ElectLeadersRequest:
    """Elects the preferred leader of each of these partitions, if it is in sync."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    named = [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    return ElectLeadersRequest(election_type=PREFERRED, topic_partitions=named, timeout_ms=TIMEOUT_MS)


def elected(ended: Ended, answer: Message | None, reason: str | None, now_ms: int) -> None:
    """What an election has come to. That it was not needed is as good as done."""
    if not isinstance(answer, ElectLeadersResponse):
        ended(False, f"the election was not answered: {reason}", now_ms)
        return
    fine = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    results = [
        (f"{each.topic}-{one.partition_id}", one.error_code)
        for each in answer.replica_election_results
        for one in each.partition_result
    ]
    failed = [(name, code) for name, code in results if code not in fine]
    if answer.error_code:
        ended(False, f"the cluster refuses the election: {error_name(answer.error_code)}", now_ms)
    elif results and len(failed) == len(results):
        name, code = failed[0]
        ended(False, f"no leader was elected; {name}: {error_name(code)}", now_ms)
    else:
        ended(True, f"{len(results) - len(failed)} of {len(results)} partitions have their preferred leader", now_ms)
