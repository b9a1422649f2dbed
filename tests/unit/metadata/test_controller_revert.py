"""The controller replays at append and undoes what is lost."""

from __future__ import annotations

from unit.metadata.controller_state import State

from penstock.metadata import topics
from penstock.protocol.messages.create_topics_request import CreatableTopic


def create(state: State, name: str) -> None:
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    state.replay(topics.create_topics(state.controller, [wanted]).records)


def names(state: State) -> list[str]:
    return list(state.controller.image.topics_by_name)


def test_the_next_request_sees_what_is_only_appended() -> None:
    state = State()
    state.commit()
    create(state, "a")
    assert names(state) == ["a"]
    assert list(state.controller.committed_image.topics_by_name) == []


def test_a_commit_publishes_the_image_that_was_made_at_the_append() -> None:
    state = State()
    state.commit()
    create(state, "a")
    at_append = state.controller.image
    create(state, "b")
    [(_, first, _), (_, second, _)] = state.commit()
    assert first is at_append
    assert second is state.controller.image
    assert state.controller.uncommitted == 0


def test_a_commit_publishes_only_whole_batches_below_its_offset() -> None:
    state = State()
    state.commit()
    create(state, "a")
    offset = state.last_offset
    create(state, "b")
    assert [image.offset for _, image, _ in state.controller.committed(offset)] == [offset]
    assert state.controller.committed(offset) == []


def test_a_revert_brings_back_everything_committed_and_nothing_else() -> None:
    state = State()
    create(state, "kept.one")
    state.commit()
    committed = state.controller.committed_image
    create(state, "lost.one")
    state.replay(topics.delete_topics(state.controller, [state.controller.image.topics_by_name["kept.one"].id]).records)
    assert names(state) == ["lost.one"]
    state.controller.revert()
    assert state.controller.image == committed
    assert state.controller.image is committed
    assert dict(state.controller.colliding_names.items()) == {"kept_one": ("kept.one",)}
    assert state.last_offset == committed.offset


def test_what_was_lost_can_be_done_again_after_a_revert() -> None:
    state = State()
    state.commit()
    create(state, "a.b")
    state.controller.revert()
    create(state, "a_b")
    assert names(state) == ["a_b"]
    state.commit()
    assert list(state.controller.committed_image.topics_by_name) == ["a_b"]
