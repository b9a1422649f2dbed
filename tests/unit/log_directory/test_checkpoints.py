"""The small files of a log directory: offset checkpoints, meta.properties, the mark of a clean stop, names."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from penstock.errors import ConfigError
from penstock.log.checkpoints import (
    RECOVERY_POINT,
    Checkpoint,
    MalformedCheckpoint,
    format_checkpoint,
    parse_checkpoint,
)
from penstock.log.clean_shutdown import read_clean_shutdown, remove_clean_shutdown, write_clean_shutdown
from penstock.log.meta_properties import (
    MetaProperties,
    check_together,
    format_meta_properties,
    new_directory_id,
    parse_meta_properties,
    parse_uuid,
    read_meta_properties,
    uuid_text,
    write_meta_properties,
)
from penstock.log.names import aside_name, parse_name
from simulator.world.disk import SimulatedDisk

ID = UUID("a056e466-4949-4946-8712-41bc51be4ace")


def test_a_checkpoint_file_is_kafkas_text() -> None:
    assert format_checkpoint({("clicks", 0): 1200, ("clicks", 11): 0}) == b"0\n2\nclicks 0 1200\nclicks 11 0\n"
    assert parse_checkpoint(b"0\n2\nclicks 0 1200\nclicks 11 0\n") == {("clicks", 0): 1200, ("clicks", 11): 0}
    assert parse_checkpoint(b"") == parse_checkpoint(b"0\n") == parse_checkpoint(b"0\n0\n") == {}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"1\n0\n", "line 1: version '1', expected 0"),
        (b"0\n1\nclicks 0\n", "line 3: 'clicks 0' is not a topic, a partition and an offset"),
        (b"0\n1\nclicks x 5\n", "line 3"),
        (b"0\n1\nclicks 0 --5\n", "line 3"),
        (b"0\n1\nclicks 0 9223372036854775808\n", "line 3: the offset of clicks-0 has more than 64 bits"),
        (b"0\n1\nclicks 0 " + b"9" * 5000, "line 3"),
        (b"0\n1\nclicks " + b"9" * 5000 + b" 1\n", "line 3"),
        (b"0\n2\nclicks 0 5\n", "line 2: 2 entries announced, 1 found"),
        (b"0\nmany\nclicks 0 5\n", "line 2: many entries announced"),
        (b"\xff\xfe\n0\n", "not text"),
    ],
)
def test_a_malformed_checkpoint_says_where(content: bytes, complaint: str) -> None:
    with pytest.raises(MalformedCheckpoint, match=complaint):
        parse_checkpoint(content)


def test_a_checkpoint_is_dirty_only_when_an_offset_changed() -> None:
    checkpoint = Checkpoint(RECOVERY_POINT)
    assert checkpoint.set(("a", 0), 5)
    assert not checkpoint.set(("a", 0), 6), "dirty already"
    assert checkpoint.take() == {("a", 0): 6}
    assert not checkpoint.set(("a", 0), 6)
    assert not checkpoint.dirty
    assert checkpoint.remove(("a", 0))
    assert not checkpoint.remove(("b", 0))
    assert checkpoint.take() == {}


def test_meta_properties_are_a_java_properties_file_of_version_1() -> None:
    content = format_meta_properties(MetaProperties("XQ3xXQ3xRfWTb1cQ8RBv5A", 7, ID))
    lines = content.decode().splitlines()
    assert lines == [
        "#",
        "cluster.id=XQ3xXQ3xRfWTb1cQ8RBv5A",
        f"directory.id={uuid_text(ID)}",
        "node.id=7",
        "version=1",
    ]
    assert parse_meta_properties(content, "meta.properties") == MetaProperties("XQ3xXQ3xRfWTb1cQ8RBv5A", 7, ID)


def test_a_cluster_id_with_separators_survives() -> None:
    strange = MetaProperties("a=b:c#d!e\\f", 1, None)
    assert parse_meta_properties(format_meta_properties(strange), "f") == strange


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("cluster.id=a\nbroker.id=1\n", "d/meta.properties has version 0.*ZooKeeper"),
        ("version=2\n", "has version 2, this is for version 1"),
        ("version=1\nnode.id=1\n", "has no cluster.id"),
        ("version=1\ncluster.id=a\n", "has no node.id"),
        ("version=1\ncluster.id=a\nnode.id=one\n", "node.id = 'one' is not a number"),
        (f"version=1\ncluster.id=a\nnode.id={'9' * 5000}\n", "9' is not a number of 32 bits"),
        ("version=1\ncluster.id=a\nnode.id=1\ndirectory.id=short\n", "directory.id: 'short' is not a UUID"),
        ("version=1\ncluster.id=a\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", "is reserved"),
    ],
)
def test_a_wrong_meta_properties_says_what_is_wrong(content: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){complaint}"):
        parse_meta_properties(content.encode(), "d/meta.properties")


def test_a_directory_that_is_not_formatted_says_what_to_run() -> None:
    with pytest.raises(ConfigError, match="penstock storage format"):
        read_meta_properties(SimulatedDisk(), "/data")


def test_meta_properties_are_durable_once_written() -> None:
    disk = SimulatedDisk()
    write_meta_properties(disk, MetaProperties("c", 1, ID))
    disk.restart()
    assert read_meta_properties(disk, "/data") == MetaProperties("c", 1, ID)


def test_directories_of_other_clusters_nodes_or_copies_are_refused() -> None:
    ours = ("/a", MetaProperties("XQ3", 1, ID))
    check_together([ours, ("/b", MetaProperties("XQ3", 1, None))], 1)
    with pytest.raises(ConfigError, match=r"cluster id mismatch: /b belongs to cluster 7fA, /a to XQ3"):
        check_together([ours, ("/b", MetaProperties("7fA", 1, None))], 1)
    with pytest.raises(ConfigError, match=r"node id mismatch: /a belongs to node 1, this node is configured as 2"):
        check_together([ours], 2)
    with pytest.raises(ConfigError, match=r"/b and /a have the same directory.id"):
        check_together([ours, ("/b", MetaProperties("XQ3", 1, ID))], 1)


def test_new_directory_ids_are_kafkas_kind() -> None:
    for seed in range(300):
        text = uuid_text(new_directory_id(Random(seed)))
        assert len(text) == 22
        assert not text.startswith("-")
        assert uuid_text(parse_uuid(text)) == text


def test_the_mark_of_a_clean_stop_carries_the_broker_epoch() -> None:
    disk = SimulatedDisk()
    assert read_clean_shutdown(disk) is None
    write_clean_shutdown(disk, 42)
    assert disk.content(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    disk.restart()
    assert read_clean_shutdown(disk) == 42
    remove_clean_shutdown(disk)
    disk.restart()
    assert read_clean_shutdown(disk) is None


def test_names_that_a_killed_process_made_are_on_disk_before_anything_else_is() -> None:
    """Otherwise a power failure would take what is fsynced below them (seed 30368 of the simulator's world `log`)."""
    for seed in range(10):  # a name that was not fsynced may survive by luck
        disk = SimulatedDisk(random=Random(seed))
        disk.make_directory("clicks-0")
        remove_clean_shutdown(disk)
        disk.restart()
        assert disk.exists("clicks-0")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"nonsense", b'{"version":0,"brokerEpoch":null}'])
def test_a_mark_without_an_epoch_is_a_clean_stop_all_the_same(content: bytes) -> None:
    disk = SimulatedDisk()
    disk.write(".kafka_cleanshutdown", 0, [content])
    assert read_clean_shutdown(disk) == -1


def test_directory_names() -> None:
    assert parse_name("clicks-0") == ("clicks", 0)
    assert parse_name("a-b-12") == ("a-b", 12)
    for other in ("clicks", "clicks-", "-1", "clicks-0.0123-delete", "clicks-x", "clicks-٣"):
        assert parse_name(other) is None, other
    assert aside_name("clicks", 3, ID, "delete") == f"clicks-3.{ID.hex}-delete"
    long = aside_name("t" * 249, 12345, ID, "stray")
    assert len(long) == 255
    assert long.endswith(f"-12345.{ID.hex}-stray")
