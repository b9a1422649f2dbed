"""The controller node on a simulated disk: the order of a start, what is durable when, failures, checkpoints."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from unit.node.controller_harness import START_MS, Harness, formatted_disk

from penstock.errors import ConfigError, ErrorCode, RequestError, StorageError
from penstock.log.operations import Flush
from penstock.metadata import topics
from penstock.metadata.features import REGISTERED_FEATURES
from penstock.metadata.image import NO_LEADER
from penstock.protocol.messages.metadata.begin_transaction_record import BeginTransactionRecord
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord
from penstock.protocol.messages.metadata.zk_migration_state_record import ZkMigrationStateRecord
from penstock.raft.election import parse_election
from penstock.raft.replica import RaftReplica
from penstock.raft.topic import METADATA
from penstock.raft.voters import ReplicaKey
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from simulator.world.disk import PowerLoss, SimulatedDisk

NAME = METADATA.directory

LOG = f"{NAME}/00000000000000000000.log"
MIGRATES = ZkMigrationStateRecord(zk_migration_state=1)
"""A record that no version here can follow."""


def election_on(disk: SimulatedDisk) -> object:
    return parse_election(disk.content(f"{NAME}/quorum-state"), "quorum-state")


def test_the_order_of_a_first_start() -> None:
    run = Harness(formatted_disk()).start()
    assert run.history == [
        "PersistElection",  # the vote for itself is durable before it leads
        "PersistElection",
        "ReplaceFile",  # the leader epoch file
        "Roll",
        "Write",
        "Flush",  # the LeaderChange is durable before anything counts as committed
        "published 2",
        "NoteFlushed",
        "Write",
        "Flush",
        "published 5",
        "active",
        "NoteFlushed",
    ]
    assert run.node.active
    assert run.quorum.kraft_version == 1
    assert run.quorum.image.features == {"metadata.version": 30}


def test_nothing_is_appended_before_the_vote_is_durable() -> None:
    run = Harness(formatted_disk())
    run.quorum.start(run.now_ms, run.node)
    run.take()
    assert [type(operation).__name__ for operation in run.waiting] == ["PersistElection"]
    assert not run.disk.exists(LOG)
    with pytest.raises(RequestError) as raised:
        run.append([ConfigRecord()])
    assert raised.value.code is ErrorCode.NOT_CONTROLLER


def test_a_registration_gets_its_offset_as_epoch_and_is_unfenced() -> None:
    run = Harness(formatted_disk()).start()
    epoch = run.register()
    broker = run.quorum.image.brokers[1]
    assert (broker.epoch, broker.active, epoch) == (6, True, 6)
    assert broker.features == REGISTERED_FEATURES
    assert list(run.quorum.image.controllers) == [1]


def test_an_answer_leaves_only_when_its_records_are_flushed_and_in_the_image() -> None:
    run = Harness(formatted_disk()).start()
    run.register()
    outcome = run.create_topic("clicks")
    assert "clicks" in run.node.state.image.topics_by_name, "the next request sees it"
    run.step()
    assert run.history[-1] == "Write"
    assert outcome == []
    assert "clicks" not in run.quorum.image.topics_by_name, "readers do not"
    run.step()
    assert run.history[-2:] == ["Flush", f"published {run.quorum.image.offset}"]
    assert outcome == [ErrorCode.NONE]
    assert "clicks" in run.quorum.image.topics_by_name


def test_an_answer_that_changes_nothing_waits_for_what_it_may_speak_of() -> None:
    run = Harness(formatted_disk()).start()
    run.register()
    heard: list[ErrorCode] = []

    def ask() -> None:
        told = heard.append
        run.node.when_committed(lambda now_ms: told(ErrorCode.NONE), lambda code, now_ms: told(code), run.now_ms)

    ask()
    assert heard == [ErrorCode.NONE], "nothing is under way"
    run.create_topic("clicks")
    ask()
    assert heard == [ErrorCode.NONE], "the topic is not committed yet"
    run.settle()
    assert heard == [ErrorCode.NONE, ErrorCode.NONE]
    run.create_topic("orders")
    ask()
    run.node.renounce(run.now_ms)
    assert heard == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_CONTROLLER]


def test_appends_of_one_turn_share_a_write_and_a_flush() -> None:
    run = Harness(formatted_disk()).start()
    run.register()
    before = len(run.history)
    outcomes = [run.create_topic(f"topic-{number}") for number in range(10)]
    run.settle()
    assert outcomes == [[ErrorCode.NONE]] * 10
    assert run.history[before:].count("Write") == 1
    assert run.history[before:].count("Flush") == 1


def test_appends_during_a_flush_share_the_next_one() -> None:
    run = Harness(formatted_disk()).start()
    run.register()
    first = run.create_topic("first")
    run.step()
    second = run.create_topic("second")
    run.take()
    third = run.create_topic("third")
    run.step()
    assert (first, second, third) == ([ErrorCode.NONE], [], [])
    run.settle()
    assert (second, third) == ([ErrorCode.NONE], [ErrorCode.NONE])


def test_an_idle_node_writes_nothing() -> None:
    run = Harness(formatted_disk()).start()
    run.register()
    changes = run.disk.changes
    for _ in range(100):
        run.now_ms += 500
        run.quorum.tick(run.now_ms)
        run.settle()
    assert run.disk.changes == changes


def test_a_restart_of_the_same_directory_has_the_same_metadata() -> None:
    disk = formatted_disk()
    first = Harness(disk).start()
    first.register()
    first.create_topic("clicks", 3)
    first.settle()
    image = first.quorum.image
    first.stop()
    assert first.history[-1] == "stopped"
    second = Harness(disk, seed=8).start()
    partition = second.quorum.image.topics_by_name["clicks"].partitions[0]
    assert (partition.leader, partition.isr) == (NO_LEADER, (1,)), "a clean stop gives leaderships up"
    assert second.register(incarnation=2) > image.brokers[1].epoch
    after = second.quorum.image.topics_by_name["clicks"]
    assert after.id == image.topics_by_name["clicks"].id
    assert [(each.leader, each.leader_epoch) for each in after.partitions] == [(1, 2)] * 3
    assert str(election_on(disk)) == "ElectionState(epoch=2, leader_id=1, voted=None)"


def test_nothing_from_before_is_published_before_the_new_epoch_has_committed() -> None:
    disk = formatted_disk()
    first = Harness(disk).start()
    first.register()
    first.stop()
    second = Harness(disk)
    second.quorum.start(second.now_ms, second.node)
    assert second.published == []
    assert second.quorum.image.offset == -1
    second.settle()
    assert second.published


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_any_moment_loses_nothing_that_was_answered(seed: int) -> None:
    random = Random(seed)
    disk = formatted_disk()
    disk.random = random
    answered: list[str] = []
    epoch = 0
    for run_number in range(8):
        disk.crash_at = disk.changes + random.randrange(1, 60)
        run = Harness(disk, seed=run_number)
        outcomes: dict[str, list[ErrorCode]] = {}
        try:
            run.start()
            run.register(incarnation=run_number + 1)
            for number in range(10):
                name = f"topic-{run_number}-{number}"
                outcomes[name] = run.create_topic(name)
                if random.random() < 0.5:
                    run.settle()
            run.settle()
            run.stop()
        except PowerLoss:
            disk.restart()
        answered += [name for name, outcome in outcomes.items() if outcome == [ErrorCode.NONE]]
        disk.crash_at = None
        check = Harness(disk, seed=100 + run_number).start()
        assert set(answered) <= set(check.quorum.image.topics_by_name)
        assert check.quorum.image.epoch > epoch
        epoch = check.quorum.image.epoch
    assert answered, "some of it was answered"


def test_a_metadata_log_that_cannot_be_read_fails_the_node_instead_of_the_loop() -> None:
    run = Harness(formatted_disk()).start()
    run.register()
    run.disk.unreadable = True

    def a_follower_fetches() -> list[Any]:
        return [run.quorum._driver.storage.read(0, 1_000)]

    run.quorum._driver.hear(a_follower_fetches, run.now_ms)
    assert [str(failure) for failure in run.failures] == ["__cluster_metadata-0 cannot be read: Input/output error"]


def test_the_check_above_notices_a_controller_that_answers_before_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: what is appended counts as flushed, and the flush is left out."""
    monkeypatch.setattr(Flush, "run", lambda self, disk: None)
    lost = 0
    for seed in range(6):
        disk = formatted_disk()
        disk.random = Random(seed)
        run = Harness(disk).start()
        run.register()
        outcome = run.create_topic("clicks")
        run.settle()
        assert outcome == [ErrorCode.NONE]
        disk.restart(power_failed=True)
        monkeypatch.undo()
        try:
            lost += "clicks" not in Harness(disk).start().quorum.image.topics_by_name
        except StorageError:
            lost += 1
        monkeypatch.setattr(Flush, "run", lambda self, disk: None)
    assert lost > 0


