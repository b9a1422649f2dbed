"""Subscriptions by regular expression: evaluated on the server, in steps, again when topics appear."""

from __future__ import annotations

from typing import Any

import pytest
from unit.coordinator.consumers import Consumer, ConsumerWorld, with_topics

from penstock.config import linear_regex
from penstock.coordinator import limits
from penstock.coordinator.group.consumer import regex
from penstock.errors import ErrorCode


@pytest.fixture
def without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_regex, "re2", lambda: None)


def joined(world: ConsumerWorld, member_id: str, pattern: str, **fields: object) -> Consumer:
    """A member that subscribes to a regular expression, once that is evaluated."""
    member = Consumer(world, member_id, topics=None, regex=pattern, **fields)  # type: ignore[arg-type]
    member.join()
    world.advance(100)
    return member


def test_a_member_gets_the_topics_that_match() -> None:
    world = ConsumerWorld(with_topics(ta=2, tb=1, u=3))
    member = joined(world, "m", "t.*")
    assert member.owned == {}, "it is not known yet what matches"
    world.reconcile(member)
    assert [member.partitions(name) for name in ("ta", "tb", "u")] == [[0, 1], [0], []]


def test_the_whole_name_has_to_match() -> None:
    world = ConsumerWorld(with_topics(t=1, tt=1, at=1))
    member = joined(world, "m", "t")
    world.reconcile(member)
    assert [member.partitions(name) for name in ("t", "tt", "at")] == [[0], [], []]


def test_a_topic_that_appears_is_matched_at_the_next_heartbeat() -> None:
    world = ConsumerWorld(with_topics(ta=1))
    member = joined(world, "m", "t.*")
    world.reconcile(member)
    world.advance(limits.REGEX_REFRESH_INTERVAL_MIN_MS)
    world.change_topics(tb=2, v=1)
    member.beat()
    world.advance(100)
    world.reconcile(member)
    assert [member.partitions(name) for name in ("ta", "tb", "v")] == [[0], [0, 1], []]


def test_evaluations_do_not_follow_each_other_too_fast() -> None:
    world = ConsumerWorld(with_topics(ta=1))
    member = joined(world, "m", "t.*")
    world.reconcile(member)
    world.change_topics(tb=2)
    member.beat()
    world.advance(100)
    member.beat()
    assert member.partitions("tb") == []


def test_a_member_subscribes_by_name_and_by_expression() -> None:
    world = ConsumerWorld(with_topics(ta=1, u=1))
    member = joined(world, "m", "t.*")
    member.beat(subscribed_topic_names=["u"])
    world.reconcile(member)
    assert [member.partitions(name) for name in ("ta", "u")] == [[0], [0]]


def test_members_with_different_expressions_share_what_both_match() -> None:
    world = ConsumerWorld(with_topics(ta=4, tb=4))
    one = joined(world, "m", "ta")
    two = joined(world, "n", "t.*")
    world.advance(limits.REGEX_REFRESH_INTERVAL_MIN_MS)
    two.beat()
    world.advance(100)
    world.reconcile(one, two)
    assert one.partitions("ta") == [0, 1, 2, 3]
    assert two.partitions("tb") == [0, 1, 2, 3]


def test_the_second_member_with_an_expression_knows_at_once_what_matches() -> None:
    world = ConsumerWorld(with_topics(ta=2))
    one = joined(world, "m", "t.*")
    world.reconcile(one)
    two = Consumer(world, "n", topics=None, regex="t.*")
    two.join()
    world.reconcile(one, two)
    assert len(one.partitions("ta")) == len(two.partitions("ta")) == 1


def test_the_last_member_with_an_expression_takes_it_away() -> None:
    world = ConsumerWorld(with_topics(ta=2, u=1))
    one = joined(world, "m", "t.*")
    two = joined(world, "n", "u")
    world.advance(limits.REGEX_REFRESH_INTERVAL_MIN_MS)
    one.beat()
    world.advance(100)
    world.reconcile(one, two)
    one.leave()
    assert list(world.group().regexes) == ["u"]
    two.beat(subscribed_topic_regex="", subscribed_topic_names=["ta"])
    assert not len(world.group().regexes)
    assert dict(world.group().topics.items()).keys() == {"ta"}


def test_expressions_survive_the_coordinator() -> None:
    world = ConsumerWorld(with_topics(ta=2))
    member = joined(world, "m", "t.*")
    world.reconcile(member)
    world.fail_over()
    assert not member.beat().code
    assert member.partitions("ta") == [0, 1]
    assert world.group().regexes["t.*"].topics == {"ta"}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a", "missing closing )"),
        ("[a", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("a{2000}", "invalid repeat count"),
        ("a\\", "trailing backslash at end of expression"),
    ],
)
def test_what_is_no_regular_expression_is_refused(pattern: str, why: str) -> None:
    world = ConsumerWorld()
    answer = Consumer(world, "m", topics=None, regex=pattern).join()
    assert answer.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.message == f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {why}."
    assert not len(world.state.groups)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(a|a?)+b", "(.*a){20}b", "a?" * 60 + "a" * 60])
def test_a_catastrophic_expression_is_harmless(pattern: str) -> None:
    scan = regex.RegexScan("g", [pattern], ["a" * 240 + str(index) for index in range(20)], 0, 0)
    done = False
    while not done:  # a backtracking engine takes longer than the universe has, so longer than a test may
        done = scan.step()


def test_a_program_that_is_too_large_is_refused() -> None:
    world = ConsumerWorld()
    answer = Consumer(world, "m", topics=None, regex=r"\pL{1000}").join()
    assert answer.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "pattern too large" in answer.message


def test_a_step_is_bounded_by_the_number_and_the_size_of_expressions() -> None:
    scan = regex.RegexScan("g", ["t.*"], [f"t{index}" for index in range(1_200)], 0, 0)
    steps = 1
    while not scan.step():
        steps += 1
    assert steps == 1_200 // limits.REGEX_MATCHES_PER_STEP + 1
    assert len(scan.resolved()["t.*"].topics) == 1_200


@pytest.mark.parametrize("topics", [0, 3])
def test_the_expressions_of_a_group_are_compiled_some_a_step(topics: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def counting(pattern: str) -> Any:
        compiled.append(pattern)
        return compile_one(pattern)

    compile_one = regex.compile_regex
    monkeypatch.setattr(regex, "compile_regex", counting)
    names = [f"t{index}" for index in range(topics)]
    scan = regex.RegexScan("g", [f"t{index}" for index in range(1_000)], names, 0, 0)
    assert not compiled
    while not scan.step():
        assert len(compiled) <= limits.REGEX_MATCHES_PER_STEP // limits.REGEX_COMPILING_MATCHES
        compiled.clear()
    assert {name for each in scan.resolved().values() for name in each.topics} == set(names)


def test_without_re2_an_expression_is_refused_with_what_to_do(without_re2: None) -> None:
    world = ConsumerWorld()
    answer = Consumer(world, "m", topics=None, regex="t").join()
    assert answer.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "google-re2 is not installed (pip install 'penstock[regex]')" in answer.message
    assert not Consumer(world, "n").join().code
