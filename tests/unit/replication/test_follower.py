"""A follower alone, on a real log: what it asks for, and what it does with the answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.logs import NOW_MS, OneLog, batch, topic_config

from penstock.config.topic import TopicConfig
from penstock.errors import ErrorCode
from penstock.log.log import Log
from penstock.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from penstock.replication.follower import Follower, Position, State


class Followed(OneLog):
    """A follower on its log, and who drives it. Attributes: `retries`, the pauses it asked for; `failures`, errors."""

    def __init__(
        self,
        *entries: tuple[int, bytes],
        high_watermark: int = 0,
        leader_epoch: int = 5,
        config: TopicConfig | None = None,
    ) -> None:
        """`entries` are (leader epoch, value) of records that the log has already."""
        super().__init__(config)
        self.retries: list[int] = []
        self.failures: list[Exception] = []
        self.kept: list[int] = []
        self.bytes_in = 0
        for epoch, value in entries:
            self.append(batch(value), epoch)
        self.follower = Follower("clicks", 0, UUID(int=1), leader_id=2, leader_epoch=leader_epoch, owner=self)
        self.follower.opened(self.log, high_watermark, NOW_MS)
        self.run()

    # FollowerOwner

    def follower_moved(self, follower: Follower, now_ms: int) -> None:
        """Looked at by the tests."""

    def follower_retries(self, follower: Follower, delay_ms: int, now_ms: int) -> None:
        self.retries.append(delay_ms)

    def follower_wrote(self, follower: Follower, size_bytes: int) -> None:
        self.bytes_in += size_bytes

    def high_watermark_moved(self, follower: Follower) -> None:
        self.kept.append(follower.high_watermark)

    def follower_failed(self, follower: Follower, error: Exception) -> None:
        self.failures.append(error)

    # LogOwner

    def log_advanced(self, log: Log, now_ms: int) -> None:
        if hasattr(self, "follower"):
            self.follower.log_changed(now_ms)

    def log_truncated(self, log: Log, now_ms: int) -> None:
        self.follower.log_changed(now_ms)

    # The leader

    def answer(self, *, run: bool = True, asked: Position | None = None, **fields: Any) -> None:
        data = PartitionData(**{"high_watermark": 0, "log_start_offset": 0, **fields})
        self.follower.fetched(asked or self.follower.position, data, NOW_MS)
        if run:
            self.run()

    def refuse(self, code: ErrorCode) -> None:
        self.answer(error_code=code)

    def diverges(self, epoch: int, end_offset: int) -> None:
        self.answer(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset))

    @property
    def end(self) -> int:
        return self.log.log_end_offset


def records(base_offset: int, *values: bytes, epoch: int = 5) -> bytearray:
    return batch(*values, base_offset=base_offset, leader_epoch=epoch)


def test_it_asks_for_the_end_of_its_log_and_says_the_epoch_of_its_last_record() -> None:
    followed = Followed((2, b"a"), (3, b"b"))
    assert followed.follower.ready
    assert followed.follower.position == Position(5, 2, 3, 0)


def test_an_empty_log_says_no_epoch() -> None:
    assert Followed().follower.position == Position(5, 0, -1, 0)


def test_records_go_into_the_log_as_they_came() -> None:
    followed = Followed()
    fetched = records(0, b"a", b"b", epoch=3) + records(2, b"c", epoch=5)
    followed.answer(records=memoryview(fetched), high_watermark=2)
    assert followed.content() == bytes(fetched)
    assert followed.follower.position == Position(5, 3, 5, 0)
    assert followed.log.leader_epochs.entries() == [(3, 0), (5, 2)]
    assert followed.bytes_in == len(fetched)
    assert followed.follower.lag == 0


def test_the_next_records_are_not_asked_for_before_these_are_on_disk_where_that_counts() -> None:
    """With penstock.log.fsync=group: the offset that it asks for tells the leader what is on this disk."""
    followed = Followed(config=topic_config(penstock_log_fsync="group"))
    followed.answer(records=records(0, b"a"), high_watermark=1)
    assert followed.follower.state is State.WRITING
    assert followed.follower.high_watermark == 0
    followed.log.flush(NOW_MS)
    followed.run()
    assert followed.follower.ready
    assert followed.follower.position == Position(5, 1, 5, 0)
    assert followed.follower.high_watermark == 1


def test_the_next_records_are_not_asked_for_before_these_are_written() -> None:
    followed = Followed()
    followed.answer(records=records(0, b"a"), high_watermark=1, run=False)
    assert followed.follower.state is State.WRITING
    assert not followed.follower.ready
    assert followed.follower.high_watermark == 0
    followed.run()
    assert followed.follower.ready
    assert followed.follower.position.fetch_offset == 1
    assert followed.follower.high_watermark == 1


def test_the_high_watermark_goes_no_further_than_the_log_and_never_back() -> None:
    followed = Followed((5, b"a"))
    followed.answer(high_watermark=9)
    assert followed.follower.high_watermark == 1
    followed.answer(high_watermark=0)
    assert followed.follower.high_watermark == 1
    assert followed.kept == [1]
    followed.answer(records=records(1, b"b"), high_watermark=9)
    assert followed.follower.high_watermark == 2


def test_the_log_start_follows_the_leaders_below_the_high_watermark() -> None:
    followed = Followed((5, b"a"), (5, b"b"))
    followed.answer(high_watermark=1, log_start_offset=1)
    assert followed.log.log_start_offset == 1
    followed.answer(high_watermark=1, log_start_offset=2)
    assert followed.log.log_start_offset == 1


@pytest.mark.parametrize(
    ("ours", "leader", "end"),
    [
        ([5, 5, 5], (5, 2), 2),  # the same epoch, which ended earlier there
        ([3, 4, 4], (3, 1), 1),  # an epoch that the leader does not have, after one that both have
        ([3, 3, 5], (3, 7), 2),  # the leader's goes on beyond our end of it
        ([3, 5, 5], (4, 9), 1),  # we lack the leader's epoch: cut to the one before, and ask again
        ([4, 4, 4], (2, 1), 0),  # the leader's is before all of ours: nothing can be the same
    ],
)
def test_what_diverges_is_cut(ours: list[int], leader: tuple[int, int], end: int) -> None:
    followed = Followed(*[(epoch, b"x") for epoch in ours])
    followed.diverges(*leader)
    assert followed.end == end
    assert followed.follower.ready
    assert followed.follower.position.fetch_offset == end
    assert all(epoch <= leader[0] for epoch in followed.log.leader_epochs.epochs)


def test_it_does_not_ask_while_it_is_being_cut() -> None:
    followed = Followed((5, b"a"), (5, b"b"))
    followed.answer(diverging_epoch=EpochEndOffset(epoch=5, end_offset=1), run=False)
    assert followed.follower.state is State.TRUNCATING
    followed.run()
    assert followed.follower.ready


def test_a_cut_below_the_high_watermark_takes_it_along() -> None:
    followed = Followed((5, b"a"), (5, b"b"), high_watermark=2)
    followed.diverges(5, 1)
    assert followed.follower.high_watermark == 1
    assert followed.kept == [1]


def test_a_log_without_epochs_is_cut_to_the_high_watermark() -> None:
    followed = Followed((5, b"a"), (5, b"b"), high_watermark=1)
    followed.log.leader_epochs.clear()
    again = Follower("clicks", 0, UUID(int=1), leader_id=2, leader_epoch=6, owner=followed)
    followed.follower = again
    again.opened(followed.log, 1, NOW_MS)
    followed.run()
    assert followed.end == 1
    assert again.position == Position(6, 1, -1, 0)


def test_a_leader_that_becomes_a_follower_waits_for_its_own_writes() -> None:
    followed = Followed((5, b"a"))
    followed.log.append_as_leader(batch(b"b"), 5, NOW_MS)
    again = followed.follower = Follower("clicks", 0, UUID(int=1), leader_id=2, leader_epoch=6, owner=followed)
    again.opened(followed.log, 1, NOW_MS)
    assert again.state is State.WRITING
    followed.run()
    assert again.position == Position(6, 2, 5, 0)


def test_answers_to_what_was_asked_before_change_nothing() -> None:
    followed = Followed((5, b"a"))
    asked = followed.follower.position
    followed.answer(records=records(1, b"b"))
    followed.answer(asked=asked, records=records(1, b"other"))
    followed.follower.follow(3, 6, NOW_MS)
    followed.answer(asked=Position(5, 2, 5, 0), records=records(2, b"old leader's"))
    assert followed.end == 2
    assert followed.failures == []


def test_a_corrupt_batch_is_not_appended_and_asked_for_again() -> None:
    followed = Followed()
    damaged = records(0, b"a") + records(1, b"b")
    damaged[-1] ^= 1
    followed.answer(records=damaged)
    assert followed.end == 0
    assert followed.follower.state is State.RETRYING
    assert "CRC" in str(followed.failures[0])
    followed.follower.retry(NOW_MS)
    followed.answer(records=records(0, b"a"))
    assert followed.end == 1
    assert followed.follower.failures == 0


def test_batches_of_a_later_epoch_than_the_leaders_are_left_out() -> None:
    followed = Followed()
    followed.answer(records=records(0, b"a", epoch=5) + records(1, b"b", epoch=6))
    assert followed.end == 1


def test_pauses_grow_with_each_error_and_end_with_an_answer() -> None:
    followed = Followed()
    for _ in range(3):
        followed.refuse(ErrorCode.UNKNOWN_LEADER_EPOCH)
        assert followed.follower.state is State.RETRYING
        followed.follower.retry(NOW_MS)
    followed.answer()
    followed.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert followed.retries == [20, 40, 80, 20]


def test_a_fenced_follower_waits_for_the_metadata() -> None:
    followed = Followed()
    followed.refuse(ErrorCode.FENCED_LEADER_EPOCH)
    assert followed.follower.state is State.FENCED
    assert followed.retries == []
    followed.follower.follow(3, 6, NOW_MS)
    assert followed.follower.position.leader_epoch == 6


def test_a_leader_that_begins_after_our_end_has_us_begin_anew() -> None:
    followed = Followed((5, b"a"))
    followed.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert followed.follower.state is State.ASKING
    followed.follower.leader_offsets(40, 50, NOW_MS)
    followed.run()
    assert (followed.log.log_start_offset, followed.end) == (40, 40)
    assert followed.follower.position == Position(5, 40, -1, 40)
    assert followed.follower.high_watermark == 40


def test_a_leader_that_ends_before_us_has_us_cut_what_it_lacks() -> None:
    followed = Followed((5, b"a"), (5, b"b"))
    followed.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    followed.follower.leader_offsets(0, 1, NOW_MS)
    followed.run()
    assert followed.end == 1


def test_a_leader_whose_log_covers_us_after_all_is_asked_again() -> None:
    followed = Followed((5, b"a"))
    followed.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    followed.follower.leader_offsets(0, 9, NOW_MS)
    assert followed.follower.state is State.RETRYING
    assert followed.end == 1


def test_a_log_begins_with_the_batch_around_the_leaders_start() -> None:
    followed = Followed()
    followed.refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
    followed.follower.leader_offsets(5, 8, NOW_MS)
    followed.run()
    around = records(4, b"four", b"five", b"six", b"seven")
    followed.answer(records=around, log_start_offset=5, high_watermark=8)
    assert followed.follower.position.fetch_offset == 5, "the leader has nothing below that"
    followed.answer(records=around, log_start_offset=5, high_watermark=8)
    assert (followed.log.log_start_offset, followed.end) == (5, 8)
    assert followed.failures == []


def test_a_log_that_was_closed_is_asked_for_before_anything_is_appended() -> None:
    followed = Followed((5, b"a"))
    position = followed.follower.position
    followed.close()
    followed.answer(asked=position, records=records(1, b"b"))
    assert followed.follower.state is State.OPENING
    followed.follower.opened(followed.open(recovery_point=1), 0, NOW_MS)
    followed.answer(records=records(1, b"b"))
    assert followed.end == 2


def test_a_failed_log_is_the_end_of_it() -> None:
    followed = Followed((5, b"a"))
    followed.log.failed = True
    followed.answer(records=records(1, b"b"))
    assert followed.follower.state is State.BROKEN
