"""Groups of librdkafka members, and how long it takes until every partition has one owner again.

A group is whole when each partition is owned by exactly one member and no member has more than one partition more than
another; so one that has just joined has its share. Members are threads of this process.
"""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, TopicPartition

PATIENCE_S = 60.0
PROTOCOLS = {
    "classic range": {"partition.assignment.strategy": "range"},
    "classic cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "KIP-848": {"group.protocol": "consumer"},
}


class Member:
    """One consumer, which only is in the group."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, protocol: str) -> None:
        self.owned: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "log_level": 0,
                **PROTOCOLS[protocol],
            }
        )
        self._topic = topic
        self._leaves = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def leave(self) -> None:
        """Leaves the group as a consumer does that is closed."""
        self._leaves.set()
        self._thread.join()

    def _run(self) -> None:
        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            self.owned |= {each.partition for each in partitions}

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            self.owned -= {each.partition for each in partitions}

        self._consumer.subscribe([self._topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        while not self._leaves.is_set():
            self._consumer.poll(0.02)
        self._consumer.close()
        self.owned.clear()


class MemberGroup:
    """Members of one group, all on one topic."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, partitions: int, protocol: str) -> None:
        self.members: list[Member] = []
        self._about = (bootstrap, group_id, topic, protocol)
        self._partitions = partitions

    def join(self, count: int = 1) -> float:
        """So many members join; seconds until the group is whole."""
        began = time.perf_counter()
        self.members += [Member(*self._about) for _ in range(count)]
        return self._until_whole(began)

    def leave(self) -> float:
        """The first member leaves; seconds until the group is whole, from the moment that it says so."""
        began = time.perf_counter()
        self.members.pop(0).leave()
        return self._until_whole(began)

    def close(self) -> None:
        for member in self.members:
            member.leave()

    def _until_whole(self, began: float) -> float:
        while not self.is_whole():
            if time.perf_counter() > began + PATIENCE_S:
                raise RuntimeError(f"{self._about} is not whole: {[len(each.owned) for each in self.members]}")
            time.sleep(0.005)
        return time.perf_counter() - began

    def is_whole(self) -> bool:
        """See the module's head."""
        sizes = [len(member.owned) for member in self.members]
        if sum(sizes) != self._partitions or max(sizes) - min(sizes) > 1:
            return False
        return len(set().union(*(member.owned for member in self.members))) == self._partitions
