"""The acts that heal: an election of preferred leaders, and the evacuation of what is dead.

An act is begun after its intent is in the log, and `ended` is told once what has come of it. Both acts may be begun
again by another leader that finds the intent: an election is not needed twice, and a plan has the id of its alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from penstock.errors import ErrorCode
from penstock.guardian.core.alarms.alarm import Alarm
from penstock.guardian.core.alarms.census import Census, PartitionKey
from penstock.guardian.core.alarms.evacuation import evacuation
from penstock.guardian.core.alarms.finding import DEAD_BROKER, DEAD_DISK, SKEWED_LEADERS, Subject
from penstock.guardian.core.reach import CONTROLLER, Reach
from penstock.guardian.core.sight import ClusterSight
from penstock.guardian.core.state import Cluster
from penstock.protocol.message import Message
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.elect_leaders_response import ElectLeadersResponse

PREFERRED = 0
"""Election type of KIP-460."""
TIMEOUT_MS = 30_000
CHANNEL = "heal"

Ended = Callable[[str | None, int], None]
"""`ended(why, now_ms)`: `why` the act could not be done; None where it was, or is being done."""


class Submit(Protocol):
    """Hands a plan to whoever carries out plans."""

    def __call__(self, cluster: Cluster, alarm: Alarm, plan: Mapping[str, Any], ended: Ended, now_ms: int) -> None:
        """`ended` is called once, when the plan is taken or refused; a plan with the id of an alarm is taken once."""


class Healing:
    """See the module's head. `submit`: None where nobody carries out plans; then what is dead is only told of, with the
    plan that would be carried out.
    """

    def __init__(self, reach: Reach, submit: Submit | None) -> None:
        self._reach = reach
        self._submit = submit

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of anomaly that there is an act for."""
        return frozenset({SKEWED_LEADERS} if self._submit is None else {SKEWED_LEADERS, DEAD_BROKER, DEAD_DISK})

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
            assert self._submit is not None, "an act that does not exist is never meant"
            plan = evacuation(seen, Subject(alarm.broker, alarm.path))
            if not plan["moves"]:
                ended("nothing of it can be moved: the plan says why", now_ms)
                return
            self._submit(cluster, alarm, plan, ended, now_ms)


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
        ended(f"the election was not answered: {reason}", now_ms)
        return
    fine = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    results = [
        (f"{each.topic}-{one.partition_id}", one.error_code)
        for each in answer.replica_election_results
        for one in each.partition_result
    ]
    failed = [(name, code) for name, code in results if code not in fine]
    if answer.error_code:
        ended(f"the cluster refuses the election: {name_of(answer.error_code)}", now_ms)
    elif results and len(failed) == len(results):
        name, code = failed[0]
        ended(f"no leader was elected; {name}: {name_of(code)}", now_ms)
    else:
        ended(None, now_ms)


def name_of(code: int) -> str:
    """The name of an error, or its number if it has none."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
