"""Tells the controller in which log directory each replica of this broker lies (AssignReplicasToDirs, KIP-858).

The controller knows the directory of a new replica only if the broker has just one, and its knowledge is outdated when
a directory was replaced. It elects no leader whose directory it believes to be offline. So every difference from the
metadata is reported: one request at a time, of at most DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX replicas, repeated with a
back-off if it gets no answer or is refused as a whole.

A replica that is refused alone usually comes from an outdated image; the next image corrects that. With
KAFKA_STORAGE_ERROR the replica is an empty one in the place of the last in-sync replica: it is reported again when its
partition changes, and at intervals, since an operator may allow unclean elections.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.log.manager import LogManager
from penstock.node.channel import Channel
from penstock.node.journal import listed
from penstock.node.limits import (
    DIRECTORY_ASSIGNMENT_RETRY_MAX_MS,
    DIRECTORY_ASSIGNMENT_RETRY_MS,
    DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX,
    DIRECTORY_ASSIGNMENTS_PER_STEP,
)
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.message import Message
from penstock.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from penstock.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from penstock.replication.replicas import Replicas

if TYPE_CHECKING:
    from penstock.metadata.image import PartitionRegistration

Replica = tuple[UUID, int]
"""Topic id and partition index."""

logger = logging.getLogger(__name__)


class Assignments:
    """The replicas whose directory the controller does not know yet. See the module's head."""

    def __init__(
        self, state: NodeState, scheduler: Scheduler, logs: LogManager, channel: Channel, replicas: Replicas
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._logs = logs
        self._channel = channel
        self._replicas = replicas
        self._moving: dict[tuple[str, int], UUID] = {}
        self._wanted: dict[Replica, UUID] = {}
        self._empty: dict[Replica, None] = {}
        self._waiting = False
        self._failures = 0

    def __len__(self) -> int:
        return len(self._wanted)

    def look_at_all(self) -> Iterator[None]:
        """Compares all replicas with the metadata, step by step, once this broker has created them."""
        image = self._state.image
        looked_at = 0
        for topic in image.topics_by_name.values():
            for index, registration in enumerate(topic.partitions):
                if image is self._state.image:
                    self.look(topic.name, topic.id, index, registration)
                else:  # there is a newer image: what it changes has been looked at
                    found = self._state.image.topics_by_id.get(topic.id)
                    if found is not None:
                        self.look(found.name, found.id, index, found.partitions[index])
                looked_at += 1
                if not looked_at % DIRECTORY_ASSIGNMENTS_PER_STEP:
                    yield

    def look(self, topic: str, topic_id: UUID, index: int, registration: PartitionRegistration) -> None:
        """Compares one replica with the metadata."""
        replica = (topic_id, index)
        directory = None
        if self._state.node_id in registration.replicas and self._logs.exists(topic, index):
            found = self._logs.directory_of(topic, index)
            directory = self._moving.get((topic, index)) or found.id
            if found.error is not None and registration.directory(self._state.node_id) not in self._well():
                directory = None  # it knows of that directory, and hears by heartbeats that it is lost
            elif self._logs.is_broken(topic, index):
                directory = None  # it may be the wrong one of two; the next start would believe what we say now
        if directory is None or registration.directory(self._state.node_id) == directory:
            self._wanted.pop(replica, None)
        else:
            self._wanted[replica] = directory
            self._send_after(0)

    def moves_to(self, topic: str, index: int, directory: UUID) -> None:
        """A replica is about to be swapped into this directory, which the controller has to know first."""
        self._moving[(topic, index)] = directory
        self._look_at(topic, index)

    def stays(self, topic: str, index: int) -> None:
        """The move of a replica has been given up: the controller is told where it lies."""
        self._moving.pop((topic, index), None)
        self._look_at(topic, index)

    def moved(self, topic: str, index: int) -> None:
        """A replica has been swapped into the directory that the controller was told."""
        self._moving.pop((topic, index), None)

    def _look_at(self, topic: str, index: int) -> None:
        found = self._state.image.topics_by_name.get(topic)
        registration = self._state.image.partition(topic, index)
        if found is not None and registration is not None:
            self.look(topic, found.id, index, registration)

    def _well(self) -> list[UUID]:
        """The ids of the directories that are online."""
        return [found.id for found in self._logs.table.online if found.id is not None]

    def _send_after(self, delay_ms: int) -> None:
        """Sends at the next tick at the earliest, so that everything found in one turn goes into one request."""
        if not self._waiting:
            self._waiting = True
            self._scheduler.timers.at(self._scheduler.now_ms + delay_ms, self._send, duty=True)

    def _send(self, now_ms: int) -> None:
        if not self._wanted or self._state.stopping:
            self._waiting = False
            return
        sent = dict(islice(self._wanted.items(), DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX))

        def request() -> AssignReplicasToDirsRequest:
            return request_of(self._state.node_id, self._state.broker_epoch, sent)

        self._channel.to_controller(request, lambda answer, at_ms: self._answered(sent, answer), now_ms)

    def _answered(self, sent: dict[Replica, UUID], answer: Message | None) -> None:
        self._waiting = False
        delay_ms = 0
        if isinstance(answer, AssignReplicasToDirsResponse) and not answer.error_code:
            self._failures = 0
            for replica, directory in sent.items():
                if self._wanted.get(replica) == directory:
                    del self._wanted[replica]
            self._note_empty(sent, answer)
        else:
            delay_ms = min(DIRECTORY_ASSIGNMENT_RETRY_MAX_MS, DIRECTORY_ASSIGNMENT_RETRY_MS << min(self._failures, 20))
            self._failures += 1
        if self._wanted:
            self._send_after(delay_ms)

    def _note_empty(self, sent: dict[Replica, UUID], answer: AssignReplicasToDirsResponse) -> None:
        """Logs replicas that wait for an operator's decision, once each, and looks at them again later."""
        empty = [
            (topic.topic_id, partition.partition_index)
            for directory in answer.directories
            for topic in directory.topics
            for partition in topic.partitions
            if partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        ]
        new = [replica for replica in empty if replica not in self._empty]
        for replica in sent:
            self._empty.pop(replica, None)
        self._empty.update(dict.fromkeys(empty))
        if new:
            logger.warning(
                "replicas that were the last in sync are empty, since their log directory is gone; bring it back, or "
                "elect others uncleanly: %s",
                listed([f"{self._replicas.topic_name(topic)}-{index}" for topic, index in new]),
            )
        if empty:
            again_ms = self._scheduler.now_ms + DIRECTORY_ASSIGNMENT_RETRY_MAX_MS
            self._scheduler.timers.at(again_ms, lambda now_ms: self._look_again(empty), duty=True)

    def _look_again(self, replicas: Sequence[Replica]) -> None:
        for topic_id, index in replicas:
            topic = self._state.image.topics_by_id.get(topic_id)
            if topic is not None and (topic_id, index) in self._empty:
                self.look(topic.name, topic_id, index, topic.partitions[index])


def request_of(broker_id: int, broker_epoch: int, assignments: dict[Replica, UUID]) -> AssignReplicasToDirsRequest:
    """The request for these assignments, by directory, topic and partition."""
    topics: dict[tuple[UUID, UUID], TopicData] = {}
    directories: dict[UUID, DirectoryData] = {}
    for (topic_id, index), directory in assignments.items():
        topic = topics.get((directory, topic_id))
        if topic is None:
            topic = topics[directory, topic_id] = TopicData(topic_id=topic_id)
            directories.setdefault(directory, DirectoryData(id=directory)).topics.append(topic)
        topic.partitions.append(PartitionData(partition_index=index))
    return AssignReplicasToDirsRequest(
        broker_id=broker_id, broker_epoch=broker_epoch, directories=list(directories.values())
    )
