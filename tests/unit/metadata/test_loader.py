"""Following a log batch by batch: what is published when, and metadata transactions."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.metadata.delta import MetadataError
from penstock.metadata.loader import MetadataLoader
from penstock.protocol.messages.metadata.abort_transaction_record import AbortTransactionRecord
from penstock.protocol.messages.metadata.begin_transaction_record import BeginTransactionRecord
from penstock.protocol.messages.metadata.end_transaction_record import EndTransactionRecord
from penstock.protocol.messages.metadata.no_op_record import NoOpRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=UUID(bytes=name.encode().ljust(16)))


def load(loader: MetadataLoader, *records: object) -> None:
    loader.load(records, loader.last_offset + len(records), 1, 0)


def names(loader: MetadataLoader) -> list[str]:
    return list(loader.image.topics_by_name)


def test_batches_loaded_together_are_one_publication() -> None:
    loader = MetadataLoader()
    load(loader, topic("a"))
    load(loader, topic("b"), topic("c"))
    [(old, new, delta)] = loader.publish()
    assert (old.offset, new.offset) == (-1, 2)
    assert [changed.name for changed in delta.topics.values()] == ["a", "b", "c"]
    assert loader.publish() == []


def test_a_control_batch_moves_the_offset_and_changes_nothing() -> None:
    loader = MetadataLoader()
    loader.advance(0, 4, 10)
    [(_, image, delta)] = loader.publish()
    assert (image.offset, image.epoch, image.timestamp_ms, delta.topics) == (0, 4, 10, {})


def test_nothing_of_a_transaction_shows_before_its_end() -> None:
    loader = MetadataLoader()
    load(loader, topic("a"), BeginTransactionRecord(name="t"), topic("b"))
    assert [image.offset for _, image, _ in loader.publish()] == [0]
    assert (names(loader), loader.transaction_start_offset) == (["a"], 1)
    load(loader, topic("c"))
    assert loader.publish() == []
    assert names(loader) == ["a"]
    load(loader, EndTransactionRecord(), topic("d"))
    assert [image.offset for _, image, _ in loader.publish()] == [5]
    assert (names(loader), loader.transaction_start_offset) == (["a", "b", "c", "d"], -1)


def test_an_aborted_transaction_leaves_nothing() -> None:
    loader = MetadataLoader()
    load(loader, topic("a"), BeginTransactionRecord(name="t"), topic("b"))
    load(loader, topic("c"))
    load(loader, AbortTransactionRecord(reason="r"), topic("b"))
    loader.publish()
    assert names(loader) == ["a", "b"]
    assert loader.image.offset == 5


def test_a_transaction_at_the_very_beginning() -> None:
    loader = MetadataLoader()
    load(loader, BeginTransactionRecord(name="t"), topic("a"), EndTransactionRecord())
    assert [image.offset for _, image, _ in loader.publish()] == [2]


@pytest.mark.parametrize(
    "records",
    [[EndTransactionRecord()], [AbortTransactionRecord()], [BeginTransactionRecord(), BeginTransactionRecord()]],
)
def test_transactions_do_not_nest_and_do_not_end_before_they_begin(records: list[object]) -> None:
    with pytest.raises(MetadataError, match="at offset"):
        load(MetadataLoader(), *records)


def test_a_record_that_does_nothing_still_moves_the_offset() -> None:
    loader = MetadataLoader()
    load(loader, NoOpRecord())
    assert [image.offset for _, image, _ in loader.publish()] == [0]
