"""An image made record by record, batch by batch, all at once, or from a checkpoint of itself is the same image."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.features import METADATA_VERSIONS
from penstock.metadata.image import MetadataImage
from penstock.metadata.loader import MetadataLoader
from penstock.metadata.records import decode_records, encode_records, image_records
from penstock.protocol.messages.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.delegation_token_record import DelegationTokenRecord
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.producer_ids_record import ProducerIdsRecord
from penstock.protocol.messages.metadata.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from penstock.protocol.messages.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord
from penstock.protocol.messages.metadata.remove_topic_record import RemoveTopicRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord
from penstock.raft.checkpoint import checkpoint_batches, read_checkpoint

VERSION = METADATA_VERSIONS[30]


class History:
    """A random history of a cluster, as batches of records that make sense one after the other."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topics: dict[str, tuple[UUID, int]] = {}
        self.brokers: dict[int, int] = {}
        self.tokens: list[str] = []
        self.offset = 0
        self.batches: list[list[Any]] = [[FeatureLevelRecord(name="metadata.version", feature_level=30)]]

    def grow(self, batches: int) -> History:
        for _ in range(batches):
            batch = [record for _ in range(self.random.randrange(1, 4)) for record in self.change()]
            if batch:
                self.offset += len(batch)
                self.batches.append(batch)
        return self

    def change(self) -> list[Any]:
        changes = (
            *(self.create, self.create, self.delete, self.elect),
            *(self.configure, self.register, self.issue, self.withdraw),
        )
        return self.random.choice(changes)()

    def create(self) -> list[Any]:
        name = f"topic-{self.random.randrange(12)}"
        if name in self.topics:
            return []
        topic_id, count = UUID(int=self.random.getrandbits(128)), self.random.randrange(1, 5)
        self.topics[name] = (topic_id, count)
        return [TopicRecord(name=name, topic_id=topic_id)] + [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1, 2],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[UUID(int=1), UUID(int=2)],
            )
            for index in range(count)
        ]

    def delete(self) -> list[Any]:
        if not self.topics:
            return []
        topic_id, _ = self.topics.pop(self.random.choice(sorted(self.topics)))
        return [RemoveTopicRecord(topic_id=topic_id)]

    def elect(self) -> list[Any]:
        if not self.topics:
            return []
        topic_id, count = self.topics[self.random.choice(sorted(self.topics))]
        record = PartitionChangeRecord(partition_id=self.random.randrange(count), topic_id=topic_id)
        if self.random.random() < 0.5:
            record.leader = self.random.choice((-1, 1, 2))
        if self.random.random() < 0.5:
            record.isr = self.random.choice(([1], [2], [1, 2]))
        return [record]

    def configure(self) -> list[Any]:
        names = [*sorted(self.topics), ""]
        name = self.random.choice(names)
        value = None if self.random.random() < 0.3 else str(self.random.randrange(9))
        kind = 2 if name else 4
        ids = ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000 * self.random.randrange(9))
        return [
            ConfigRecord(resource_type=kind, resource_name=name, name=f"c{self.random.randrange(4)}", value=value),
            ids,
        ]

    def issue(self) -> list[Any]:
        """A delegation token is made, or renewed."""
        token_id = f"token-{self.random.randrange(6)}"
        self.tokens.append(token_id)
        end_ms = self.random.randrange(9)
        return [
            DelegationTokenRecord(
                owner="User:a",
                requester="User:b",
                renewers=["User:c"],
                issue_timestamp=0,
                max_timestamp=9,
                expiration_timestamp=end_ms,
                token_id=token_id,
            )
        ]

    def withdraw(self) -> list[Any]:
        return [RemoveDelegationTokenRecord(token_id=self.random.choice(self.tokens or ["none"]))]

    def register(self) -> list[Any]:
        broker_id = self.random.randrange(1, 4)
        if broker_id in self.brokers and self.random.random() < 0.7:
            change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=self.brokers[broker_id])
            change.fenced = self.random.choice((-1, 0, 1))
            return [change]
        self.brokers[broker_id] = epoch = self.random.randrange(1 << 40)
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
        return [
            RegisterBrokerRecord(
                broker_id=broker_id,
                broker_epoch=epoch,
                incarnation_id=UUID(int=epoch),
                end_points=[endpoint],
                rack=self.random.choice((None, "a")),
                log_dirs=[UUID(int=500 + broker_id)],
            )
        ]


def followed(batches: list[list[Any]], *, publish_each: bool) -> MetadataImage:
    loader = MetadataLoader()
    for batch in batches:
        loader.load(batch, loader.last_offset + len(batch), 4, 99)
        if publish_each:
            loader.publish()
    loader.publish()
    return loader.image


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 30), count=st.integers(0, 40))
def test_every_way_to_an_image_leads_to_the_same(seed: int, count: int) -> None:
    history = History(seed).grow(count)
    image = followed(history.batches, publish_each=True)
    assert followed(history.batches, publish_each=False) == image
    assert followed([list(chain(*history.batches))], publish_each=True) == image

    values = encode_records(image_records(image), VERSION)
    data = b"".join(
        checkpoint_batches(values, epoch=4, last_contained_timestamp_ms=99, wall_ms=1, kraft_version=0, voters=None)
    )
    loader = MetadataLoader()
    loader.load(decode_records(read_checkpoint(data, "it").values, "it"), image.offset, 4, 99)
    loader.publish()
    assert loader.image == image


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 30), first=st.integers(1, 20), second=st.integers(1, 20))
def test_a_checkpoint_and_the_log_after_it_make_the_same_image_as_the_whole_log(
    seed: int, first: int, second: int
) -> None:
    history = History(seed).grow(first)
    cut = len(history.batches)
    history.grow(second)
    half = followed(history.batches[:cut], publish_each=False)
    loader = MetadataLoader()
    records = decode_records(encode_records(image_records(half), VERSION), "it")
    loader.load(records, half.offset, 4, 99)
    for batch in history.batches[cut:]:
        loader.load(batch, loader.last_offset + len(batch), 4, 99)
    loader.publish()
    assert loader.image == followed(history.batches, publish_each=True)


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 30))
def test_older_images_never_change(seed: int, count: int) -> None:
    history = History(seed).grow(count)
    loader = MetadataLoader()
    kept: list[tuple[MetadataImage, list[Any]]] = []
    for batch in history.batches:
        loader.load(batch, loader.last_offset + len(batch), 4, 99)
        for _, image, _ in loader.publish():
            kept.append((image, list(image_records(image))))
    assert all(list(image_records(image)) == records for image, records in kept)
