"""One connection's fetches: what each of them names, and what becomes of the session."""

from __future__ import annotations

from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.replication.fetcher import Fetcher, FetchLimits
from penstock.replication.follower import Follower, Position, State
from penstock.replication.limits import FOLLOWED_PER_FETCH_MAX, LEFT_OUT_WAIT_MS

TOPIC = UUID(int=1)
LIMITS = FetchLimits()


class Still(Follower):
    """A follower that is where the test says. Attributes: `got`, the answers; `then`, its state after one."""

    __slots__ = ("at", "got", "then")

    def __init__(self, index: int, fetch_offset: int = 0) -> None:
        super().__init__("t", index, TOPIC, leader_id=2, leader_epoch=1, owner=None)  # type: ignore[arg-type]
        self.state = State.FETCHING
        self.at = fetch_offset
        self.got: list[tuple[Position, PartitionData]] = []
        self.then = State.FETCHING

    @property
    def position(self) -> Position:
        return Position(self.leader_epoch, self.at, 1, 0)

    def fetched(self, asked: Position, data: PartitionData, now_ms: int) -> None:
        self.got.append((asked, data))
        self.state = self.then


class Session:
    """A fetcher with some followers, and its leader."""

    def __init__(self, count: int = 3) -> None:
        self.fetcher = Fetcher(2, 0)
        self.followers = [Still(index) for index in range(count)]
        for follower in self.followers:
            self.fetcher.add(follower)

    def build(self) -> FetchRequest:
        request = self.fetcher.build(7, 70, LIMITS)
        assert request is not None
        return request

    def answer(self, *indexes: int, session_id: int = 11, code: ErrorCode = ErrorCode.NONE) -> ErrorCode:
        partitions = [PartitionData(partition_index=index) for index in indexes]
        topics = [FetchableTopicResponse(topic_id=TOPIC, partitions=partitions)]
        return self.fetcher.received(FetchResponse(error_code=code, session_id=session_id, responses=topics), 0)

    def move(self, index: int, offset: int) -> None:
        self.followers[index].at = offset
        self.fetcher.moved(self.followers[index])

    def set(self, index: int, state: State) -> None:
        self.followers[index].state = state
        self.fetcher.moved(self.followers[index])


def named(request: FetchRequest) -> dict[int, int]:
    return {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}


def forgotten(request: FetchRequest) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def test_the_first_fetch_names_all_that_is_ready_and_who_asks() -> None:
    session = Session()
    session.set(1, State.OPENING)
    request = session.build()
    assert named(request) == {0: 0, 2: 0}
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (7, 70)
    (topic,) = request.topics
    assert topic.topic_id == TOPIC
    assert topic.partitions[0].current_leader_epoch == 1


def test_the_next_names_what_has_moved() -> None:
    session = Session()
    session.build()
    session.answer(0, 1, 2)
    session.move(1, 5)
    request = session.build()
    assert named(request) == {1: 5}
    assert (request.session_id, request.session_epoch) == (11, 1)
    session.answer()
    assert named(session.build()) == {}, "a fetch that names nothing still waits for data"


def test_very_many_join_in_several_fetches_that_do_not_wait() -> None:
    session = Session(2 * FOLLOWED_PER_FETCH_MAX + 1)
    seen: list[int] = []
    for wait_ms in (0, 0, LIMITS.max_wait_ms):
        request = session.build()
        assert len(named(request)) <= FOLLOWED_PER_FETCH_MAX + 1
        assert request.max_wait_ms == wait_ms
        seen += named(request)
        session.move(0, len(seen))
        session.answer(*named(request))
    assert sorted(set(seen)) == list(range(2 * FOLLOWED_PER_FETCH_MAX + 1))
    assert seen.count(0) == 3, "one that is in the session is named whenever it has moved"


def test_without_a_session_each_fetch_names_all() -> None:
    session = Session(FOLLOWED_PER_FETCH_MAX + 1)
    session.build()
    session.answer(0, session_id=0)
    assert len(named(session.build())) == FOLLOWED_PER_FETCH_MAX + 1


def test_a_partition_that_is_not_ready_is_forgotten_and_joins_again() -> None:
    session = Session()
    session.build()
    session.answer()
    session.set(0, State.RETRYING)
    assert forgotten(session.build()) == [0]
    session.answer()
    session.set(0, State.FETCHING)
    request = session.build()
    assert (named(request), forgotten(request)) == ({0: 0}, [])


