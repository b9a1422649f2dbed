"""What the controller appends by itself: when nothing happens, when something is due, and when it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from unit.node.controller_harness import Harness, formatted_disk

from penstock.config.server import Settings
from penstock.errors import ErrorCode
from penstock.metadata import brokers
from penstock.metadata.activation import activation_records
from penstock.metadata.brokers import Registration
from penstock.metadata.controller import Controller
from penstock.metadata.image import ConfigResource
from penstock.metadata.loader import MetadataLoader
from penstock.metadata.records import decode_records
from penstock.metadata.result import MetadataMessage, Result
from penstock.node.quorum import Quorum


class Several(Harness):
    """As if there were other voters; what this one appends is committed all the same."""

    def start(self) -> Several:
        super().start()
        self.register()
        self.tick_until_quiet()
        return self

    def tick_until_quiet(self) -> None:
        for _ in range(10):
            self.node.tick(self.now_ms)
            self.settle()

    def pass_ms(self, milliseconds: int) -> int:
        """Time goes by, and the controller is asked whenever it wants to be; how many records it has appended."""
        before, end_ms = self.node.next_offset, self.now_ms + milliseconds
        for _ in range(milliseconds):
            deadline_ms = self.node.next_deadline_ms(self.now_ms)
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.node.tick(self.now_ms)
            self.settle()
        self.now_ms = end_ms
        return self.node.next_offset - before


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quorum, "is_only_voter", False)


@pytest.mark.usefixtures("several")
def test_a_controller_with_nothing_to_do_says_so_to_the_other_voters() -> None:
    run = Several(formatted_disk(), broker_session_timeout_ms=3_600_000).start()
    image = run.quorum.image
    assert run.pass_ms(5_000) == 10
    assert run.quorum.image.offset == image.offset + 10
    assert run.quorum.image.topics_by_name is image.topics_by_name


@pytest.mark.usefixtures("several")
def test_a_controller_that_appends_says_nothing_more() -> None:
    run = Several(formatted_disk(), broker_session_timeout_ms=3_600_000).start()
    for number in range(10):
        before = run.node.next_offset
        run.create_topic(f"topic-{number}")
        run.settle()
        assert run.node.next_offset > before
        assert run.pass_ms(499) == 0


@pytest.mark.usefixtures("several")
def test_what_is_not_committed_is_not_followed_by_nothing() -> None:
    run = Several(formatted_disk(), broker_session_timeout_ms=3_600_000).start()
    run.create_topic("first")  # and its flush does not end
    assert run.node.next_deadline_ms(run.now_ms) != run.now_ms + 500
    end = run.node.next_offset
    run.node.tick(run.now_ms + 10_000)
    assert run.node.next_offset == end


@pytest.mark.usefixtures("several")
@pytest.mark.parametrize("interval_ms", [0, 2_000])
def test_how_often_is_a_setting(interval_ms: int) -> None:
    run = Several(
        formatted_disk(), broker_session_timeout_ms=3_600_000, metadata_max_idle_interval_ms=interval_ms
    ).start()
    assert run.pass_ms(20_000) == (10 if interval_ms else 0)


@pytest.mark.parametrize("predecessor", [0, 5])
def test_a_new_controller_suspects_the_broker_that_led_before_it(predecessor: int) -> None:
    suspected: list[int] = []
    run = Harness(formatted_disk()).start()
    run.broker_suspected = lambda broker_id, epoch, now_ms: suspected.append(broker_id)  # type: ignore[attr-defined]
    registration = Registration(predecessor, UUID(int=1 << 100), [], [UUID(int=1 << 99)])
    run.append(brokers.register_broker(run.node.state, registration, run.node.next_offset).records)
    run.settle()
    run.quorum.last_other_leader = predecessor
    run.node.claim(MetadataLoader(run.quorum.image), run.now_ms)
    assert suspected == [predecessor]


# What the controller does by itself, where it cannot


def test_what_is_due_waits_until_there_is_room_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Harness(formatted_disk(), broker_session_timeout_ms=9_000).start()
    run.register()
    monkeypatch.setattr("penstock.node.controller.METADATA_APPENDS_MAX", 2)
    first, second = run.create_topic("first"), run.create_topic("second")  # not flushed yet
    run.now_ms += 9_001
    run.node.tick(run.now_ms)  # the broker is silent: it is to be fenced
    deadline_ms = run.node.next_deadline_ms(run.now_ms)
    assert deadline_ms is not None
    assert deadline_ms > run.now_ms
    run.settle()
    assert (first, second) == ([ErrorCode.NONE], [ErrorCode.NONE])
    run.now_ms = deadline_ms
    run.node.tick(run.now_ms)
    run.settle()
    assert run.quorum.image.brokers[1].fenced


def test_a_record_that_fits_into_no_batch_does_not_end_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    run = Harness(formatted_disk(), broker_session_timeout_ms=9_000).start()
    run.register()
    run.node.settings = Settings.for_node(1, log_dirs=("/data",), internal_metadata_max_batch_size_in_bytes=70)
    run.now_ms += 9_001
    run.node.tick(run.now_ms)
    assert "the controller could not append" in caplog.text
    deadline_ms = run.node.next_deadline_ms(run.now_ms)
    assert deadline_ms is not None
    assert deadline_ms > run.now_ms
    assert run.node.active


def test_the_bootstrap_records_may_need_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.controller.CONTROLLER_RECORDS_PER_BATCH_MAX", 1)
    run = Harness(formatted_disk()).start()
    assert run.history[-2:] == ["active", "NoteFlushed"]
    assert run.history.count("published 5") == 1
    assert [each for each in run.history if each.startswith("published")] == ["published 2", "published 5"]


def test_a_bootstrap_that_was_cut_short_is_begun_anew() -> None:
    disk = formatted_disk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.node.controller.activation_records", without_their_end)
        first = Harness(disk).start()
    assert first.quorum.image.features == {}, "nothing of a transaction shows before its end"
    second = Harness(disk).start()
    assert second.quorum.image.features == {"metadata.version": 30}
    assert second.node.state.transaction_start_offset == -1
    (transactions,) = [
        [record.NAME for record in batch if "Transaction" in record.NAME]
        for batch in metadata_batches(second)
        if any(record.NAME == "AbortTransactionRecord" for record in batch)
    ]
    assert transactions == ["AbortTransactionRecord", "BeginTransactionRecord", "EndTransactionRecord"]
    third = Harness(disk).start()
    assert third.quorum.image.features == {"metadata.version": 30}


def without_their_end(controller: Controller, bootstrap: Sequence[MetadataMessage]) -> Result[None]:
    """As if the controller had died before it could append the last of them."""
    records = activation_records(controller, bootstrap).records
    return Result(None, records[:-1], atomic=False)


def metadata_batches(run: Harness) -> list[Sequence[MetadataMessage]]:
    return [decode_records(batch.values, "the log") for batch in run.quorum._driver.storage.batches(0) if batch.values]


def test_with_eligible_leader_replicas_all_brokers_have_one_minimum() -> None:
    run = Harness(formatted_disk(feature_levels={"eligible.leader.replicas.version": 1})).start()
    assert run.quorum.image.features["eligible.leader.replicas.version"] == 1
    assert run.quorum.image.configs[ConfigResource.BROKER, ""] == {"min.insync.replicas": "1"}
