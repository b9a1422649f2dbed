"""Voter sets: majorities, and the offset that a majority has."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet


def voters(count: int) -> VoterSet:
    return VoterSet(Voter(ReplicaKey(number + 1)) for number in range(count))


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majorities(count: int, majority: int) -> None:
    assert voters(count).majority == majority
    assert voters(count).is_majority(range(1, majority + 1))
    assert not voters(count).is_majority(range(1, majority))
    assert not voters(count).is_majority(range(100, 200))


def test_the_committed_offset_is_what_a_majority_has() -> None:
    assert voters(1).committed({1: 7}) == 7
    assert voters(3).committed({1: 7, 2: 5, 3: 1}) == 5
    assert voters(3).committed({1: 7, 3: 6}) == 6
    assert voters(3).committed({1: 7}) is None
    assert voters(3).committed({1: 7, 9: 9, 10: 9}) is None


def test_a_set_survives_its_record() -> None:
    endpoints = (VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),)
    made = VoterSet([Voter(ReplicaKey(2, UUID(int=2))), Voter(ReplicaKey(1, UUID(int=1)), endpoints)])
    assert VoterSet.from_record(made.to_record()) == made
