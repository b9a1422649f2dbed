"""What a leading controller has had committed is published in turns, and answered when it is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.config.server import Settings
from penstock.metadata.image import EMPTY_IMAGE
from penstock.node.committed import CommittedMetadata
from penstock.node.limits import METADATA_RECORDS_PER_STEP


def publication(offset: int, partitions: int) -> Any:
    """An image up to `offset`, in which so many partitions have changed."""
    topic = SimpleNamespace(partitions=dict.fromkeys(range(partitions)))
    return EMPTY_IMAGE, replace(EMPTY_IMAGE, offset=offset), SimpleNamespace(topics={"t": topic})


class Leader:
    """A node that leads: its controller, and who sees the images. `seen` and `answered` are offsets."""

    def __init__(self) -> None:
        self.publications: list[Any] = []
        self.seen: list[int] = []
        self.answered: list[int] = []
        self.committed_metadata = CommittedMetadata(Settings.for_node(1), self)
        self.committed_metadata.open(None, None, self)  # type: ignore[arg-type]
        self.committed_metadata.leads = True

    def image_published(self, old: Any, new: Any, delta: Any, now_ms: int) -> None:
        self.seen.append(new.offset)

    def committed(self, high_watermark: int) -> list[Any]:
        return self.publications

    def published(self, high_watermark: int, now_ms: int) -> None:
        self.answered.append(high_watermark)

    def renounce(self, now_ms: int) -> None:
        self.seen.append(-1)


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    monkeypatch.setattr(CommittedMetadata, "consider_checkpoint", lambda self, now_ms: None)
    return Leader()


def test_small_changes_are_published_at_once(leader: Leader) -> None:
    leader.publications = [publication(4, 1), publication(9, 2)]
    leader.committed_metadata.commit(10, 0, claim=False)
    assert (leader.seen, leader.answered) == ([4, 9], [5, 10])
    assert not leader.committed_metadata.behind


def test_large_ones_take_a_turn_each_and_no_answer_leaves_before(leader: Leader) -> None:
    leader.publications = [publication(offset, METADATA_RECORDS_PER_STEP) for offset in (4, 9, 14)]
    leader.committed_metadata.commit(15, 0, claim=False)
    assert (leader.seen, leader.answered) == ([4], [5])
    assert leader.committed_metadata.behind
    assert leader.committed_metadata.next_deadline_ms(7) == 7
    leader.committed_metadata.step(0)
    assert (leader.seen, leader.answered) == ([4, 9], [5, 10])
    leader.committed_metadata.step(0)
    assert (leader.seen, leader.answered) == ([4, 9, 14], [5, 10, 15])
    assert not leader.committed_metadata.behind


def test_what_is_committed_is_published_before_the_leadership_is_given_up(leader: Leader) -> None:
    leader.publications = [publication(offset, METADATA_RECORDS_PER_STEP) for offset in (4, 9)]
    leader.committed_metadata.commit(10, 0, claim=False)
    leader.committed_metadata.renounce(0)
    assert (leader.seen, leader.answered) == ([4, 9, -1], [5, 10])