def test_a_partition_that_is_removed_is_forgotten_once() -> None:
    session = Session()
    session.build()
    session.answer()
    session.fetcher.remove(session.followers[2])
    assert forgotten(session.build()) == [2]
    session.answer()
    assert forgotten(session.build()) == []


def test_answers_go_to_whom_they_are_for_with_what_was_asked() -> None:
    session = Session()
    session.build()
    session.answer(1)
    assert [len(follower.got) for follower in session.followers] == [0, 1, 0]
    assert session.followers[1].got[0][0] == Position(1, 0, 1, 0)


def test_who_could_not_take_an_answer_asks_again_also_for_the_same_within_the_same_session() -> None:
    """Its log was closed, and is open again before the next fetch: the leader believes that it has the answer."""
    session = Session()
    session.build()
    session.followers[1].then = State.OPENING
    session.answer(1)
    session.set(1, State.FETCHING)
    assert named(session.build()) == {1: 0}
    session.followers[1].then = State.FETCHING
    session.answer(1)
    session.set(1, State.FETCHING)
    assert named(session.build()) == {}, "it has taken this one in"


def test_an_answer_for_a_partition_that_has_gone_is_dropped() -> None:
    session = Session()
    session.build()
    session.fetcher.remove(session.followers[0])
    session.answer(0, 1, 9)
    assert session.followers[0].got == []


def test_a_session_that_the_leader_has_forgotten_is_begun_anew() -> None:
    session = Session()
    session.build()
    session.answer()
    session.build()
    assert session.answer(code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    request = session.build()
    assert named(request) == {0: 0, 1: 0, 2: 0}
    assert (request.session_id, request.session_epoch) == (0, 0)


def test_after_a_lost_answer_the_old_session_is_closed_by_the_next() -> None:
    session = Session()
    session.build()
    session.answer()
    session.build()
    session.fetcher.failed()
    request = session.build()
    assert named(request) == {0: 0, 1: 0, 2: 0}
    assert (request.session_id, request.session_epoch) == (11, 0)


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    session = Session()
    session.build()
    session.answer(session_id=0)
    assert named(session.build()) == {0: 0, 1: 0, 2: 0}


def test_nothing_is_asked_while_nothing_is_ready() -> None:
    session = Session(1)
    session.set(0, State.WRITING)
    assert session.fetcher.build(7, 70, LIMITS) is None
    assert list(session.fetcher.writing) == [(TOPIC, 0)]
    session.set(0, State.FETCHING)
    assert not session.fetcher.writing
    assert named(session.build()) == {0: 0}


def test_a_write_that_was_not_done_in_time_is_left_out_and_the_next_fetch_comes_back_soon() -> None:
    session = Session(2)
    session.build()
    session.answer(0)
    session.set(0, State.WRITING)
    assert list(session.fetcher.writing) == [(TOPIC, 0)]
    session.fetcher.leave_out_writing()
    request = session.build()
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    assert request.max_wait_ms == LEFT_OUT_WAIT_MS
    session.answer()
    session.set(0, State.FETCHING)
    request = session.build()
    assert list(named(request)) == [0]
    assert request.max_wait_ms == LIMITS.max_wait_ms


def test_a_follower_whose_writes_take_long_is_not_waited_for_until_one_is_done_before_the_next_answer() -> None:
    session = Session(2)
    session.set(0, State.WRITING)
    session.fetcher.leave_out_writing()
    session.build()
    session.answer(1)
    session.set(0, State.FETCHING)
    session.set(0, State.WRITING)
    assert not session.fetcher.writing, "it was late"
    session.set(0, State.FETCHING)
    session.set(0, State.WRITING)
    assert list(session.fetcher.writing) == [(TOPIC, 0)], "it was in time"


def test_the_last_partition_is_forgotten_before_the_fetcher_is_idle() -> None:
    session = Session(1)
    session.build()
    session.answer()
    session.fetcher.remove(session.followers[0])
    assert not session.fetcher.idle
    assert forgotten(session.build()) == [0]
    session.answer(session_id=0)
    assert session.fetcher.idle
