"""The looks at one cluster: at its metadata, at what each of its brokers holds, at the settings of its topics.

The brokers that the metadata names are looked at from then on, each by itself. What a broker has told is kept as long
as it is alive, or any partition has a replica on it.

Of a cluster that has the Kafka id of another one that is registered nothing but that is known: one cluster would be
told different things to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.guardian.core.limits import GUARDIAN_TEXT_MAX
from penstock.guardian.core.look_at_disks import LookAtDisks
from penstock.guardian.core.look_at_ends import LookAtEnds
from penstock.guardian.core.look_at_metadata import LookAtMetadata
from penstock.guardian.core.look_at_settings import LookAtSettings
from penstock.guardian.core.looks import Look, Looks, Watched
from penstock.guardian.core.reach import Reach
from penstock.guardian.core.sight import IDENTITY, ClusterSight, registered_twice
from penstock.guardian.core.state import Cluster
from penstock.records.wall import WallTime

OtherWith = Callable[[str, Cluster], str | None]


class Watch:
    """See the module's head.

    Args:
        seen: what is filled. looks: where looks are added. do: adds long work. interval_ms: between two looks.
        other_with: the name of a cluster that was registered before and has this Kafka id, if there is one.
    """

    def __init__(
        self,
        cluster: Cluster,
        seen: ClusterSight,
        reach: Reach,
        looks: Looks,
        wall: WallTime,
        *,
        do: Callable[[Iterator[None]], None],
        interval_ms: int,
        other_with: OtherWith,
    ) -> None:
        self._watched = Watched(cluster, seen, reach, wall, do)
        self._seen = seen
        self._looks = looks
        self._interval_ms = interval_ms
        self._other_with = other_with
        self._metadata = LookAtMetadata(self._watched, self, interval_ms)
        self._settings: LookAtSettings | None = None
        self._of_brokers: dict[int, tuple[Look, ...]] = {}

    def begin(self, now_ms: int) -> None:
        """Looks from now on."""
        self._looks.add(self._metadata, now_ms)

    def registered_as(self, cluster: Cluster) -> None:
        """What is registered of it has changed."""
        self._watched.cluster = cluster

    def stop(self) -> None:
        """Looks no more; what is still under way changes nothing."""
        self._metadata.gone = True
        self._stop_others()

    def _stop_others(self) -> None:
        looks = [look for both in self._of_brokers.values() for look in both]
        if self._settings is not None:
            looks.append(self._settings)
        for look in looks:
            look.gone = True
            self._watched.tell(look.part, None)
        self._of_brokers.clear()
        self._settings = None

    # For the look at the metadata

    def is_itself(self, kafka_id: str) -> bool:
        """Whether this is the cluster that it was, and no other one that is registered; if not, that is told."""
        seen, problem = self._seen, None
        if not kafka_id or len(kafka_id) > GUARDIAN_TEXT_MAX:
            problem = "its brokers tell no id of their cluster"
        elif seen.kafka_id and seen.kafka_id != kafka_id:
            problem = (
                f"its brokers say that they are cluster {kafka_id}, and it was {seen.kafka_id}: nothing is taken from "
                "them; if it is another one now, remove it and register it anew"
            )
            self._stop_others()
        else:
            seen.kafka_id = kafka_id
            other = self._other_with(kafka_id, self._watched.cluster)
            if other is not None:
                problem = f"it is cluster {kafka_id}, {registered_twice(other)}: remove one of the two"
                self._stop_others()
                seen.forget()
        self._watched.tell(IDENTITY, problem)
        return problem is None

    def saw_brokers(self, now_ms: int) -> None:
        """Brokers that are alive are looked at, the others no more."""
        brokers, every_ms = self._seen.brokers, self._interval_ms
        for broker in [each for each in self._of_brokers if each not in brokers]:
            for look in self._of_brokers.pop(broker):
                look.gone = True
                self._watched.tell(look.part, None)
        for broker in brokers:
            if broker not in self._of_brokers:
                disks, ends = LookAtDisks(self._watched, broker, every_ms), LookAtEnds(self._watched, broker, every_ms)
                self._of_brokers[broker] = disks, ends
                self._looks.add(disks, now_ms)
                self._looks.add(ends, now_ms + every_ms // 2)

    def saw_topics(self, now_ms: int) -> None:
        """What brokers that are gone have told is forgotten where no replica is theirs; settings are looked at."""
        seen = self._seen
        told = {broker for broker, _ in seen.disks} - seen.brokers.keys()
        if told:
            told.difference_update(
                broker for topic in seen.topics.values() for each in topic.partitions for broker in each.replicas
            )
        for broker in sorted(told):
            seen.forget_broker(broker)
        seen.forget_windows()
        if self._settings is None:
            self._settings = LookAtSettings(self._watched, self._interval_ms)
            self._looks.add(self._settings, now_ms)
        else:
            self._settings.saw_topics(now_ms)
