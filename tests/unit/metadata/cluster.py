"""A controller's state with three brokers and a topic `t`, for tests of what follows for its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from unit.metadata.controller_state import State, directory_of

from penstock.metadata import brokers, features, leadership, reassignments, topics
from penstock.metadata.brokers import Registration
from penstock.metadata.image import Endpoint, PartitionRegistration, TopicImage
from penstock.metadata.reassignments import Reassignment
from penstock.metadata.result import ApiError
from penstock.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord


class Cluster(State):
    """Brokers 1, 2 and 3, and a topic whose partitions all have `replicas`; `elr`: with eligible leader replicas."""

    def __init__(
        self,
        *,
        replicas: Sequence[int] = (1, 2, 3),
        partitions: int = 1,
        broker_ids: Sequence[int] = (1, 2, 3),
        elr: bool = False,
        configs: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(broker_ids=broker_ids, **settings)
        if elr:
            self.replay([FeatureLevelRecord(name=features.ELR_VERSION, feature_level=1)])
        self.create("t", [replicas] * partitions, configs or {})

    def register(
        self, broker_id: int, *, incarnation: int = 1, rack: str | None = None, previous_epoch: int = -1
    ) -> int:
        registration = Registration(
            broker_id,
            UUID(int=broker_id << 32 | incarnation),
            [Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id)],
            [directory_of(broker_id)],
            rack,
            previous_epoch,
        )
        result = brokers.register_broker(self.controller, registration, self.last_offset + 1)
        self.replay(result.records)
        return result.response

    def create(self, name: str, assignment: Sequence[Sequence[int]], configs: dict[str, str]) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
                for index, each in enumerate(assignment)
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        result = topics.create_topics(self.controller, [topic])
        assert not isinstance(result.response[0], ApiError), result.response[0]
        self.replay(result.records)

    @property
    def topic(self) -> TopicImage:
        return self.controller.image.topics_by_name["t"]

    def partition(self, index: int = 0) -> PartitionRegistration:
        return self.topic.partitions[index]

    def change(self, index: int = 0, **changes: Any) -> None:
        """Changes a partition by a record."""
        self.replay([PartitionChangeRecord(partition_id=index, topic_id=self.topic.id, **changes)])

    def begin_shutdown(self, broker_id: int) -> None:
        epoch = self.epoch_of(broker_id)
        self.replay(brokers.begin_controlled_shutdown(self.controller, broker_id, epoch).records)

    def reassign(self, replicas: Sequence[int] | None, *, index: int = 0, allow: bool = True) -> ApiError:
        wanted = [Reassignment("t", index, replicas)]
        result = reassignments.alter_reassignments(self.controller, wanted, allow_replication_factor_change=allow)
        self.replay(result.records)
        return result.response[0]

    def elect(self, election_type: int, index: int = 0) -> ApiError:
        result = leadership.elect_leaders(self.controller, election_type, [("t", [index])])
        self.replay(result.records)
        return result.response[0][1][0][1]