def test_the_check_above_notices_a_voter_that_leads_before_its_vote_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the election counts as persisted at once. The next start leads the same epoch again."""
    start = RaftReplica.start

    def careless(self: RaftReplica, now_ms: int) -> list[object]:
        effects = start(self, now_ms)
        return [*effects, *self.election_persisted(self.role.election(), now_ms)]

    monkeypatch.setattr(RaftReplica, "start", careless)
    run = Harness(formatted_disk())
    run.quorum.start(run.now_ms, run.node)
    run.take()
    assert "PersistElection" not in run.history
    assert run.quorum.describe().leader_id == 1, "it leads, and a crash now forgets the epoch"


def test_an_fsync_that_fails_undoes_what_was_not_committed_and_ends_the_controller() -> None:
    run = Harness(formatted_disk()).start()
    run.register()
    run.create_topic("kept")
    run.settle()
    kept = run.quorum.image
    run.disk.fail_fsync_at = run.disk.fsyncs + 1
    outcome = run.create_topic("lost")
    run.settle()
    assert outcome == [ErrorCode.NOT_CONTROLLER]
    assert run.node.state.image is kept
    assert run.quorum.image is kept
    assert not run.node.active
    assert len(run.failures) == 1
    with pytest.raises(RequestError):
        run.create_topic("later")


def test_a_change_that_is_too_large_is_refused_before_it_is_replayed() -> None:
    run = Harness(formatted_disk(), internal_metadata_max_batch_size_in_bytes=1000).start()
    run.register()
    with pytest.raises(RequestError) as raised:
        run.create_topic("large", partitions=100)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION
    assert "large" not in run.node.state.image.topics_by_name


def test_a_change_that_the_log_refuses_is_not_replayed() -> None:
    run = Harness(formatted_disk(), internal_metadata_log_segment_bytes=2000).start()
    run.register()
    with pytest.raises(RequestError) as raised:
        run.create_topic("large", partitions=100)
    assert raised.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert "large" not in run.node.state.image.topics_by_name
    assert run.create_topic("small") == []
    run.settle()
    assert "small" in run.quorum.image.topics_by_name, "the state and the log go on together"


# What cannot be started


def test_a_damaged_log_is_not_served() -> None:
    disk = formatted_disk()
    run = Harness(disk).start()
    run.register()
    run.create_topic("clicks")
    run.settle()
    run.stop()
    disk.flip_bit(LOG, 250)
    with pytest.raises(StorageError, match="is damaged from offset 3 on, where records were flushed"):
        Harness(disk).start()
    with pytest.raises(StorageError, match=f"remove these files and {NAME}/flushed-offset to go on without"):
        Harness(disk).start()


def test_a_hole_in_what_was_never_flushed_is_cut_with_all_that_follows_it() -> None:
    disk = formatted_disk()
    run = Harness(disk).start()
    run.register()
    run.create_topic("kept")
    run.settle()
    run.stop()
    size_bytes, kept = disk.size(LOG), run.quorum.image
    end = next(reversed(list(headers(disk.read(LOG, 0, size_bytes)))))[1].next_offset
    later = BatchBuilder(base_offset=end + 1, leader_epoch=1)
    later.append(START_MS, None, b"never acknowledged")
    disk.write(LOG, size_bytes, [bytes(100), later.build()])  # of two batches the power failure kept the later one
    run = Harness(disk).start()
    run.settle()
    assert list(run.quorum.image.topics_by_name) == list(kept.topics_by_name)
    assert not [entry.name for entry in disk.list(NAME) if entry.name.endswith(".corrupt")]


def test_a_torn_tail_is_cut() -> None:
    disk = formatted_disk()
    run = Harness(disk).start()
    run.register()
    run.stop()
    size_bytes = disk.size(LOG)
    disk.write(LOG, size_bytes, [b"\x00\x00\x00\x00\x00\x00\x00\x63\x00\x00\x01\x00torn"])
    second = Harness(disk).start()
    assert second.node.active


def test_records_and_levels_that_we_lack_stop_the_start_in_one_line() -> None:
    for record, line in (
        (MIGRATES, "the cluster is migrating from ZooKeeper (state 1): not supported"),
        (
            FeatureLevelRecord(name="share.version", feature_level=1),
            "kafka-features downgrade --feature share.version=0",
        ),
    ):
        disk = formatted_disk()
        run = Harness(disk).start()
        # As another implementation would have appended it.
        run.node.state.replay = lambda *arguments: None  # type: ignore[method-assign]
        run.append([record])
        run.settle()
        with pytest.raises(Exception, match="supported") as raised:
            Harness(disk).start()
        assert line in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_record_that_cannot_be_followed_ends_the_node_in_one_line() -> None:
    run = Harness(formatted_disk()).start()
    run.node.state.replay = lambda *arguments: None  # type: ignore[method-assign]
    run.append([MIGRATES])
    run.settle()
    run.quorum.resign(run.now_ms)
    while not run.failures and (deadline_ms := run.quorum.next_deadline_ms()) is not None:
        run.now_ms = max(run.now_ms, deadline_ms)
        run.quorum.tick(run.now_ms)
        run.settle()
    assert "the cluster is migrating from ZooKeeper" in str(run.failures)
    assert not run.node.active


def test_a_static_quorum_has_its_voters_in_the_settings() -> None:
    disk = formatted_disk(standalone=False)
    run = Harness(disk, controller_quorum_voters="1@127.0.0.1:9093", controller_quorum_bootstrap_servers="").start()
    assert run.node.active
    assert run.quorum.kraft_version == 0
    assert disk.content(f"{NAME}/quorum-state").endswith(b'"data_version":0}')
    with pytest.raises(StorageError, match="names no quorum voters"):
        Harness(formatted_disk(standalone=False)).start()


def test_a_directory_of_another_voter_is_refused() -> None:
    disk = formatted_disk()
    run = Harness(disk)
    run.quorum.local = ReplicaKey(1, UUID(int=12345))
    with pytest.raises(ConfigError, match="is not a voter"):
        run.start()


def test_a_transaction_that_the_last_leader_left_open_is_aborted() -> None:
    disk = formatted_disk()
    run = Harness(disk).start()
    run.append(
        [BeginTransactionRecord(name="t"), ConfigRecord(resource_type=2, resource_name="a", name="b", value="c")]
    )
    run.settle()
    second = Harness(disk).start()
    assert second.node.active
    assert second.node.state.transaction_start_offset == -1
    assert len(second.quorum.image.configs) == 0
    assert second.register(incarnation=2)


# Checkpoints


def checkpoints(disk: SimulatedDisk) -> list[str]:
    return [path.removeprefix(f"{NAME}/") for path in disk.paths() if path.endswith(".checkpoint") and NAME in path]


def test_a_checkpoint_is_written_after_enough_bytes_and_a_restart_begins_at_it() -> None:
    disk = formatted_disk()
    run = Harness(disk, metadata_log_max_record_bytes_between_snapshots=3000).start()
    run.register()
    for number in range(20):
        run.create_topic(f"topic-{number}")
        run.settle()
    assert run.history.count("WriteCheckpoint") == 1
    image = run.quorum.image
    run.stop()
    assert len(checkpoints(disk)) >= 2
    disk.read_bytes.clear()
    second = Harness(disk).start()
    assert list(second.quorum.image.topics_by_name) == list(image.topics_by_name)
    newest = checkpoints(disk)[-1]
    assert disk.read_bytes[f"{NAME}/{newest}"] == disk.size(f"{NAME}/{newest}")


def test_a_checkpoint_is_written_after_a_while_if_anything_is_new() -> None:
    run = Harness(formatted_disk(), metadata_log_max_snapshot_interval_ms=60_000).start()
    run.register()
    deadline_ms = run.quorum.next_deadline_ms()
    assert deadline_ms == START_MS + 60_000
    run.now_ms = deadline_ms - 1
    run.quorum.tick(run.now_ms)
    run.settle()
    assert "WriteCheckpoint" not in run.history
    run.now_ms = deadline_ms
    run.quorum.tick(run.now_ms)
    run.settle()
    assert run.history[-1] == "WriteCheckpoint"
    assert run.quorum.next_deadline_ms() is None, "with nothing new there is nothing to write"


def test_old_checkpoints_and_the_log_before_them_go() -> None:
    disk = formatted_disk()
    run = Harness(
        disk,
        metadata_log_max_record_bytes_between_snapshots=2000,
        internal_metadata_log_segment_bytes=4000,
        metadata_max_retention_bytes=12_000,
        internal_metadata_delete_delay_millis=0,
    ).start()
    run.register()
    for number in range(120):
        run.create_topic(f"topic-{number % 7}-{number}")
        run.settle()
        name = next(iter(run.quorum.image.topics_by_name))
        if len(run.quorum.image.topics_by_name) > 5:
            topic_id = run.quorum.image.topics_by_name[name].id
            run.append(topics.delete_topics(run.node.state, [topic_id]).records)
            run.settle()
    run.settle()
    assert len(checkpoints(disk)) < run.history.count("WriteCheckpoint")
    assert not disk.exists(LOG), "the first segment is gone"
    image = run.quorum.image
    run.stop()
    second = Harness(disk, seed=9).start()
    assert list(second.quorum.image.topics_by_name) == list(image.topics_by_name)


def test_a_damaged_checkpoint_is_not_trusted() -> None:
    disk = formatted_disk()
    run = Harness(disk, metadata_log_max_record_bytes_between_snapshots=500).start()
    run.register()
    run.create_topic("clicks")
    run.settle()
    run.stop()
    newest = checkpoints(disk)[-1]
    disk.flip_bit(f"{NAME}/{newest}", 120)
    with pytest.raises(StorageError, match=r"checkpoint is damaged"):
        Harness(disk).start()


def test_a_checkpoint_that_was_being_written_in_a_crash_is_removed() -> None:
    disk = formatted_disk()
    partial = f"{NAME}/00000000000000000099-0000000001.checkpoint.part"
    disk.write(partial, 0, [b"half"])
    Harness(disk).start()
    assert not disk.exists(partial)


def test_the_node_starts_without_a_clean_stop() -> None:
    disk = formatted_disk()
    run = Harness(disk).start()
    run.register()
    run.create_topic("clicks")
    run.settle()
    disk.restart()
    second = Harness(disk, seed=9).start()
    assert not second.quorum.image.brokers[1].fenced, "nobody has fenced the last incarnation"
    second.register(incarnation=2)
    partition = second.quorum.image.topics_by_name["clicks"].partitions[0]
    assert (partition.leader, partition.isr) == (1, (1,))
